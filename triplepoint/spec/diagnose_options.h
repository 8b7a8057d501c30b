// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// Options that have no effect on this job: overlap of what is not there, recompute of parts the
/// model does not have, training in inference. Part of diagnose().
std::vector<Diagnosis> diagnose_options(const Job&);

}  // namespace triplepoint::spec
