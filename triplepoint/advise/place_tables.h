// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/advise/place.h"

namespace triplepoint::advise {

/// What devices were grouped by, and how.
struct GroupedMachine {
  std::vector<advise::ThermalSample> devices;
  advise::ThermalGroups groups;
  std::string source;  // "simulated", or the files
};

DataTable groups_table(const GroupedMachine&);
/// How sure the number of groups is, who is in none, and who is far hotter than the others.
std::string grouping_text(const GroupedMachine&);
/// "1,2,5,7 | 0,3,4,6": of one node, or of each where they differ.
std::string slots_text(const GroupedMachine&);

/// Baseline and placements: what each reaches.
DataTable placements_table(const advise::PlaceResult&);
/// What the recommended placement gains over drawn machines; empty where none is, or the machine is
/// known.
std::string gains_text(const advise::PlaceResult&);
/// "asymmetric +1".
std::string placement_name(const advise::Placement&);
std::string search_text(const advise::PlaceResult&);
/// What a launcher has to be told: a line each.
std::vector<std::string> launch_lines(const spec::Job&);

Json groups_json(const GroupedMachine&);
Json place_json(const GroupedMachine&, const advise::PlaceResult&);

/// Per placement: job.toml, megatron.sh, nemo.yaml where NeMo can start it, devices.sh
/// (CUDA_VISIBLE_DEVICES of each node) and hostfile. `hosts`: names of the nodes, if known.
/// Returns the remarks of formats::write_job_files.
Result<std::string> write_placements(const Path& folder, const spec::Library& library,
                                     const PlaceResult& result, const spec::Job& original,
                                     const std::vector<std::string>& hosts);
/// Order of visible devices of a node, as text: "1,2,5,7,0,3,4,6".
std::string visible_devices(const spec::Job&, int64_t node);

/// A shell file that sets CUDA_VISIBLE_DEVICES by the node's place in the host file.
std::string devices_script(const spec::Job&);
/// A line per node, in the order in which ranks fill them: "node2 slots=8".
std::string host_file(const spec::Job&, const std::vector<std::string>& hosts);

}  // namespace triplepoint::advise
