// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/advise/place.h"

namespace triplepoint::advise {

/// "asymmetric +1".
std::string placement_name(const Placement&);
/// What a launcher has to be told: a line each.
std::vector<std::string> launch_lines(const spec::Job&);
/// Order of visible devices of a node, as text: "1,2,5,7,0,3,4,6".
std::string visible_devices(const spec::Job&, int64_t node);
/// devices.sh and hostfile.
std::string devices_script(const spec::Job&);
std::string host_file(const spec::Job&, const std::vector<std::string>& hosts);

/// Per placement: job.toml, megatron.sh, nemo.yaml where NeMo can start it, devices.sh
/// (CUDA_VISIBLE_DEVICES of each node) and hostfile. `hosts`: names of the nodes, if known.
/// Returns the remarks of formats::write_job_files.
Result<std::string> write_placements(const Path& folder, const spec::Library& library,
                                     const PlaceResult& result, const spec::Job& original,
                                     const std::vector<std::string>& hosts);

}  // namespace triplepoint::advise
