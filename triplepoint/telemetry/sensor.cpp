// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sensor.h"

#include <algorithm>

#include <fmt/format.h>

namespace triplepoint::telemetry {

void GapList::add(Gap gap, int32_t gpu) {
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.gap.what == gap.what && entry.gap.why == gap.why;
  });
  if (same != entries_.end())
    same->gpus.push_back(gpu);
  else
    entries_.push_back({std::move(gap), {gpu}});
}

void GapList::add(const GapList& other) {
  for (const Entry& entry : other.entries_)
    for (const int32_t gpu : entry.gpus)
      add(entry.gap, gpu);
}

std::vector<Gap> GapList::gaps() const {
  std::vector<Gap> said;
  for (const Entry& entry : entries_) {
    said.push_back(entry.gap);
    said.back().what +=
        fmt::format(" of GPU{} {}", entry.gpus.size() > 1 ? "s" : "", ranges_of(entry.gpus));
  }
  return said;
}

std::string ranges_of(const std::vector<int32_t>& numbers) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;)
      ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[begin]);
    if (end > begin + 1) text += fmt::format("-{}", numbers[end - 1]);
  }
  return text;
}

}  // namespace triplepoint::telemetry
