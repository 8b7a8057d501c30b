// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
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
/// by steps along one cost at a time, from a quarter of its range down to a 64th. The second term
/// keeps at its usual value what the runs do not tell. Deterministic.
StackFit fit_stack(const spec::Stack& start, const std::vector<FitRow>& rows, const ScoreContext&);

/// The stacks of these rows, each fitted to its own; `left_out` rows do not take part. A stack
/// without any row stays neutral. Of a family at most 24 rows of at most 512 GPUs take part, evenly
/// picked, so that no source outvotes the others and none takes all the time.
std::map<std::string, StackFit> fit_stacks(const std::vector<TriedRow>&,
                                           const std::string& left_out_family, const ScoreContext&);

/// Predicts every family with stacks that were fitted without it: what a user of software that is
/// known, or not known, from other sources may expect. Everything else (kernels, collectives,
/// power, heat) comes from below and is no part of it.
TableScores leave_one_family_out(const std::vector<TriedRow>&, const ScoreContext&);

}  // namespace triplepoint::calibrate
