// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_quantity.h"

namespace triplepoint::calibrate {

std::optional<Quantity> speed_quantity(const TrainingRow& row, const spec::Job& job,
                                       Seconds step_time) {
  const double seconds = step_time / unit::s;
  const auto sequences = static_cast<double>(job.plan.global_batch_size);
  const double tokens = sequences * static_cast<double>(job.model.sequence_length);
  const auto gpus = static_cast<double>(job.world_size());
  if (row.step_time_s) return Quantity{"step_time_s", *row.step_time_s, seconds};
  if (row.tokens_per_s_per_gpu)
    return Quantity{"tokens_per_s_per_gpu", *row.tokens_per_s_per_gpu, tokens / seconds / gpus};
  if (row.tokens_per_s_total)
    return Quantity{"tokens_per_s_total", *row.tokens_per_s_total, tokens / seconds};
  if (row.seqs_per_s_total)
    return Quantity{"seqs_per_s_total", *row.seqs_per_s_total, sequences / seconds};
  const std::optional<double> tflop = step_tflop_of_convention(row, job);
  if (!tflop) return std::nullopt;
  if (row.tflops_per_gpu) return Quantity{"tflops_per_gpu", *row.tflops_per_gpu, *tflop / seconds};
  const auto peak = job.cluster.gpu.peak_bf16;
  if (!row.mfu_pct || !peak) return std::nullopt;
  return Quantity{"mfu_pct", *row.mfu_pct,
                  100 * *tflop / seconds / (*peak / (unit::TFLOP / unit::s))};
}

std::optional<Seconds> measured_step_time(const TrainingRow& row, const spec::Job& job) {
  const std::optional<Quantity> in_one_second = speed_quantity(row, job, 1 * unit::s);
  if (!in_one_second || !(in_one_second->measured > 0)) return std::nullopt;
  if (row.step_time_s) return *row.step_time_s * unit::s;
  return in_one_second->predicted / in_one_second->measured * unit::s;
}

}  // namespace triplepoint::calibrate
