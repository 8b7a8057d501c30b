// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "triplepoint/base/parallel.h"

namespace triplepoint::advise {
namespace {

std::vector<std::vector<int64_t>> node_orders_of(const spec::Job& job, const ColdMap& map) {
  std::vector<int64_t> coolest(as_size(job.cluster.num_nodes));
  std::iota(coolest.begin(), coolest.end(), int64_t{0});
  std::ranges::stable_sort(coolest, [&](int64_t a, int64_t b) {
    return map.node_effect[as_size(a)] < map.node_effect[as_size(b)];
  });
  std::vector<std::vector<int64_t>> orders = {job.plan.node_order};
  const auto [low, high] = std::minmax_element(map.node_effect.begin(), map.node_effect.end());
  if (coolest.size() < 2 || *high - *low < 1e-6) return orders;
  orders.push_back(coolest);
  orders.emplace_back(coolest.rbegin(), coolest.rend());
  return orders;
}

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

/// A placement as the search sees it.
struct Point {
  size_t order = 0;                // of ranks and nodes
  std::vector<size_t> preference;  // of each node's stages for cold devices; empty: as given
  std::vector<int64_t> layers;
};

/// Goes from a placement to its fastest neighbour, on one machine.
class LocalSearch {
 public:
  LocalSearch(const spec::Job& machine, const ColdMap& map, const PlaceOptions& options,
              PlaceResult& counts)
      : map_(map), options_(options), counts_(counts) {
    for (const spec::Job& ranks : rank_orders_of(machine))
      for (std::vector<int64_t>& nodes : node_orders_of(ranks, map)) {
        orders_.push_back(ranks);
        orders_.back().plan.node_order = std::move(nodes);
        shorten_orders(orders_.back().plan, machine);
      }
  }

  /// Of a placement by hand.
  Point point_of(const Placement& placement) const {
    Point point{.layers = layers_of(placement.job)};
    while (orders_[point.order].plan.rank_order != placement.job.plan.rank_order)
      ++point.order;
    if (placement.kind != PlacementKind::baseline) point.preference = cold_first(point.order);
    return point;
  }

  spec::Job job_of(const Point& point) const {
    spec::Job job = orders_[point.order];
    if (point.layers != layers_of(job)) job.plan.layers_per_stage = point.layers;
    if (point.preference.empty()) return job;
    std::vector<std::vector<size_t>> preference;
    for (const NodeStages& node : stages_of_nodes(job))
      preference.push_back(node.stages.size() == point.preference.size() ? point.preference
                                                                         : std::vector<size_t>());
    job.plan = place_cold_first(job, map_, preference);
    return job;
  }

  /// Where none of the neighbours is faster.
  spec::Job descend(Point point, double time) {
    while (true) {
      std::vector<Point> around = neighbours(point);
      const auto left = as_size(options_.most_judged - counts_.judged);
      counts_.searched_all = around.size() <= left;
      around.resize(std::min(around.size(), left));
      const std::vector<double> times = judge(around);
      const auto best = std::ranges::min_element(times);
      if (options_.watch.stopped()) counts_.interrupted = true, counts_.searched_all = false;
      if (best == times.end() || *best >= time) return job_of(point);
      time = *best;
      point = around[as_size(best - times.begin())];
      if (!counts_.searched_all) return job_of(point);
    }
  }

 private:
  std::vector<Point> neighbours(const Point& point) const {
    std::vector<Point> all;
    for (size_t order = 0; order < orders_.size(); ++order)
      if (order != point.order) all.push_back({order, {}, point.layers});
    add_exchanges(all, point);
    // Layers of a hybrid are not alike, and chunks share theirs: they stay where they are.
    const spec::Job& job = orders_[point.order];
    if (job.model.layer_pattern || job.plan.virtual_pipeline_size > 1) return all;
    for (size_t from = 0; from < point.layers.size(); ++from)
      for (size_t to = 0; to < point.layers.size(); ++to) {
        if (from == to || point.layers[from] < 2) continue;
        all.push_back(point);
        --all.back().layers[from];
        ++all.back().layers[to];
      }
    return all;
  }

  /// Cold devices to the earlier stages; of the nodes with most stages.
  std::vector<size_t> cold_first(size_t order) const {
    std::vector<size_t> preference;
    for (const NodeStages& node : stages_of_nodes(orders_[order]))
      preference.resize(std::max(preference.size(), node.stages.size()));
    std::iota(preference.begin(), preference.end(), size_t{0});
    return preference;
  }

  /// Who gets cold devices: as given, cold first, or two stages exchanged.
  void add_exchanges(std::vector<Point>& all, const Point& point) const {
    Point from = point;
    if (point.preference.empty()) from.preference = cold_first(point.order);
    if (map_.groups < 2 || from.preference.size() < 2) return;
    all.push_back(point.preference.empty() ? from : Point{point.order, {}, point.layers});
    for (size_t a = 0; a < from.preference.size(); ++a)
      for (size_t b = a + 1; b < from.preference.size(); ++b) {
        all.push_back(from);
        std::swap(all.back().preference[a], all.back().preference[b]);
      }
  }

  std::vector<double> judge(const std::vector<Point>& points) {
    if (!points.empty()) options_.watch.begin("Judging placements", points.size());
    std::vector<double> times(points.size());
    parallel_for(points.size(), options_.threads, [&](size_t i) {
      times[i] = judge_time(job_of(points[i])).value_or(std::numeric_limits<double>::infinity());
      options_.watch.advance();
    });
    counts_.judged += static_cast<int64_t>(points.size());
    return times;
  }

  const ColdMap& map_;
  const PlaceOptions& options_;
  PlaceResult& counts_;
  std::vector<spec::Job> orders_;  // the job in each order of ranks and nodes
};

class Placer {
 public:
  Placer(const spec::Job& job, const ColdMap& map, const PlaceOptions& options)
      : base_(job), map_(map), options_(options) {}

  PlaceResult run() {
    result_.scope = options_.scope;
    add(PlacementKind::baseline, 0, base_);
    if (!result_.placements.front().outcome.fits) {
      result_.notes.emplace_back("the given job does not fit in memory, so there is no baseline");
      return std::move(result_);
    }
    add_by_hand();
    if (base_.plan.pipeline_parallel_size == 1)
      result_.notes.emplace_back("with one stage there is nothing to lay out");
    else
      add_searched();
    judge_on_drawn_machines();
    recommend();
    return std::move(result_);
  }

 private:
  void add(PlacementKind kind, int64_t shift, const spec::Job& job) {
    Placement placement{.kind = kind,
                        .shift = shift,
                        .job = job,
                        .outcome = judge_placement(job, map_, options_.scope)};
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
          "placements use tp-pp-dp");
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

  /// From the fastest placement on the machine that is searched.
  void add_searched() {
    const auto on_searched = [&](const spec::Job& job) {
      return options_.machine_is_known ? job : with_fine_clocks(on_expected_machine(job));
    };
    const Placement* start = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Placement& placement : result_.placements) {
      const double time = judge_time(on_searched(placement.job)).value_or(least);
      if (time < least) least = time, start = &placement;
    }
    if (start == nullptr) return;
    LocalSearch search(on_searched(base_), map_, options_, result_);
    spec::Job found = base_;
    found.plan = search.descend(search.point_of(*start), least).plan;
    if (found.plan != start->job.plan) add(PlacementKind::searched, 0, found);
  }

  void judge_on_drawn_machines() {
    if (options_.machine_is_known) return;
    const std::vector<spec::Job> machines = drawn_machines(base_);
    const size_t plans = result_.placements.size();
    std::vector<std::vector<double>> times(plans, std::vector<double>(machines.size()));
    options_.watch.begin("Judging on drawn machines", plans * machines.size());
    parallel_for(plans * machines.size(), options_.threads, [&](size_t i) {
      spec::Job job = machines[i % machines.size()];
      job.plan = result_.placements[i / machines.size()].job.plan;
      times[i / machines.size()][i % machines.size()] = judge_time(job).value_or(0);
      options_.watch.advance();
    });
    for (size_t plan = 0; plan < plans; ++plan) {
      if (!result_.placements[plan].outcome.fits) continue;
      const std::vector<double> gains = numbered(
          machines.size(), [&](size_t m) { return times.front()[m] / times[plan][m] - 1; });
      result_.placements[plan].over = summarize_gains(gains);
    }
  }

  void recommend() {
    const double before = result_.placements.front().outcome.step_time;
    double most = 0;
    for (size_t i = 1; i < result_.placements.size(); ++i) {
      const Placement& placement = result_.placements[i];
      if (!placement.outcome.fits || placement.outcome.step_time > before) continue;
      const double gain = result_.gain(placement);
      if (gain > most) most = gain, result_.fastest = i;
    }
    if (result_.fastest > 0) find_parts();
    if (result_.gain(result_.placements[result_.fastest]) >= least_worthwhile_gain)
      result_.recommended = result_.fastest;
    if (result_.recommended > 0 || options_.machine_is_known) return;
    result_.notes.push_back(
        fmt::format("a placement has to gain {:.2g} % on average over {} drawn machines and not to "
                    "be slower on the job's own; measure the machine and give it with --from",
                    100 * least_worthwhile_gain, drawn_machines(base_).size()));
  }

  /// The fastest placement and the one that only moves its layers, where GPUs are alike, where
  /// slots differ, and on the job's machine.
  void find_parts() {
    spec::Job moved = base_;
    const spec::Job& best = result_.placements[result_.fastest].job;
    moved.plan.layers_per_stage = best.plan.layers_per_stage;
    if (spec::has_errors(spec::diagnose(moved))) return;
    const auto of_machine = [&](const auto& machine) -> std::optional<std::array<double, 2>> {
      std::array<double, 3> times{};
      for (size_t i = 0; i < times.size(); ++i) {
        const auto time = judge_time(machine(i == 0 ? base_ : i == 1 ? moved : best));
        if (!time) return std::nullopt;
        times[i] = *time;
      }
      return std::array{times[0] - times[1], times[1] - times[2]};
    };
    const auto alike = of_machine([](const spec::Job& job) {
      spec::Job even = with_equal_slots(on_expected_machine(job));
      even.environment.faults.clear();
      return even;
    });
    const auto slots = of_machine([](const spec::Job& job) { return on_expected_machine(job); });
    const auto own = of_machine([](const spec::Job& job) { return job; });
    if (!alike || !slots || !own) return;
    const auto part = [&](size_t i) {
      return GainParts::Part{(*alike)[i], (*slots)[i] - (*alike)[i], (*own)[i] - (*slots)[i]};
    };
    result_.parts = GainParts{.layers = part(0), .order = part(1)};
  }

  const spec::Job& base_;
  const ColdMap& map_;
  const PlaceOptions& options_;
  PlaceResult result_;
};

}  // namespace

double PlaceResult::gain(const Placement& placement) const {
  if (placement.over.machines > 0) return placement.over.mean;
  const bool has_parts = parts && &placement == &placements[fastest];
  const double by_boards = has_parts ? parts->layers.boards + parts->order.boards : 0;
  return (placements.front().outcome.step_time - by_boards) / placement.outcome.step_time - 1;
}

const char* name_of(PlacementKind kind) {
  constexpr const char* names[] = {"baseline", "symmetric", "asymmetric", "searched"};
  return names[as_size(kind)];
}

PlaceResult place(const spec::Job& job, const ColdMap& map, const PlaceOptions& options) {
  const ThreadLimit limit(options.threads);
  return Placer(job, map, options).run();
}

}  // namespace triplepoint::advise
