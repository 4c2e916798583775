// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package shop;

import org.springframework.stereotype.Component;

/** Inherits its handler from a class. */
@Component
class Importer extends Inherited {}
