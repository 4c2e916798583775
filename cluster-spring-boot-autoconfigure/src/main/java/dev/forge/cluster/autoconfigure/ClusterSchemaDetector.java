package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.internal.database.Schema;
import java.util.Set;
import org.springframework.boot.sql.init.dependency.AbstractBeansOfTypeDatabaseInitializerDetector;
import org.springframework.core.Ordered;

/**
 * Orders our migrations behind the application's own, whatever runs those: an application's Flyway refuses a schema
 * in which it finds tables of others first.
 */
final class ClusterSchemaDetector extends AbstractBeansOfTypeDatabaseInitializerDetector {

    @Override
    protected Set<Class<?>> getDatabaseInitializerBeanTypes() {
        return Set.of(Schema.class);
    }

    @Override
    public int getOrder() {
        return Ordered.LOWEST_PRECEDENCE;
    }
}
