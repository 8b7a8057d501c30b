// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/texts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/kept_file.h"

namespace triplepoint::telemetry::host {
namespace {

/// The text up to the next line's end, which is taken away with it.
std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view take_word(std::string_view& text) {
  text = trimmed(text);
  const auto end = text.find_first_of(" \t");
  const auto word = text.substr(0, end);
  text.remove_prefix(word.size());
  return word;
}

/// "Name : value" of a line.
std::pair<std::string_view, std::string_view> parts_of(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  return {trimmed(line.substr(0, colon)), trimmed(line.substr(colon + 1))};
}

/// Above any machine's uptime in ticks; sums of four stay exact.
constexpr uint64_t most_ticks = 1ULL << 60U;

}  // namespace

std::optional<CpuTicks> parse_proc_stat(std::string_view text) {
  std::string_view line = take_line(text);
  if (take_word(line) != "cpu") return std::nullopt;
  std::array<uint64_t, 7> ticks{};  // user nice system idle iowait irq softirq
  std::size_t known = 0;
  for (; known < ticks.size(); ++known) {
    const auto number = leading_count(take_word(line));
    if (!number) break;
    if (*number > most_ticks) return std::nullopt;
    ticks.at(known) = *number;
  }
  if (known < 4) return std::nullopt;
  return CpuTicks{.user = ticks[0] + ticks[1],
                  .system = ticks[2] + ticks[5] + ticks[6],
                  .idle = ticks[3],
                  .wait = ticks[4]};
}

std::optional<MemoryUse> parse_meminfo(std::string_view text) {
  std::optional<uint64_t> total, available;
  while (!text.empty() && !(total && available)) {
    const auto [name, value] = parts_of(take_line(text));
    if (name == "MemTotal") total = leading_count(value);
    if (name == "MemAvailable") available = leading_count(value);
  }
  constexpr uint64_t most_kib = 1ULL << 50U;
  if (!total || !available || *total > most_kib || *available > *total) return std::nullopt;
  return MemoryUse{.total_b = *total * 1024, .used_b = (*total - *available) * 1024};
}

std::optional<double> parse_dcmi_power(std::string_view text) {
  std::optional<double> watts;
  while (!text.empty()) {
    const auto [name, value] = parts_of(take_line(text));
    if (name == "Instantaneous power reading") watts = leading_number(value);
    if (name == "Power reading state is" && value != "activated") return std::nullopt;
  }
  return watts && *watts > 0 ? watts : std::nullopt;
}

std::optional<PmCounter> parse_pm_counter(std::string_view text) {
  std::string_view line = take_line(text);
  const auto value = leading_number(take_word(line));
  if (!value || *value < 0) return std::nullopt;
  PmCounter counter{.value = *value, .unix_us = {}};
  take_word(line);  // the unit
  const auto stamp = leading_count(take_word(line));
  if (stamp && *stamp < 1ULL << 62U && take_word(line) == "us")
    counter.unix_us = static_cast<int64_t>(*stamp);
  return counter;
}

CpuInfo parse_cpuinfo(std::string_view text) {
  CpuInfo info;
  std::set<std::string_view> sockets;
  std::set<std::pair<std::string_view, std::string_view>> cores;
  std::string_view socket;
  while (!text.empty()) {
    const auto [name, value] = parts_of(take_line(text));
    if (name == "processor") ++info.threads;
    if (name == "model name" && info.model.empty()) info.model = value;
    if (name == "physical id") sockets.insert(socket = value);
    if (name == "core id") cores.insert({socket, value});
  }
  info.sockets = static_cast<int32_t>(sockets.size());
  info.cores = static_cast<int32_t>(cores.size());
  return info;
}

}  // namespace triplepoint::telemetry::host
