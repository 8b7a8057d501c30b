// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/report/finding.h"
#include "triplepoint/report/groups.h"

namespace triplepoint::report {

/// What stands out, most important first. Each looks over the whole study for its strongest case
/// and says nothing if the results do not bear it out.
std::vector<Finding> find_findings(const Study& study);

using FoundOne = std::optional<Finding>;
using Groups = std::vector<Group>;

// findings.cpp
FoundOne about_speed(const Groups&);
FoundOne about_energy(const Groups&);
FoundOne about_communication(const Groups&);
FoundOne about_memory(const Study&);
// findings_heat.cpp
FoundOne about_seats(const Groups&);
FoundOne about_placement(const Groups&);
FoundOne about_throttling(const Groups&);
FoundOne about_lost_clocks(const Groups&);
// findings_knobs.cpp
FoundOne about_faster_microbatches(const Groups&);
FoundOne about_slower_microbatches(const Groups&);
FoundOne about_peaks_of_microbatches(const Groups&);
FoundOne about_experts(const Groups&);
FoundOne about_recompute(const Groups&);
FoundOne about_what_recompute_unlocks(const Groups&);
FoundOne about_overlap(const Groups&);
FoundOne about_overlap_in_vain(const Groups&);
FoundOne about_full_sharding(const Groups&);
// findings_machines.cpp
FoundOne about_machines(const Groups&);
FoundOne about_machines_per_watt(const Groups&);
// findings_fabric.cpp
FoundOne about_fabrics(const Groups&);
FoundOne about_oversubscription(const Groups&);

// findings_inference.cpp
FoundOne about_decode_energy(const Groups&);
FoundOne about_decode_microbatches(const Groups&);
FoundOne about_token_latency(const Groups&);
FoundOne about_prompt_latency(const Groups&);
FoundOne about_fine_tuning(const Groups&);

/// Every job of the study that ran.
std::vector<const StudyRow*> all_that_ran(const Groups&);

}  // namespace triplepoint::report
