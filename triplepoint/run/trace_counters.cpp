// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/trace_counters.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace triplepoint::run {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> units = {
    {{"_w", "W"}, {"_c", "C"}, {"_mhz", "MHz"}, {"_j", "J"}, {"_bytes", "B"}}};

}  // namespace

TraceCounter describe_counter(const Run& run, const Series& series) {
  TraceCounter counter{
      .owner = fmt::format("{} {}", series.of_node ? "node" : "device", series.device),
      .name = series.signal};
  for (const auto& [ending, unit] : units) {
    const std::string_view signal = series.signal;
    if (signal.size() <= ending.size() || !signal.ends_with(ending)) continue;
    counter.name = std::string(signal.substr(0, signal.size() - ending.size()));
    counter.unit = std::string(unit);
  }
  if (series.of_node) return counter;
  for (const Device& device : run.devices)
    if (device.index == series.device) counter.rank = device.rank;
  return counter;
}

}  // namespace triplepoint::run
