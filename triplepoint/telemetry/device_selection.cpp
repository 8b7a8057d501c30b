// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/device_selection.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

namespace {

std::optional<int32_t> local_index(std::string_view text) {
  int32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

bool means(const std::string& word, const run::Device& device) {
  if (const auto one = local_index(word)) return device.local == *one;
  const auto dash = word.find('-');
  const auto first = local_index(std::string_view(word).substr(0, dash));
  if (dash != std::string::npos && first) {
    const auto last = local_index(std::string_view(word).substr(dash + 1));
    return last && device.local >= *first && device.local <= *last;
  }
  const std::string small = lower_case(word);
  if (word.find(':') != std::string::npos) return lower_case(device.pci).ends_with(small);
  return word.size() >= 4 && lower_case(device.uuid).starts_with(small);
}

std::string those_there(const std::vector<run::Device>& devices) {
  std::vector<int32_t> numbers;
  numbers.reserve(devices.size());
  for (const run::Device& device : devices)
    numbers.push_back(device.local);
  if (numbers.empty()) return "no GPU was found; see triplepoint doctor";
  return "there are " + ranges_of(numbers);
}

}  // namespace

Result<std::vector<bool>> select_devices(const std::vector<run::Device>& devices,
                                         const std::vector<std::string>& words) {
  std::vector<bool> selected(devices.size(), words.empty());
  for (const std::string& word : words) {
    if (word == "none") continue;
    bool found = false;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (means(word, devices[i])) selected[i] = found = true;
    if (!found)
      return error(
          fmt::format("no GPU is called '{}' (a number, a range like 0-3, the beginning of "
                      "a UUID or a PCI address); {}",
                      word, those_there(devices)));
  }
  return selected;
}

}  // namespace triplepoint::telemetry
