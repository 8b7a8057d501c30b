// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/file_sensor.h"

#include <algorithm>
#include <set>

#include "triplepoint/base/text.h"

namespace triplepoint::telemetry::host {
namespace {

constexpr int failures_to_say = 10;

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

Channel node_channel(std::string signal, run::Scope scope, run::ReadingKind kind,
                     std::string sensor, Polling polling) {
  Channel channel;
  channel.about.signal = std::move(signal);
  channel.about.of_node = true;
  channel.about.scope = scope;
  channel.about.kind = kind;
  channel.about.sensor = std::move(sensor);
  channel.polling = polling;
  return channel;
}

void FileSensor::add(FileNumber number, const std::string& what, const std::string& remedy) {
  Item item;
  item.counts = number.channel.about.kind == run::ReadingKind::counter;
  item.unit = number.unit;
  item.combine = number.combine;
  item.has_stamp = number.has_stamp;
  item.range = plausible_range(number.channel.about.signal);
  const double most_per_s = plausible_rate(number.channel.about.signal) / number.unit;
  for (std::size_t i = 0; i < number.files.size(); ++i) {
    Part part{.file = OpenFile(number.files[i]),
              .counter = Counter({.unit = number.unit,
                                  .modulus = i < number.moduli.size() ? number.moduli[i] : 0,
                                  .most_per_s = most_per_s})};
    if (!part.file.is_open() || !part.file.number()) {
      gaps_.push_back({what,
                       fmt::format("{}: {}", number.files[i].string(),
                                   part.file.is_open() ? "holds no number" : part.file.why()),
                       remedy});
      return;
    }
    item.parts.push_back(std::move(part));
  }
  items_.push_back(std::move(item));
  channels_.push_back(std::move(number.channel));
}

std::optional<double> FileSensor::part_value(const Item& item, Part& part, int64_t& stamp) const {
  if (item.has_stamp) {
    std::array<char, 128> buffer{};
    const auto text = part.file.read(buffer);
    const auto said = text ? parse_pm_counter(*text) : std::nullopt;
    if (!said || said->value >= 1e18) return std::nullopt;
    if (said->unix_us) stamp = clock_.monotonic(*said->unix_us).value_or(stamp);
    return item.counts ? part.counter.update(static_cast<uint64_t>(said->value), stamp)
                       : said->value;
  }
  if (item.counts) {
    const auto raw = part.file.count();
    if (!raw || is_sentinel(*raw, 64)) return std::nullopt;
    return part.counter.update(*raw, stamp);
  }
  const auto number = part.file.number();
  return number ? std::optional(*number * item.unit) : std::nullopt;
}

std::optional<double> FileSensor::value_of(Item& item, int64_t& stamp) const {
  double sum = 0, highest = -1e300;
  for (Part& part : item.parts) {
    const auto value = part_value(item, part, stamp);
    // A sum without one of its parts would be a wrong number, not a smaller one.
    if (!value) return std::nullopt;
    sum += *value;
    highest = std::max(highest, *value);
  }
  const double value = item.combine == Combine::sum ? sum : highest;
  return item.range.holds(value) ? std::optional(value) : std::nullopt;
}

void FileSensor::read(bool slow, std::vector<Reading>& readings) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Channel& channel = channels_[i];
    if (channel.polling == Polling::slow && !slow) continue;
    int64_t stamp = monotonic_now_ns();
    clock_.look(stamp);
    if (const auto value = value_of(items_[i], stamp)) {
      items_[i].failures = 0;
      readings.push_back({static_cast<int32_t>(i), stamp, *value});
    } else {
      count_failure(items_[i], channel);
    }
    for (Part& part : items_[i].parts)
      if (part.counter.take_restart())
        troubles_.push_back(fmt::format("counter {} began anew; what it missed is not counted",
                                        channel.about.signal));
  }
}

void FileSensor::count_failure(Item& item, const Channel& channel) {
  if (++item.failures == failures_to_say)
    troubles_.push_back(fmt::format("{} ({}) cannot be read any more; its series has a gap",
                                    channel.about.signal, channel.about.sensor));
}

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
  PmCounter counter{.value = *value};
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
