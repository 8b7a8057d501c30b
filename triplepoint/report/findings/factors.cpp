// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/factors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "triplepoint/spec/names.h"

#include "triplepoint/answers/labels.h"

namespace triplepoint::report {
namespace {

std::array<bool, 5> overlap_of(const spec::Plan& plan) {
  return {plan.overlap_tensor, plan.overlap_gradient, plan.overlap_parameter, plan.overlap_pipeline,
          plan.overlap_expert};
}

bool is_training(const spec::Job& job) {
  return job.task == spec::Task::pretrain || job.task == spec::Task::lora;
}

std::array<int64_t, 6> layout_of(const spec::Plan& plan) {
  return {plan.tensor_parallel_size,  plan.pipeline_parallel_size,
          plan.context_parallel_size, plan.expert_parallel_size,
          plan.virtual_pipeline_size, plan.sharding == spec::Sharding::parameters ? 1 : 0};
}

/// The only thing that differs, of what a series may turn; nothing if several do. With another
/// layout, overlap is the same wish if both want some or none.
std::optional<Factor> only_difference(const StudyRow& a, const StudyRow& b) {
  const spec::Plan &p = a.job.plan, &q = b.job.plan;
  const bool same_layout = layout_of(p) == layout_of(q);
  const bool same_overlap =
      same_layout ? overlap_of(p) == overlap_of(q) : overlaps(a) == overlaps(b);
  const bool same_recompute =
      p.recompute == q.recompute && (!same_layout || p.recompute_layers == q.recompute_layers);
  const bool same_layers = !same_layout || p.layers_per_stage == q.layers_per_stage;
  const bool same_place = p.device_order == q.device_order && p.node_order == q.node_order;
  const std::pair<Factor, bool> same[] = {
      {Factor::condition, a.condition == b.condition},
      {Factor::size, a.job.world_size() == b.job.world_size()},
      {Factor::task, a.job.task == b.job.task},
      {Factor::layout, same_layout},
      {Factor::microbatch, p.micro_batch_size == q.micro_batch_size},
      {Factor::recompute, same_recompute},
      {Factor::overlap, same_overlap},
      {Factor::placement, same_place && same_layers},
      {Factor::sends, p.sends == q.sends}};
  std::optional<Factor> turned;
  for (const auto& [factor, is_same] : same) {
    if (is_same) continue;
    if (turned) return std::nullopt;
    turned = factor;
  }
  return turned;
}

/// Nothing that the factor does not bring with it differs. Every pass of inference takes a batch.
bool same_otherwise(const spec::Job& a, const spec::Job& b, Factor factor) {
  const spec::Plan &p = a.plan, &q = b.plan;
  const bool own_batch =
      factor == Factor::size || (factor == Factor::microbatch && spec::is_inference(a.task));
  const bool own_sharding = factor == Factor::layout || factor == Factor::task;
  const bool own_machine = factor == Factor::condition || factor == Factor::size;
  if (p.precision != q.precision || p.schedule != q.schedule || p.rank_order != q.rank_order ||
      p.record_layout != q.record_layout || a.records != b.records || a.model != b.model ||
      a.stack != b.stack)
    return false;
  if (!own_batch && p.global_batch_size != q.global_batch_size) return false;
  if (!own_sharding && (p.sharding != q.sharding || p.optimizer != q.optimizer ||
                        p.sequence_parallel != q.sequence_parallel))
    return false;
  if (factor == Factor::task ? !is_training(a) || !is_training(b) : p.lora != q.lora) return false;
  return own_machine ? a.cluster.gpu.name == b.cluster.gpu.name
                     : a.environment == b.environment && a.cluster == b.cluster;
}

bool differ_in(Factor factor, const StudyRow& a, const StudyRow& b) {
  return a.job.model.name == b.job.model.name && only_difference(a, b) == factor &&
         same_otherwise(a.job, b.job, factor);
}

/// The lowest is the base of a series; equal ones keep the order of the study.
int64_t rank_of(const StudyRow& row, Factor factor) {
  const spec::Plan& plan = row.job.plan;
  switch (factor) {
    case Factor::size:
      return row.job.world_size();
    case Factor::task:
      return static_cast<int64_t>(row.job.task);
    case Factor::microbatch:
      return plan.micro_batch_size;
    case Factor::recompute:
      return static_cast<int64_t>(plan.recompute);
    case Factor::overlap:
      return overlaps(row) ? 1 : 0;
    case Factor::placement:
      return plan.device_order.empty() && plan.layers_per_stage.empty() ? 0 : 1;
    case Factor::sends:
      return plan.sends ? 1 : 0;
    case Factor::condition:
    case Factor::layout:
      return 0;
  }
  return 0;
}

/// The slowest and the fastest layout of each group, each at its best.
std::vector<Series> series_of_layouts(const std::vector<Group>& groups) {
  constexpr std::string_view speed = "tokens_per_s";
  std::vector<Series> all;
  for (const Group& group : groups) {
    std::map<std::string, std::vector<const StudyRow*>> layouts;
    for (const StudyRow* row : group.that_ran())
      if (row->has_job) layouts[layout_label(*row)].push_back(row);
    std::vector<const StudyRow*> best;
    for (const auto& [layout, rows] : layouts)
      if (const StudyRow* row = highest(rows, speed)) best.push_back(row);
    if (best.size() > 1)
      all.push_back({Factor::layout, {lowest(best, speed), highest(best, speed)}});
  }
  return all;
}

}  // namespace

std::vector<Pair> pairs_of(const Group& group) {
  std::vector<const StudyRow*> valid = group.rows;
  std::erase_if(
      valid, [](const StudyRow* row) { return !row->has_job || row->verdict == Verdict::invalid; });
  std::vector<Pair> pairs;
  for (const StudyRow* a : valid)
    for (const StudyRow* b : valid)
      if (const auto factor = only_difference(*a, *b);
          factor && same_otherwise(a->job, b->job, *factor))
        pairs.push_back({a, b, *factor});
  return pairs;
}

std::string_view speed_key(Factor factor) {
  return factor == Factor::size ? "tokens_per_s_per_gpu" : "tokens_per_s";
}

double Series::speed(const StudyRow& row) const {
  return ratio_at(row, base(), speed_key(factor)).value_or(1);
}

const StudyRow& Series::extreme() const {
  return **std::ranges::max_element(
      rows, {}, [&](const StudyRow* row) { return std::abs(std::log(speed(*row))); });
}

double Series::effect() const {
  return std::log(speed(extreme()));
}

std::vector<Series> series_of(const std::vector<Group>& groups, Factor factor) {
  if (factor == Factor::layout) return series_of_layouts(groups);
  std::vector<Series> all;
  for (const Group& group : groups)
    for (const StudyRow* row : group.that_ran()) {
      if (!row->has_job || !number_at(*row, speed_key(factor))) continue;
      const auto of_row = std::ranges::find_if(all, [&](const Series& series) {
        return std::ranges::all_of(
            series.rows, [&](const StudyRow* other) { return differ_in(factor, *other, *row); });
      });
      if (of_row == all.end())
        all.push_back({factor, {row}});
      else
        of_row->rows.push_back(row);
    }
  std::erase_if(all, [](const Series& series) { return series.rows.size() < 2; });
  for (Series& series : all)
    std::ranges::stable_sort(series.rows, {},
                             [&](const StudyRow* row) { return rank_of(*row, factor); });
  return all;
}

std::string level_of(const StudyRow& row, Factor factor) {
  switch (factor) {
    case Factor::condition:
      return row.condition;
    case Factor::size:
      return machine_title(row);
    case Factor::task:
      return std::string(spec::name_of(row.job.task));
    case Factor::layout:
      return full_label(row);
    case Factor::microbatch:
      return microbatch_name(row) + row.batch;
    case Factor::recompute:
      return row.job.plan.recompute == spec::Recompute::none
                 ? "no recompute"
                 : std::string(spec::enum_name(row.job.plan.recompute)) + " recompute";
    case Factor::overlap:
      return overlaps(row) ? "overlap" : "no overlap";
    case Factor::placement:
      return rank_of(row, factor) == 0 ? "the default placement" : row.name;
    case Factor::sends:
      return rank_of(row, factor) == 0 ? "default sends" : row.name;
  }
  return "";
}

std::string subject_of(const Series& series) {
  const StudyRow& base = series.base();
  const Factor factor = series.factor;
  if (factor == Factor::layout) return group_title(base);
  if (factor == Factor::microbatch) return group_title(base) + ", " + layout_with_options(base);
  const std::string what = factor == Factor::condition || factor == Factor::size ? model_title(base)
                           : factor == Factor::task ? answers::group_label(base.job)
                                                    : group_title(base);
  return what + ", " + full_label(base);
}

}  // namespace triplepoint::report
