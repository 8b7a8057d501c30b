// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// What is impossible about the fabric between a job's nodes: keys of another kind of fabric, rings
/// that do not hold the nodes, groups that cut a leaf switch. Part of diagnose().
std::vector<Diagnosis> diagnose_fabric(const Job&);

}  // namespace triplepoint::spec
