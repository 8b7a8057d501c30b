// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/cluster.h"

namespace triplepoint::spec {

/// Uses only the first `devices` seats of every node. Their links and their share of the adapters
/// stay what they are.
void use_devices(Cluster&, int64_t devices);

}  // namespace triplepoint::spec
