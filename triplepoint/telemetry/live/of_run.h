// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/live/snapshot.h"

namespace triplepoint::telemetry {

/// The moment of a run's last reading.
Instant last_reading(const run::Run&);

/// What a run's series said at a moment, a snapshot a node. Readings older than some seconds are
/// left out of a measured run; those of a simulated one hold.
std::vector<Snapshot> snapshots_of(const run::Run&, Instant at);

}  // namespace triplepoint::telemetry
