// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/lifetime.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/run/run.h"
#include "triplepoint/run/series_index.h"
#include "triplepoint/spec/toml_tree.h"

// The constants of the wear models, from data/lifetime.toml.

namespace triplepoint::metrics {
namespace {

using spec::TomlValue;

class Reader {
 public:
  Reader(const TomlValue& table, std::string file) : table_(table), file_(std::move(file)) {}

  Result<void> number(const char* key, double& value) const {
    const TomlValue* found = table_.find(key);
    if (found != nullptr && found->is(TomlValue::Kind::integer))
      value = static_cast<double>(found->integer);
    else if (found != nullptr && found->is(TomlValue::Kind::number))
      value = found->number;
    else
      return problem(key, "is no number");
    return {};
  }
  template <class T>
  Result<void> quantity(const char* key, T& value) const {
    const TomlValue* found = table_.find(key);
    if (found == nullptr) return problem(key, "is missing");
    value = TPT_TRY(parse_quantity<T>(found->text));
    return {};
  }

 private:
  Result<void> problem(const char* key, const char* what) const {
    return error(fmt::format("{}: lifetime.{} {} (the lifetime model needs it); write it", file_,
                             key, what));
  }
  const TomlValue& table_;
  std::string file_;
};

}  // namespace

Result<LifetimeModel> load_lifetime_model(const spec::Library& library) {
  const std::string path = library.root + "/lifetime.toml";
  const std::string text = TPT_TRY(read_file(path));
  const TomlValue root = TPT_TRY(spec::parse_toml(text, path));
  const TomlValue* table = root.find("lifetime");
  if (table == nullptr)
    return error(fmt::format(
        "{}: no [lifetime] (it holds the constants of the lifetime model); restore the file",
        path));
  const Reader read(*table, path);
  LifetimeModel model;
  TPT_TRY(read.quantity("reference_die", model.reference_die));
  TPT_TRY(read.quantity("reference_cycle", model.reference_cycle));
  TPT_TRY(read.quantity("cycling_elastic", model.cycling_elastic));
  const std::pair<const char*, double*> numbers[] = {
      {"reference_power_share", &model.reference_power_share},
      {"reference_cycles_per_day", &model.reference_cycles_per_day},
      {"electromigration_exponent", &model.electromigration_exponent},
      {"electromigration_energy_ev", &model.electromigration_energy_ev},
      {"oxide_exponent", &model.oxide_exponent},
      {"oxide_exponent_per_kelvin", &model.oxide_exponent_per_kelvin},
      {"oxide_energy_ev", &model.oxide_energy_ev},
      {"oxide_energy_ev_kelvin", &model.oxide_energy_ev_kelvin},
      {"oxide_energy_ev_per_kelvin", &model.oxide_energy_ev_per_kelvin},
      {"cycling_exponent", &model.cycling_exponent}};
  for (const auto& [key, value] : numbers)
    TPT_TRY(read.number(key, *value));
  return model;
}

namespace {

constexpr double boltzmann_ev_per_kelvin = 8.617333262e-5;  // CODATA 2018
constexpr Seconds day = 24 * unit::h;
// Below this the temperature has not had time to follow the load, and there are no cycles to see.
constexpr Seconds shortest_history = 10 * unit::min;

double kelvin(Celsius die) {
  return die.degrees() + 273.15;
}

double oxide_rate(const LifetimeModel& model, double t, double voltage_ratio) {
  const double energy = model.oxide_energy_ev + model.oxide_energy_ev_kelvin / t +
                        model.oxide_energy_ev_per_kelvin * t;
  const double exponent = model.oxide_exponent + model.oxide_exponent_per_kelvin * t;
  return std::pow(voltage_ratio, exponent) * std::exp(-energy / (boltzmann_ev_per_kelvin * t));
}

/// V / V_max along the V/f curve of the power model: v = V^2 / V_max^2 = floor + (1 - floor) r^x
/// (power/power.h). Without a power model the voltage stays at its highest.
double voltage_ratio(const spec::Gpu& gpu, double clock_ratio) {
  if (!gpu.power) return 1;
  const spec::PowerCoefficients& power = *gpu.power;
  return std::sqrt(power.energy_floor +
                   (1 - power.energy_floor) * std::pow(clock_ratio, power.clock_exponent));
}

/// What a run's readings are compared with.
struct Scale {
  const spec::Gpu* gpu = nullptr;
  double limit_w = 0;
};

std::optional<Scale> scale_of(const run::Run& run) {
  if (!run.manifest.job || !run.manifest.job->cluster.gpu.tdp) return std::nullopt;
  const spec::Gpu& gpu = run.manifest.job->cluster.gpu;
  return Scale{.gpu = &gpu, .limit_w = *gpu.tdp / unit::W};
}

double value_at(const std::vector<double>& values, size_t device) {
  return device < values.size() ? values[device] : std::nan("");
}

std::optional<double> cycling_of(const run::Series* die, const LifetimeModel& model) {
  if (die == nullptr || die->times.size() < 3) return std::nullopt;
  const Seconds duration = die->times.back() - die->times.front();
  if (duration < shortest_history) return std::nullopt;
  return cycling_use(model, rainflow(die->values), duration);
}

/// Without the cycles of its die.
std::optional<LifetimeUse> lifetime_use_of_device(const Metrics& metrics, const Scale& scale,
                                                  size_t device, const LifetimeModel& model) {
  const double degrees = value_at(metrics.temperature_per_gpu_c, device);
  const double watts = value_at(metrics.power_per_gpu_w, device);
  if (!std::isfinite(degrees) || !std::isfinite(watts)) return std::nullopt;
  const double mhz = value_at(metrics.sm_clock_per_gpu_mhz, device);
  DieStress stress{.die = Celsius(degrees), .power_share = watts / scale.limit_w};
  if (std::isfinite(mhz) && scale.gpu->max_clock)
    stress.voltage_ratio =
        voltage_ratio(*scale.gpu, std::min(1., mhz / (*scale.gpu->max_clock / unit::MHz)));
  LifetimeUse use;
  use.electromigration = electromigration_use(model, stress);
  use.oxide = oxide_use(model, stress);
  return use;
}

}  // namespace

double LifetimeUse::total() const {
  const double wear_out = electromigration + oxide;
  return cycling ? (wear_out + *cycling) / 3 : wear_out / 2;
}

double electromigration_use(const LifetimeModel& model, const DieStress& stress) {
  const double current = stress.power_share / model.reference_power_share / stress.voltage_ratio;
  const double inverse = 1 / kelvin(model.reference_die) - 1 / kelvin(stress.die);
  return std::pow(std::max(0., current), model.electromigration_exponent) *
         std::exp(model.electromigration_energy_ev / boltzmann_ev_per_kelvin * inverse);
}

double oxide_use(const LifetimeModel& model, const DieStress& stress) {
  return oxide_rate(model, kelvin(stress.die), stress.voltage_ratio) /
         oxide_rate(model, kelvin(model.reference_die), 1);
}

double cycling_use(const LifetimeModel& model, std::span<const ThermalCycle> cycles,
                   Seconds duration) {
  const Kelvins reference = model.reference_cycle - model.cycling_elastic;
  double damage = 0;
  for (const ThermalCycle& cycle : cycles)
    if (cycle.height > model.cycling_elastic)
      damage += cycle.count * std::pow((cycle.height - model.cycling_elastic) / reference,
                                       model.cycling_exponent);
  return damage / (duration / day * model.reference_cycles_per_day);
}

namespace {

/// Peaks and valleys alone, with both ends.
std::vector<double> turning_points(std::span<const double> values) {
  std::vector<double> points;
  for (const double value : values) {
    if (!points.empty() && value == points.back()) continue;
    if (points.size() > 1) {
      const double before = points[points.size() - 2], last = points.back();
      if ((last - before) * (value - last) > 0) points.pop_back();
    }
    points.push_back(value);
  }
  return points;
}

}  // namespace

std::vector<ThermalCycle> rainflow(std::span<const double> degrees) {
  std::vector<ThermalCycle> cycles;
  std::vector<double> stack;
  for (const double point : turning_points(degrees)) {
    stack.push_back(point);
    while (stack.size() >= 3) {
      const size_t n = stack.size();
      const double last = std::abs(stack[n - 1] - stack[n - 2]);
      const double before = std::abs(stack[n - 2] - stack[n - 3]);
      if (last < before) break;
      if (n == 3) {
        cycles.push_back({before * unit::K, 0.5});
        stack.erase(stack.begin());
      } else {
        cycles.push_back({before * unit::K, 1});
        stack.erase(stack.end() - 3, stack.end() - 1);
      }
    }
  }
  for (size_t i = 1; i < stack.size(); ++i)
    cycles.push_back({std::abs(stack[i] - stack[i - 1]) * unit::K, 0.5});
  return cycles;
}

std::optional<RunLifetimeUse> lifetime_use_of(const run::Run& run, const Metrics& metrics,
                                              const LifetimeModel& model) {
  const std::optional<Scale> scale = scale_of(run);
  if (!scale || !run::has_trained(run)) return std::nullopt;
  RunLifetimeUse use;
  double sum = 0, known = 0;
  const run::SeriesIndex series(run);
  for (size_t d = 0; d < run.devices.size(); ++d) {
    use.devices.push_back(lifetime_use_of_device(metrics, *scale, d, model));
    if (!use.devices.back()) continue;
    use.devices.back()->cycling = cycling_of(series.find("die_c", run.devices[d].index), model);
    const double total = use.devices.back()->total();
    if (known == 0 || total > use.highest) use.worst_device = run.devices[d].index;
    use.highest = known == 0 ? total : std::max(use.highest, total);
    use.lowest = known == 0 ? total : std::min(use.lowest, total);
    sum += total;
    known += 1;
  }
  if (known == 0) return std::nullopt;
  use.mean = sum / known;
  if (metrics.tokens_per_second && *metrics.tokens_per_second > 0)
    use.gpu_hours_per_million_tokens =
        use.mean * known * 1e6 / *metrics.tokens_per_second / (unit::h / unit::s);
  use.reference = fmt::format(
      "1 = a GPU whose die is at {:g} °C and draws {:.0f} % of its power limit at full clock",
      model.reference_die.degrees(), 100 * model.reference_power_share);
  return use;
}

Json lifetime_use_json(const RunLifetimeUse& use) {
  Json json = {{"mean", use.mean},           {"highest", use.highest},
               {"lowest", use.lowest},       {"worst_gpu", use.worst_device},
               {"reference", use.reference}, {"gpu_hours_per_million_tokens", nullptr}};
  if (use.gpu_hours_per_million_tokens)
    json["gpu_hours_per_million_tokens"] = *use.gpu_hours_per_million_tokens;
  if (use.devices.size() > most_listed_devices) return json;
  json["per_gpu"] = Json::array();
  for (const std::optional<LifetimeUse>& device : use.devices) {
    if (!device) {
      json["per_gpu"].push_back(nullptr);
      continue;
    }
    json["per_gpu"].push_back({{"total", device->total()},
                               {"electromigration", device->electromigration},
                               {"oxide", device->oxide},
                               {"cycling", device->cycling ? Json(*device->cycling) : Json()}});
  }
  return json;
}

}  // namespace triplepoint::metrics
