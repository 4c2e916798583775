// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package dev.forge.cluster.autoconfigure.operations;

import dev.forge.cluster.autoconfigure.attention.Attention;
import dev.forge.cluster.autoconfigure.attention.AttentionReports;
import dev.forge.cluster.autoconfigure.operations.AttentionDescriptor.ItemDescriptor;
import dev.forge.cluster.internal.runtime.EnumText;

/** The resource {@code attention}: what needs the attention of an operator. */
final class AttentionResource implements Resource {

    private final AttentionReports reports;

    AttentionResource(AttentionReports reports) {
        this.reports = reports;
    }

    @Override
    public String name() {
        return "attention";
    }

    @Override
    public ResourceParameters parameters() {
        return ResourceParameters.ofList();
    }

    @Override
    public OperationResult read(OperationRequest request) {
        Attention attention = reports.read();
        return request.result(new AttentionDescriptor(
                attention.items().stream()
                        .map(item -> new ItemDescriptor(
                                EnumText.hyphenated(item.kind()),
                                EnumText.hyphenated(item.severity()),
                                item.target(),
                                item.text(),
                                item.nextStep()))
                        .toList(),
                attention.cutOff()));
    }
}
