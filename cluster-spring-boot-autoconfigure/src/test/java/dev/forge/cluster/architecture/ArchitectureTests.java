package dev.forge.cluster.architecture;

import static com.tngtech.archunit.core.domain.JavaCall.Predicates.target;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
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
import java.util.Timer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.slf4j.LoggerFactory;

/**
 * The house: words, rows, threads, wiring. Each rule is also held against classes that break it on purpose, so that a
 * rule which has stopped to bite fails too.
 */
class ArchitectureTests {

    private static final String WORDS = "dev.forge.cluster";
    private static final String ROWS = "dev.forge.cluster.internal.store..";
    private static final String THREADS = "dev.forge.cluster.internal.engine..";
    private static final String WIRING = "dev.forge.cluster.autoconfigure..";

    private static final JavaClasses PRODUCT = new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .importPackages("dev.forge.cluster")
            .that(DescribedPredicate.not(resideInAPackage("dev.forge.cluster.test..")));

    private static final JavaClasses OFFENDERS = new ClassFileImporter()
            .withImportOption(new ImportOption.OnlyIncludeTests())
            .importPackages("dev.forge.cluster")
            .that(DescribedPredicate.describe(
                    "offend", type -> type.getSimpleName().startsWith("Offends")));

    @SuppressWarnings("ImmutableEnumChecker")
    enum Rule {
        WORDS_KNOW_NOTHING_ELSE(noClasses()
                .that()
                .resideInAPackage(WORDS)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(ROWS, THREADS, WIRING)),
        ROWS_KNOW_WORDS_ONLY(noClasses()
                .that()
                .resideInAPackage(ROWS)
                .should()
                .dependOnClassesThat()
                .resideInAnyPackage(THREADS, WIRING)),
        THREADS_DO_NOT_KNOW_THE_WIRING(noClasses()
                .that()
                .resideInAPackage(THREADS)
                .should()
                .dependOnClassesThat()
                .resideInAPackage(WIRING)),
        NO_PACKAGE_CYCLES(slices().matching("dev.forge.(**)").should().beFreeOfCycles()),
        CORE_IS_FREE_OF_SPRING_BOOT(noClasses()
                .that()
                .resideInAnyPackage(WORDS, ROWS, THREADS)
                .should()
                .dependOnClassesThat()
                .resideInAPackage("org.springframework.boot..")),
        FLYWAY_IS_TOUCHED_BY_ONE_CLASS(noClasses()
                .that(DescribedPredicate.not(insideOf("Migrator")))
                .should()
                .dependOnClassesThat()
                .resideInAPackage("org.flywaydb..")),
        JDBC_STAYS_WITH_THE_ROWS(noClasses()
                .that()
                .resideOutsideOfPackage(ROWS)
                .and(DescribedPredicate.not(insideOf("ClusterDatabase")))
                .should()
                .dependOnClassesThat(resideInAPackage("java.sql..")
                        .or(resideInAPackage("org.springframework.jdbc.."))
                        .or(resideInAPackage("org.postgresql..")))),
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
                .doNotHaveSimpleName("Session")
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
                .resideInAnyPackage(ROWS, THREADS)
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

    /** Code generated ahead of time lies in the package of the configuration and names these types. */
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
    void the_product_keeps_the_rule(Rule rule) {
        rule.rule.check(PRODUCT);
    }

    @ParameterizedTest
    @EnumSource
    void the_rule_bites(Rule rule) {
        assertThat(rule.rule.evaluate(OFFENDERS).hasViolation())
                .as("%s finds an offender", rule)
                .isTrue();
    }
}
