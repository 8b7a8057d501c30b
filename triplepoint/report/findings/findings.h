// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/report/findings/finding.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// What stands out, most important first: what each thing that the study varies does to speed,
/// energy and heat, beginning with what it was made to vary; what heat costs; what memory rules
/// out.
std::vector<Finding> find_findings(const Study& study);

using Groups = std::vector<Group>;

// machines.cpp

/// One model on the fastest and on another kind of machine: what one gets for equal GPUs, equal
/// memory, equal watts. Nothing without two kinds under equal conditions.
std::optional<Finding> about_machines(const Groups&);
/// One chart for each of these; nothing without a comparison.
std::vector<Figure> machine_figures(const Groups& groups);

// findings_heat.cpp

/// What heat costs the step and the clock, in the job whose step it stretches most.
std::optional<Finding> about_heat(const Groups&);
/// Hot and cool slots: where they lie furthest apart.
std::optional<Finding> about_slots(const Groups&);
/// The device for which all others of the step wait because heat lowers its clock.
std::optional<int32_t> gpu_slowed_by_heat(const StudyRow&);

}  // namespace triplepoint::report
