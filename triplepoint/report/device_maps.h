// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/groups.h"
#include "triplepoint/report/heat_map.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// A chart of every GPU in every job, and its numbers, which are too many for the markup.
struct DeviceMap {
  Figure figure;
  HeatMap map;
};

/// Temperature, power, clock, throttling and traffic of every GPU in every job of the group, the
/// paper's figures 5 and 17: nodes apart from each other, on top the mean over the jobs and the
/// mean of each seat. More GPUs than columns are shown by the mean of their nodes.
std::vector<DeviceMap> device_maps(const Group& group);

/// The numbers of a map as the page's script reads them.
Json compact_table(const HeatMap& map);

}  // namespace triplepoint::report
