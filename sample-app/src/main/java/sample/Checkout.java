// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import java.math.BigDecimal;

/** The input of the checkout workflow. */
record Checkout(String item, BigDecimal amount) {}
