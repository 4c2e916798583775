package sample;

import java.math.BigDecimal;

/** What somebody wants to buy; the input of the checkout workflow. */
record Checkout(String item, BigDecimal amount) {}
