// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/train_settings.h"

#include <cmath>

#include <fmt/format.h>

namespace triplepoint::trainer {
namespace {

Result<void> check_positive(const char* flag, double value) {
  const auto stored = static_cast<float>(value);  // as the optimizer has it
  if (std::isfinite(stored) && stored > 0) return {};
  return error(
      fmt::format("{} {} is no finite number above 0 (the optimizer divides by it or multiplies "
                  "with it); give one",
                  flag, value));
}

Result<void> check_not_negative(const char* flag, double value) {
  if (std::isfinite(static_cast<float>(value)) && value >= 0) return {};
  return error(fmt::format("{} {} is no finite number from 0 up; give one", flag, value));
}

/// 1 divides by 1 - beta^step = 0.
Result<void> check_beta(const char* flag, double beta) {
  if (beta >= 0 && beta < 1) return {};
  return error(
      fmt::format("{} {} is not in [0, 1) (a mean that forgets nothing divides by 0); use 0.9 to "
                  "0.999",
                  flag, beta));
}

/// A step multiplies weights by 1 - rate x decay.
Result<void> check_decay(double rate, double decay) {
  if (rate * decay < 1) return {};
  return error(
      fmt::format("--weight-decay {} times --lr {} is {:.3g} (each step multiplies weights by 1 "
                  "minus that, so they would change sign or grow); lower one of them",
                  decay, rate, rate * decay));
}

Result<void> check_steps(const char* flag, int64_t steps, int64_t least) {
  constexpr int64_t most = int64_t{1} << 40;
  if (steps >= least && steps <= most) return {};
  return error(
      fmt::format("{} {} is not between {} and {}; give another number", flag, steps, least, most));
}

}  // namespace

Result<void> check_settings(const TrainSettings& settings) {
  const AdamSettings& adam = settings.adam;
  TPT_TRY(check_steps("--steps", settings.steps, 1));
  TPT_TRY(check_steps("--warmup", settings.rate.warmup_steps, 0));
  TPT_TRY(check_steps("--decay-steps", settings.rate.decay_steps, 0));
  TPT_TRY(check_positive("--lr", settings.rate.peak));
  TPT_TRY(check_not_negative("--final-lr-share", settings.rate.final_share));
  TPT_TRY(check_beta("--beta1", adam.beta1));
  TPT_TRY(check_beta("--beta2", adam.beta2));
  TPT_TRY(check_positive("--epsilon", adam.epsilon));
  TPT_TRY(check_not_negative("--weight-decay", adam.weight_decay));
  TPT_TRY(check_not_negative("--clip", settings.clip));
  return check_decay(settings.rate.peak, adam.weight_decay);
}

}  // namespace triplepoint::trainer
