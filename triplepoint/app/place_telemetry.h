// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/place.h"
#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/learn/room.h"

namespace triplepoint::app {

/// How warm GPUs are by runs and CSV tables.
struct Telemetry {
  std::vector<advise::ThermalSample> samples;
  std::optional<spec::Job> job;    // of the first run that knows its own
  std::vector<std::string> hosts;  // names of nodes
  std::vector<std::string> notes;  // on what was left out of other samplers' files
  bool measured = false;           // files were read
};

/// Temperatures of GPUs that were read, mean of each.
std::vector<learn::GpuHeat> heat_of(const Telemetry&);

/// Whether --row can name rows of it: all but runs.
bool may_have_rows(const std::string& path);
/// Runs, tables of a column per GPU, and what other samplers record (telemetry/timeseries).
Result<Telemetry> read_telemetry(const std::vector<std::string>& files, const advise::TableChoice&);
/// Groups of GPUs by one sign; `sign`: its name, or empty for the best there is. Errors: no GPU has
/// it.
Result<advise::GroupedMachine> group_devices(const std::vector<advise::ThermalSample>&,
                                             const std::vector<std::string>& files,
                                             const std::string& sign,
                                             const std::optional<double>& kelvin_per_watt);

/// The job at thermal steady state. An error that says why there is none: no room in memory,
/// heat that ends the job.
Result<run::Run> run_at_rest(const spec::Job&);

struct PlacedJob {
  advise::GroupedMachine seen;
  advise::PlaceResult result;
};
/// Places the job on a machine as warm as the telemetry, which is of one node of the job's size or
/// of all of them; without telemetry, as warm as the simulator makes it.
Result<PlacedJob> place_job(const spec::Job&, const Telemetry&,
                            const std::vector<std::string>& files, const std::string& sign,
                            advise::PlaceOptions);

/// Files of each placement and report.html in a folder; a sentence that says so. `hosts`: names of
/// the nodes, else those of the telemetry.
Result<std::string> write_placements(const std::string& folder, const spec::Library&,
                                     const PlacedJob&, const spec::Job&, const Telemetry&,
                                     const std::optional<std::string>& hosts,
                                     const answers::Document& answer);

}  // namespace triplepoint::app
