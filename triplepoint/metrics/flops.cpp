// SPDX-License-Identifier: Apache-2.0
// How fast is a step, and what share of the chips' peak is that?
//
//   mfu = model flops / (step time * devices * dense peak of the data type); hfu counts recomputed
//   flops too, which only training has.
// Source: Chowdhery et al. 2022 (PaLM), appendix B; Korthikanti et al. 2022, section 6.3.
#include "triplepoint/metrics/inference.h"
#include "triplepoint/metrics/view.h"

namespace triplepoint::metrics {

namespace {

struct StepTotals {
  Seconds time;
  double samples = 0, tokens = 0;
};

StepTotals total(const std::vector<run::StepRecord>& steps) {
  StepTotals sum;
  for (const run::StepRecord& step : steps) {
    sum.time += step.end - step.begin;
    sum.samples += static_cast<double>(step.samples);
    sum.tokens += static_cast<double>(step.tokens);
  }
  return sum;
}

void answer_utilization(const run::Run& run, double devices, Metrics& answer) {
  const Seconds time = *answer.step_time;
  if (run.model_flops && devices > 0)
    answer.model_tflops_per_gpu = *run.model_flops / time / devices / (unit::TFLOP / unit::s);
  if (!run.peak_flops || devices == 0 || *run.peak_flops <= FlopsPerSecond()) return;
  const Flops possible = *run.peak_flops * time * devices;
  if (run.model_flops) answer.mfu = *run.model_flops / possible;
  if (run.hardware_flops && !is_inference(run)) answer.hfu = *run.hardware_flops / possible;
}

}  // namespace

void answer_speed(const View& view, Metrics& answer) {
  const StepTotals totals = total(view.steps);
  if (totals.time <= Seconds()) return;
  const auto devices = static_cast<double>(view.run.devices.size());
  answer.step_time = totals.time / view.num_steps();
  // A decoding step gives each sequence one token; none is done after it.
  const bool whole = !view.run.manifest.job || view.run.manifest.job->task != spec::Task::decode;
  if (totals.samples > 0 && whole)
    answer.samples_per_second = totals.samples / (totals.time / unit::s);
  if (totals.tokens > 0) answer.tokens_per_second = totals.tokens / (totals.time / unit::s);
  if (answer.tokens_per_second && devices > 0)
    answer.tokens_per_second_per_gpu = *answer.tokens_per_second / devices;
  answer_utilization(view.run, devices, answer);
}

}  // namespace triplepoint::metrics
