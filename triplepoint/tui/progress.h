// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "triplepoint/base/watch.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// "Simulating  [=======>      ] 52/163  9.1/s  12 s left": what is done, how fast, how long yet.
std::string progress_line(std::string_view what, std::size_t done, std::size_t total,
                          double elapsed_s, std::size_t width);

/// Shows work on standard error: a bar where that is a terminal and the work takes longer than a
/// moment, lines always. Work stops when the user interrupts it. The bar goes with the last copy.
Watch watch_on(Console& console);

}  // namespace triplepoint::tui
