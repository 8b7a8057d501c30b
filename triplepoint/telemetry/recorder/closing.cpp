// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/closing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::telemetry {

std::vector<run::StepRecord> measured_steps(std::vector<run::StepRecord> all,
                                            const StepWindow& window) {
  std::ranges::sort(all, {}, &run::StepRecord::begin);
  const auto size = static_cast<int64_t>(all.size());
  // A training shorter than its warm-up has its last step measured, which is better than nothing.
  const int64_t skipped = std::max<int64_t>(0, std::min(window.warmup, size - 1));
  const int64_t kept = std::min(window.steps.value_or(size), size - skipped);
  return {all.begin() + skipped, all.begin() + skipped + kept};
}

MeanWithInterval mean_with_interval(const std::vector<double>& values) {
  // Student's t, 97.5 %, for 1, 2, ... degrees of freedom; then the normal distribution's.
  constexpr std::array t = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                            2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
  constexpr double normal = 1.96;
  const auto count = as_real(values.size());
  if (values.empty()) return {};
  MeanWithInterval result{.mean = std::accumulate(values.begin(), values.end(), 0.0) / count};
  if (values.size() < 2) return result;
  const double squares =
      sum_of(values, [&](double value) { return (value - result.mean) * (value - result.mean); });
  const size_t freedom = values.size() - 1;
  const double factor = freedom <= t.size() ? t[freedom - 1] : normal;
  result.half_width = factor * std::sqrt(squares / as_real(freedom) / count);
  return result;
}

namespace {

using run::Run;
using run::Series;
using Extreme = RecordingSummary::Extreme;

struct Window {
  Instant begin, end;
  Seconds length() const { return end - begin; }
};

/// One device's series, read when they are asked for.
class DeviceSeries {
 public:
  DeviceSeries(const Run& head, const run::SeriesLoader& load, const run::Device& device)
      : head_(head), load_(load), device_(device) {}

  Series read(const char* signal) const {
    return load_({.signal = signal, .device = device_.index});
  }
  /// A run of nothing but these.
  Run run_of(std::span<const char* const> signals) const {
    Run few;
    for (const char* signal : signals) {
      Series series = read(signal);
      if (!series.times.empty()) few.series.push_back(std::move(series));
    }
    few.sources = head_.sources;
    return few;
  }
  const run::Device& device() const { return device_; }

 private:
  const Run& head_;
  const run::SeriesLoader& load_;
  const run::Device& device_;
};

/// Statistics over a window; nothing without a value in it.
std::optional<run::SeriesStatistics> statistics_in(const Series& series, const Window& window) {
  const run::SeriesStatistics all = run::statistics(series, window.begin, window.end);
  if (all.count == 0) return std::nullopt;
  return all;
}

/// Of MI300, which has no sensor at the edge of its dies, that of the hottest spot.
Series die_of(const DeviceSeries& series) {
  Series die = series.read("die_c");
  return die.times.empty() ? series.read("junction_c") : die;
}

/// The mean over devices, kept as a sum until all have been seen.
void add_mean(std::optional<double>& sum, double value) {
  sum = sum.value_or(0) + value;
}
void keep_larger(std::optional<Extreme>& most, double value, const run::Device& device) {
  if (!most || value > most->value) most = {value, device.local, device.rank};
}
void keep_smaller(std::optional<Extreme>& least, double value, const run::Device& device) {
  if (!least || value < least->value) least = {value, device.local, device.rank};
}

/// Throttling that only residency counters saw.
struct UnsampledThrottling {
  int64_t devices = 0;
  run::Device worst;
  Seconds longest;
};

/// How often each mean was added to.
struct Counts {
  int64_t power = 0, die = 0, memory = 0, clock = 0, throttle = 0;
  std::map<std::string, UnsampledThrottling> unseen;  // by reason
};

constexpr std::array energy_signals = {"energy_j", "power_instant_w", "power_average_w", "power_w"};

std::optional<Instant> last_reading_of(const Run& few) {
  std::optional<Instant> last;
  for (const Series& series : few.series)
    last = std::max(last.value_or(series.times.back()), series.times.back());
  return last;
}

/// Of two sensors at odds neither is better known than by how far they are.
Joules uncertainty_of(const MeasuredEnergy& energy, const EnergyEstimate& best) {
  const double odds = energy.disagreement().value_or(0);
  const double expected = std::max(gain_error, best.edges / best.energy);
  return odds > expected ? std::max(best.uncertainty(), odds * best.energy) : best.uncertainty();
}

void close_energy(const DeviceSeries& series, const Window& all, RecordingSummary& summary,
                  Counts& counts) {
  const Run few = series.run_of(energy_signals);
  const MeasuredEnergy energy = energy_of(few, series.device().index, all.begin, all.end);
  if (const EnergyEstimate* best = energy.best()) {
    summary.energy = summary.energy.value_or(Joules()) + best->energy;
    summary.energy_uncertainty =
        summary.energy_uncertainty.value_or(Joules()) + uncertainty_of(energy, *best);
    summary.energy_method = energy.method;
    if (best->energy > Joules())
      summary.edges_share = std::max(summary.edges_share, best->edges / best->energy);
    if (const auto odds = energy.disagreement())
      summary.numbers.energy_counter_against_integral =
          std::max(summary.numbers.energy_counter_against_integral.value_or(0), *odds);
  } else if (!series.device().power_counted_on) {
    summary.without_energy.push_back(
        {series.device().local, series.device().rank, last_reading_of(few)});
  }
  for (const char* signal : {"power_instant_w", "power_average_w"}) {
    const Series* power = run::find_series(few, signal, series.device().index);
    if (power == nullptr) continue;
    if (const auto found = statistics_in(*power, all)) {
      ++counts.power;
      add_mean(summary.power_mean_w, found->time_weighted_mean);
      summary.power_p99_w =
          std::max(summary.power_p99_w.value_or(0), lower_quantile(power->values, 0.99));
    }
    return;
  }
}

void close_heat(const DeviceSeries& series, const Window& all, RecordingSummary& summary,
                Counts& counts) {
  if (const auto die = statistics_in(die_of(series), all)) {
    ++counts.die;
    add_mean(summary.die_mean_c, die->time_weighted_mean);
    keep_larger(summary.die_max_c, die->maximum, series.device());
  }
  if (const auto memory = statistics_in(series.read("memory_c"), all)) {
    ++counts.memory;
    add_mean(summary.memory_mean_c, memory->time_weighted_mean);
    keep_larger(summary.memory_max_c, memory->maximum, series.device());
  }
  if (const auto clock = statistics_in(series.read("sm_clock_mhz"), all)) {
    ++counts.clock;
    add_mean(summary.clock_mean_mhz, clock->time_weighted_mean);
    keep_smaller(summary.slowest_clock_mhz, clock->time_weighted_mean, series.device());
  }
  if (const auto module = statistics_in(series.read("module_power_w"), all))
    summary.module_power_w =
        std::max(summary.module_power_w.value_or(0), module->time_weighted_mean);
  const Series limit = series.read("power_limit_w");
  if (!limit.values.empty())
    summary.power_limit_w = std::max(summary.power_limit_w.value_or(0), limit.values.back());
}

/// Errors that came while it was recorded, and what they left to do.
void close_errors(const DeviceSeries& series, RecordingSummary& summary) {
  constexpr std::array words = {
      std::pair("xid_errors", "XID errors"),
      std::pair("ecc_uncorrected_errors", "uncorrected ECC errors"),
      std::pair("remapped_rows_uncorrected", "rows of memory replaced after uncorrected errors"),
      std::pair("remapped_rows_pending", "rows of memory to be replaced at the next reset"),
      std::pair("remapped_rows_failed", "rows of memory that could not be replaced"),
      std::pair("retired_pages_pending", "pages of memory to be retired at the next reset"),
      std::pair("nvlink_recovery_errors", "recoveries of NVLinks"),
      std::pair("nvlink_crc_errors", "NVLink CRC errors")};
  for (const auto& [signal, what] : words)
    if (const Series errors = series.read(signal);
        !errors.values.empty() && errors.values.back() > 0)
      summary.findings.push_back(
          fmt::format("GPU {}: {:.0f} {}", series.device().local, errors.values.back(), what));
}

constexpr auto throttle_signals = [] {
  std::array<const char*, 1 + run::throttle_reasons.size()> signals{"throttle_reasons"};
  for (std::size_t i = 0; i < run::throttle_reasons.size(); ++i)
    signals[i + 1] = run::throttle_reasons[i].counter.data();
  return signals;
}();

std::string device_text(const run::Device& device) {
  return device.rank ? fmt::format("GPU {} (rank {})", device.local, *device.rank)
                     : fmt::format("GPU {}", device.local);
}

void close_throttle(const DeviceSeries& series, const Window& all, RecordingSummary& summary,
                    Counts& counts) {
  const auto residencies = throttle_residency(series.run_of(throttle_signals),
                                              series.device().index, all.begin, all.end);
  if (!residencies.empty()) ++counts.throttle;
  for (const auto& [name, share] : throttle_shares(residencies, all.length())) {
    RecordingSummary::Throttle& throttle = summary.throttle[std::string(name)];
    throttle.mean_share += share;
    if (share > throttle.most.value)
      throttle.most = {share, series.device().local, series.device().rank};
  }
  for (const auto& [name, residency] : residencies) {
    if (!residency.was_missed_by_polling()) continue;
    UnsampledThrottling& unseen = counts.unseen[name];
    if (unseen.devices++ == 0 || *residency.counted > unseen.longest)
      unseen.worst = series.device(), unseen.longest = *residency.counted;
  }
}

std::string unseen_sentence(const std::string& reason, const UnsampledThrottling& unseen) {
  return fmt::format(
      "{} was throttled by {} for {:.3g} s{}, from residency counters; polling the reasons missed "
      "it (shorter than the polling interval)",
      device_text(unseen.worst), reason, unseen.longest / unit::s,
      unseen.devices == 1 ? ""
                          : fmt::format(", and {} more for as long or less", unseen.devices - 1));
}

/// A counter's growth per second over the part of the window that it covers.
std::optional<double> rate_of(const Series& counter, const Window& window) {
  if (counter.times.size() < 2) return std::nullopt;
  const Instant begin = std::max(window.begin, counter.times.front());
  const Instant end = std::min(window.end, counter.times.back());
  if (end <= begin) return std::nullopt;
  return *run::counter_difference(counter, begin, end) / ((end - begin) / unit::s);
}

/// Both directions, summed over devices.
void close_links(const DeviceSeries& series, const Window& all, RecordingSummary& summary) {
  const auto add = [&](std::optional<double>& sum, const char* counter) {
    if (const auto rate = rate_of(series.read(counter), all)) sum = sum.value_or(0) + *rate;
  };
  add(summary.scale_up_bytes_per_s, "scale_up_tx_bytes");
  add(summary.scale_up_bytes_per_s, "scale_up_rx_bytes");
  add(summary.pcie_bytes_per_s, "pcie_tx_bytes");
  add(summary.pcie_bytes_per_s, "pcie_rx_bytes");
}

std::optional<double> amount(std::optional<double> rate, Seconds time) {
  if (!rate) return std::nullopt;
  return *rate * (time / unit::s);
}

/// Means over one step of the window.
run::DeviceSummary summarize(const DeviceSeries& series, const Window& window, double num_steps) {
  run::DeviceSummary summary;
  const int32_t index = series.device().index;
  const Seconds step = window.length() / num_steps;
  {
    const Run few = series.run_of(energy_signals);
    const MeasuredEnergy energy = energy_of(few, index, window.begin, window.end);
    const EnergyEstimate* best = energy.best();
    if (best != nullptr && best->uncertainty() <= best->energy) {
      summary.energy_j = best->energy / unit::J / num_steps;
      summary.power_mean_w = best->energy / window.length() / unit::W;
    }
    for (const char* signal : {"power_w", "power_average_w", "power_instant_w"})
      if (const Series* power = run::find_series(few, signal, index))
        if (const auto found = statistics_in(*power, window)) summary.power_peak_w = found->maximum;
  }
  if (const auto die = statistics_in(die_of(series), window)) {
    summary.die_mean_c = die->time_weighted_mean;
    summary.die_peak_c = die->maximum;
  }
  if (const auto clock = statistics_in(series.read("sm_clock_mhz"), window)) {
    summary.sm_clock_mean_mhz = clock->time_weighted_mean;
    summary.sm_clock_min_mhz = clock->minimum;
  }
  summary.throttle = throttle_shares(
      throttle_residency(series.run_of(throttle_signals), index, window.begin, window.end),
      window.length());
  summary.scale_up_bytes = amount(rate_of(series.read("scale_up_tx_bytes"), window), step);
  summary.scale_out_bytes = amount(rate_of(series.read("scale_out_tx_bytes"), window), step);
  return summary;
}

void divide(std::optional<double>& sum, int64_t count) {
  if (sum && count > 0) *sum /= as_real(count);
}

void close_devices(const Run& head, const Window& all, const run::SeriesLoader& load,
                   RecordingSummary& summary) {
  Counts counts;
  const auto elsewhere = std::ranges::count_if(
      head.devices, [](const run::Device& device) { return device.power_counted_on.has_value(); });
  summary.num_packages = elsewhere == 0 ? 0 : summary.num_devices - elsewhere;
  for (const run::Device& device : head.devices) {
    const DeviceSeries series(head, load, device);
    close_energy(series, all, summary, counts);
    close_heat(series, all, summary, counts);
    close_throttle(series, all, summary, counts);
    close_links(series, all, summary);
    close_errors(series, summary);
  }
  divide(summary.power_mean_w, counts.power);
  divide(summary.die_mean_c, counts.die);
  divide(summary.memory_mean_c, counts.memory);
  divide(summary.clock_mean_mhz, counts.clock);
  for (auto& [name, throttle] : summary.throttle)
    throttle.mean_share /= as_real(counts.throttle);
  for (const auto& [reason, unseen] : counts.unseen)
    summary.findings.push_back(unseen_sentence(reason, unseen));
  // A number that may as well be zero or twice as large is none.
  summary.is_too_short_for_energy = summary.energy && *summary.energy_uncertainty > *summary.energy;
  if (summary.is_too_short_for_energy) {
    summary.energy.reset(), summary.energy_uncertainty.reset();
    summary.numbers.energy_counter_against_integral.reset();
  }
}

void close_node(const run::SeriesLoader& load, const Window& all, RecordingSummary& summary) {
  run::ProducerNumbers& numbers = summary.numbers;
  const auto energy = [&](const char* signal) {
    Run few;
    few.series = {load({.signal = signal, .of_node = true})};
    const auto joules = node_energy_of(few, signal, 0, all.begin, all.end);
    return joules ? std::optional(*joules / unit::J) : std::nullopt;
  };
  numbers.recording_cpu_energy_j = energy("cpu_energy_j");
  numbers.recording_dram_energy_j = energy("dram_energy_j");
  numbers.recording_node_energy_j = energy("node_energy_j");
  if (!numbers.recording_node_energy_j) numbers.recording_node_energy_j = energy("node_power_w");
  const auto rate = [&](const char* counter) {
    return rate_of(load({.signal = counter, .of_node = true}), all);
  };
  const auto user = rate("cpu_user_s"), system = rate("cpu_system_s"), idle = rate("cpu_idle_s");
  if (user && system && idle && *user + *system + *idle > 0) {
    const double busy = *user + *system;
    summary.cpu_busy_share = busy / (busy + *idle + rate("cpu_wait_s").value_or(0));
  }
  const Series cpu = load({.signal = "sampler_cpu_s", .of_node = true});
  if (!cpu.values.empty() && all.length() > Seconds())
    numbers.sampler_share_of_a_core = cpu.values.back() / (all.length() / unit::s);
  const Series lost = load({.signal = "sampler_lost_ticks", .of_node = true});
  if (!lost.values.empty()) numbers.sampler_lost_ticks = std::llround(lost.values.back());
}

/// Energy of every step, over all devices; nothing where a step is too short for the sensors.
std::vector<double> energies_of_steps(const Run& head, const std::vector<run::StepRecord>& steps,
                                      const run::SeriesLoader& load) {
  std::vector<double> joules(steps.size(), 0);
  for (const run::Device& device : head.devices) {
    if (device.power_counted_on) continue;
    const Run few = DeviceSeries(head, load, device).run_of(energy_signals);
    for (size_t i = 0; i < steps.size(); ++i) {
      const MeasuredEnergy energy = energy_of(few, device.index, steps[i].begin, steps[i].end);
      const EnergyEstimate* best = energy.best();
      const bool resolved = best != nullptr && best->edges <= 0.2 * best->energy;
      if (!resolved) return {};
      joules[i] += best->energy / unit::J;
    }
  }
  return head.devices.empty() ? std::vector<double>() : joules;
}

void close_steps(const Run& head, const std::vector<run::StepRecord>& steps,
                 const run::SeriesLoader& load, RecordingSummary& summary) {
  summary.numbers.measured_steps = static_cast<int64_t>(steps.size());
  if (steps.empty()) return;
  std::vector<double> seconds =
      mapped(steps, [](const run::StepRecord& step) { return (step.end - step.begin) / unit::s; });
  summary.step_time_s = mean_with_interval(seconds);
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  if (summary.step_time_s->mean > 0)
    summary.step_spread = (*most - *least) / summary.step_time_s->mean;
  const std::vector<double> joules = energies_of_steps(head, steps, load);
  if (!joules.empty()) summary.step_energy_j = mean_with_interval(joules);
}

/// What the text of a recording says in more words.
void keep_numbers(const RecordingSummary& summary, run::ProducerNumbers& numbers) {
  numbers.recording_s = summary.duration / unit::s;
  if (summary.energy) {
    numbers.recording_energy_j = *summary.energy / unit::J;
    numbers.recording_energy_uncertainty_j = *summary.energy_uncertainty / unit::J;
    numbers.gpus_without_energy = static_cast<int64_t>(summary.without_energy.size());
  }
  if (const auto& time = summary.step_time_s) {
    numbers.measured_step_time_s = time->mean;
    numbers.measured_step_time_s_ci95 = time->half_width;
  }
  if (const auto& energy = summary.step_energy_j) {
    numbers.measured_step_energy_j = energy->mean;
    numbers.measured_step_energy_j_ci95 = energy->half_width;
  }
  run::visit_numbers(numbers, summary.numbers,
                     [](const char*, auto& of_run, const auto& of_summary) {
                       if (of_summary) of_run = of_summary;
                     });
}

void find_disagreement(RecordingSummary& summary) {
  const auto& odds = summary.numbers.energy_counter_against_integral;
  if (!odds || !summary.energy || !(*summary.energy > Joules())) return;
  if (*odds > std::max(gain_error, summary.edges_share))
    summary.findings.push_back(fmt::format(
        "energy by counter and energy by integrated power differ by up to {:.1f} %: the load "
        "repeats in step with the sensor, or one of the two sensors is off",
        100 * *odds));
}

void close_summaries(Run& head, const Window& all, const std::vector<run::StepRecord>& steps,
                     const run::SeriesLoader& load) {
  const Window window = steps.empty() ? all : Window{steps.front().begin, steps.back().end};
  head.summaries.clear();
  for (const run::Device& device : head.devices) {
    head.summaries.push_back(summarize(DeviceSeries(head, load, device), window,
                                       std::max<double>(1, as_real(steps.size()))));
    // The energy of a step, where there are steps.
    if (steps.empty()) head.summaries.back().energy_j.reset();
  }
}

}  // namespace

void summarize_steps(Run& run) {
  close_summaries(run, {}, run.steps, [&run](const Series& wanted) {
    const Series* const found = run::find_series(run, wanted.signal, wanted.device, wanted.of_node);
    return found == nullptr ? wanted : *found;
  });
}

Run close_recording(Run head, Instant end, const StepWindow& wanted, const run::SeriesLoader& load,
                    RecordingSummary& summary) {
  const Window all{Instant(0), end};
  const std::vector<run::StepRecord> steps = measured_steps(head.steps, wanted);
  summary.duration = all.length();
  summary.num_devices = static_cast<int64_t>(head.devices.size());
  if (!head.devices.empty()) summary.device_name = head.devices.front().name;
  summary.numbers.warmup_steps =
      steps.empty() ? 0 : std::min(wanted.warmup, static_cast<int64_t>(head.steps.size()) - 1);
  close_devices(head, all, load, summary);
  close_node(load, all, summary);
  close_steps(head, steps, load, summary);
  find_disagreement(summary);
  if (summary.energy && !summary.without_energy.empty())
    head.manifest.notes.push_back("the energy of the recording is that of " +
                                  energy_coverage(summary));
  close_summaries(head, all, steps, load);
  head.steps = steps;
  keep_numbers(summary, head.numbers);
  head.manifest.notes.insert(head.manifest.notes.end(), summary.findings.begin(),
                             summary.findings.end());
  return head;
}

}  // namespace triplepoint::telemetry
