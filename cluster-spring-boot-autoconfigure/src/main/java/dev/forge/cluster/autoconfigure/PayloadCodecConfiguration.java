// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure;

import dev.forge.cluster.PayloadCodec;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import tools.jackson.databind.json.JsonMapper;

/** Writes payloads with the application's Jackson mapper unless the application defines a codec. */
@Configuration(proxyBeanMethods = false)
@ConditionalOnClass(JsonMapper.class)
public class PayloadCodecConfiguration {

    @Bean
    @ConditionalOnMissingBean(PayloadCodec.class)
    PayloadCodec clusterPayloadCodec(ObjectProvider<JsonMapper> mappers) {
        return new JacksonPayloadCodec(
                mappers.getIfUnique(() -> JsonMapper.builder().build()));
    }
}
