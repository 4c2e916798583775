plugins { application }

application {
    mainClass = "dev.forge.cluster.benchmarks.Benchmarks"
    applicationDefaultJvmArgs =
        listOf("-Dbenchmarks.json=${layout.buildDirectory.file("benchmarks.json").get().asFile}")
}

dependencies {
    implementation(project(":cluster-core"))
    implementation(project(":cluster-spring-boot-starter"))
    implementation("org.springframework.boot:spring-boot-starter-actuator")
    implementation(project(":cluster-test"))
    implementation("com.zaxxer:HikariCP")
    implementation(libs.db.scheduler)
    implementation(libs.jobrunr)
    implementation("org.quartz-scheduler:quartz")
    testImplementation("org.junit.jupiter:junit-jupiter")
    testImplementation("org.assertj:assertj-core")
}
