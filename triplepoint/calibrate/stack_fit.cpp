// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/stack_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "triplepoint/base/parallel.h"

#include "triplepoint/calibrate/predict_job.h"
#include "triplepoint/calibrate/score_summary.h"
#include "triplepoint/calibrate/training_quantity.h"

namespace triplepoint::calibrate {
namespace {

using spec::Stack;

constexpr std::array parameters = {
    StackParameter{"overlap_compute_loss", [](const Stack& s) { return s.overlap_compute_loss; },
                   [](Stack& s, double x) { s.overlap_compute_loss = x; }, 0.15, 0, 0.6},
    StackParameter{
        "layer_host",  // forward and backward alike
        [](const Stack& s) { return s.layer_forward_host / unit::ms; },
        [](Stack& s, double x) { s.layer_forward_host = s.layer_backward_host = x * unit::ms; },
        0.3, 0, 2},
    StackParameter{"microbatch_gap", [](const Stack& s) { return s.microbatch_gap / unit::ms; },
                   [](Stack& s, double x) { s.microbatch_gap = x * unit::ms; }, 0.1, 0, 4},
    StackParameter{"step_overhead", [](const Stack& s) { return s.step_overhead / unit::ms; },
                   [](Stack& s, double x) { s.step_overhead = x * unit::ms; }, 50, 0, 400},
};

constexpr int64_t largest_world = 128;
constexpr std::size_t rows_of_a_family = 10;
constexpr int64_t fewest_rows = 4;  // below this a stack counts as unknown
constexpr double prior_weight = 0.002;

double clamp(const StackParameter& parameter, double value) {
  return std::clamp(value, parameter.low, parameter.high);
}

/// ln(predicted / measured) of every run that fits in memory.
std::vector<double> log_errors(const Stack& stack, const std::vector<FitRow>& rows,
                               const ScoreContext& context) {
  std::vector<double> errors(rows.size(), std::nan(""));
  parallel_for(rows.size(), context.threads, [&](std::size_t i) {
    spec::Job job = rows[i].job;
    job.stack = stack;
    const Result<JobPrediction> prediction = predict_job(job);
    if (prediction && prediction->fits)
      errors[i] = std::log(prediction->step_time / rows[i].measured);
  });
  std::erase_if(errors, [](double e) { return std::isnan(e); });
  return errors;
}

double cost(const Stack& stack, const std::vector<FitRow>& rows, const ScoreContext& context) {
  const std::vector<double> errors = log_errors(stack, rows, context);
  double sum = 0;
  for (const double error : errors)
    sum += std::abs(error);
  double prior = 0;
  for (const StackParameter& p : parameters)
    prior += std::pow((p.get(stack) - p.neutral) / (p.high - p.low), 2);
  const double mean = errors.empty() ? 0 : sum / static_cast<double>(errors.size());
  return mean + prior_weight * prior;
}

double median_error_pct(const Stack& stack, const std::vector<FitRow>& rows,
                        const ScoreContext& context) {
  std::vector<double> errors = log_errors(stack, rows, context);
  if (errors.empty()) return 0;
  for (double& error : errors)
    error = 100 * std::abs(std::expm1(error));
  return quantile(errors, 0.5);
}

/// Tries a step up and a step down of one cost; true if one of them is better.
bool improve(const StackParameter& parameter, double step, Stack& stack, double& best,
             const std::vector<FitRow>& rows, const ScoreContext& context) {
  const double here = parameter.get(stack);
  for (const double direction : {1.0, -1.0}) {
    const double there =
        clamp(parameter, here + direction * step * (parameter.high - parameter.low));
    if (there == here) continue;
    Stack tried = stack;
    parameter.set(tried, there);
    const double found = cost(tried, rows, context);
    if (found >= best) continue;
    best = found;
    stack = tried;
    return true;
  }
  return false;
}

/// So many of them, evenly picked.
std::vector<FitRow> thinned(std::vector<FitRow> rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  std::vector<FitRow> picked;
  for (std::size_t i = 0; i < most; ++i)
    picked.push_back(std::move(rows[i * rows.size() / most]));
  return picked;
}

/// The runs that can be fitted to, by stack and family.
using RowsByStack = std::map<std::string, std::map<std::string, std::vector<FitRow>>>;

RowsByStack fit_rows(const std::vector<TriedRow>& tried, const ScoreContext& context) {
  RowsByStack by_stack;
  for (const TriedRow& row : tried) {
    const Result<ResolvedRow> resolved = resolve(row.row, context.library);
    if (!resolved || !row.ran || resolved->job.world_size() > largest_world) continue;
    const std::optional<Seconds> measured = measured_step_time(row.row, resolved->job);
    if (!measured) continue;
    by_stack[resolved->job.stack.name][row.row.family].push_back(
        {row.row.row_id, row.row.family, resolved->job, *measured});
  }
  for (auto& [stack, families] : by_stack)
    for (auto& [family, rows] : families)
      rows = thinned(std::move(rows), rows_of_a_family);
  return by_stack;
}

using StackFits = std::map<std::string, StackFit>;  // by the stack's name

/// A fit of every stack to the rows of all families but this one.
StackFits fit_without(const RowsByStack& by_stack, const std::string& family,
                      const ScoreContext& context) {
  StackFits fits;
  for (const auto& [stack, families] : by_stack) {
    std::vector<FitRow> rows;
    for (const auto& [name, own] : families)
      if (name != family) rows.insert(rows.end(), own.begin(), own.end());
    const Stack& start = families.begin()->second.front().job.stack;
    fits[stack] = fit_stack(neutral_stack(start), rows, context);
  }
  return fits;
}

/// The rows of the stacks that this family runs on.
RowsByStack stacks_of(const std::string& family, const RowsByStack& by_stack) {
  RowsByStack own;
  for (const auto& [stack, families] : by_stack)
    if (families.count(family) > 0) own[stack] = families;
  return own;
}

/// What software usually costs: of each cost the median over other stacks, alike in that graphs are
/// captured or not.
Stack usual_stack(Stack stack, const StackFits& others) {
  for (const StackParameter& parameter : parameters) {
    std::vector<double> values;
    for (const auto& [name, fit] : others)
      if (fit.rows >= fewest_rows && fit.stack.cuda_graphs == stack.cuda_graphs)
        values.push_back(parameter.get(fit.stack));
    if (!values.empty()) parameter.set(stack, quantile(values, 0.5));
  }
  return stack;
}

/// The stacks that this family runs on as the others teach them: their own rows on the same stack,
/// or else what other stacks have in common.
StackFits taught_by_others(const std::string& family, const RowsByStack& by_stack,
                           const StackFits& of_all, const ScoreContext& context) {
  const RowsByStack own = stacks_of(family, by_stack);
  StackFits fits = fit_without(own, family, context), others;
  for (const auto& [stack, fit] : of_all)
    if (own.count(stack) == 0) others[stack] = fit;
  for (auto& [stack, fit] : fits)
    if (fit.rows < fewest_rows) fit.stack = usual_stack(fit.stack, others);
  return fits;
}

TableScores score_with(const StackFits& fits, const std::vector<TriedRow>& rows,
                       const ScoreContext& context) {
  return score_rows(rows, context, [&](spec::Job& job) {
    const auto fit = fits.find(job.stack.name);
    job.stack = fit == fits.end() ? neutral_stack(job.stack) : fit->second.stack;
  });
}

void join(TableScores& all, TableScores more) {
  all.rows += more.rows;
  all.scored.insert(all.scored.end(), more.scored.begin(), more.scored.end());
  all.skipped.insert(all.skipped.end(), more.skipped.begin(), more.skipped.end());
  all.fit.ran_and_fits += more.fit.ran_and_fits;
  all.fit.false_oom.insert(all.fit.false_oom.end(), more.fit.false_oom.begin(),
                           more.fit.false_oom.end());
}

}  // namespace

std::span<const StackParameter> stack_parameters() {
  return parameters;
}

Stack neutral_stack(Stack stack) {
  for (const StackParameter& parameter : parameters)
    parameter.set(stack, parameter.neutral);
  // A captured graph leaves the host little to do.
  if (stack.cuda_graphs) stack.layer_forward_host = stack.layer_backward_host = 0.02 * unit::ms;
  return stack;
}

StackFit fit_stack(const Stack& start, const std::vector<FitRow>& rows,
                   const ScoreContext& context) {
  StackFit fit{.stack = start, .rows = static_cast<int64_t>(rows.size()), .on_bounds = {}};
  if (rows.empty()) return fit;
  fit.median_before = median_error_pct(start, rows, context);
  double best = cost(fit.stack, rows, context);
  for (const double step : {1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32}) {  // of each cost's range
    bool better = true;
    for (int round = 0; better && round < 2; ++round) {
      better = false;
      for (const StackParameter& parameter : parameters)
        better |= improve(parameter, step, fit.stack, best, rows, context);
    }
  }
  fit.median_after = median_error_pct(fit.stack, rows, context);
  for (const StackParameter& p : parameters)
    if (p.get(fit.stack) == p.low || p.get(fit.stack) == p.high) fit.on_bounds.emplace_back(p.name);
  return fit;
}

LessonScores score_with_fitted_stacks(const std::vector<TriedRow>& rows, StackLesson lesson,
                                      const ScoreContext& context) {
  std::map<std::string, std::vector<TriedRow>> groups;
  for (const TriedRow& row : rows)
    groups[lesson == StackLesson::all ? "" : row.row.family].push_back(row);
  const RowsByStack by_stack = fit_rows(rows, context);
  if (context.begin) context.begin(rows.size());
  ScoreContext quiet = context;
  quiet.begin = {};
  LessonScores lessons;
  lessons.scores.table = "training";
  const StackFits of_all = fit_without(by_stack, "", context);
  for (const auto& [family, own] : groups) {
    StackFits fits =
        lesson == StackLesson::all ? of_all : taught_by_others(family, by_stack, of_all, context);
    join(lessons.scores, score_with(fits, own, quiet));
    for (auto& [stack, fit] : fits)
      lessons.fits.push_back({family, std::move(fit)});
  }
  return lessons;
}

}  // namespace triplepoint::calibrate
