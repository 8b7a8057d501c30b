// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triplepoint {

/// From now on Ctrl-C (SIGINT) and SIGTERM set a mark instead of ending the process; the second
/// one ends it. Writing into a closed pipe becomes an error code.
void listen_for_interrupts();

/// Verbs that have nothing to keep when they are interrupted say so first: Ctrl-C ends them at
/// once.
void let_interrupts_end_us();

/// Whether the user wants to stop.
bool interrupted();

/// Sets or wipes the mark; for tests.
void set_interrupted(bool value);

}  // namespace triplepoint
