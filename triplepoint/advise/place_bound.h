// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::advise {

/// Pass times that no temperature can beat, for every number of layers a stage may have.
///
/// A step within the limit needs its passes' energy within that time, and so some mean power: dies
/// are taken as warm as nine tenths of it makes them. They are at least that warm; leakage only
/// grows from there, so a governor's clock is at most the one found here and a pass takes at least
/// as long. Each stage's group moves with its slowest device, as in sim/hardware_variation.h.
class ColdestPasses {
 public:
  /// For stages of `layers` layers, in steps of at most `limit` seconds.
  ColdestPasses(const spec::Job& job, int64_t least_layers, int64_t most_layers, double limit);

  struct Pass {
    double forward = 0, backward = 0;  // s; one microbatch, recompute and weight gradient included
    double send_next = 0, send_previous = 0;  // s; boundary tensors, on unshared links
    double sync = 0;                          // s; what shows of the gradient reduction
    double end = 0;  // s; norm, optimizer, and parameters that nothing hides
  };
  /// Of a stage on one pipeline; layers between the limits.
  const Pass& at(size_t pipeline, size_t stage, int64_t layers) const;
  size_t pipelines() const { return passes_.front().size(); }
  size_t stages() const;

 private:
  int64_t least_;
  std::vector<std::vector<std::vector<Pass>>> passes_;  // [layers][pipeline][stage]
};

/// Where the passes of a stage on a pipeline come from: [pipeline][stage].
using PassChoice = std::vector<std::vector<const ColdestPasses*>>;

/// Shortest time in which any pipeline schedule can run these layers:
///
///   max over pipelines and stages s of
///     start + sum_{j<s} (F_j + gap + next_j)
///           + m (F_s + B_s) + (2 m - 1) gap + [m next_s + (m - 1) previous_s]
///           + max(sync_s, previous_s + sum_{j<s} (B_j + previous_j) + sync_0)  +  end_s
///
/// F, B, next, previous (sends), sync, end: of ColdestPasses; m: microbatches; gap: of the host,
/// after a pass. The first input has to come through the stages before, the last gradient has to go
/// back through them, and the norm waits for all. In brackets: where sends block the stage's
/// stream. Slower passes hide more of a reduction, but never more than they take longer, so what
/// shows behind the fastest belongs to a bound. Without virtual stages only.
double placement_bound(const spec::Job& job, const PassChoice& passes,
                       const std::vector<int64_t>& layers);

/// All ways to lay the model's layers over the stages whose bound is below `limit`, lowest bound
/// first. Branches are cut as soon as what is laid, or the least that is left, exceeds the limit.
struct BoundedLayers {
  double bound = 0;
  std::vector<int64_t> layers;
};
struct LayerSearch {
  std::vector<BoundedLayers> found;
  int64_t looked_at = 0;  // partial layouts
  bool complete = true;   // false: stopped at LayerLimits::found
};
struct LayerLimits {
  int64_t fewest = 1, most = 1;  // layers of a stage; what ColdestPasses know
  double time = 0;               // s
  size_t found = 1;
};
LayerSearch layers_below(const spec::Job& job, const PassChoice& passes, const LayerLimits& limits);

}  // namespace triplepoint::advise
