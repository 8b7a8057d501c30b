// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::search {

/// Seconds at full clock, and joules that are spent even at the lowest clock that the power limit
/// leaves a phase (0 where they are not asked for).
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
  Cost forward;
  Cost backward;             // input and weight gradients side by side; zero bubble: one by one
  Cost recompute, selected;  // what full recompute adds, and selective where the plan has it
};

/// What does not depend on how many layers stand where: computed once for all plans that share
/// tensor, context, expert and data parallelism, microbatch, sequence parallelism, FSDP and what
/// hides behind GEMMs.
struct LayerCosts {
  std::array<PartCost, spec::layer_kind_count> layers;  // by LayerKind
  PartCost embedding, prediction, head;
  double resting_power =
      0;  // watts of a device at rest at the lowest clock of any phase; 0: unknown
};

/// Where and under what estimates hold: die temperature of a mean device, host time over the mean.
struct Typical {
  Celsius die;
  double host_factor = 1;
};
/// The mean device at four fifths of the power limit, where sim::solve_steady_state begins; the
/// slowest host of the machine, because every pipeline waits for it.
Typical typical_of(const spec::Job&);

/// Whether a search compares joules; estimates without them need no look at the governor.
enum class EnergyBound { none, lowest_clock };

/// The job's plan decides; its chunks and stages do not matter, of the schedule only whether it is
/// zero bubble, and of recompute only the modules of a selective one.
LayerCosts estimate_layers(const spec::Job&, const Typical&,
                           EnergyBound = EnergyBound::lowest_clock);
/// What the modules of selective recompute add, without joules, over what other plans found.
void estimate_selected(const spec::Job&, const Typical&, LayerCosts&);

/// Parts of a model that a bound counts: kinds of layers of which there are many, or all.
enum class CountedParts { many_layers, all };

/// Kinds of layers of which there are many, nothing else: for plans that differ from the job's in
/// their overlaps alone; without recompute, without joules.
std::vector<LayerCosts> estimate_many_layers(const spec::Job&, const Typical&,
                                             const std::vector<spec::Plan>& overlaps);

/// What no plan can beat: of a step, seconds and joules of all devices.
struct StepBound {
  double time = 0, energy = 0;
};
/// Whether a plan of this bound is asked for; plans of a higher one are not either.
using MayWin = std::function<bool(const StepBound&)>;

/// How a pipeline's layers lie, as the bound reads it; one per (layout, split).
struct StageParts {
  std::array<double, spec::layer_kind_count> layers{}, recomputed{};  // by LayerKind
  double predictions = 0;
  bool embedding = false, head = false;
};
struct PipelineParts {
  std::vector<StageParts> stages;  // all chunks together
  std::vector<StageParts> firsts;  // chunk 0 of each stage
};
PipelineParts count_parts(const spec::Job&,
                          const std::vector<std::vector<workload::ChunkLayers>>& layout);

/// Sends of one pipeline without shared links: [stage], seconds; 0 where nothing is sent.
struct SendCosts {
  std::vector<double> next, previous;
};
SendCosts estimate_sends(const spec::Job&, const Typical&);

/// What a step's end costs on each stage, when all of it that may hide does.
struct EndCost {
  double gradients = 0, hidden_gradients = 0;  // exposed whatever runs; hides behind a backward
  double after = 0;                            // norm, optimizer, exposed parameter gather
  double hidden_parameters = 0;                // hides behind a forward
};
std::vector<EndCost> estimate_epilogues(const spec::Job&);

/// Everything the bound needs besides the plan's numbers.
struct BoundInputs {
  const LayerCosts& layers;
  const PipelineParts& parts;
  const SendCosts& sends;
  const std::vector<EndCost>& ends;
  double resting_power = 0;  // watts that a device draws at least, whatever it does
};

/// Lower bound of the schedule-accurate step.
///
///   f_s, b_s   stage s, one microbatch: sums over its layers at full clock, one host gap each
///   path(s) =  start + sum_{j<s} (f_j(chunk 0) + send_j)                first input arrives
///            + m (f_s + b_s) + blocking sends                           its own work
///            + sum_{j<s} (b_j(chunk 0) + send_{j+1})                    last gradient returns
///   step >= max_s path(s) + what of the end cannot hide
///
/// m: microbatches. Zero bubble: the last input gradient may precede weight gradients, so the
/// return is left out. Exact for equal stages without blocking sends; waiting on shared links,
/// lower clocks and the bubbles of unequal stages only add to it.
/// Energy: what every phase adds at the lowest clock of any to the power of a device at rest at
/// that clock, and this power for the bound time.
StepBound bound_step(const spec::Job& job, const BoundInputs& inputs);

/// What of a stage's memory a bound counts: states and buffers; activations at the end of the
/// warm-up, too.
enum class MemoryBound { states, warm_up };

/// Whether some GPU of the job holds more than `usable` at least: one of the first or the last
/// stage, at the cost of one stage where the first decides. The job's plan decides; under `states`
/// its recompute and schedule do not.
bool exceeds_memory(const spec::Job&, const std::vector<std::vector<workload::ChunkLayers>>& layout,
                    MemoryBound, Bytes usable);

}  // namespace triplepoint::search
