// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/calibrate/training_row.h"

namespace triplepoint::calibrate {

/// What was measured of a row's speed, beside what a predicted step says of it.
struct Quantity {
  const char* name;
  double measured, predicted;
};

/// The first quantity that the row has, for a step of this length.
///
///   tokens = gbs x seq;  rates = tokens / t, sequences / t;  TFLOP/s = flops by the row's
///   convention / t
///
/// In the order step_time_s, tokens_per_s_per_gpu, tokens_per_s_total, seqs_per_s_total,
/// tflops_per_gpu, mfu_pct (of the dense bf16 peak). Nothing where the row has none of them.
std::optional<Quantity> speed_quantity(const TrainingRow&, const spec::Job&, Seconds step_time);

/// The step time at which the prediction would be what was measured.
std::optional<Seconds> measured_step_time(const TrainingRow&, const spec::Job&);

}  // namespace triplepoint::calibrate
