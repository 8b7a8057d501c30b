// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/calibrate/score_context.h"
#include "triplepoint/calibrate/training_tables.h"

namespace triplepoint::calibrate {

/// A cost of the software that published runs can tell, where it lies before any run has been seen,
/// and within which bounds it has a meaning.
struct StackParameter {
  std::string_view name;  // as in data/stacks
  double (*get)(const spec::Stack&);
  void (*set)(spec::Stack&, double);
  double neutral, low, high;
};
std::span<const StackParameter> stack_parameters();

/// The stack as it is before runs of it have been seen: what it is made of stays (graphs, fused
/// kernels, flash attention), costs are the usual ones.
spec::Stack neutral_stack(spec::Stack);

/// A run of known speed.
struct FitRow {
  std::string row_id, family;
  spec::Job job;
  Seconds measured;
};

struct StackFit {
  spec::Stack stack;
  int64_t rows = 0;
  double median_before = 0, median_after = 0;  // absolute errors in per cent
  std::vector<std::string> on_bounds;
};

/// The costs at which predictions of these runs are closest.
///
///   minimize  mean |ln(predicted / measured)|  +  0.002 sum ((x - neutral) / (high - low))^2
///
/// by steps along one cost at a time, from a quarter of its range down to a 32nd. The second term
/// keeps at its usual value what the runs do not tell. Deterministic.
StackFit fit_stack(const spec::Stack& start, const std::vector<FitRow>& rows, const ScoreContext&);

/// Which rows a stack may learn from before it predicts a family.
enum class StackLesson {
  left_out,  // those of all other families: what one may expect of runs nobody has seen
  all        // its own as well: what these costs can explain at best
};

/// One fit, and which family it was then used for (empty: all).
struct LessonFit {
  std::string family;
  StackFit fit;
};

/// Predictions with fitted stacks, and the fits.
struct LessonScores {
  TableScores scores;
  std::vector<LessonFit> fits;
};

/// Predicts every row with stacks that were fitted on rows of this table. Left out: on the rows of
/// other families on the same stack; where there are fewer than four, its costs are the medians of
/// the other stacks'. Of a family at most 10 rows of at most 128 GPUs
/// take part in a fit, evenly picked, so that no source outvotes the others. Everything else
/// (kernels, collectives, power, heat) comes from below and is no part of it.
LessonScores score_with_fitted_stacks(const std::vector<TriedRow>&, StackLesson,
                                      const ScoreContext&);

}  // namespace triplepoint::calibrate
