// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configurers.AbstractHttpConfigurer;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.core.userdetails.UserDetailsService;
import org.springframework.security.provisioning.InMemoryUserDetailsManager;
import org.springframework.security.web.SecurityFilterChain;

/**
 * The dashboard needs a login; everything else is open, so that curl can place orders. Both users are for demonstrations only: a real
 * application has its own users, and protects Actuator too.
 */
@Configuration(proxyBeanMethods = false)
@ConditionalOnWebApplication // A worker without a web server has nothing to protect.
class DashboardSecurity {

    @Bean
    @Order(1)
    SecurityFilterChain dashboard(HttpSecurity http) {
        return http.securityMatcher("/forge/dashboard", "/forge/dashboard/**", "/login", "/logout", "/default-ui.css")
                .authorizeHttpRequests(requests -> requests.requestMatchers("/forge/dashboard/assets/**")
                        .permitAll()
                        .anyRequest()
                        .authenticated())
                .formLogin(Customizer.withDefaults())
                .build();
    }

    @Bean
    SecurityFilterChain others(HttpSecurity http) {
        return http.authorizeHttpRequests(requests -> requests.anyRequest().permitAll())
                .csrf(AbstractHttpConfigurer::disable)
                .build();
    }

    @Bean
    UserDetailsService users() {
        return new InMemoryUserDetailsManager(
                User.withUsername("admin")
                        .password("{noop}admin")
                        .roles("ADMIN")
                        .build(),
                User.withUsername("viewer")
                        .password("{noop}viewer")
                        .roles("VIEWER")
                        .build());
    }
}
