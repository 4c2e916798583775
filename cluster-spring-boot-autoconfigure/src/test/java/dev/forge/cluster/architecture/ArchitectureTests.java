// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.architecture;

import static com.tngtech.archunit.core.domain.JavaCall.Predicates.target;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.INTERFACES;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideOutsideOfPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideOutsideOfPackages;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.simpleName;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.type;
import static com.tngtech.archunit.core.domain.properties.HasName.Predicates.nameMatching;
import static com.tngtech.archunit.core.domain.properties.HasOwner.Predicates.With.owner;
import static com.tngtech.archunit.lang.conditions.ArchPredicates.are;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.methods;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaMethod;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import java.util.Date;
import java.util.Map;
import java.util.Set;
import java.util.Timer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.slf4j.LoggerFactory;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Verifies the dependencies between packages and the use of JDBC, time and threads. Each rule is also checked against classes
 * that break it on purpose, so that a rule without matches fails, too.
 */
class ArchitectureTests {

    private static final String ROOT = "dev.forge.cluster";
    private static final String INTERNAL = ROOT + ".internal";
    private static final String WIRING = ROOT + ".autoconfigure";

    /** The slices of the core, each with the slices that it may use. */
    private static final Map<String, Set<String>> SLICES = Map.ofEntries(
            Map.entry("log", Set.of()),
            Map.entry("database", Set.of("log")),
            Map.entry("runtime", Set.of("database", "log")),
            Map.entry("async", Set.of()),
            Map.entry("purge", Set.of("runtime", "database", "log")),
            Map.entry("audit", Set.of("runtime", "database", "log")),
            Map.entry("leader", Set.of("async", "runtime", "database", "log")),
            Map.entry("node", Set.of("leader", "runtime", "audit", "database", "log")),
            Map.entry("lock", Set.of("purge", "node", "leader", "runtime", "audit", "database", "log")),
            Map.entry("state", Set.of("purge", "node", "leader", "runtime", "audit", "database", "log")),
            Map.entry("startup", Set.of("lock", "node", "leader", "runtime", "audit", "database", "log")),
            Map.entry("daemon", Set.of("node", "leader", "runtime", "audit", "database", "log")),
            Map.entry("job", Set.of("async", "purge", "node", "leader", "runtime", "audit", "database", "log")),
            Map.entry("cron", Set.of("purge", "job", "node", "leader", "runtime", "audit", "database", "log")),
            Map.entry(
                    "workflow",
                    Set.of("async", "purge", "job", "node", "leader", "runtime", "audit", "database", "log")),
            Map.entry("ratelimit", Set.of("runtime", "database", "log")));

    /** The packages of the public API, each with the packages that it may use; all of them may use the root package. */
    private static final Map<String, Set<String>> API = Map.ofEntries(
            Map.entry("node", Set.of()),
            Map.entry("audit", Set.of()),
            Map.entry("leader", Set.of("node")),
            Map.entry("lock", Set.of()),
            Map.entry("state", Set.of()),
            Map.entry("startup", Set.of()),
            Map.entry("daemon", Set.of("node", "leader")),
            // A group of jobs has a rate, which is said in the same words as any other.
            Map.entry("job", Set.of("ratelimit")),
            Map.entry("cron", Set.of("purge", "job", "leader")),
            Map.entry("workflow", Set.of("job")),
            Map.entry("ratelimit", Set.of()));

    /** The packages of the slice of jobs, each with the packages that it may use; the package above assembles them. */
    private static final Map<String, Set<String>> LIFE_OF_A_JOB = Map.ofEntries(
            Map.entry("row", Set.of()),
            Map.entry("handler", Set.of("row")),
            Map.entry("finish", Set.of("row", "handler")),
            Map.entry("run", Set.of("finish", "row", "handler")),
            Map.entry("claim", Set.of("run", "finish", "row", "handler")),
            Map.entry("enqueue", Set.of("row", "handler")),
            Map.entry("follow", Set.of("row", "handler")),
            Map.entry("upkeep", Set.of("row", "handler")),
            Map.entry("operate", Set.of("enqueue", "row", "handler")),
            Map.entry("history", Set.of("operate", "row", "handler")));

    /** Packages of the wiring that all of its slices share. */
    private static final Set<String> SHARED_WIRING = Set.of("properties", "handler");

    /** Slices of the wiring that show operators what another slice knows, each with that slice. */
    private static final Map<String, String> ADAPTERS = Map.of("actuate", "operations", "operations", "attention");

    private static final JavaClasses PRODUCT = new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages(ROOT)
            .that(DescribedPredicate.not(resideInAPackage("dev.forge.cluster.test..")));

    private static final JavaClasses KIT = new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages(ROOT + ".test");

    private static final JavaClasses OFFENDERS = new ClassFileImporter()
            .withImportOption(new ImportOption.OnlyIncludeTests())
            .importPackages("dev.forge.cluster")
            .that(DescribedPredicate.describe(
                    "offend", type -> type.getSimpleName().startsWith("Offends")));

    @SuppressWarnings("ImmutableEnumChecker")
    enum Rule {
        API_DOES_NOT_USE_INTERNAL_TYPES(noClasses()
                .that(resideInAPackage(ROOT + "..").and(resideOutsideOfPackages(INTERNAL + "..", WIRING + "..")))
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(INTERNAL + "..", WIRING + "..")),
        DEFAULT_METHODS_OF_THE_API_DO_NOT_THROW(methods()
                .that()
                .areDeclaredInClassesThat(
                        resideOutsideOfPackages(INTERNAL + "..", WIRING + "..").and(INTERFACES))
                .should(throwNothingByDefault())),
        API_PACKAGES_DEPEND_ONE_WAY(classes().should(useOnly(ROOT, API))),
        SLICES_DEPEND_ONE_WAY(classes().should(useOnly(INTERNAL, SLICES))),
        JOBS_DEPEND_IN_THE_ORDER_OF_LIFE(classes().should(useOnly(INTERNAL + ".job", LIFE_OF_A_JOB))),
        CORE_DOES_NOT_USE_THE_WIRING(noClasses()
                .that()
                .resideInAPackage(INTERNAL + "..")
                .should()
                .dependOnClassesThat()
                .resideInAPackage(WIRING + "..")),
        SLICES_OF_THE_WIRING_DO_NOT_SEE_EACH_OTHER(classes().should(useNoOtherWiring())),
        OPERATIONS_KNOW_NO_ADAPTER(noClasses()
                .that()
                .resideInAnyPackage(
                        WIRING + ".operations", WIRING + ".operations.resource", WIRING + ".operations.json")
                .should()
                .dependOnClassesThat(resideInAPackage("org.springframework.boot.actuate..")
                        // What the application configures for all of its endpoints.
                        .and(DescribedPredicate.not(
                                nameMatching(".*\\.(Sanitizer|SanitizingFunction|SanitizableData)"))))
                .orShould()
                .dependOnClassesThat()
                .resideInAnyPackage(
                        "org.springframework.web..", "org.springframework.security..", "jakarta.servlet..")),
        NO_PACKAGE_CYCLES(slices().matching("dev.forge.(**)").should().beFreeOfCycles()),
        CORE_IS_FREE_OF_SPRING_BOOT(noClasses()
                .that(resideInAPackage(ROOT + "..").and(resideOutsideOfPackages(WIRING + "..")))
                .should()
                .dependOnClassesThat()
                .resideInAPackage("org.springframework.boot..")),
        FLYWAY_IS_TOUCHED_BY_ONE_CLASS(noClasses()
                .that(DescribedPredicate.not(insideOf("Migrator")))
                .should()
                .dependOnClassesThat()
                .resideInAPackage("org.flywaydb..")),
        JDBC_STAYS_IN_STORES(noClasses()
                .that(resideOutsideOfPackage(INTERNAL + ".database..")
                        .and(DescribedPredicate.not(
                                insideOfNamed("ClusterDatabase|DirectDataSource|TransactionManagerSelector")))
                        .and(DescribedPredicate.not(insideOfNamed(".*(Store|Reports|Keeping|Batches)"))))
                .should()
                .dependOnClassesThat(resideInAPackage("java.sql..")
                        .or(resideInAPackage("org.springframework.jdbc.."))
                        .or(resideInAPackage("org.postgresql..")))),
        CALLERS_TRANSACTION_IS_DECIDED_IN_ONE_PLACE(noClasses()
                // Each transaction, also one of another data source, spoils the history of a run.
                .that(DescribedPredicate.not(insideOfNamed(
                        "CallerTransaction|BoundTransaction|BegunTransactions|OwnTransactions|WorkflowHistory")))
                .should()
                .callMethodWhere(target(owner(type(TransactionSynchronizationManager.class)))
                        .and(target(nameMatching("isActual.*|isCurrent.*|hasResource|getResource"))))),
        TIME_IS_GIVEN(noClasses()
                .should()
                .callMethodWhere(
                        target(owner(resideInAPackage("java.time.."))).and(target(nameMatching("now|system.*"))))
                .orShould()
                .callMethod(System.class, "currentTimeMillis")
                .orShould()
                .callConstructor(Date.class)),
        NOBODY_SLEEPS(noClasses()
                .should()
                .callMethodWhere(target(nameMatching("sleep"))
                        .and(target(owner(type(Thread.class).or(type(TimeUnit.class))))))
                .orShould()
                .accessClassesThat(type(LockSupport.class))),
        THREADS_COME_FROM_THE_SCHEDULER(noClasses()
                .that()
                .doNotHaveSimpleName("ServiceThread")
                .and()
                .doNotHaveSimpleName("Claimer")
                .and()
                .doNotHaveSimpleName("Finisher")
                .and()
                .doNotHaveSimpleName("BrokerCoordinator")
                .and()
                .doNotHaveSimpleName("KeepAliveThread")
                .should()
                .callConstructorWhere(target(owner(type(Thread.class).or(type(Timer.class)))))
                .orShould()
                .callMethodWhere(target(owner(type(Executors.class))))
                .orShould()
                .callMethodWhere(target(owner(type(CompletableFuture.class))).and(target(nameMatching(".*Async"))))),
        LOGGERS_DO_NOT_THROW(noClasses()
                .that()
                .resideInAPackage(INTERNAL + "..")
                .and()
                .resideOutsideOfPackage(INTERNAL + ".log")
                .should()
                .callMethodWhere(target(owner(type(LoggerFactory.class))))),
        CONFIGURATION_IS_SEALED(classes()
                .that()
                .areAnnotatedWith("org.springframework.boot.autoconfigure.AutoConfiguration")
                .should()
                .haveModifier(JavaModifier.FINAL)),
        GENERATED_CODE_REACHES_ALL_BEANS(methods()
                .that()
                .areAnnotatedWith("org.springframework.context.annotation.Bean")
                .should(useNoPrivateType())),
        NAMES_SAY_WHAT_A_THING_IS(noClasses()
                .should()
                .haveSimpleNameEndingWith("Impl")
                .orShould()
                .haveSimpleNameEndingWith("Manager")
                .orShould()
                .haveSimpleNameEndingWith("Util")
                .orShould()
                .haveSimpleNameEndingWith("Utils")
                .orShould()
                .haveSimpleNameEndingWith("Helper"));

        private final ArchRule rule;

        Rule(ArchRule rule) {
            this.rule = rule;
        }
    }

    private static DescribedPredicate<JavaClass> insideOf(String topLevel) {
        return DescribedPredicate.describe("inside of " + topLevel, type -> {
            JavaClass outermost = type;
            while (outermost.getEnclosingClass().isPresent()) {
                outermost = outermost.getEnclosingClass().get();
            }
            return are(simpleName(topLevel)).test(outermost);
        });
    }

    private static DescribedPredicate<JavaClass> insideOfNamed(String pattern) {
        return DescribedPredicate.describe("inside of " + pattern, type -> {
            JavaClass outermost = type;
            while (outermost.getEnclosingClass().isPresent()) {
                outermost = outermost.getEnclosingClass().get();
            }
            return outermost.getSimpleName().matches(pattern);
        });
    }

    /** Returns the name of the package directly below the root that contains a type; empty if the type is elsewhere. */
    private static String below(String root, JavaClass type) {
        String name = type.getPackageName();
        if (!name.startsWith(root + ".")) {
            return "";
        }
        String rest = name.substring(root.length() + 1);
        int dot = rest.indexOf('.');
        return dot < 0 ? rest : rest.substring(0, dot);
    }

    private static ArchCondition<JavaClass> useOnly(String root, Map<String, Set<String>> allowed) {
        return new ArchCondition<>("use only " + allowed + " below " + root) {
            @Override
            public void check(JavaClass type, ConditionEvents events) {
                Set<String> mayUse = allowed.get(below(root, type));
                if (mayUse == null) {
                    return;
                }
                type.getDirectDependenciesFromSelf().forEach(dependency -> {
                    String used = below(root, dependency.getTargetClass());
                    if (allowed.containsKey(used) && !used.equals(below(root, type)) && !mayUse.contains(used)) {
                        events.add(SimpleConditionEvent.violated(type, dependency.getDescription()));
                    }
                });
            }
        };
    }

    private static ArchCondition<JavaClass> useNoOtherWiring() {
        return new ArchCondition<>("use no other slice of the wiring") {
            @Override
            public void check(JavaClass type, ConditionEvents events) {
                String own = below(WIRING, type);
                if (!type.getPackageName().startsWith(WIRING)) {
                    return;
                }
                type.getDirectDependenciesFromSelf().forEach(dependency -> {
                    String used = below(WIRING, dependency.getTargetClass());
                    boolean shared = used.isEmpty()
                            || used.equals(own)
                            || used.equals(ADAPTERS.get(own))
                            || SHARED_WIRING.contains(used);
                    if (!shared) {
                        events.add(SimpleConditionEvent.violated(type, dependency.getDescription()));
                    }
                });
            }
        };
    }

    /** An application that implements or mocks an interface must not find out at run time what it has forgotten. */
    private static ArchCondition<JavaMethod> throwNothingByDefault() {
        return new ArchCondition<>("throw nothing by default") {
            @Override
            public void check(JavaMethod method, ConditionEvents events) {
                Set<JavaModifier> modifiers = method.getModifiers();
                if (modifiers.contains(JavaModifier.STATIC) || modifiers.contains(JavaModifier.PRIVATE)) {
                    return;
                }
                method.getConstructorCallsFromSelf().stream()
                        .filter(call -> call.getTargetOwner().isAssignableTo(Throwable.class))
                        .forEach(call -> events.add(SimpleConditionEvent.violated(method, call.getDescription())));
            }
        };
    }

    /** Rejects private methods and types, because code generated ahead of time uses them from the same package. */
    private static ArchCondition<JavaMethod> useNoPrivateType() {
        return new ArchCondition<>("be visible in its package, and so should be its types") {
            @Override
            public void check(JavaMethod method, ConditionEvents events) {
                boolean hidden = method.getModifiers().contains(JavaModifier.PRIVATE)
                        || Stream.concat(Stream.of(method.getOwner()), method.getAllInvolvedRawTypes().stream())
                                .anyMatch(ArchitectureTests::isHidden);
                if (hidden) {
                    events.add(SimpleConditionEvent.violated(
                            method, method.getDescription() + " is private or uses a private type"));
                }
            }
        };
    }

    private static boolean isHidden(JavaClass type) {
        return type.getModifiers().contains(JavaModifier.PRIVATE)
                || type.getEnclosingClass().map(ArchitectureTests::isHidden).orElse(false);
    }

    @ParameterizedTest
    @EnumSource
    void product_follows_the_rule(Rule rule) {
        rule.rule.check(PRODUCT);
    }

    @Test
    void test_kit_has_no_package_cycles() {
        Rule.NO_PACKAGE_CYCLES.rule.check(KIT);
    }

    @ParameterizedTest
    @EnumSource
    void rule_finds_its_offender(Rule rule) {
        assertThat(rule.rule.evaluate(OFFENDERS).hasViolation())
                .as("%s finds an offender", rule)
                .isTrue();
    }
}
