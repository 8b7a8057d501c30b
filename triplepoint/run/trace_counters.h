// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// A series as a trace viewer's counter: who owns it, what it is called, in which unit.
struct TraceCounter {
  std::optional<int32_t> rank;  // the rank on that device; absent: nobody's
  std::string owner;            // "device 3", "node 0": what to call it without a rank
  std::string name;             // "power", "die"
  std::string unit;             // "W", "C", "MHz"; empty if the signal's name has none
};
TraceCounter describe_counter(const Run&, const Series&);

}  // namespace triplepoint::run
