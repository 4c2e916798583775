dependencies {
    constraints {
        api(project(":cluster-core"))
        api(project(":cluster-dashboard"))
        api(project(":cluster-spring-boot-autoconfigure"))
        api(project(":cluster-spring-boot-starter"))
        api(project(":cluster-spring-boot-test-autoconfigure"))
        api(project(":cluster-test"))
    }
}
