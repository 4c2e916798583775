// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.aot;

import java.util.List;
import org.springframework.data.jpa.repository.JpaRepository;

/** The Spring Data repository of {@link Happening}. */
interface Happenings extends JpaRepository<Happening, Long> {

    List<Happening> findByName(String name);
}
