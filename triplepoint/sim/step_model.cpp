// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/step_model.h"

// What a step consists of: phases with their tables, epilogues, sends, and the conditions they hold
// under.
//
// Estimates are made once per distinct share of link bandwidth and kept: faults that come and go
// select among them (LockstepGroup::links). Host factors need no new estimates, as a table takes
// the factor when it is asked. Sends and their wiring are made again with every change of links,
// because which links can bind depends on all of them.
//
// The tables are the reason why a step of a large cluster is cheap: a phase is estimated once per
// (chunk work, action kind, link shares, clock index), not once per device. With u uses, L distinct
// link shares and K clock steps there are L u tables of K + 1 points, whatever the number of
// devices.
//
// Invariants: tables_ holds link_shares_.size() blocks of phases_.size() tables in the order of
// phases_, epilogues_ likewise, so that an index is a multiplication (table_index, epilogue_of).
// Blocks are only appended, never removed: a fault that comes back finds its block again.

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/result.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/sim/simulate_schedule.h"

namespace triplepoint::sim {
namespace {

// With fewer, a round is over before threads have begun.
constexpr int64_t fewest_devices_for_threads = 1024;

}  // namespace

StepModel::StepModel(const spec::Job& the_job, workload::WorkGraph the_graph)
    : job(the_job),
      graph(std::move(the_graph)),
      hardware(draw_hardware_variation(job)),
      pipelines(form_pipelines(job, graph, hardware)) {
  find_uses();
  find_places();
  if (has_power()) {
    const spec::GovernorCoefficients& governor = *job.cluster.gpu.governor;
    const Hertz max_clock = *job.cluster.gpu.max_clock;
    step_ratio_ = governor.clock_step / max_clock;
    clock_steps_ = clock::steps_to_lowest_clock(governor, max_clock);
    clocks_ = clock_scale(job.cluster.gpu, clock_steps_);
  }
  if (job.cluster.num_gpus() >= fewest_devices_for_threads) threads_ = available_threads();
  set_conditions(lasting_conditions(job));
}

/// A table per distinct (chunk work, action kind); per stage, which of them it runs and how often.
void StepModel::find_uses() {
  constexpr size_t none = ~size_t{0};
  std::vector<size_t> table_of(graph.works.size() * action_kind_count, none);
  uses.resize(as_size(graph.stages));
  for (size_t stage = 0; stage < uses.size(); ++stage) {
    for (const workload::Action& action : graph.programs[stage]) {
      const size_t work = work_of(stage, action.chunk);
      size_t& table = table_of[work * action_kind_count + as_size(action.kind)];
      if (table == none) {
        table = phases_.size();
        phases_.emplace_back(work, action.kind);
      }
      const auto use = std::ranges::find_if(
          uses[stage], [&](const PhaseUse& candidate) { return candidate.table == table; });
      if (use != uses[stage].end())
        ++use->count;
      else
        uses[stage].push_back({.table = table, .work = work, .kind = action.kind, .count = 1});
    }
  }
}

void StepModel::find_places() {
  places_.resize(as_size(job.cluster.num_gpus()));
  for (size_t p = 0; p < pipelines.size(); ++p)
    for (size_t s = 0; s < pipelines[p].groups.size(); ++s)
      for (const int64_t device : pipelines[p].groups[s].devices)
        places_[as_size(device)] = {p, s};
}

/// Index of these shares; estimates them the first time.
size_t StepModel::estimate_with(const LinkShares& shares) {
  const auto known = std::ranges::find(link_shares_, shares);
  if (known != link_shares_.end()) return as_size(known - link_shares_.begin());
  // The share scales bandwidth alone. Latency, launch and protocol steps do not change when a link
  // loses lanes.
  spec::Job slowed = job;
  slowed.cluster.scale_up.bandwidth *= shares.scale_up;
  slowed.cluster.scale_out.nic_bandwidth *= shares.scale_out;
  for (const auto& [work, kind] : phases_)
    tables_.emplace_back(estimate_action(slowed, graph, graph.works[work], kind), job.stack,
                         clock_steps_, step_ratio_);
  // A table computes its points when they are asked for, which is a data race between threads; so
  // all points are computed before threads share it.
  if (threads_ > 1)
    for (PhaseTable& table : tables_)
      table.fill();
  for (const workload::StepWork& work : graph.step_works)
    epilogues_.push_back(estimate_epilogue(slowed, graph, work));
  link_shares_.push_back(shares);
  return link_shares_.size() - 1;
}

/// A ring goes as fast as its slowest link.
StepModel::LinkShares StepModel::shares_of(const LockstepGroup& group) const {
  LinkShares least;
  for (const int64_t device : group.devices) {
    const int64_t node = device / job.cluster.gpus_per_node;
    least.scale_up = std::min(least.scale_up, conditions_.scale_up_share[as_size(device)]);
    least.scale_out = std::min(least.scale_out, conditions_.scale_out_share[as_size(node)]);
  }
  return least;
}

bool StepModel::set_conditions(const Conditions& conditions) {
  // Limits, locks, inlets, fans and sinks act on clocks and temperatures only: equal clocks then
  // still give an equal step, and no table or wiring has to be made again.
  const bool same = wiring_ && conditions.scale_up_share == conditions_.scale_up_share &&
                    conditions.scale_out_share == conditions_.scale_out_share &&
                    conditions.host_factor == conditions_.host_factor;
  conditions_ = conditions;
  if (same) return false;
  std::vector<LinkShares> of_stage(as_size(graph.stages));
  for (Pipeline& pipeline : pipelines)
    for (LockstepGroup& group : pipeline.groups) {
      // Each layer is launched by all hosts of the group, and a collective in it waits for the last
      // one.
      group.host_factor = 0;
      for (const int64_t device : group.devices) {
        const auto node = as_size(device / job.cluster.gpus_per_node);
        group.host_factor =
            std::max(group.host_factor, conditions_.host_factor[node] * hardware.host_factor[node]);
      }
      const LinkShares shares = shares_of(group);
      group.links = estimate_with(shares);
      // Gradient reduction spans all replicas of a stage: its ring takes the slowest link of any of
      // them.
      LinkShares& stage = of_stage[as_size(group.stage)];
      stage.scale_up = std::min(stage.scale_up, shares.scale_up);
      stage.scale_out = std::min(stage.scale_out, shares.scale_out);
    }
  epilogue_links_.clear();
  for (const LinkShares& shares : of_stage)
    epilogue_links_.push_back(estimate_with(shares));
  sends = estimate_boundaries(job, graph, pipelines, &conditions_);
  wiring_.emplace(sends.boundaries, sends.capacities,
                  job.plan.overlap_pipeline ? SendMode::overlapped : SendMode::blocking);
  return true;
}

size_t StepModel::use_of(size_t stage, const workload::Action& action) const {
  const size_t work = work_of(stage, action.chunk);
  for (size_t u = 0; u < uses[stage].size(); ++u)
    if (uses[stage][u].work == work && uses[stage][u].kind == action.kind) return u;
  TPT_EXPECT(false);
  return 0;
}

spec::GpuLoad StepModel::exchange_after(size_t pipeline, size_t stage,
                                        workload::ActionKind kind) const {
  const Direction way =
      kind == workload::ActionKind::forward ? Direction::next : Direction::previous;
  return exchange_load(job.stack, sends.estimates[pipeline][stage][as_size(way)], wiring_->mode(),
                       kind);
}

int StepModel::threads_for(size_t pieces) const {
  return static_cast<int64_t>(pieces) < fewest_devices_for_threads ? 1 : threads_;
}

// What a stage does once a step, after its last microbatch: gradient reduction, gradient norm,
// optimizer, parameter gather. Every op is estimated by itself at full clock; ops of one list
// follow each other, so lists add up. The only overlap is with the passes before and behind
// (exposed_time): ops that hide share one stream, so the sum of them is what has to fit behind the
// cover.

EpilogueEstimate estimate_epilogue(const spec::Job& job, const workload::WorkGraph& graph,
                                   const workload::StepWork& work) {
  const auto estimate_all = [&](const std::vector<spec::Op>& ops) {
    std::vector<OpEstimate> estimate;
    estimate.reserve(ops.size());
    for (const spec::Op& op : ops)
      estimate.push_back(estimate_op(job, graph, op));
    return estimate;
  };
  EpilogueEstimate end{.gradient_sync = estimate_all(work.gradient_sync),
                       .gradient_norm = estimate_all(work.gradient_norm),
                       .optimizer = estimate_all(work.optimizer),
                       .parameter_sync = estimate_all(work.parameter_sync)};
  for (const OpEstimate& estimate : end.gradient_sync)
    end.waits_for_replicas |=
        estimate.op->is_communication() && graph.grid.shape(estimate.op->group).ranks > 1;
  return end;
}

Seconds exposed_time(const std::vector<OpEstimate>& ops, Seconds cover) {
  Seconds exposed, hidden;
  for (const OpEstimate& estimate : ops)
    (estimate.hidden ? hidden : exposed) += estimate.at(1);
  return exposed + std::max(Seconds(), hidden - cover);
}

Seconds total_time(const std::vector<OpEstimate>& ops) {
  return sum_of(ops, [&](const OpEstimate& estimate) { return estimate.at(1); });
}

}  // namespace triplepoint::sim
