dependencies {
    compileOnly(libs.checker.qual)
    testCompileOnly(libs.checker.qual)
    testImplementation(project(":cluster-test"))
    testImplementation("org.junit.jupiter:junit-jupiter")
    testImplementation("org.springframework:spring-orm")
    testImplementation("org.hibernate.orm:hibernate-core")
    testImplementation("org.awaitility:awaitility")
    testImplementation("ch.qos.logback:logback-classic")
}
