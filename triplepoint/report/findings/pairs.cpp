// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/pairs.h"

#include "triplepoint/report/findings/keys.h"
#include "triplepoint/report/findings/labels.h"

namespace triplepoint::report {
namespace {

/// What settings say, once per job: jobs are compared by the square of their number.
struct Settings {
  const StudyRow* row = nullptr;
  std::string layout;
  int64_t microbatch = 1;
  std::pair<spec::Recompute, std::optional<int64_t>> recompute;
  std::array<bool, 5> overlap{};
  std::vector<int64_t> device_order;
};

Settings settings_of(const StudyRow& row) {
  const spec::Plan& plan = row.job.plan;
  return {&row,
          configuration_label(row.job),
          plan.micro_batch_size,
          {plan.recompute, plan.recompute_layers},
          {plan.overlap_tensor, plan.overlap_gradient, plan.overlap_parameter,
           plan.overlap_pipeline, plan.overlap_expert},
          plan.device_order};
}

/// Nothing that no setting turns differs. A layout brings its own sharding, its layers per stage,
/// and which overlaps mean something.
bool same_otherwise(const spec::Job& a, const spec::Job& b, bool same_layout) {
  const spec::Plan &p = a.plan, &q = b.plan;
  if (p.global_batch_size != q.global_batch_size || p.precision != q.precision ||
      p.schedule != q.schedule || p.rank_order != q.rank_order || p.lora != q.lora)
    return false;
  if (same_layout && (p.sharding != q.sharding || p.sequence_parallel != q.sequence_parallel ||
                      p.layers_per_stage != q.layers_per_stage || p.optimizer != q.optimizer))
    return false;
  return a.model == b.model && a.stack == b.stack && a.environment == b.environment &&
         a.cluster == b.cluster;
}

/// With another layout, overlap is the same wish if both want some or none.
bool wants_same_overlap(const Settings& a, const Settings& b, bool same_layout) {
  if (same_layout) return a.overlap == b.overlap;
  const auto wants = [](const Settings& s) { return s.overlap != std::array<bool, 5>{}; };
  return wants(a) == wants(b);
}

std::optional<PlanSetting> only_difference(const Settings& a, const Settings& b) {
  std::vector<PlanSetting> turned;
  const bool same_layout = a.layout == b.layout;
  if (!same_layout) turned.push_back(PlanSetting::layout);
  if (a.microbatch != b.microbatch) turned.push_back(PlanSetting::microbatch);
  if (a.recompute.first != b.recompute.first ||
      (same_layout && a.recompute.second != b.recompute.second))
    turned.push_back(PlanSetting::recompute);
  if (!wants_same_overlap(a, b, same_layout)) turned.push_back(PlanSetting::overlap);
  if (a.device_order != b.device_order) turned.push_back(PlanSetting::placement);
  if (turned.size() != 1 || !same_otherwise(a.row->job, b.row->job, same_layout))
    return std::nullopt;
  return turned.front();
}

}  // namespace

std::vector<Pair> pairs_of(const Group& group) {
  std::vector<Settings> all;
  for (const StudyRow* row : group.rows)
    if (row->has_job && row->verdict != Verdict::invalid) all.push_back(settings_of(*row));
  std::vector<Pair> pairs;
  for (const Settings& a : all)
    for (const Settings& b : all)
      if (&a != &b)
        if (const auto setting = only_difference(a, b)) pairs.push_back({a.row, b.row, *setting});
  return pairs;
}

std::vector<Pair> pairs_that_ran(const std::vector<Group>& groups, PlanSetting setting) {
  std::vector<Pair> ran;
  for (const Group& group : groups)
    for (const Pair& pair : pairs_of(group))
      if (pair.setting == setting && pair.from->metrics && pair.to->metrics) ran.push_back(pair);
  return ran;
}

std::optional<Pair> strongest(const std::vector<Pair>& pairs, const PairValue& value) {
  std::optional<Pair> best;
  double best_value = 0;
  for (const Pair& pair : pairs) {
    const auto own = value(pair);
    if (own && (!best || *own > best_value)) best = pair, best_value = *own;
  }
  return best;
}

std::optional<double> ratio_at(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const auto above = number_at(row, key), below = number_at(over, key);
  if (!above || !below || !(*above > 0) || !(*below > 0)) return std::nullopt;
  return *above / *below;
}

std::optional<double> ratio_at(const Pair& pair, std::string_view key) {
  return ratio_at(*pair.to, *pair.from, key);
}

const StudyRow* highest(const std::vector<const StudyRow*>& rows, std::string_view key) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : rows) {
    const auto value = number_at(*row, key);
    if (value && (best == nullptr || *value > known_number(*best, key))) best = row;
  }
  return best;
}

const StudyRow* lowest(const std::vector<const StudyRow*>& rows, std::string_view key) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : rows) {
    const auto value = number_at(*row, key);
    if (value && (best == nullptr || *value < known_number(*best, key))) best = row;
  }
  return best;
}

}  // namespace triplepoint::report
