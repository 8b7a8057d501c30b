// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/advise/place_bound.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::advise {
namespace {

/// The fastest placement below `best` seconds, if there is one.
struct FoundPlacement {
  spec::Job job;
  double time = 0;
};

constexpr int64_t layers_around_even = 6;
constexpr size_t most_assignments = 256;  // of groups to stages, for one order of ranks and nodes
constexpr size_t most_stages_to_permute = 8;
constexpr size_t most_layouts = 5000;  // per assignment
constexpr size_t batch = 16;

/// How a node deals its devices to its stages; empty: as the job has it.
using Preference = std::vector<size_t>;

/// Which group each rank of a node gets, stage by stage: preferences with the same are the same.
std::vector<std::vector<size_t>> dealt_groups(const NodeStages& node, const ColdMap& map,
                                              const Preference& preference, int64_t per_node) {
  const std::vector<int64_t> cold = map.cold_first(node.node, per_node);
  std::vector<std::vector<size_t>> dealt(node.stages.size());
  size_t next = 0;
  for (const size_t which : preference)
    for (size_t i = 0; i < node.locals[which].size(); ++i)
      dealt[which].push_back(map.group[static_cast<size_t>(node.node * per_node + cold[next++])]);
  return dealt;
}

/// All preferences of a node that differ in which group a stage gets.
std::vector<Preference> preferences_of(const NodeStages& node, const ColdMap& map,
                                       int64_t per_node) {
  Preference order(node.stages.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (map.groups < 2 || order.size() < 2 || order.size() > most_stages_to_permute) return {};
  std::vector<Preference> all;
  std::set<std::vector<std::vector<size_t>>> seen;
  do {
    if (seen.insert(dealt_groups(node, map, order, per_node)).second) all.push_back(order);
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

/// One pattern of preferences for every node at once, and which nodes' stages it reaches.
struct Pattern {
  std::vector<Preference> preference;  // per block; empty entries: as given
};

/// As given; then the n-th preference of every node.
std::vector<Pattern> patterns_of(const spec::Job& job, const ColdMap& map) {
  const std::vector<NodeStages> nodes = stages_of_nodes(job);
  std::vector<Pattern> patterns = {{std::vector<Preference>(nodes.size())}};
  std::vector<std::vector<Preference>> own;
  size_t most = 0;
  for (const NodeStages& node : nodes) {
    own.push_back(preferences_of(node, map, job.cluster.gpus_per_node));
    most = std::max(most, own.back().size());
  }
  for (size_t n = 0; n < most; ++n) {
    Pattern& pattern = patterns.emplace_back();
    for (const std::vector<Preference>& preferences : own)
      pattern.preference.push_back(n < preferences.size() ? preferences[n] : Preference());
  }
  return patterns;
}

std::vector<std::vector<int64_t>> node_orders_of(const spec::Job& job, const ColdMap& map) {
  std::vector<int64_t> coolest(static_cast<size_t>(job.cluster.num_nodes));
  std::iota(coolest.begin(), coolest.end(), int64_t{0});
  std::stable_sort(coolest.begin(), coolest.end(), [&](int64_t a, int64_t b) {
    return map.node_effect[static_cast<size_t>(a)] < map.node_effect[static_cast<size_t>(b)];
  });
  std::vector<std::vector<int64_t>> orders = {job.plan.node_order};
  const auto [low, high] = std::minmax_element(map.node_effect.begin(), map.node_effect.end());
  if (coolest.size() < 2 || *high - *low < 1e-6) return orders;
  orders.push_back(coolest);
  orders.emplace_back(coolest.rbegin(), coolest.rend());
  return orders;
}

/// Lockstep groups that reach over nodes take their slowest member from any of them.
bool groups_stay_in_nodes(const spec::Job& job) {
  return job.plan.tensor_parallel_size * job.plan.context_parallel_size *
                 job.plan.expert_parallel_size <=
             job.cluster.gpus_per_node &&
         job.plan.sharding != spec::Sharding::parameters &&
         job.plan.sharding != spec::Sharding::gradients;
}

struct Candidate {
  double bound = 0;
  size_t order = 0;  // of ranks and nodes
  std::vector<Preference> preference;
  std::vector<int64_t> layers;  // empty: as the job has them
};

/// Everything about one order of ranks and nodes.
class OrderSearch {
 public:
  OrderSearch(const spec::Job& job, const ColdMap& map, size_t number)
      : job_(job), map_(map), number_(number), patterns_(patterns_of(job, map)) {
    const std::vector<NodeStages> nodes = stages_of_nodes(job);
    double combinations = 1;
    for (size_t i = 0; i < nodes.size(); ++i)
      combinations *= static_cast<double>(patterns_.size());
    alike_ = combinations > static_cast<double>(most_assignments) || !groups_stay_in_nodes(job);
    blocks_ = nodes.size();
    const int64_t stages = job.plan.pipeline_parallel_size;
    const int64_t even = job.model.num_layers / stages;
    // Layers of a hybrid are not alike: they stay where they are.
    const bool moves = !job.model.layer_pattern;
    fewest_ = std::max<int64_t>(1, even - (moves ? layers_around_even : 0));
    most_ =
        std::min(job.model.num_layers - (stages - 1), even + (moves ? 1 + layers_around_even : 0));
  }

  size_t passes_to_price() const { return patterns_.size(); }
  bool alike() const { return alike_ && patterns_.size() > 1; }

  /// Adds all that may be below the limit.
  void look(double limit, std::vector<Candidate>& candidates, PlaceCounts& counts,
            const PlaceOptions& options) {
    price(limit, options);
    std::vector<size_t> chosen(blocks_);
    do {
      ++counts.assignments;
      add_layouts(chosen, limit, candidates, counts);
      if (options.stopped && options.stopped()) return;
    } while (next(chosen));
  }

 private:
  bool layers_are_free() const { return job_.plan.virtual_pipeline_size == 1; }

  void price(double limit, const PlaceOptions& options) {
    for (const Pattern& pattern : patterns_) {
      spec::Job placed = job_;
      placed.plan = place_cold_first(job_, map_, pattern.preference);
      if (&pattern == &patterns_.front()) placed.plan.device_order = job_.plan.device_order;
      if (layers_are_free())
        passes_.push_back(std::make_unique<ColdestPasses>(placed, fewest_, most_, limit));
      if (options.advance) options.advance();
    }
    block_of_.clear();
    if (!layers_are_free()) return;
    const workload::RankGrid grid(job_);
    const size_t pipelines = passes_.front()->pipelines(), stages = passes_.front()->stages();
    const auto data = static_cast<size_t>(job_.data_parallel_size());
    for (size_t p = 0; p < pipelines; ++p) {
      auto& blocks = block_of_.emplace_back();
      for (size_t s = 0; s < stages; ++s) {
        workload::RankCoordinates at;
        at.data = static_cast<int64_t>(p * (data / pipelines));
        at.pipeline = static_cast<int64_t>(s);
        blocks.push_back(static_cast<size_t>(grid.rank_at(at) / job_.cluster.gpus_per_node));
      }
    }
  }

  /// The next choice of a pattern per block, the last block fastest.
  bool next(std::vector<size_t>& chosen) const {
    if (alike_) {
      if (++chosen.front() == patterns_.size()) return false;
      std::fill(chosen.begin(), chosen.end(), chosen.front());
      return true;
    }
    for (size_t block = chosen.size(); block-- > 0;) {
      if (++chosen[block] < patterns_.size()) return true;
      chosen[block] = 0;
    }
    return false;
  }

  void add_layouts(const std::vector<size_t>& chosen, double limit,
                   std::vector<Candidate>& candidates, PlaceCounts& counts) const {
    Candidate candidate{.bound = 0, .order = number_, .preference = {}, .layers = {}};
    for (size_t block = 0; block < blocks_; ++block)
      candidate.preference.push_back(patterns_[chosen[block]].preference[block]);
    if (!layers_are_free()) {
      candidates.push_back(std::move(candidate));
      return;
    }
    PassChoice passes;
    for (const auto& blocks : block_of_) {
      auto& stages = passes.emplace_back();
      for (const size_t block : blocks)
        stages.push_back(passes_[chosen[block]].get());
    }
    const LayerSearch found = layers_below(
        job_, passes, {.fewest = fewest_, .most = most_, .time = limit, .found = most_layouts});
    counts.layouts += found.looked_at;
    for (const BoundedLayers& layout : found.found) {
      candidate.bound = layout.bound;
      candidate.layers = layout.layers;
      candidates.push_back(candidate);
    }
  }

  const spec::Job& job_;
  const ColdMap& map_;
  size_t number_, blocks_ = 0;
  std::vector<Pattern> patterns_;
  bool alike_ = false;
  int64_t fewest_ = 1, most_ = 1;
  std::vector<std::unique_ptr<ColdestPasses>> passes_;  // of each pattern
  std::vector<std::vector<size_t>> block_of_;           // [pipeline][stage]
};

spec::Job job_of(const std::vector<spec::Job>& orders, const ColdMap& map,
                 const Candidate& candidate) {
  spec::Job job = orders[candidate.order];
  const bool given = std::all_of(candidate.preference.begin(), candidate.preference.end(),
                                 [](const Preference& one) { return one.empty(); });
  if (!candidate.layers.empty()) job.plan.layers_per_stage = candidate.layers;
  if (!given) job.plan = place_cold_first(job, map, candidate.preference);
  return job;
}

/// Judges candidates in the order of their bounds until the next cannot be better.
class CandidateEvaluation {
 public:
  CandidateEvaluation(const std::vector<spec::Job>& orders, const ColdMap& map,
                      const PlaceOptions& options, double best)
      : orders_(orders), map_(map), options_(options), best_(best) {}

  std::optional<FoundPlacement> judge(const std::vector<Candidate>& candidates,
                                      PlaceCounts& counts) {
    const auto allowed = std::min(candidates.size(),
                                  static_cast<size_t>(std::max<int64_t>(0, options_.most_judged)));
    if (options_.begin && allowed > 0) options_.begin("Judging placements", allowed);
    size_t at = 0;
    while (at < allowed && candidates[at].bound < best_ &&
           !(options_.stopped && options_.stopped())) {
      const size_t count = std::min(batch, allowed - at);
      judge_some(candidates, at, count);
      at += count;
    }
    counts.judged += static_cast<int64_t>(at);
    for (size_t i = at; i < candidates.size() && candidates[i].bound < best_; ++i)
      ++counts.left;
    if (counts.left > 0) counts.could_gain = 1 - candidates[at].bound / best_;
    return found_;
  }

 private:
  void judge_some(const std::vector<Candidate>& candidates, size_t first, size_t count) {
    std::vector<std::optional<double>> times(count);
    std::vector<spec::Job> jobs(count);
    parallel_for(count, options_.threads, [&](size_t i) {
      jobs[i] = job_of(orders_, map_, candidates[first + i]);
      times[i] = judge_time(jobs[i]);
    });
    for (size_t i = 0; i < count; ++i) {
      if (times[i] && *times[i] < best_) {
        best_ = *times[i];
        found_ = FoundPlacement{std::move(jobs[i]), best_};
      }
      if (options_.advance) options_.advance();
    }
  }

  const std::vector<spec::Job>& orders_;
  const ColdMap& map_;
  const PlaceOptions& options_;
  double best_;
  std::optional<FoundPlacement> found_;
};

/// The job in other rank orders that Megatron starts as well; the job itself first.
std::vector<spec::Job> rank_orders_of(const spec::Job& job) {
  std::vector<spec::Job> orders = {job};
  if (job.plan.rank_order == spec::RankOrder::tp_pp_dp || job.plan.expert_parallel_size > 1)
    return orders;
  const bool one_pipeline = job.data_parallel_size() == 1 || job.plan.pipeline_parallel_size == 1;
  spec::Job other = job;
  other.plan.rank_order = spec::RankOrder::tp_pp_dp;
  if (!one_pipeline && !spec::has_errors(spec::diagnose(other))) orders.push_back(other);
  return orders;
}

std::optional<FoundPlacement> search_placements(const spec::Job& job, const ColdMap& map,
                                                const PlaceOptions& options, double best,
                                                PlaceCounts& counts) {
  std::vector<spec::Job> orders;
  for (const spec::Job& ranks : rank_orders_of(job))
    for (std::vector<int64_t>& nodes : node_orders_of(ranks, map)) {
      orders.push_back(ranks);
      orders.back().plan.node_order = std::move(nodes);
      shorten_orders(orders.back().plan, job);
    }
  std::vector<OrderSearch> searches;
  size_t to_price = 0;
  for (size_t i = 0; i < orders.size(); ++i) {
    searches.emplace_back(orders[i], map, i);
    to_price += searches.back().passes_to_price();
    counts.nodes_alike |= searches.back().alike();
  }
  counts.layers_fixed = job.plan.virtual_pipeline_size > 1;
  if (options.begin) options.begin("Bounding placements", to_price);
  std::vector<Candidate> candidates;
  for (OrderSearch& search : searches)
    search.look(best, candidates, counts, options);
  counts.below = static_cast<int64_t>(candidates.size());
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
  return CandidateEvaluation(orders, map, options, best).judge(candidates, counts);
}

class Placer {
 public:
  Placer(const spec::Job& job, const ColdMap& map, const PlaceOptions& options)
      : base_(job), map_(map), options_(options) {}

  PlaceResult run() {
    add(PlacementKind::baseline, 0, base_);
    if (!result_.placements.front().outcome.fits) {
      result_.notes.emplace_back("the given job does not fit in memory, so there is no baseline");
      return std::move(result_);
    }
    add_by_hand();
    add_optimal();
    for (Placement& placement : result_.placements)
      if (placement.outcome.fits && placement.kind != PlacementKind::baseline)
        placement.reason = explain_placement(placement.job, base_);
    return std::move(result_);
  }

 private:
  void add(PlacementKind kind, int64_t shift, const spec::Job& job) {
    Placement placement{.kind = kind,
                        .shift = shift,
                        .job = job,
                        .outcome = judge_placement(job, map_),
                        .reason = {},
                        .same_as = {}};
    for (const Placement& before : result_.placements)
      if (before.job.plan == job.plan && placement.same_as.empty())
        placement.same_as = name_of(before.kind);
    result_.placements.push_back(std::move(placement));
  }

  /// The job in an order in which slots can help; nothing if there is none.
  std::optional<spec::Job> order_with_slots() {
    for (const spec::Job& order : rank_orders_of(base_))
      if (mixes_stages(order)) return order;
    return std::nullopt;
  }

  void add_by_hand() {
    if (map_.groups < 2) {
      result_.notes.emplace_back(
          "nothing separates the devices, so there is no cold group to prefer");
      return;
    }
    const std::optional<spec::Job> order = order_with_slots();
    if (!order) {
      result_.notes.emplace_back(
          "every node holds ranks of one stage only, in any rank order, so slots cannot be given "
          "to stages");
      return;
    }
    if (order->plan.rank_order != base_.plan.rank_order)
      result_.notes.emplace_back(
          "in the job's rank order every node holds ranks of one stage; symmetric and asymmetric "
          "placements use tp-pp-dp; its cost is listed under rank order");
    spec::Job symmetric = *order;
    symmetric.plan = place_cold_first(*order, map_, {});
    add(PlacementKind::symmetric, 0, symmetric);
    add_asymmetric(symmetric);
  }

  /// One layer, as in the paper, and the best other number of them.
  void add_asymmetric(const spec::Job& symmetric) {
    const std::vector<double> coldness = coldness_of_stages(symmetric, map_);
    std::optional<std::pair<double, int64_t>> best;
    for (int64_t k = 1; k <= options_.largest_shift; ++k) {
      spec::Job shifted = symmetric;
      shifted.plan.layers_per_stage = shift_layers(symmetric, coldness, k);
      if (shifted.plan.layers_per_stage.empty()) break;
      if (shifted.plan.layers_per_stage == layers_of(symmetric)) break;  // no stage is colder
      if (k == 1) add(PlacementKind::asymmetric, k, shifted);
      const auto time = judge_time(shifted);
      if (time && (!best || *time < best->first)) best = {*time, k};
    }
    if (!best || best->second == 1) return;
    spec::Job shifted = symmetric;
    shifted.plan.layers_per_stage = shift_layers(symmetric, coldness, best->second);
    add(PlacementKind::asymmetric, best->second, shifted);
  }

  void add_optimal() {
    if (base_.plan.pipeline_parallel_size == 1)
      result_.notes.emplace_back("with one stage there is nothing to lay out");
    else if (const auto found = search_from(best_by_step()))
      add(PlacementKind::optimal, 0, *found);
    judge_on_drawn_machines();
    const Placement best = best_known();
    if (best.kind == PlacementKind::optimal) return;
    if (result_.placements.back().kind == PlacementKind::optimal) result_.placements.pop_back();
    add(PlacementKind::optimal, 0, best.job);
    result_.placements.back().over = best.over;
  }

  /// The machine that layouts are searched on.
  spec::Job searched(const spec::Job& job) const {
    return options_.machine_is_known ? job : with_fine_clocks(on_expected_machine(job));
  }

  double best_by_step() const {
    double best = result_.placements.front().outcome.step_time;
    if (!options_.machine_is_known) best = judge_time(searched(base_)).value_or(best);
    for (const Placement& placement : result_.placements) {
      if (!placement.outcome.fits) continue;
      const double time = options_.machine_is_known
                              ? placement.outcome.step_time
                              : judge_time(searched(placement.job)).value_or(best);
      best = std::min(best, time);
    }
    return best;
  }

  /// The fastest placement below `best` seconds on the searched machine; the job's own machine.
  std::optional<spec::Job> search_from(double best) {
    const spec::Job machine = searched(base_);
    const auto found = search_placements(machine, map_, options_, best, result_.counts);
    if (!found) return std::nullopt;
    spec::Job job = base_;
    job.plan = found->job.plan;
    return job;
  }

  const Placement& best_known() {
    const Placement* best = &result_.placements.front();
    double most = options_.machine_is_known ? 0 : min_reported_gain;
    for (const Placement& placement : result_.placements) {
      if (!placement.outcome.fits) continue;
      const double gain =
          options_.machine_is_known
              ? result_.placements.front().outcome.step_time / placement.outcome.step_time - 1
              : placement.over.mean;
      if (gain > most) most = gain, best = &placement;
    }
    const bool has_choice = base_.plan.pipeline_parallel_size > 1;
    if (has_choice && !options_.machine_is_known && best == &result_.placements.front())
      result_.notes.push_back(fmt::format(
          "no placement gains {:.2g} % on average over {} drawn machines, so the job stays as it "
          "is; measure the machine and give it with --from",
          100 * min_reported_gain, drawn_machines(base_).size()));
    return *best;
  }

  void judge_on_drawn_machines() {
    if (options_.machine_is_known) return;
    const std::vector<spec::Job> machines = drawn_machines(base_);
    const size_t plans = result_.placements.size();
    std::vector<std::vector<double>> times(plans, std::vector<double>(machines.size()));
    if (options_.begin) options_.begin("Judging on drawn machines", plans * machines.size());
    parallel_for(plans * machines.size(), options_.threads, [&](size_t i) {
      spec::Job job = machines[i % machines.size()];
      job.plan = result_.placements[i / machines.size()].job.plan;
      times[i / machines.size()][i % machines.size()] = judge_time(job).value_or(0);
      if (options_.advance) options_.advance();
    });
    for (size_t plan = 0; plan < plans; ++plan) {
      if (!result_.placements[plan].outcome.fits) continue;
      std::vector<double> gains;
      for (size_t m = 0; m < machines.size(); ++m)
        gains.push_back(times.front()[m] / times[plan][m] - 1);
      result_.placements[plan].over = summarize_gains(gains);
    }
  }

  const spec::Job& base_;
  const ColdMap& map_;
  const PlaceOptions& options_;
  PlaceResult result_;
};

}  // namespace

const char* name_of(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::baseline:
      return "baseline";
    case PlacementKind::symmetric:
      return "symmetric";
    case PlacementKind::asymmetric:
      return "asymmetric";
    case PlacementKind::optimal:
      return "optimal";
  }
  return "";
}

PlaceResult place(const spec::Job& job, const ColdMap& map, const PlaceOptions& options) {
  const ThreadLimit limit(options.threads);
  return Placer(job, map, options).run();
}

}  // namespace triplepoint::advise
