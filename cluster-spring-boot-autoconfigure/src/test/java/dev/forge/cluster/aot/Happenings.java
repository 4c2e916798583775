// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.aot;

import java.util.List;
import org.springframework.data.jpa.repository.JpaRepository;

/** A repository of Spring Data. */
interface Happenings extends JpaRepository<Happening, Long> {

    List<Happening> findByName(String name);
}
