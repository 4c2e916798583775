// SPDX-FileCopyrightText: Forge Cluster maintainers
// SPDX-License-Identifier: Apache-2.0
package sample;

import org.springframework.http.HttpStatus;
import org.springframework.web.server.ResponseStatusException;

/** Checks what clients send. Bad input gets status 400 with the reason; without a check it would fail the job later. */
final class Input {

    private static final int LONGEST_TEXT = 100;

    private Input() {}

    /** Requires a text that can be stored: not blank, not too long, without control characters. */
    static void requireText(String name, String value) {
        require(value != null && !value.isBlank(), name + " is missing");
        require(value.length() <= LONGEST_TEXT, name + " has more than " + LONGEST_TEXT + " characters");
        require(value.chars().noneMatch(Character::isISOControl), name + " contains a control character");
    }

    static void require(boolean valid, String reason) {
        if (!valid) {
            throw new ResponseStatusException(HttpStatus.BAD_REQUEST, reason);
        }
    }
}
