// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/advise/place_search.h"

namespace triplepoint::advise {
namespace {

class Placer {
 public:
  Placer(const spec::Job& job, const ColdMap& map, const PlaceOptions& options)
      : base_(job), map_(map), options_(options) {}

  PlaceResult run() {
    add(PlacementKind::baseline, 0, base_);
    if (!result_.placements.front().outcome.fits) {
      result_.notes.emplace_back(
          "the job does not fit in memory as it stands, so nothing is compared with it");
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

  /// The job in an order in which seats can help; nothing if there is none.
  std::optional<spec::Job> order_with_seats() {
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
    const std::optional<spec::Job> order = order_with_seats();
    if (!order) {
      result_.notes.emplace_back(
          "every node holds ranks of one stage only, in any rank order, so seats cannot be given "
          "to stages");
      return;
    }
    if (order->plan.rank_order != base_.plan.rank_order)
      result_.notes.emplace_back(
          "in the job's rank order every node holds ranks of one stage; symmetric and asymmetric "
          "placements use tp-pp-dp, whose price stands under rank order");
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
    const Placement* best = &result_.placements.front();
    for (const Placement& placement : result_.placements)
      if (placement.outcome.fits && placement.outcome.step_time < best->outcome.step_time)
        best = &placement;
    spec::Job job = best->job;
    if (base_.plan.pipeline_parallel_size > 1) {
      const auto found =
          search_placements(base_, map_, options_, best->outcome.step_time, result_.counts);
      if (found) job = found->job;
    } else {
      result_.notes.emplace_back("with one stage there is nothing to lay out");
    }
    add(PlacementKind::optimal, 0, job);
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
  return Placer(job, map, options).run();
}

}  // namespace triplepoint::advise
