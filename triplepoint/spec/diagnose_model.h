// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// Whether the model's parts belong together: its pattern of layers, windows, state-space layers,
/// latent experts and multi-token prediction; and whether the plan can split and train them.
std::vector<Diagnosis> diagnose_model(const Job&);

}  // namespace triplepoint::spec
