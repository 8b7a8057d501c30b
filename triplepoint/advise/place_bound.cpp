// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place_bound.h"

#include <algorithm>
#include <numeric>

#include "triplepoint/base/result.h"

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/step_at_clocks.h"
#include "triplepoint/sim/step_model.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::advise {
namespace {

/// The air at every die while nothing is computed.
std::vector<Celsius> coldest_dies(const spec::Job& job, const sim::HardwareVariation& machine) {
  const spec::Chassis chassis = job.chassis();
  const size_t per_node = static_cast<size_t>(job.cluster.gpus_per_node);
  std::vector<Celsius> dies;
  for (size_t d = 0; d < static_cast<size_t>(job.cluster.num_gpus()); ++d) {
    Kelvins offset;
    if (d % per_node < chassis.slots.size()) offset = chassis.slots[d % per_node].inlet_offset;
    dies.push_back(machine.inlet[d / per_node] + offset);
  }
  return dies;
}

Seconds slowest_of(const sim::ClockState& clocks, const sim::LockstepGroup& group, size_t use) {
  Seconds slowest;
  for (const int64_t device : group.devices)
    slowest = std::max(slowest, clocks.devices[static_cast<size_t>(device)][use].duration);
  return slowest;
}

ColdestPasses::Pass pass_of(const sim::StepModel& model, const sim::ClockState& clocks,
                            size_t pipeline, const sim::LockstepGroup& group) {
  const size_t stage = static_cast<size_t>(group.stage);
  ColdestPasses::Pass pass;
  for (size_t u = 0; u < model.uses[stage].size(); ++u) {
    const bool is_forward = model.uses[stage][u].kind == workload::ActionKind::forward;
    (is_forward ? pass.forward : pass.backward) += slowest_of(clocks, group, u) / unit::s;
  }
  const sim::EpilogueEstimate& end = model.epilogue_of(stage);
  const size_t last = model.use_of(stage, model.graph.programs[stage].back());
  pass.sync = sim::exposed_time(end.gradient_sync, slowest_of(clocks, group, last)) / unit::s;
  if (model.graph.stages > 1) {
    const sim::StageBoundaries& boundary = model.sends.boundaries[pipeline][stage];
    // What leaves together is one send of several microbatches.
    pass.send_next =
        (boundary.next.latency + boundary.next.transfer) / unit::s / boundary.next.microbatches;
    pass.send_previous = (boundary.previous.latency + boundary.previous.transfer) / unit::s /
                         boundary.previous.microbatches;
  }
  constexpr Seconds everything = 1e9 * unit::s;
  pass.end = (sim::total_time(end.gradient_norm) + sim::total_time(end.optimizer) +
              sim::exposed_time(end.parameter_sync, everything)) /
             unit::s;
  return pass;
}

/// What a device draws at least in a step of at most `limit` seconds. In a pass it draws what was
/// chosen for cold dies or, where that is the power limit, stays within a clock step of it; a tenth
/// is left for that and for neighbours with fewer layers, whose heat warms its air.
std::vector<Watts> least_powers(const sim::StepModel& model, const sim::ClockState& clocks,
                                double limit) {
  constexpr double kept = 0.9;
  std::vector<Watts> powers(clocks.devices.size());
  for (const sim::Pipeline& pipeline : model.pipelines)
    for (const sim::LockstepGroup& group : pipeline.groups) {
      const auto& uses = model.uses[static_cast<size_t>(group.stage)];
      for (const int64_t device : group.devices)
        for (size_t u = 0; u < uses.size(); ++u) {
          const sim::DevicePhase& phase = clocks.devices[static_cast<size_t>(device)][u];
          const double share =
              static_cast<double>(uses[u].count) * (phase.duration / unit::s) / limit;
          powers[static_cast<size_t>(device)] += kept * share * phase.power;
        }
    }
  for (Watts& power : powers)
    power = std::min(power, model.job.power_limit());
  return powers;
}

/// A model with `layers` layers in every stage.
spec::Job with_even_layers(spec::Job job, int64_t layers) {
  job.plan.layers_per_stage.clear();
  job.model.num_layers = layers * job.plan.pipeline_parallel_size;
  return job;
}

}  // namespace

ColdestPasses::ColdestPasses(const spec::Job& job, int64_t least_layers, int64_t most_layers,
                             double limit)
    : least_(least_layers) {
  TPT_EXPECT(least_layers >= 1 && most_layers >= least_layers);
  for (int64_t layers = least_layers; layers <= most_layers; ++layers) {
    const spec::Job even = with_even_layers(job, layers);
    const workload::WorkGraph graph = workload::build_work_graph(even);
    sim::StepModel model(even, graph);
    const sim::ClockState cold = sim::choose_clocks(model, coldest_dies(even, model.hardware));
    sim::ClusterHeat heat(even, model.hardware);
    heat.set_conditions(model.conditions());
    heat.solve_steady_state(least_powers(model, cold, limit));
    const sim::ClockState clocks = sim::choose_clocks(model, heat.dies());
    auto& pipelines = passes_.emplace_back();
    for (size_t p = 0; p < model.pipelines.size(); ++p) {
      std::vector<ColdestPasses::Pass>& stages = pipelines.emplace_back();
      for (const sim::LockstepGroup& group : model.pipelines[p].groups)
        stages.push_back(pass_of(model, clocks, p, group));
    }
  }
}

size_t ColdestPasses::stages() const {
  return passes_.front().front().size();
}

const ColdestPasses::Pass& ColdestPasses::at(size_t pipeline, size_t stage, int64_t layers) const {
  return passes_[static_cast<size_t>(layers - least_)][pipeline][stage];
}

namespace {

/// The bound, stage by stage, so that a search can leave early.
class PathBound {
 public:
  PathBound(const spec::Job& job, const PassChoice& passes)
      : passes_(passes),
        microbatches_(static_cast<double>(job.num_microbatches())),
        gap_(job.stack.microbatch_gap / unit::s),
        start_(job.stack.step_overhead / unit::s),
        blocking_(!job.plan.overlap_pipeline),
        // The last input gradient may precede weight gradients where those are apart.
        returns_(job.plan.schedule != spec::Schedule::zero_bubble),
        before_(passes.size()) {}

  /// Bound through stage `stage` with `layers` layers, given the stages before.
  double through(size_t stage, int64_t layers) const {
    double bound = 0;
    for (size_t p = 0; p < before_.size(); ++p) {
      const ColdestPasses::Pass& pass = passes_[p][stage]->at(p, stage, layers);
      const double sends =
          blocking_ ? microbatches_ * pass.send_next + (microbatches_ - 1) * pass.send_previous : 0;
      const double own =
          microbatches_ * (pass.forward + pass.backward) + (2 * microbatches_ - 1) * gap_ + sends;
      const PrefixSums& before = before_[p];
      const double back = returns_ ? pass.send_previous + before.backward + before.first_sync : 0;
      const double after = std::max(pass.sync, back);
      bound = std::max(bound, start_ + before.forward + own + after + pass.end);
    }
    return bound;
  }
  void add(size_t stage, int64_t layers, double sign) {
    for (size_t p = 0; p < before_.size(); ++p) {
      const ColdestPasses::Pass& pass = passes_[p][stage]->at(p, stage, layers);
      before_[p].forward += sign * (pass.forward + gap_ + pass.send_next);
      if (!returns_) continue;
      before_[p].backward += sign * (pass.backward + pass.send_previous);
      if (stage == 0) before_[p].first_sync += sign * pass.sync;
    }
  }

 private:
  struct PrefixSums {  // sums over the stages before
    double forward = 0, backward = 0, first_sync = 0;
  };
  const PassChoice& passes_;
  double microbatches_, gap_, start_;
  bool blocking_, returns_;
  std::vector<PrefixSums> before_;  // per pipeline
};

class LayerWalk {
 public:
  LayerWalk(const spec::Job& job, const PassChoice& passes, const LayerLimits& limits)
      : bound_(job, passes),
        limit_(limits.time),
        fewest_(limits.fewest),
        most_found_(limits.found) {
    const size_t stages = static_cast<size_t>(job.plan.pipeline_parallel_size);
    // Upper limit of layers of a stage without any stage before it.
    most_.assign(stages, fewest_ - 1);
    for (size_t s = 0; s < stages; ++s)
      while (most_[s] < limits.most && bound_.through(s, most_[s] + 1) < limits.time)
        ++most_[s];
    room_.assign(stages + 1, 0);
    for (size_t s = stages; s-- > 0;)
      room_[s] = room_[s + 1] + most_[s];
    layers_.assign(stages, 0);
    walk(0, job.model.num_layers, 0);
    std::stable_sort(
        search.found.begin(), search.found.end(),
        [](const BoundedLayers& a, const BoundedLayers& b) { return a.bound < b.bound; });
  }

  LayerSearch search;

 private:
  void walk(size_t stage, int64_t left, double bound) {
    if (stage == layers_.size()) {
      if (left == 0) search.found.push_back({bound, layers_});
      return;
    }
    const int64_t after = room_[stage + 1];
    const int64_t stages_after = static_cast<int64_t>(layers_.size() - stage) - 1;
    const int64_t least = std::max(fewest_, left - after);
    for (int64_t n = least; n <= std::min(most_[stage], left - fewest_ * stages_after); ++n) {
      if (search.found.size() >= most_found_) {
        search.complete = false;
        return;
      }
      ++search.looked_at;
      const double through = std::max(bound, bound_.through(stage, n));
      if (through >= limit_) break;  // more layers take longer
      layers_[stage] = n;
      bound_.add(stage, n, 1);
      walk(stage + 1, left - n, through);
      bound_.add(stage, n, -1);
    }
  }

  PathBound bound_;
  double limit_;
  int64_t fewest_;
  size_t most_found_;
  std::vector<int64_t> most_, room_, layers_;
};

}  // namespace

double placement_bound(const spec::Job& job, const PassChoice& passes,
                       const std::vector<int64_t>& layers) {
  PathBound path(job, passes);
  double bound = 0;
  for (size_t s = 0; s < layers.size(); ++s) {
    bound = std::max(bound, path.through(s, layers[s]));
    path.add(s, layers[s], 1);
  }
  return bound;
}

LayerSearch layers_below(const spec::Job& job, const PassChoice& passes,
                         const LayerLimits& limits) {
  return LayerWalk(job, passes, limits).search;
}

}  // namespace triplepoint::advise
