// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/advise/thermal_groups.h"

/// Any CSV that reads as a table of temperatures can be grouped; each device is in one group.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  const auto table =
      CsvTable::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!table) return 0;
  const auto samples = advise::read_thermal_table(*table);
  constexpr std::size_t quick = 64;
  if (!samples || samples->empty() || samples->size() > quick) return 0;
  if (std::ranges::none_of(*samples, [](const advise::ThermalSample& one) {
        return one.temperature_c || one.clock_mhz || one.throttled;
      }))
    return 0;
  const advise::ThermalGroups groups = advise::find_thermal_groups(*samples);
  std::size_t members = groups.unread.size();
  for (const advise::ThermalGroup& group : groups.groups)
    members += group.members.size();
  TPT_ENSURE(members == advise::mean_samples(*samples).size());
  return 0;
}
