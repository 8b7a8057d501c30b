// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/power.h"

#include <cmath>

#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/simulate.h"

namespace triplepoint::learn {
namespace {

constexpr int rounds = 4;
constexpr double difference = 0.1;

/// ln(watts) of the mean GPU at thermal steady state.
std::optional<double> log_power(const spec::Job& job) {
  if (!job.cluster.gpu.power) return std::nullopt;
  const run::Run run = sim::simulate(job, {.timeline = false, .causes = false});
  double sum = 0;
  for (const run::DeviceSummary& device : run.summaries)
    sum += device.power_mean_w.value_or(0);
  if (!(sum > 0)) return std::nullopt;
  return std::log(sum / as_real(run.summaries.size()));
}

struct Row {
  double residual = 0;  // ln(measured / predicted)
  PowerFactors slopes{};
  bool known = false;
};

Row row_of(const PowerRun& run, const PowerFactors& at) {
  const auto here = log_power(with_power(*run.job, at));
  if (!here) return {};
  Row row{.residual = std::log(run.watts) - *here, .known = true};
  // Towards what was measured: power that meets its limit answers on one side only.
  const double step = std::copysign(difference, row.residual);
  for (std::size_t k = 0; k < at.size(); ++k) {
    PowerFactors moved = at;
    moved[k] += step;
    const auto there = log_power(with_power(*run.job, moved));
    row.slopes[k] = there ? (*there - *here) / step : 0;
    row.residual += row.slopes[k] * at[k];
  }
  return row;
}

/// Two unknowns: S^-1 by hand.
LearnedPower solved(const PowerPriors& priors, const std::vector<Row>& rows) {
  const double weight = 1 / (priors.noise * priors.noise);
  double a = 1 / (priors.energy * priors.energy), b = 0, c = 1 / (priors.idle * priors.idle);
  PowerFactors right{};
  LearnedPower learned;
  for (const Row& row : rows) {
    if (!row.known) continue;
    const auto& [energy, idle] = row.slopes;
    a += weight * energy * energy;
    b += weight * energy * idle;
    c += weight * idle * idle;
    right[0] += weight * energy * row.residual;
    right[1] += weight * idle * row.residual;
    ++learned.runs;
  }
  const double determinant = a * c - b * b;
  learned.mean = {(c * right[0] - b * right[1]) / determinant,
                  (a * right[1] - b * right[0]) / determinant};
  learned.spread = {std::sqrt(c / determinant), std::sqrt(a / determinant)};
  return learned;
}

}  // namespace

spec::Job with_power(spec::Job job, const PowerFactors& factors) {
  if (!job.cluster.gpu.power || factors == PowerFactors{}) return job;
  spec::PowerCoefficients& power = *job.cluster.gpu.power;
  const double energy = std::exp(factors[0]), idle = std::exp(factors[1]);
  for (double& joules : power.joules_per_tflop)
    joules *= energy;
  for (double* joules :
       {&power.joules_per_hbm_gb, &power.joules_per_scale_up_gb, &power.joules_per_scale_out_gb})
    *joules *= energy;
  for (Watts* watts : {&power.idle, &power.active_idle, &power.waiting, &power.leakage})
    *watts *= idle;
  return job;
}

std::optional<LearnedPower> learn_power(const PowerPriors& priors,
                                        const std::vector<PowerRun>& runs, int threads) {
  LearnedPower learned;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Row> rows(runs.size());
    parallel_for(runs.size(), threads,
                 [&](std::size_t i) { rows[i] = row_of(runs[i], learned.mean); });
    learned = solved(priors, rows);
  }
  if (learned.runs == 0) return std::nullopt;
  return learned;
}

}  // namespace triplepoint::learn
