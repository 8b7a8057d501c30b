// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/thermal_groups.h"

namespace triplepoint::study {

/// How warm GPUs are by runs, folders of samples and CSV tables.
struct Telemetry {
  std::vector<advise::ThermalSample> samples;
  std::optional<spec::Job> job;    // of the first run that knows its own
  std::vector<std::string> hosts;  // names of nodes
};

bool is_thermal_table(const std::string& path);
/// Errors: a file that cannot be read, and samples without temperature, clock and throttling.
Result<Telemetry> read_telemetry(const std::vector<std::string>& files, const advise::TableChoice&);
/// Samples are of one node of the job's size, or of all of them.
Result<bool> require_same_size(const spec::Job&, const std::vector<advise::ThermalSample>&);

}  // namespace triplepoint::study
