// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triplepoint/base/units.h"

namespace triplepoint::spec {

/// What goes wrong, or is done by the room, while a job runs.
enum class FaultKind {
  power,      // `share` of the power limit is left (a power brake, a rack's cap)
  fan,        // `share` of the full air or coolant flow is the most that can be had
  inlet,      // air or coolant comes in `rise` warmer (a heat wave, a hot aisle)
  heat_path,  // `share` times the thermal resistance from die to air; what comes on top comes at
              // the sink (dust, aged paste, a loose sink)
  link,       // `share` of the links' bandwidth is left, scale-up of a GPU, scale-out of a node
  host,       // `share` times the host's time per kernel (a noisy neighbour)
  node_lost   // the job stands still for `restart` and does again what its checkpoint lacked
};

/// One disturbance. Where `gpu` and `node` are absent it holds for the whole cluster.
struct Fault {
  FaultKind kind = FaultKind::power;
  std::optional<int64_t> gpu;   // device of the cluster, node by node
  std::optional<int64_t> node;  // all devices of this node
  double share = 1;
  Kelvins rise;  // inlet
  Seconds begin;
  std::optional<Seconds> end;  // absent: to the end
  // Flapping: on for the first half of each period. node_lost: time between checkpoints.
  std::optional<Seconds> period;
  Seconds restart;  // node_lost
  friend bool operator==(const Fault&, const Fault&) = default;
};

}  // namespace triplepoint::spec
