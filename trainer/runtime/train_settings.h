// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include "triplepoint/base/result.h"

namespace triplepoint::trainer {

/// Linear warm-up, then half a cosine down to `final_share` of the peak; flat after `decay_steps`.
///
///   step < warmup:  peak (step + 1) / warmup
///   else:           peak (f + (1 - f) (1 + cos(pi x)) / 2),  x = (step - warmup) / (decay -
///   warmup)
///
/// decay_steps = 0: no decay.  Source: Megatron-LM, megatron/core/optimizer_param_scheduler.py.
struct LearningRate {
  double peak = 1e-3;
  int64_t warmup_steps = 0, decay_steps = 0;
  double final_share = 0.1;

  double at(int64_t step) const {
    if (step < warmup_steps)
      return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    if (decay_steps <= warmup_steps) return peak;
    const double x =
        static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
    const double fall = (1 + std::cos(std::numbers::pi * std::min(x, 1.0))) / 2;
    return peak * (final_share + (1 - final_share) * fall);
  }
};

/// What the optimizer is told, beside the rate.
struct AdamSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
};

/// What is asked of a training beside its job.
struct TrainSettings {
  int64_t steps = 10;
  uint64_t seed = 1;
  std::string data = "synthetic";
  LearningRate rate;
  AdamSettings adam;
  double clip = 1;  // largest norm of a step's gradient; 0: any

  const std::atomic<bool>* stop = nullptr;  // asks all ranks to end after this step, if any is set

  double peak_flops = 0;  // of one rank, 1/s; 0: measured at the start
};

/// Refuses settings of the optimizer and of the run that cannot train: not finite, or out of range.
Result<void> check_settings(const TrainSettings&);

}  // namespace triplepoint::trainer
