plugins { application }

application { mainClass = "dev.forge.cluster.benchmarks.Benchmarks" }

dependencies {
    implementation(project(":cluster-core"))
    implementation("tools.jackson.core:jackson-databind")
    implementation(project(":cluster-test"))
    runtimeOnly("org.slf4j:slf4j-nop")
    testImplementation("org.junit.jupiter:junit-jupiter")
    testImplementation("org.assertj:assertj-core")
}
