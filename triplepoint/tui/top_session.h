// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/tui/console.h"
#include "triplepoint/tui/top_screen.h"
#include "triplepoint/tui/top_sources.h"

namespace triplepoint::tui {

/// One picture of all nodes, printed. False: some node did not answer.
bool show_top_once(TopSource&, TopView, Console&);

/// Draws the screen anew every `interval`, over the picture before, until the user interrupts.
void follow_top(TopSource&, TopView, Seconds interval, Console&);

}  // namespace triplepoint::tui
