dependencies {
    implementation(project(":cluster-core"))
    implementation(project(":cluster-test"))
}
