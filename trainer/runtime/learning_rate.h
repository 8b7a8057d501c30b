// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

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

}  // namespace triplepoint::trainer
