// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/store/growing_run.h"
#include "triplepoint/telemetry/energy/energy.h"

namespace triplepoint::telemetry {

/// Which of the marked steps are measured.
struct StepWindow {
  int64_t warmup = 3;
  std::optional<int64_t> steps = 10;  // after warm-up; absent: all
};
std::vector<run::StepRecord> measured_steps(std::vector<run::StepRecord> all, const StepWindow&);

/// A mean and half of its 95 % confidence interval (Student's t); absent for fewer than two values.
struct MeanWithInterval {
  double mean = 0;
  std::optional<double> half_width;
};
MeanWithInterval mean_with_interval(const std::vector<double>& values);

/// What is said of the recording as a whole, when it ends.
struct RecordingSummary {
  run::ProducerNumbers numbers;  // what the run keeps of it
  Seconds duration;
  std::string device_name;
  int64_t num_devices = 0;
  /// Of the GPUs that were measured to the end; absent where it is more uncertain than large.
  std::optional<Joules> energy, energy_uncertainty;
  std::string energy_method;
  bool is_too_short_for_energy = false;
  struct Unmeasured {
    int32_t device = 0;
    std::optional<int32_t> rank;
    std::optional<Instant> lost;  // the last reading; absent: there was none
  };
  std::vector<Unmeasured> without_energy;  // GPUs
  int64_t num_packages = 0;                // of several dies each, which one of them speaks for
  double edges_share = 0;                  // largest, of what the ends leave open
  std::optional<double> module_power_w;    // the highest: GPUs of a module say the same
  std::optional<double> power_mean_w, power_p99_w, power_limit_w;
  struct Extreme {
    double value = 0;
    int32_t device = 0;
    std::optional<int32_t> rank;
  };
  std::optional<double> die_mean_c, memory_mean_c, clock_mean_mhz;
  std::optional<Extreme> die_max_c, memory_max_c, slowest_clock_mhz;
  struct Throttle {
    double mean_share = 0;
    Extreme most;
  };
  std::map<std::string, Throttle> throttle;
  std::vector<std::string> findings;  // sentences: throttling that polls missed, energies at odds
  std::optional<double> scale_up_bytes_per_s, pcie_bytes_per_s;
  std::optional<double> cpu_busy_share;  // of all cores
  std::optional<MeanWithInterval> step_time_s, step_energy_j;
  std::optional<double> step_spread;  // (max - min) / mean
  int64_t dropped_values = 0;
  Seconds lost;  // stretches of time of which values were dropped: the disk was full
};

/// The run as it shall be kept: measured steps only, summaries of the devices over them (over all
/// of the recording if no steps were marked), facts and notes. Asks for one device's series at a
/// time.
run::Run close_recording(run::Run head, Instant end, const StepWindow&, const run::SeriesLoader&,
                         RecordingSummary& summary);

/// The summaries of devices over steps that were found later.
void summarize_steps(run::Run&);

/// "7 of 8 GPUs; GPU 2 lost at 3.0 s" of GPUs without energy; empty if all have it.
std::string energy_coverage(const RecordingSummary&);

/// Six lines or so for the terminal.
std::string text_of(const RecordingSummary&, const std::string& file);

}  // namespace triplepoint::telemetry
