package dev.forge.cluster.autoconfigure;

import com.zaxxer.hikari.HikariDataSource;
import dev.forge.cluster.BackoffStrategy;
import dev.forge.cluster.ClusterCron;
import dev.forge.cluster.ClusterJob;
import dev.forge.cluster.ClusterStartupException;
import dev.forge.cluster.CronContext;
import dev.forge.cluster.CronDefinition;
import dev.forge.cluster.CronTarget;
import dev.forge.cluster.JobContext;
import dev.forge.cluster.JobPriority;
import dev.forge.cluster.Misfire;
import dev.forge.cluster.NodeMode;
import dev.forge.cluster.NodeRole;
import dev.forge.cluster.internal.engine.Backoff;
import dev.forge.cluster.internal.engine.CronContexts;
import dev.forge.cluster.internal.engine.CronEngine;
import dev.forge.cluster.internal.engine.JobHandler;
import dev.forge.cluster.internal.engine.JobHandlers;
import dev.forge.cluster.internal.store.CronStore;
import java.lang.annotation.Annotation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.annotation.BeanFactoryAnnotationUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.GenericTypeResolver;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.core.annotation.MergedAnnotation;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.annotation.AnnotationTransactionAttributeSource;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.interceptor.TransactionAttribute;
import org.springframework.util.ReflectionUtils;
import org.springframework.util.StringUtils;

/** Finds {@link ClusterJob} and {@link ClusterCron} methods on all beans, without creating those that are lazy. */
final class ClusterJobRegistrar implements SmartInitializingSingleton {

    private static final Logger log = LoggerFactory.getLogger("dev.forge.cluster");

    private static final ClusterJob.Backoff USUAL_BACKOFF =
            MergedAnnotation.of(ClusterJob.Backoff.class).synthesize();

    private final ConfigurableListableBeanFactory beans;
    private final JobHandlers handlers;
    private final JobProperties properties;
    private final ClusterProperties cluster;
    private final ClusterDatabase database;
    private final AnnotationTransactionAttributeSource transactions = new AnnotationTransactionAttributeSource(false);

    ClusterJobRegistrar(
            ConfigurableListableBeanFactory beans,
            JobHandlers handlers,
            ClusterProperties cluster,
            ClusterDatabase database) {
        this.beans = beans;
        this.handlers = handlers;
        this.cluster = cluster;
        this.properties = cluster.job();
        this.database = database;
    }

    @Override
    public void afterSingletonsInstantiated() {
        for (String bean : beans.getBeanNamesForType(Object.class, true, false)) {
            Class<?> type = ScopedProxyUtils.isScopedTarget(bean) ? null : typeOf(bean);
            if (type != null && AnnotationUtils.isCandidateClass(type, ClusterJob.class)) {
                methodsOf(type, ClusterJob.class)
                        .forEach((method, job) -> handlers.add(handler(bean, type, method, job)));
            }
            if (type != null && AnnotationUtils.isCandidateClass(type, ClusterCron.class)) {
                methodsOf(type, ClusterCron.class).forEach((method, cron) -> addCron(bean, type, method, cron));
            }
        }
        if (ClusterDatabase.HIKARI && isWorker()) {
            HikariSize.compare(this);
        }
    }

    private boolean isWorker() {
        return cluster.node().roles().contains(NodeRole.WORKER)
                && cluster.node().mode() != NodeMode.OBSERVER;
    }

    /** How many handlers may want a transaction at the same time: all slots of the executors that run such handlers. */
    private int transactionalSlots() {
        Function<String, String> routes = cluster.worker().routes();
        return handlers.all().stream()
                .filter(handler -> handler.target().transaction() != null)
                .flatMap(handler -> Stream.concat(Stream.of(handler.name()), handler.aliases().stream()))
                .map(routes)
                .distinct()
                .mapToInt(cluster.worker()::slots)
                .sum();
    }

    /** Apart, so that HikariCP may be absent. */
    private static final class HikariSize {
        static void compare(ClusterJobRegistrar registrar) {
            HikariDataSource hikari = ClusterDatabase.hikari(registrar.database.application());
            int slots = registrar.transactionalSlots();
            if (hikari != null && slots > hikari.getMaximumPoolSize()) {
                log.warn(
                        "Transactional jobs may want {} connections at once, but the pool '{}' has {} at most: raise"
                                + " spring.datasource.hikari.maximum-pool-size, or lower"
                                + " forge.cluster.worker.max-concurrent-jobs; until then jobs wait for each other, and"
                                + " requests for them",
                        slots,
                        hikari.getPoolName(),
                        hikari.getMaximumPoolSize());
            }
        }
    }

    private @Nullable Class<?> typeOf(String bean) {
        try {
            return AutoProxyUtils.determineTargetClass(beans, bean);
        } catch (RuntimeException | LinkageError e) {
            // Not a bean whose methods could be ours.
            return null;
        }
    }

    static <A extends Annotation> Map<Method, A> methodsOf(Class<?> type, Class<A> annotation) {
        return MethodIntrospector.selectMethods(type, (MethodIntrospector.MetadataLookup<A>)
                method -> AnnotatedElementUtils.findMergedAnnotation(method, annotation));
    }

    private void addCron(String bean, Class<?> type, Method method, ClusterCron cron) {
        String place = type.getName() + "." + method.getName();
        try {
            JobHandler handler = new JobHandler(
                    name(method, cron.name()),
                    List.of(),
                    emptyToNull(text(cron.capability())),
                    JobPriority.NORMAL.value(),
                    limits(cron.maxAttempts(), USUAL_BACKOFF, Set.of(), cron.timeout(), ""),
                    cronTarget(bean, type, method, place));
            handlers.addCron(handler, definition(handler, cron));
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ClusterStartupException(
                    "@ClusterCron on %s: %s".formatted(place, e.getMessage()),
                    "The method of a cron takes a CronContext or nothing, and is neither private nor static; its expression has"
                            + " five fields, or six with seconds in front.",
                    e);
        }
    }

    private CronStore.Definition definition(JobHandler handler, ClusterCron cron) {
        ClusterProperties.Cron usual = cluster.cron();
        String expression = text(cron.value());
        String every = text(cron.every());
        if (expression.isEmpty() == every.isEmpty()) {
            throw new IllegalArgumentException(
                    "it needs either an expression or every, but has '%s' and '%s'".formatted(expression, every));
        }
        String zone = value("zone", cron.zone(), Function.identity(), usual.zone());
        String schedule = every.isEmpty()
                ? expression
                : every.equals("-")
                        ? every
                        : CronDefinition.EVERY + value("every", every, ClusterJobRegistrar::positive);
        CronEngine.requireSchedule(schedule, zone);
        if (cron.target() == CronTarget.LEADER && handler.capability() != null) {
            throw new IllegalArgumentException(
                    "capability (%s): the leader runs it, whatever it offers; use target = ANY_WORKER"
                            .formatted(handler.capability()));
        }
        return new CronStore.Definition(
                handler.name(),
                handler.name(),
                schedule,
                zone,
                cron.target(),
                handler.capability(),
                cron.misfire() == Misfire.DEFAULT ? usual.misfire().policy() : cron.misfire(),
                value("catchUpLimit", cron.catchUpLimit(), ClusterJobRegistrar::catchUpLimit, usual.catchUpLimit()),
                cron.overlap(),
                value("jitter", cron.jitter(), ClusterJobRegistrar::notNegative, Duration.ZERO)
                        .toMillis(),
                // The node that runs it knows.
                null);
    }

    private JobHandler handler(String bean, Class<?> type, Method method, ClusterJob job) {
        String place = type.getName() + "." + method.getName();
        try {
            return new JobHandler(
                    name(method, job.name()),
                    Arrays.stream(job.aliases()).map(this::text).toList(),
                    emptyToNull(text(job.capability())),
                    value(
                            "priority",
                            job.priority(),
                            name -> JobPriority.of(name).value(),
                            JobPriority.NORMAL.value()),
                    limits(job.maxAttempts(), job.backoff(), Set.of(job.excluded()), job.timeout(), job.retention()),
                    target(bean, type, method, place));
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ClusterStartupException(
                    "@ClusterJob on %s: %s".formatted(place, e.getMessage()),
                    "A handler takes at most one payload and a JobContext, in any order, and is neither private nor static.",
                    e);
        }
    }

    private String name(Method method, String declared) {
        String name = text(declared);
        if (name.isEmpty()) {
            name = kebab(method.getName());
        }
        if (name.isBlank() || name.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("'%s' cannot be the name of a job".formatted(name));
        }
        return name;
    }

    // A word begins with a capital after a small letter or a digit, and with the last of several capitals, unless these
    // are an acronym's plural: import-xml-file, parse-urls.
    static String kebab(String method) {
        return method.replaceAll("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])", "-")
                .toLowerCase(Locale.ROOT);
    }

    private JobHandler.Limits limits(
            String maxAttempts,
            ClusterJob.Backoff backoff,
            Set<Class<? extends Throwable>> excluded,
            String timeout,
            String retention) {
        return new JobHandler.Limits(
                value("maxAttempts", maxAttempts, ClusterJobRegistrar::attempts, properties.maxAttempts()),
                backoff(backoff),
                value(
                        "backoff.jitter",
                        backoff.jitter(),
                        text -> number(text, 0, 1),
                        properties.backoff().jitter()),
                excluded,
                duration("timeout", timeout, ClusterJobRegistrar::positive, properties.timeout()),
                duration("retention", retention, ClusterJobRegistrar::notNegative, completedRetention()));
    }

    /** Zero means deletion at completion, which the node that completes it does. */
    private @Nullable Duration completedRetention() {
        Duration configured = properties.retention().completed();
        return configured.isZero() ? configured : null;
    }

    private BackoffStrategy backoff(ClusterJob.Backoff own) {
        JobProperties.Backoff usual = properties.backoff();
        boolean changed = !(own.strategy() + own.delay() + own.multiplier() + own.maxDelay()).isEmpty();
        BackoffStrategy bean = beans.getBeanProvider(BackoffStrategy.class).getIfUnique();
        if (bean != null && !changed) {
            return bean;
        }
        Duration delay = value("backoff.delay", own.delay(), ClusterJobRegistrar::positive, usual.delay());
        Duration longest = value("backoff.maxDelay", own.maxDelay(), ClusterJobRegistrar::positive, usual.maxDelay());
        return new Backoff(
                value(
                        "backoff.strategy",
                        own.strategy(),
                        ClusterJobRegistrar::growth,
                        Backoff.Growth.valueOf(usual.strategy().name())),
                delay,
                value(
                        "backoff.multiplier",
                        own.multiplier(),
                        text -> number(text, 1, Double.MAX_VALUE),
                        usual.multiplier()),
                longest.compareTo(delay) < 0 ? delay : longest);
    }

    private static Backoff.Growth growth(String text) {
        return Arrays.stream(Backoff.Growth.values())
                .filter(growth -> growth.name().equals(text.toUpperCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(
                        "there are " + Arrays.toString(JobProperties.Backoff.Strategy.values())));
    }

    private static int attempts(String text) {
        int attempts = Integer.parseInt(text);
        if (attempts < 1) {
            throw new IllegalArgumentException("must be at least 1");
        }
        return attempts;
    }

    private static int catchUpLimit(String text) {
        int limit = attempts(text);
        if (limit > 1_000) {
            throw new IllegalArgumentException("must be at most 1000");
        }
        return limit;
    }

    private static double number(String text, double least, double most) {
        double number = Double.parseDouble(text);
        if (!(number >= least && number <= most)) {
            throw new IllegalArgumentException(
                    most == Double.MAX_VALUE
                            ? "must be at least %.0f".formatted(least)
                            : "must lie between %.0f and %.0f".formatted(least, most));
        }
        return number;
    }

    private static Duration positive(String text) {
        Duration duration = notNegative(text);
        if (duration.isZero()) {
            throw new IllegalArgumentException("must be longer than zero");
        }
        return duration;
    }

    private static Duration notNegative(String text) {
        Duration duration = DurationStyle.detectAndParse(text);
        if (duration.isNegative()) {
            throw new IllegalArgumentException("must not be negative");
        }
        return duration;
    }

    private <T> T value(String attribute, String text, Function<String, T> reading, T usual) {
        String resolved = text(text);
        return resolved.isEmpty() ? usual : read(attribute, resolved, reading);
    }

    private <T> T value(String attribute, String text, Function<String, T> reading) {
        return read(attribute, text(text), reading);
    }

    private @Nullable Duration duration(
            String attribute, String text, Function<String, Duration> reading, @Nullable Duration usual) {
        String resolved = text(text);
        return resolved.isEmpty() ? usual : read(attribute, resolved, reading);
    }

    private static <T> T read(String attribute, String text, Function<String, T> reading) {
        try {
            return reading.apply(text);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("%s (%s): %s".formatted(attribute, text, e.getMessage()), e);
        }
    }

    private String text(String text) {
        String resolved = beans.resolveEmbeddedValue(text);
        return resolved == null ? "" : resolved.trim();
    }

    private static @Nullable String emptyToNull(String text) {
        return StringUtils.hasText(text) ? text : null;
    }

    private JobHandler.Target cronTarget(String bean, Class<?> type, Method method, String place) {
        Method invocable = invocable(bean, type, method);
        Class<?>[] parameters = method.getParameterTypes();
        if (parameters.length > 1 || (parameters.length == 1 && parameters[0] != CronContext.class)) {
            throw new IllegalArgumentException("it takes " + Arrays.toString(parameters));
        }
        ObjectProvider<CronContexts> contexts = beans.getBeanProvider(CronContexts.class);
        JobHandler.Code code = (payload, job) -> contexts.getObject()
                .run(
                        job,
                        context -> invoke(bean, invocable, parameters.length == 0 ? NOTHING : new Object[] {context}));
        return new JobHandler.Target(null, transaction(method, type, place), code, place);
    }

    private static final @Nullable Object[] NOTHING = {};

    private Method invocable(String bean, Class<?> type, Method method) {
        if (Modifier.isPrivate(method.getModifiers()) || Modifier.isStatic(method.getModifiers())) {
            throw new IllegalArgumentException("it is private or static");
        }
        Class<?> exposed = beans.getType(bean);
        Method invocable = AopUtils.selectInvocableMethod(method, exposed != null ? exposed : type);
        ReflectionUtils.makeAccessible(invocable);
        return invocable;
    }

    private @Nullable Object invoke(String bean, Method method, @Nullable Object[] arguments) throws Throwable {
        try {
            return method.invoke(beans.getBean(bean), arguments);
        } catch (InvocationTargetException e) {
            throw e.getTargetException();
        }
    }

    private JobHandler.Target target(String bean, Class<?> type, Method method, String place) {
        Method invocable = invocable(bean, type, method);
        Class<?>[] parameters = method.getParameterTypes();
        List<Type> payloads = IntStream.range(0, parameters.length)
                .filter(i -> parameters[i] != JobContext.class)
                .mapToObj(i -> GenericTypeResolver.resolveType(method.getGenericParameterTypes()[i], type))
                .toList();
        if (payloads.size() > 1 || parameters.length > payloads.size() + 1) {
            throw new IllegalArgumentException("it takes " + Arrays.toString(parameters));
        }
        JobHandler.Code code = (payload, context) -> {
            @Nullable Object[] arguments = new @Nullable Object[parameters.length];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = parameters[i] == JobContext.class ? context : payload;
            }
            return invoke(bean, invocable, arguments);
        };
        return new JobHandler.Target(
                payloads.isEmpty() ? null : payloads.get(0), transaction(method, type, place), code, place);
    }

    /** The transaction that the annotation asks for, if the job can be completed in it. */
    private JobHandler.@Nullable Transaction transaction(Method method, Class<?> type, String place) {
        TransactionAttribute attribute = transactions.getTransactionAttribute(method, type);
        if (attribute == null) {
            return null;
        }
        Propagation propagation = propagation(attribute);
        return switch (propagation) {
            case REQUIRED, MANDATORY, NESTED ->
                new JobHandler.Transaction(manager(attribute, place), new Opened(attribute));
            case SUPPORTS, REQUIRES_NEW, NOT_SUPPORTED, NEVER -> {
                log.warn(
                        "{} runs at least once, not exactly once: @Transactional(propagation = {}) keeps what it writes out"
                                + " of the transaction that completes its job. Leave the propagation out, or make the"
                                + " handler idempotent.",
                        place,
                        propagation);
                yield null;
            }
        };
    }

    private static Propagation propagation(TransactionAttribute attribute) {
        return Arrays.stream(Propagation.values())
                .filter(propagation -> propagation.value() == attribute.getPropagationBehavior())
                .findFirst()
                .orElseThrow();
    }

    /** The one that the handler's own proxy would use. */
    private PlatformTransactionManager manager(TransactionAttribute attribute, String place) {
        String qualifier = attribute.getQualifier();
        PlatformTransactionManager manager = StringUtils.hasText(qualifier)
                ? BeanFactoryAnnotationUtils.qualifiedBeanOfType(beans, PlatformTransactionManager.class, qualifier)
                : managers().getIfUnique();
        if (manager == null) {
            return database.transactions(managers());
        }
        if (database.isForeign(manager)) {
            throw new ClusterStartupException(
                    "@Transactional on %s: its transactions are of another DataSource than the cluster's, so that its job cannot be completed in them"
                            .formatted(place),
                    "Name the right manager, @Transactional(\"...\"). If the handler writes to another database, it runs"
                            + " at least once: leave the annotation out and put it on a method that the handler calls.");
        }
        return manager;
    }

    private ObjectProvider<PlatformTransactionManager> managers() {
        return beans.getBeanProvider(PlatformTransactionManager.class);
    }

    /** As declared, but new: the engine is the outermost. */
    private record Opened(TransactionAttribute declared) implements TransactionDefinition {

        @Override
        public int getPropagationBehavior() {
            return PROPAGATION_REQUIRES_NEW;
        }

        @Override
        public int getIsolationLevel() {
            return declared.getIsolationLevel();
        }

        @Override
        public int getTimeout() {
            return declared.getTimeout();
        }

        @Override
        public boolean isReadOnly() {
            return false;
        }

        @Override
        public @Nullable String getName() {
            return declared.getName();
        }
    }
}
