// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/fault.h"

namespace triplepoint::spec {

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

}  // namespace triplepoint::spec
