// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// What is impossible about a job's room, limits and faults. Part of diagnose().
std::vector<Diagnosis> diagnose_environment(const Job&);

/// Ranks that share the cores of one machine have no power, heat and clock of their own: such a job
/// is predicted without them.
bool predicted_without_power(const Job&);

}  // namespace triplepoint::spec
