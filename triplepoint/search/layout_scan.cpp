// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/layout_scan.h"

#include "triplepoint/sim/device_phase.h"

namespace triplepoint::search {

LayoutScan::LayoutScan(const Space& space, const Limits& limits, Typical typical)
    : space_(space),
      typical_(typical),
      usable_(usable_memory(space.base(), limits)),
      job_(space.base()) {
  spec::GpuLoad rest;
  rest.duration = 1 * unit::s;
  resting_power_ = sim::typical_power(job_, rest, 0, typical.die) / unit::W;
}

void LayoutScan::enter(const Layout& layout) {
  const Group group{layout.tensor, layout.pipeline, layout.context, layout.expert,
                    layout.expert_tensor};
  if (group == group_) return;
  group_ = group;
  layers_.clear();
  sends_.clear();
  epilogues_.clear();
}

int64_t LayoutScan::visit(size_t number, const Visit& visit) {
  const Layout& layout = space_.layouts()[number];
  enter(layout);
  const Variants variants = space_.variants(layout);
  int64_t index = space_.first_of(number), dropped = 0;
  const auto inner = static_cast<int64_t>(variants.schedules.size() * variants.recomputes.size());
  for (VariantAt at; at.state < variants.states.size(); ++at.state) {
    const auto overlaps = static_cast<int64_t>(variants.states[at.state].overlaps.size());
    for (at.split = 0; at.split < variants.splits.size(); ++at.split) {
      dropped += visit_split(layout, variants, at, index, visit);
      index += inner * overlaps;
    }
  }
  return dropped;
}

int64_t LayoutScan::visit_split(const Layout& layout, const Variants& variants, VariantAt at,
                                int64_t index, const Visit& visit) {
  const auto overlaps = static_cast<int64_t>(variants.states[at.state].overlaps.size());
  job_.plan = space_.plan(layout, variants, at);
  const ChunkLayout chunks = workload::lay_out_layers(job_);
  job_.plan.recompute = spec::Recompute::none;
  job_.plan.recompute_layers.reset();
  if (bound_states(job_, chunks) > usable_)
    return overlaps * static_cast<int64_t>(variants.schedules.size() * variants.recomputes.size());
  int64_t dropped = 0;
  for (at.schedule = 0; at.schedule < variants.schedules.size(); ++at.schedule)
    for (at.recompute = 0; at.recompute < variants.recomputes.size(); ++at.recompute) {
      job_.plan.schedule = variants.schedules[at.schedule];
      job_.plan.recompute = variants.recomputes[at.recompute].kind;
      job_.plan.recompute_layers = variants.recomputes[at.recompute].layers;
      if (bound_memory(job_, chunks) > usable_)
        dropped += overlaps;
      else
        visit_overlaps(layout, variants, at, index, count_parts(job_, chunks), visit);
      index += overlaps;
    }
  return dropped;
}

void LayoutScan::visit_overlaps(const Layout& layout, const Variants& variants, VariantAt at,
                                int64_t index, const PipelineParts& parts, const Visit& visit) {
  const StateChoice& state = variants.states[at.state];
  const SendCosts& sends = sends_of(layout, state);
  for (at.overlap = 0; at.overlap < state.overlaps.size(); ++at.overlap, ++index) {
    const uint32_t overlap = state.overlaps[at.overlap];
    set_overlap(overlap);
    const StepBound bound =
        bound_step(job_, {.layers = layers_of(layout, state, overlap),
                          .parts = parts,
                          .sends = sends,
                          .ends = ends_of(layout, state, variants.splits[at.split], overlap),
                          .resting_power = resting_power_});
    visit(at, index, bound);
  }
}

void LayoutScan::set_overlap(uint32_t overlap) {
  job_.plan.overlap_tensor = (overlap & overlaps_tensor) != 0;
  job_.plan.overlap_gradient = (overlap & overlaps_gradient) != 0;
  job_.plan.overlap_parameter = (overlap & overlaps_parameter) != 0;
  job_.plan.overlap_pipeline = (overlap & overlaps_pipeline) != 0;
  job_.plan.overlap_expert = (overlap & overlaps_expert) != 0;
}

const LayerCosts& LayoutScan::layers_of(const Layout& layout, const StateChoice& state,
                                        uint32_t overlap) {
  const bool fsdp = state.sharding == spec::Sharding::parameters;
  const auto key = std::tuple(layout.micro, state.sequence_parallel, fsdp, state.reshard,
                              overlap & (overlaps_tensor | overlaps_expert));
  const auto found = layers_.find(key);
  if (found != layers_.end()) return found->second;
  return layers_[key] = estimate_layers(job_, typical_);
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
      static_cast<int>(split), overlap & (overlaps_gradient | overlaps_parameter));
  const auto found = epilogues_.find(key);
  if (found != epilogues_.end()) return found->second;
  return epilogues_[key] = estimate_epilogues(job_);
}

}  // namespace triplepoint::search
