// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/lifetime_use.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "triplepoint/run/series_index.h"

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {
namespace {

using spec::LifetimeCoefficients;

constexpr double boltzmann_ev_per_kelvin = 8.617333262e-5;  // CODATA 2018

double kelvin(Celsius die) {
  return die.degrees() + 273.15;
}

double electromigration(const LifetimeCoefficients& model, const DieStress& stress) {
  const double current = stress.power_share / model.reference_power_share / stress.voltage_ratio;
  const double inverse = 1 / kelvin(model.reference_die) - 1 / kelvin(stress.die);
  return std::pow(std::max(0., current), model.electromigration_exponent) *
         std::exp(model.electromigration_energy_ev / boltzmann_ev_per_kelvin * inverse);
}

double oxide_rate(const LifetimeCoefficients& model, double t, double voltage_ratio) {
  const double energy = model.oxide_energy_ev - model.oxide_energy_ev_kelvin / t -
                        model.oxide_energy_ev_per_kelvin * t;
  const double exponent = model.oxide_exponent - model.oxide_exponent_per_kelvin * t;
  return std::pow(voltage_ratio, exponent) * std::exp(-energy / (boltzmann_ev_per_kelvin * t));
}

/// V / V_max along the V/f curve of the power model: v = V^2 / V_max^2 = floor + (1 - floor) r^x
/// (power/power.h). Without a power model or a clock the voltage stays at its highest.
double voltage_ratio(const spec::Gpu& gpu, double clock_mhz) {
  if (!gpu.power || !gpu.max_clock || !std::isfinite(clock_mhz)) return 1;
  const spec::PowerCoefficients& power = *gpu.power;
  const double clock_ratio = std::min(1., clock_mhz / (*gpu.max_clock / unit::MHz));
  return std::sqrt(power.energy_floor +
                   (1 - power.energy_floor) * std::pow(clock_ratio, power.clock_exponent));
}

double value_at(const std::vector<double>& values, size_t device) {
  return device < values.size() ? values[device] : std::numeric_limits<double>::quiet_NaN();
}

/// Not-a-number where power or temperature is not known.
double use_of_device(const spec::Gpu& gpu, const Metrics& known, size_t device) {
  const double degrees = value_at(known.temperature_per_gpu_c, device);
  const double watts = value_at(known.power_per_gpu_w, device);
  if (!std::isfinite(degrees) || !std::isfinite(watts))
    return std::numeric_limits<double>::quiet_NaN();
  return lifetime_use(*gpu.lifetime, {.die = Celsius(degrees),
                                      .power_share = watts / (*gpu.tdp / unit::W),
                                      .voltage_ratio = voltage_ratio(
                                          gpu, value_at(known.sm_clock_per_gpu_mhz, device))});
}

/// Mean over the time of a run: a warm minute counts for a minute, however long the run.
std::optional<double> use_over_time(const spec::Gpu& gpu, const run::SeriesIndex& readings,
                                    int64_t device) {
  const auto index = static_cast<int32_t>(device);
  const run::Series* die = readings.find("die_c", index);
  const run::Series* power = readings.find("power_w", index);
  const run::Series* clock = readings.find("sm_clock_mhz", index);
  if (!die || !power || !clock || die->times != power->times || die->times != clock->times)
    return std::nullopt;
  double sum = 0, time = 0;
  for (size_t i = 1; i < die->times.size(); ++i) {  // a value tells the time before its stamp
    const double seconds = (die->times[i] - die->times[i - 1]) / unit::s;
    sum += seconds *
           lifetime_use(*gpu.lifetime, {.die = Celsius(die->values[i]),
                                        .power_share = power->values[i] / (*gpu.tdp / unit::W),
                                        .voltage_ratio = voltage_ratio(gpu, clock->values[i])});
    time += seconds;
  }
  return time > 0 ? std::optional(sum / time) : std::nullopt;
}

}  // namespace

double lifetime_use(const LifetimeCoefficients& model, const DieStress& stress) {
  const double oxide = oxide_rate(model, kelvin(stress.die), stress.voltage_ratio) /
                       oxide_rate(model, kelvin(model.reference_die), 1);
  return (electromigration(model, stress) + oxide) / 2;
}

void answer_lifetime_use(const View& view, Metrics& answer) {
  if (!view.run.manifest.job) return;
  const spec::Gpu& gpu = view.run.manifest.job->cluster.gpu;
  if (!gpu.lifetime || !gpu.tdp) return;
  std::vector<double> uses;
  double sum = 0, highest = 0, known = 0;
  // Of a run over time the summaries tell of its last step alone.
  const bool over_time = view.run.manifest.origin == run::Origin::simulated &&
                         view.run.steps.size() > view.steps.size();
  std::optional<run::SeriesIndex> readings;
  if (over_time) readings.emplace(view.run);
  for (size_t d = 0; d < view.run.devices.size(); ++d) {
    const auto mean =
        readings ? use_over_time(gpu, *readings, view.run.devices[d].index) : std::nullopt;
    uses.push_back(mean ? *mean : use_of_device(gpu, answer, d));
    if (!std::isfinite(uses.back())) continue;
    sum += uses.back();
    highest = std::max(highest, uses.back());
    known += 1;
  }
  if (known == 0) return;
  answer.lifetime_use_mean = sum / known;
  answer.lifetime_use_highest = highest;
  answer.lifetime_use_per_gpu = std::move(uses);
}

}  // namespace triplepoint::metrics
