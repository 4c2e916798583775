// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.ratelimit.RateLimitKey;
import dev.forge.cluster.ratelimit.RateLimited;
import java.math.BigDecimal;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** Quotes prices, rate-limited. */
@RestController
class QuoteController {

    record Quote(String item, BigDecimal price) {}

    /** Each client address may call it a hundred times a minute on each node. */
    @GetMapping("/quote")
    @RateLimited(key = RateLimitKey.IP, requests = 100, per = "1m")
    Quote quote() {
        return anvil();
    }

    /** All clients together may call it a hundred times a minute in the whole cluster. */
    @GetMapping("/global-quote")
    @RateLimited(requests = 100, per = "1m")
    Quote globalQuote() {
        return anvil();
    }

    private static Quote anvil() {
        return new Quote("anvil", BigDecimal.valueOf(ThreadLocalRandom.current().nextLong(9_900, 10_100), 2));
    }
}
