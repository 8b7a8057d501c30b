// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// What a job needs to know of its cluster and does not: numbers of the GPU that no source states,
/// seats, packages, orders of devices and nodes that are no permutations. Part of diagnose().
std::vector<Diagnosis> diagnose_cluster(const Job&);

}  // namespace triplepoint::spec
