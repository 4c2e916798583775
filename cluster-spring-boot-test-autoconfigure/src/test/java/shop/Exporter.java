// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import org.springframework.stereotype.Component;

/** Inherits its handler from an interface. */
@Component
class Exporter implements Exporting {}
