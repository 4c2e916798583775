package dev.forge.cluster.autoconfigure;

import org.springframework.boot.autoconfigure.AutoConfiguration;

/** An auto-configuration that could be extended. */
@AutoConfiguration
public class OffendsAsConfiguration {}
