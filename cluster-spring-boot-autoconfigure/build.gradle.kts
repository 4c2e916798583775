val optional by configurations.creating { isCanBeConsumed = false; isCanBeResolved = false }
configurations {
    compileOnly { extendsFrom(optional) }
    testImplementation { extendsFrom(optional) }
}

dependencies {
    api(project(":cluster-core"))
    api("org.springframework.boot:spring-boot-autoconfigure")
    api("org.springframework.boot:spring-boot-jdbc")
    optional("com.zaxxer:HikariCP")
    optional("org.springframework.boot:spring-boot-health")
    optional("org.springframework.boot:spring-boot-actuator-autoconfigure")
    optional("org.springframework.boot:spring-boot-micrometer-metrics")
    optional("io.micrometer:micrometer-tracing")
    optional("org.springframework.boot:spring-boot-jackson")
    optional("org.springframework:spring-orm")
    optional("jakarta.persistence:jakarta.persistence-api")
    optional("org.springframework:spring-web")
    optional("org.springframework:spring-webmvc")
    optional("jakarta.servlet:jakarta.servlet-api")
    annotationProcessor(libs.spring.boot.configuration.processor)
    annotationProcessor(libs.spring.boot.autoconfigure.processor)
    testImplementation("org.springframework.boot:spring-boot-starter-test")
    testImplementation("org.springframework.boot:spring-boot-starter-jdbc")
    testImplementation("org.springframework.boot:spring-boot-flyway")
    testImplementation("org.springframework.boot:spring-boot-liquibase")
    testImplementation("org.springframework:spring-core-test")
    testImplementation("io.micrometer:micrometer-tracing-bridge-otel")
    testImplementation("org.springframework.boot:spring-boot-starter-webmvc")
    testImplementation("org.springframework.boot:spring-boot-starter-security")
    testImplementation(libs.archunit)
    testImplementation(project(":cluster-test"))
}
