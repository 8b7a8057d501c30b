// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "triplepoint/base/parallel.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/sim/device_phase.h"

namespace triplepoint::search {
namespace {

constexpr double nothing_found = std::numeric_limits<double>::infinity();
constexpr size_t layouts_at_once = 32;

/// Workers that threads take and give back. Which one a task gets does not matter: they only keep
/// estimates.
template <class Worker>
class Workers {
 public:
  explicit Workers(std::function<std::unique_ptr<Worker>()> make) : make_(std::move(make)) {}

  template <class Task>
  void with(const Task& task) {
    std::unique_ptr<Worker> worker = take();
    task(*worker);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

 private:
  std::unique_ptr<Worker> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Worker> worker = std::move(idle_.back());
        idle_.pop_back();
        return worker;
      }
    }
    return make_();
  }

  std::function<std::unique_ptr<Worker>()> make_;
  std::vector<std::unique_ptr<Worker>> idle_;
  std::mutex mutex_;
};

struct Worker {
  LayoutScan scan;
  StepEvaluator evaluator;
};

/// A layout, the best any of its plans can be, and its plans' number.
struct BoundedLayout {
  size_t layout = 0;
  double bound = nothing_found;
};

bool is_better(const Candidate& a, const Candidate& b) {
  return std::pair(a.value, a.index) < std::pair(b.value, b.index);
}

class Search {
 public:
  Search(const Space& space, const Objective& objective, const Limits& limits,
         const SearchOptions& options)
      : space_(space),
        objective_(objective),
        options_(options),
        usable_(usable_memory(space.base(), limits)),
        workers_([this, &limits, typical = typical_of(space.base())] {
          const auto energy =
              objective_.goal == Goal::throughput ? EnergyBound::none : EnergyBound::lowest_clock;
          return std::make_unique<Worker>(Worker{LayoutScan(space_, limits, typical, energy),
                                                 StepEvaluator(space_.base(), typical)});
        }) {}

  Found run() {
    found_.counts.plans = space_.size();
    found_.counts.layouts = static_cast<int64_t>(space_.layouts().size());
    const std::vector<BoundedLayout> order = bound_layouts();
    simulate_layouts(order);
    return std::move(found_);
  }

 private:
  double value_of(const StepBound& bound) const {
    return objective_.value(bound.time, bound.energy);
  }

  /// Numbers of layouts that share estimates (LayoutScan).
  std::vector<std::vector<size_t>> groups() const {
    std::vector<std::vector<size_t>> groups;
    std::map<std::tuple<spec::RankOrder, int64_t, int64_t, int64_t, int64_t>, size_t> known;
    for (size_t i = 0; i < space_.layouts().size(); ++i) {
      const Layout& layout = space_.layouts()[i];
      const std::tuple key(layout.rank_order, layout.tensor, layout.context, layout.expert,
                           layout.expert_tensor);
      const auto [at, is_new] = known.try_emplace(key, groups.size());
      if (is_new) groups.emplace_back();
      groups[at->second].push_back(i);
    }
    std::vector<std::vector<size_t>> ours;
    for (size_t g = options_.shard; g < groups.size(); g += options_.shards)
      ours.push_back(std::move(groups[g]));
    return ours;
  }

  std::vector<BoundedLayout> bound_layouts() {
    std::vector<BoundedLayout> bounds(space_.layouts().size());
    const auto groups = this->groups();
    std::vector<SearchCounts> counts(groups.size());
    if (options_.begin) options_.begin("Bounding", groups.size());
    parallel_for(groups.size(), options_.threads, [&](size_t g) {
      if (options_.stop() || !is_mine(g)) return;
      workers_.with([&](Worker& worker) {
        for (const size_t i : groups[g]) {
          bounds[i].layout = i;
          counts[g].out_of_memory +=
              worker.scan.visit(i, [&](const VariantAt&, int64_t, const StepBound& bound) {
                ++counts[g].bounded;
                bounds[i].bound = std::min(bounds[i].bound, value_of(bound));
              });
        }
      });
      if (options_.advance) options_.advance();
    });
    complete(
        options_.pool, groups.size(),
        [&](Packer& to, size_t g) {
          to.add(counts[g]);
          for (const size_t i : groups[g])
            to.add(bounds[i]);
        },
        [&](Unpacker& from, size_t g) {
          counts[g] = from.take<SearchCounts>();
          for (const size_t i : groups[g])
            bounds[i] = from.take<BoundedLayout>();
        });
    for (const SearchCounts& each : counts)
      found_.counts += each;
    std::erase_if(bounds, [](const BoundedLayout& each) { return each.bound == nothing_found; });
    std::sort(bounds.begin(), bounds.end(), [](const BoundedLayout& a, const BoundedLayout& b) {
      return std::pair(a.bound, a.layout) < std::pair(b.bound, b.layout);
    });
    return bounds;
  }

  double threshold() const {
    return found_.best.size() < options_.keep ? nothing_found : found_.best.back().value;
  }

  void simulate_layouts(const std::vector<BoundedLayout>& order) {
    if (options_.begin) options_.begin("Simulating schedules", order.size());
    for (size_t first = 0; first < order.size();) {
      const double limit = threshold();
      size_t last = first;
      while (last < order.size() && last - first < layouts_at_once && order[last].bound <= limit)
        ++last;
      if (last == first || anyone(options_.pool, options_.stop())) return;
      std::vector<std::optional<Candidate>> best(last - first);
      std::vector<SearchCounts> counts(last - first);
      parallel_for(last - first, options_.threads, [&](size_t i) {
        if (options_.stop() || !is_mine(i)) return;
        workers_.with([&](Worker& worker) {
          best[i] = simulate_layout(worker, order[first + i].layout, limit, counts[i]);
        });
        if (options_.advance) options_.advance();
      });
      share(best, counts);
      for (size_t i = 0; i < best.size(); ++i) {
        found_.counts += counts[i];
        if (best[i]) keep(std::move(*best[i]));
      }
      first = last;
    }
  }

  bool is_mine(size_t item) const { return options_.pool == nullptr || options_.pool->has(item); }

  /// Tells the other processes what became of its layouts. A plan travels as its index.
  void share(std::vector<std::optional<Candidate>>& best, std::vector<SearchCounts>& counts) const {
    complete(
        options_.pool, best.size(),
        [&](Packer& to, size_t i) {
          to.add(counts[i]).add(best[i].has_value());
          if (best[i])
            to.add(best[i]->index)
                .add(best[i]->bound)
                .add(best[i]->step)
                .add(best[i]->memory)
                .add(best[i]->value);
        },
        [&](Unpacker& from, size_t i) {
          counts[i] = from.take<SearchCounts>();
          if (!from.take<bool>()) return;
          best[i] = candidate_at(space_, from.take<int64_t>());
          best[i]->bound = from.take<double>();
          best[i]->step = from.take<StepEstimate>();
          best[i]->memory = from.take<Bytes>();
          best[i]->value = from.take<double>();
        });
  }

  void keep(Candidate candidate) {
    auto& best = found_.best;
    best.insert(std::upper_bound(best.begin(), best.end(), candidate, is_better),
                std::move(candidate));
    if (best.size() > options_.keep) best.pop_back();
  }

  std::optional<Candidate> simulate_layout(Worker& worker, size_t layout, double limit,
                                           SearchCounts& counts) const {
    struct Bounded {
      double value;
      int64_t index;
      VariantAt at;
    };
    std::vector<Bounded> plans;
    worker.scan.visit(layout, [&](const VariantAt& at, int64_t index, const StepBound& bound) {
      if (value_of(bound) <= limit) plans.push_back({value_of(bound), index, at});
    });
    std::sort(plans.begin(), plans.end(), [](const Bounded& a, const Bounded& b) {
      return std::pair(a.value, a.index) < std::pair(b.value, b.index);
    });
    const Layout& sizes = space_.layouts()[layout];
    const Variants variants = space_.variants(sizes);
    std::optional<Candidate> best;
    ++counts.layouts_simulated;
    for (const Bounded& bounded : plans) {
      if ((best && bounded.value > best->value) || options_.stop()) break;
      Candidate candidate{.index = bounded.index,
                          .layout = sizes,
                          .plan = space_.plan(sizes, variants, bounded.at),
                          .bound = bounded.value,
                          .step = {},
                          .memory = {}};
      if (!simulate_plan(worker, candidate, counts)) continue;
      if (!best || is_better(candidate, *best)) best = std::move(candidate);
    }
    return best;
  }

  bool simulate_plan(Worker& worker, Candidate& candidate, SearchCounts& counts) const {
    const workload::MemoryVerdict memory = worker.evaluator.memory(candidate.plan);
    candidate.memory = memory.stages[static_cast<size_t>(memory.worst_stage)].total();
    if (candidate.memory > usable_) {
      ++counts.exact_out_of_memory;
      return false;
    }
    const int64_t linked = worker.evaluator.linked();
    candidate.step = worker.evaluator.evaluate(candidate.plan);
    candidate.value = objective_.value(candidate.step.time, candidate.step.energy);
    ++counts.simulated;
    counts.simulated_on_links += worker.evaluator.linked() - linked;
    return true;
  }

  const Space& space_;
  const Objective& objective_;
  const SearchOptions& options_;
  Bytes usable_;
  Workers<Worker> workers_;
  Found found_;
};

}  // namespace

SearchCounts& SearchCounts::operator+=(const SearchCounts& other) {
  out_of_memory += other.out_of_memory;
  bounded += other.bounded;
  layouts_simulated += other.layouts_simulated;
  simulated += other.simulated;
  simulated_on_links += other.simulated_on_links;
  exact_out_of_memory += other.exact_out_of_memory;
  return *this;
}

Candidate candidate_at(const Space& space, int64_t index) {
  Candidate candidate;
  candidate.index = index;
  candidate.layout = space.layout_of(index);
  candidate.plan = space.plan(index);
  return candidate;
}

Found merge(std::vector<Found> parts, size_t keep) {
  Found whole;
  for (Found& part : parts) {
    whole.counts.plans = part.counts.plans;
    whole.counts.layouts = part.counts.layouts;
    whole.counts += part.counts;
    std::move(part.best.begin(), part.best.end(), std::back_inserter(whole.best));
  }
  std::sort(whole.best.begin(), whole.best.end(), is_better);
  whole.best.resize(std::min(keep, whole.best.size()));
  return whole;
}

Bytes usable_memory(const spec::Job& job, const Limits& limits) {
  return job.cluster.gpu.memory.value_or(Bytes()) - limits.headroom;
}

Found search(const Space& space, const Objective& objective, const Limits& limits,
             const SearchOptions& options) {
  return Search(space, objective, limits, options).run();
}

namespace {

Layout layout_of(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  return {.tensor = plan.tensor_parallel_size,
          .pipeline = plan.pipeline_parallel_size,
          .context = plan.context_parallel_size,
          .expert = plan.expert_parallel_size,
          .expert_tensor = plan.expert_tensor_parallel_size.value_or(plan.tensor_parallel_size),
          .chunks = plan.virtual_pipeline_size,
          .data = job.data_parallel_size(),
          .micro = plan.micro_batch_size,
          .rank_order = plan.rank_order};
}

}  // namespace

Candidate evaluate_plan(const spec::Job& job, const Objective& objective) {
  StepEvaluator evaluator(job, typical_of(job));
  Candidate candidate;
  candidate.plan = job.plan;
  candidate.layout = layout_of(job);
  const workload::MemoryVerdict memory = evaluator.memory(job.plan);
  candidate.memory = memory.stages[static_cast<size_t>(memory.worst_stage)].total();
  candidate.step = evaluator.evaluate(job.plan);
  candidate.value = objective.value(candidate.step.time, candidate.step.energy);
  return candidate;
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
  sends_.clear();
  epilogues_.clear();
  const Shapes shapes = shapes_in_layers(layout);
  const bool same_ranks = layout.rank_order == spec::RankOrder::tp_cp_ep_dp_pp;
  if (!same_group || !same_ranks || shapes != shapes_) layers_.clear();
  shapes_ = shapes;
}

LayoutScan::Shapes LayoutScan::shapes_in_layers(const Layout& layout) {
  spec::Plan& plan = job_.plan;
  plan.tensor_parallel_size = layout.tensor;
  plan.pipeline_parallel_size = layout.pipeline;
  plan.context_parallel_size = layout.context;
  plan.expert_parallel_size = layout.expert;
  plan.expert_tensor_parallel_size = layout.expert_tensor;
  plan.rank_order = layout.rank_order;
  const workload::RankGrid grid(job_);
  using enum spec::GroupKind;
  return {grid.shape(tensor), grid.shape(context), grid.shape(expert), grid.shape(expert_tensor)};
}

int64_t LayoutScan::visit(size_t number, const Visit& visit) {
  const Layout& layout = space_.layouts()[number];
  enter(layout);
  const Variants variants = space_.variants(layout);
  int64_t index = space_.first_of(number), dropped = 0;
  for (VariantAt at; at.state < variants.states.size(); ++at.state) {
    for (at.split = 0; at.split < variants.splits.size(); ++at.split) {
      dropped += visit_split(layout, variants, at, index, visit);
      index += variants.count_of(variants.states[at.state]);
    }
  }
  return dropped;
}

int64_t LayoutScan::visit_split(const Layout& layout, const Variants& variants, VariantAt at,
                                int64_t index, const Visit& visit) {
  const StateChoice& state = variants.states[at.state];
  const auto overlaps = static_cast<int64_t>(state.overlaps.size());
  job_.plan = space_.plan(layout, variants, at);
  const ChunkLayout chunks = workload::lay_out_layers(job_);
  job_.plan.recompute = spec::Recompute::none;
  job_.plan.recompute_layers.reset();
  if (exceeds_memory(job_, chunks, MemoryBound::states, usable_)) return variants.count_of(state);
  int64_t dropped = 0;
  for (at.schedule = 0; at.schedule < variants.schedules.size(); ++at.schedule)
    for (at.recompute = 0; at.recompute < variants.recomputes_of(state); ++at.recompute) {
      job_.plan.schedule = variants.schedules[at.schedule];
      job_.plan.recompute = variants.recomputes[at.recompute].kind;
      job_.plan.recompute_layers = variants.recomputes[at.recompute].layers;
      job_.plan.recompute_modules = variants.recomputes[at.recompute].modules;
      if (exceeds_memory(job_, chunks, MemoryBound::warm_up, usable_))
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

namespace {

/// Modules that selective recompute recomputes, a bit each; 0 without it.
uint32_t recomputed_modules(const spec::Plan& plan) {
  uint32_t bits = 0;
  for (size_t module = 0; module < spec::EnumNames<spec::RecomputeModule>::names.size(); ++module)
    if (plan.recomputes(static_cast<spec::RecomputeModule>(module))) bits |= 1U << module;
  return bits;
}

}  // namespace

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
