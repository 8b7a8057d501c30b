// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"
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
  FaultKind kind = FaultKind::power;  // what fails
  std::optional<int64_t> gpu;         // device of the cluster, node by node
  std::optional<int64_t> node;        // all devices of this node
  double share = 1;                   // what is left, or the factor of heat_path and host
  Kelvins rise;                       // of the inlet
  Seconds begin;                      // after the start of the run
  std::optional<Seconds> end;         // absent: to the end
  // Flapping: on for the first half of each period. node_lost: time between checkpoints.
  std::optional<Seconds> period;
  Seconds restart;  // node_lost
  friend bool operator==(const Fault&, const Fault&) = default;
};

/// Reads a fault as one line: [gpu=N,|node=N,]WHAT[,every=TIME][@BEGIN[..END]].
///
///   gpu=3,power=0.25@120s..300s   a quarter of its power limit is left for three minutes
///   node=1,fan=0.3@60s            a fan wall fails
///   inlet=+10@5min..20min         a heat wave; kelvins
///   gpu=5,heat_path=2             a loose sink
///   node=2,link=0.1,every=2s      flapping NICs: on for the first half of each 2 s
///   node=0,host=3                 a noisy neighbour
///   node=1,lost=5min,every=30min@70min   lost, 5 min to restart; checkpoints 30 min apart
Result<Fault> parse_fault(std::string_view text);

/// The shortest such line which reads back as the same fault.
std::string to_text(const Fault&);

/// A flapping fault is on in the even halves of its period.
bool is_on(const Fault&, Seconds now);
/// Its first edge after `now`; a lost node's restart counts as the end.
std::optional<Seconds> next_edge(const Fault&, Seconds now);

}  // namespace triplepoint::spec
