// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import dev.forge.cluster.ratelimit.RateLimitKey;
import dev.forge.cluster.ratelimit.RateLimited;
import java.math.BigDecimal;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

/** Returns price quotes under a rate limit. */
@RestController
class QuoteController {

    record Quote(String item, BigDecimal price) {}

    /** Returns a quote. Each node admits a hundred calls per minute from each client address. */
    @GetMapping("/quote")
    @RateLimited(key = RateLimitKey.IP, requests = 100, per = "1m")
    Quote quote() {
        return anvil();
    }

    /** Returns a quote. The whole cluster admits a hundred calls per minute from all clients together. */
    @GetMapping("/global-quote")
    @RateLimited(requests = 100, per = "1m")
    Quote globalQuote() {
        return anvil();
    }

    private static Quote anvil() {
        return new Quote("anvil", BigDecimal.valueOf(ThreadLocalRandom.current().nextLong(9_900, 10_100), 2));
    }
}
