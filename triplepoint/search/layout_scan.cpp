// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/layout_scan.h"

#include <algorithm>

#include "triplepoint/spec/names.h"

#include "triplepoint/sim/device_phase.h"

namespace triplepoint::search {

Bytes usable_memory(const spec::Job& job, const Limits& limits) {
  return job.cluster.gpu.memory.value_or(Bytes()) - limits.headroom;
}

LayoutScan::LayoutScan(const Space& space, const Limits& limits, Typical typical,
                       EnergyBound energy)
    : space_(space),
      typical_(typical),
      energy_(energy),
      usable_(usable_memory(space.base(), limits)),
      job_(space.base()) {
  spec::GpuLoad rest;
  rest.duration = 1 * unit::s;
  resting_power_ = sim::typical_power(job_, rest, 0, typical.die) / unit::W;
}

void LayoutScan::enter(const Layout& layout) {
  const auto group = [](const Layout& of) {
    return std::tuple(of.rank_order, of.tensor, of.context, of.expert, of.expert_tensor);
  };
  const bool same_group = group(layout) == group(entered_);
  if (same_group && layout.pipeline == entered_.pipeline) return;
  entered_ = layout;
  sharded_layers_.clear();
  sharded_bare_.clear();
  sends_.clear();
  epilogues_.clear();
  const Shapes shapes = shapes_in_layers(layout);
  const bool same_ranks = layout.rank_order == spec::RankOrder::tp_cp_ep_dp_pp;
  if (!same_group || !same_ranks || shapes != shapes_) {
    layers_.clear();
    bare_.clear();
  }
  shapes_ = shapes;
}

LayoutScan::Shapes LayoutScan::shapes_in_layers(const Layout& layout) {
  set_layout(layout, job_.plan);
  const workload::RankGrid grid(job_);
  using enum spec::GroupKind;
  return {grid.shape(tensor), grid.shape(context), grid.shape(expert), grid.shape(expert_tensor)};
}

namespace {

/// Overlaps that reach into layers, in the order in which bare layers are estimated.
constexpr uint32_t overlap_choices[] = {0, overlaps_tensor, overlaps_expert,
                                        overlaps_tensor | overlaps_expert};

/// Which of them a state may have, a bit each.
uint32_t choices_of(const StateChoice& state) {
  uint32_t choices = 0;
  for (size_t choice = 0; choice < std::size(overlap_choices); ++choice)
    for (const uint32_t overlap : state.overlaps)
      if ((overlap & (overlaps_tensor | overlaps_expert)) == overlap_choices[choice])
        choices |= 1U << choice;
  return choices;
}

void lower(std::optional<StepBound>& least, const StepBound& bound) {
  if (!least) least = bound;
  least->time = std::min(least->time, bound.time);
  least->energy = std::min(least->energy, bound.energy);
}

}  // namespace

/// What tells estimates of bare layers apart within a group of layouts.
LayoutScan::BareKey LayoutScan::bare_key(const Layout& layout, const StateChoice& state,
                                         spec::Schedule schedule) {
  const bool zero_bubble = schedule == spec::Schedule::zero_bubble;
  const bool fsdp = state.sharding == spec::Sharding::parameters;
  return {layout.micro, state.sequence_parallel, zero_bubble, state.reshard, state.group, fsdp};
}

const LayerCosts& LayoutScan::bare_layers(const Layout& layout, const StateChoice& state,
                                          size_t choice, CountedParts counted) {
  if (counted == CountedParts::many_layers) return many_layers_of(layout, state)[choice];
  set_overlaps(overlap_choices[choice], job_.plan);
  return layers_of(layout, state, overlap_choices[choice]);
}

std::optional<StepBound> LayoutScan::bound(size_t number, CountedParts counted) {
  const Layout& layout = space_.layouts()[number];
  enter(layout);
  const Variants variants = space_.variants(layout);
  std::optional<StepBound> least;
  for (VariantAt at; at.split < variants.splits.size(); ++at.split) {
    std::map<BareKey, uint32_t> bounded;  // choices of overlaps
    ChunkLayout chunks;
    PipelineParts parts;
    // Those that share states over more ranks come last, and leave less to do for the others.
    for (at.state = variants.states.size(); at.state-- > 0;) {
      const StateChoice& state = variants.states[at.state];
      const uint32_t choices = choices_of(state);
      const auto left_of = [&](spec::Schedule schedule) {
        return choices & ~bounded[bare_key(layout, state, schedule)];
      };
      if (std::ranges::all_of(variants.schedules, [&](auto s) { return left_of(s) == 0; }))
        continue;
      enter_bare(layout, variants, at);
      if (chunks.empty()) {  // the same for all states
        chunks = workload::lay_out_layers(job_);
        parts = count_parts(job_, chunks);
      }
      if (exceeds_memory(job_, chunks, MemoryBound::states, usable_)) continue;
      for (const spec::Schedule schedule : variants.schedules) {
        job_.plan.schedule = schedule;
        const uint32_t left = left_of(schedule);
        for (size_t choice = 0; choice < std::size(overlap_choices); ++choice)
          if ((left >> choice & 1) != 0)
            lower(least, bound_bare(bare_layers(layout, state, choice, counted), parts));
        bounded[bare_key(layout, state, schedule)] |= left;
      }
    }
  }
  return least;
}

/// Without recompute.
void LayoutScan::enter_bare(const Layout& layout, const Variants& variants, const VariantAt& at) {
  job_.plan = space_.plan(layout, variants, at);
  RecomputeChoice().set(job_.plan);
}

/// Without sends and the end of the step.
StepBound LayoutScan::bound_bare(const LayerCosts& layers, const PipelineParts& parts) const {
  const size_t stages = parts.stages.size();
  const SendCosts no_sends{std::vector<double>(stages), std::vector<double>(stages)};
  const std::vector<EndCost> no_ends(stages);
  return bound_step(job_, {.layers = layers,
                           .parts = parts,
                           .sends = no_sends,
                           .ends = no_ends,
                           .resting_power = resting_power_});
}

int64_t LayoutScan::visit(size_t number, const MayWin& may_win, const Visit& visit) {
  const Layout& layout = space_.layouts()[number];
  enter(layout);
  const Variants variants = space_.variants(layout);
  int64_t index = space_.first_of(number), dropped = 0;
  for (VariantAt at; at.state < variants.states.size(); ++at.state) {
    for (at.split = 0; at.split < variants.splits.size(); ++at.split) {
      dropped += visit_split(layout, variants, at, index, may_win, visit);
      index += variants.count_of(variants.states[at.state]);
    }
  }
  return dropped;
}

int64_t LayoutScan::visit_split(const Layout& layout, const Variants& variants, VariantAt at,
                                int64_t index, const MayWin& may_win, const Visit& visit) {
  const StateChoice& state = variants.states[at.state];
  const auto overlaps = static_cast<int64_t>(state.overlaps.size());
  enter_bare(layout, variants, at);
  const ChunkLayout chunks = workload::lay_out_layers(job_);
  if (exceeds_memory(job_, chunks, MemoryBound::states, usable_)) return variants.count_of(state);
  const PipelineParts bare = count_parts(job_, chunks);
  int64_t dropped = 0;
  for (at.schedule = 0; at.schedule < variants.schedules.size(); ++at.schedule) {
    const auto recomputes = static_cast<int64_t>(variants.recomputes_of(state));
    job_.plan.schedule = variants.schedules[at.schedule];
    RecomputeChoice().set(job_.plan);
    if (!may_win_bare(layout, variants, at, bare, may_win)) {
      index += recomputes * overlaps;
      continue;
    }
    for (at.recompute = 0; at.recompute < variants.recomputes_of(state); ++at.recompute) {
      variants.recomputes[at.recompute].set(job_.plan);
      if (exceeds_memory(job_, chunks, MemoryBound::warm_up, usable_))
        dropped += overlaps;
      else
        visit_overlaps(layout, variants, at, index, count_parts(job_, chunks), visit);
      index += overlaps;
    }
  }
  return dropped;
}

/// Whether any plan of a schedule may, by what it takes without recompute.
bool LayoutScan::may_win_bare(const Layout& layout, const Variants& variants, VariantAt at,
                              const PipelineParts& bare, const MayWin& may_win) {
  const size_t overlaps = variants.states[at.state].overlaps.size();
  for (at.overlap = 0; at.overlap < overlaps; ++at.overlap)
    if (may_win(bound_overlap(layout, variants, at, bare))) return true;
  return false;
}

void LayoutScan::visit_overlaps(const Layout& layout, const Variants& variants, VariantAt at,
                                int64_t index, const PipelineParts& parts, const Visit& visit) {
  const size_t overlaps = variants.states[at.state].overlaps.size();
  for (at.overlap = 0; at.overlap < overlaps; ++at.overlap, ++index)
    visit(at, index, bound_overlap(layout, variants, at, parts));
}

StepBound LayoutScan::bound_overlap(const Layout& layout, const Variants& variants,
                                    const VariantAt& at, const PipelineParts& parts) {
  const StateChoice& state = variants.states[at.state];
  const uint32_t overlap = state.overlaps[at.overlap];
  set_overlaps(overlap, job_.plan);
  const LayerCosts& layers = layers_of(layout, state, overlap);
  return bound_step(job_, {.layers = layers,
                           .parts = parts,
                           .sends = sends_of(layout, state),
                           .ends = ends_of(layout, state, variants.splits[at.split], overlap),
                           .resting_power = std::max(resting_power_, layers.resting_power)});
}

namespace {

/// Modules that selective recompute recomputes, a bit each; 0 without it.
uint32_t recomputed_modules(const spec::Plan& plan) {
  uint32_t bits = 0;
  for (size_t module = 0; module < spec::enum_names<spec::RecomputeModule>.size(); ++module)
    if (plan.recomputes(static_cast<spec::RecomputeModule>(module))) bits |= 1U << module;
  return bits;
}

}  // namespace

const LayoutScan::BareCosts& LayoutScan::many_layers_of(const Layout& layout,
                                                        const StateChoice& state) {
  const BareKey key = bare_key(layout, state, job_.plan.schedule);
  BareTable& known = std::get<5>(key) ? sharded_bare_ : bare_;
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  // Overlaps that no plan has are not estimated.
  const uint32_t possible =
      (state.sequence_parallel ? overlaps_tensor : 0U) | (layout.expert > 1 ? overlaps_expert : 0U);
  std::vector<size_t> choices;
  std::vector<spec::Plan> plans;
  for (size_t choice = 0; choice < std::size(overlap_choices); ++choice) {
    if ((overlap_choices[choice] & ~possible) != 0) continue;
    set_overlaps(overlap_choices[choice], job_.plan);
    choices.push_back(choice);
    plans.push_back(job_.plan);
  }
  const std::vector<LayerCosts> costs = estimate_many_layers(job_, typical_, plans);
  BareCosts& kept = known[key];
  for (size_t i = 0; i < choices.size(); ++i)
    kept[choices[i]] = costs[i];
  return kept;
}

const LayerCosts& LayoutScan::layers_of(const Layout& layout, const StateChoice& state,
                                        uint32_t overlap) {
  const bool zero_bubble = job_.plan.schedule == spec::Schedule::zero_bubble;
  const LayerKey key(layout.micro, state.sequence_parallel, zero_bubble, state.reshard, state.group,
                     overlap & (overlaps_tensor | overlaps_expert), recomputed_modules(job_.plan));
  const bool fsdp = state.sharding == spec::Sharding::parameters;
  LayerTable& known = fsdp ? sharded_layers_ : layers_;
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  LayerCosts costs = estimate(known, key);
  return known[key] = costs;
}

/// Without joules, what selective recompute adds is all that sets its plans apart from others.
LayerCosts LayoutScan::estimate(LayerTable& known, LayerKey key) const {
  std::get<6>(key) = 0;
  const auto bare = known.find(key);
  const bool selective = job_.plan.recompute == spec::Recompute::selective;
  if (!selective || bare == known.end() || energy_ != EnergyBound::none)
    return estimate_layers(job_, typical_, energy_);
  LayerCosts costs = bare->second;
  estimate_selected(job_, typical_, costs);
  return costs;
}

const SendCosts& LayoutScan::sends_of(const Layout& layout, const StateChoice& state) {
  const auto key = std::tuple(layout.micro, state.sequence_parallel, layout.chunks > 1);
  const auto found = sends_.find(key);
  if (found != sends_.end()) return found->second;
  // The first replica alone, also where FSDP makes many move together: never dearer than all.
  const spec::Sharding sharding = job_.plan.sharding;
  job_.plan.sharding = spec::Sharding::none;
  SendCosts& costs = sends_[key] = estimate_sends(job_, typical_);
  job_.plan.sharding = sharding;
  return costs;
}

const std::vector<EndCost>& LayoutScan::ends_of(const Layout& layout, const StateChoice& state,
                                                Split split, uint32_t overlap) {
  const auto key = std::tuple(
      layout.chunks, state.sequence_parallel, static_cast<int>(state.sharding), state.reshard,
      state.group, static_cast<int>(split), overlap & (overlaps_gradient | overlaps_parameter));
  const auto found = epilogues_.find(key);
  if (found != epilogues_.end()) return found->second;
  return epilogues_[key] = estimate_epilogues(job_);
}

}  // namespace triplepoint::search
