dependencies {
    api(project(":cluster-spring-boot-autoconfigure"))
    api("tools.jackson.core:jackson-databind")
    api("org.springframework.boot:spring-boot-actuator")
    annotationProcessor(libs.spring.boot.autoconfigure.processor)
    testImplementation("org.springframework.boot:spring-boot-starter-test")
    testImplementation("org.springframework.boot:spring-boot-starter-jdbc")
    testImplementation("org.springframework.boot:spring-boot-starter-webmvc")
    testImplementation("org.springframework.boot:spring-boot-starter-actuator")
    testImplementation("org.springframework.boot:spring-boot-starter-security")
    testImplementation("org.springframework.boot:spring-boot-starter-webflux")
    testImplementation("org.seleniumhq.selenium:selenium-chrome-driver")
    testImplementation(project(":cluster-test"))
}
