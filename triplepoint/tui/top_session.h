// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/tui/console.h"
#include "triplepoint/tui/terminal.h"
#include "triplepoint/tui/top_screen.h"
#include "triplepoint/tui/top_sources.h"

namespace triplepoint::tui {

/// One picture of all nodes, printed. False: some node did not answer.
bool show_top_once(TopSource&, TopView, Console&);

/// Draws the screen anew every `interval` and obeys keys, until the user leaves.
void follow_top(TopSource&, TopView&, Terminal&, Seconds interval, const Console&);

}  // namespace triplepoint::tui
