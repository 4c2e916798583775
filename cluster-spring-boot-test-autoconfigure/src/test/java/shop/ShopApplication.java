// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import java.time.Clock;
import java.time.ZoneId;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** The application that the tests of the test support test. */
@SpringBootApplication
class ShopApplication {

    @Bean
    Clock clock() {
        return Clock.system(ZoneId.of("Europe/Berlin"));
    }
}
