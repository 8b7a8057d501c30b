// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/file_sensor.h"

#include <algorithm>

#include <fmt/format.h>

namespace triplepoint::telemetry::host {
namespace {

constexpr int failures_to_say = 10;

}  // namespace

Channel node_channel(std::string signal, run::Scope scope, run::ReadingKind kind,
                     std::string sensor, Pace pace) {
  Channel channel;
  channel.about.signal = std::move(signal);
  channel.about.of_node = true;
  channel.about.scope = scope;
  channel.about.kind = kind;
  channel.about.sensor = std::move(sensor);
  channel.pace = pace;
  return channel;
}

void FileSensor::add(FileNumber number, const std::string& what, const std::string& remedy) {
  Item item;
  item.counts = number.channel.about.kind == run::ReadingKind::counter;
  item.unit = number.unit;
  item.combine = number.combine;
  item.range = plausible_range(number.channel.about.signal);
  const double most_per_s = plausible_rate(number.channel.about.signal) / number.unit;
  for (std::size_t i = 0; i < number.files.size(); ++i) {
    Part part{.file = KeptFile(number.files[i]),
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

std::optional<double> FileSensor::part_value(const Item& item, Part& part, int64_t now) {
  if (item.counts) {
    const auto raw = part.file.count();
    if (!raw || is_sentinel(*raw, 64)) return std::nullopt;
    return part.counter.update(*raw, now);
  }
  const auto number = part.file.number();
  return number ? std::optional(*number * item.unit) : std::nullopt;
}

std::optional<double> FileSensor::value_of(Item& item, int64_t now) {
  double sum = 0, highest = -1e300;
  for (Part& part : item.parts) {
    const auto value = part_value(item, part, now);
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
    if (channel.pace == Pace::slow && !slow) continue;
    const int64_t now = monotonic_now_ns();
    if (const auto value = value_of(items_[i], now)) {
      items_[i].failures = 0;
      readings.push_back({static_cast<int32_t>(i), now, *value});
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

}  // namespace triplepoint::telemetry::host
