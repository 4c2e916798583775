package sample;

import java.math.BigDecimal;

/** The input of the checkout workflow. */
record Checkout(String item, BigDecimal amount) {}
