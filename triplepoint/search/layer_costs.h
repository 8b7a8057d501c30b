// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "triplepoint/spec/job.h"

namespace triplepoint::search {

/// Seconds at full clock, and joules that are spent even at the lowest.
struct Cost {
  double time = 0, energy = 0;
  Cost& operator+=(const Cost& other) {
    time += other.time;
    energy += other.energy;
    return *this;
  }
  friend Cost operator*(double count, Cost cost) {
    return {count * cost.time, count * cost.energy};
  }
};

/// One layer, or one end of the model, in each pass over one microbatch.
struct PartCost {
  Cost forward, backward;                // backward: input and weight gradient side by side
  Cost backward_input, backward_weight;  // apart, for zero bubble
  Cost recompute, selected;              // what full and selective recompute add
};

/// What does not depend on how many layers stand where: computed once for all plans that share
/// tensor, context, expert and data parallelism, microbatch, sequence parallelism, FSDP and what
/// hides behind GEMMs.
struct LayerCosts {
  std::array<PartCost, spec::layer_kind_count> layers;  // by LayerKind
  PartCost embedding, prediction, head;
};

/// Where and under what estimates hold: die temperature of a mean device, host time over the mean.
struct Typical {
  Celsius die;
  double host_factor = 1;
};
/// The mean device at four fifths of the power limit, where sim::settle begins; the slowest host of
/// the machine, because every pipeline waits for it.
Typical typical_of(const spec::Job&);

/// The job's plan decides; its recompute, schedule, chunks and stages do not matter.
LayerCosts estimate_layers(const spec::Job&, const Typical&);

}  // namespace triplepoint::search
