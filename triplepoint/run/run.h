// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/bottleneck.h"
#include "triplepoint/run/named_values.h"
#include "triplepoint/run/timeline.h"
#include "triplepoint/run/times.h"
#include "triplepoint/spec/job.h"

namespace triplepoint::run {

/// One signal of one device over time; each value has its own stamp. A reading that was not there
/// has no entry: absent is not zero. Unit is written in the signal's name, as in power_w, die_c,
/// sm_clock_mhz.
///
/// Known signals. Of a device: power_w (true mean since the previous stamp), power_instant_w,
/// power_average_w, memory_power_w, module_power_w (sensor views), energy_j (counter), die_c,
/// memory_c, junction_c, sm_clock_mhz, memory_clock_mhz, throttle_reasons (bit set),
/// throttled_share (of the time since the previous stamp), throttle_ns_<reason> (residency
/// counters: sw_power_cap, hw_slowdown, sync_boost, sw_thermal_slowdown, hw_thermal_slowdown,
/// hw_power_brake), utilization, memory_utilization (shares), memory_used_b, power_limit_w,
/// fan_share, scale_up_tx_bytes, scale_up_rx_bytes, pcie_tx_bytes, pcie_rx_bytes (counters), and
/// shares that performance counters tell: sm_active, sm_occupancy, tensor_active, memory_active,
/// graphics_active, fp64_active, fp32_active, fp16_active.
/// Of a node: node_power_w, node_energy_j, platform_energy_j, cpu_power_w, inlet_c, cpu_energy_j,
/// dram_energy_j, cpu_c, cpu_user_s, cpu_system_s, cpu_idle_s, cpu_wait_s (counters, all cores),
/// memory_used_b, scale_out_tx_bytes, scale_out_rx_bytes, ethernet_tx_bytes, ethernet_rx_bytes
/// (counters), and of the recorder itself: sampler_cpu_s, sampler_late_s, sampler_lost_ticks,
/// sampler_call_s.
struct Series {
  std::string signal;
  int32_t device = 0;  // global device index; nodes: node index
  bool of_node = false;
  Times times;
  std::vector<double> values;  // same length
  friend bool operator==(const Series&, const Series&) = default;
};

struct SeriesStatistics {
  double time_weighted_mean = 0;  // left-hold, as the artifact computes it
  double minimum = 0, maximum = 0;
  int64_t count = 0;
};
/// Zeros and a count of 0 for an empty series; of one value, its mean is that value.
SeriesStatistics statistics(const Series&);
/// The same over [begin, end] only: a value holds from its stamp to the next one, the last one to
/// `end`. What was before the first stamp is unknown and not counted.
SeriesStatistics statistics(const Series&, Instant begin, Instant end);

/// Last value minus first value of a counter inside [begin, end], both taken by interpolation
/// between the neighbouring stamps; nothing where the series does not reach over the interval.
std::optional<double> counter_difference(const Series&, Instant begin, Instant end);

/// Share of [begin, end] during which `bits` has any bit of `mask` set (left-hold); nothing without
/// a value.
std::optional<double> share_of_time(const Series& bits, uint32_t mask, Instant begin, Instant end);

enum class Origin { simulated, measured, imported };
/// Which model made a run: the schedule of one step at given clocks, a step at thermal steady
/// state, steps one after the other from a cold start; or a real training.
enum class Fidelity { step, steady_state, transient, real };

struct Device {
  int32_t index = 0;  // global
  int32_t node = 0, local = 0;
  int32_t slot = 0;
  std::string name;
  std::optional<int32_t> rank;
  std::string uuid, pci;  // empty: not known
  /// Dies of a package say the same power: `local` of the one of its node on which this one's is
  /// counted.
  std::optional<int32_t> power_counted_on;
  friend bool operator==(const Device&, const Device&) = default;
};

/// Bytes on the worst GPU of each pipeline stage; what a memory report needs.
struct MemoryUse {
  Bytes weights, gradients, optimizer, activations, logits, buffers, reserve;
  Bytes total() const;
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

/// One training step as a whole.
struct StepRecord {
  Instant begin, end;
  int64_t samples = 0, tokens = 0;
  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

/// Means over one step and one device: what is known of every device, however many there are.
/// Absent where nothing measured it.
struct DeviceSummary {
  // power_peak_w: highest that a driver's reading shows, so that simulated and measured runs
  // compare; power_kernel_peak_w: of the hungriest single kernel, before any sensor averages.
  std::optional<double> power_mean_w, power_peak_w, power_kernel_peak_w, energy_j;
  std::optional<double> die_mean_c, die_peak_c;
  std::optional<double> sm_clock_mean_mhz, sm_clock_min_mhz;
  NamedValues throttle;  // shares of time, by reason
  std::optional<double> scale_up_bytes, scale_out_bytes;
  NamedValues energy_ledger_j;  // idle, leakage, compute, memory, communication, waiting
  friend bool operator==(const DeviceSummary&, const DeviceSummary&) = default;
};

/// What the numbers of a series are, as their sensor says it. Scopes that overlap are never added.
enum class Scope : uint8_t { gpu, memory, module, package, dram, core, nic, host, node };
/// An instant value, one smoothed by the sensor, a counter (since the first reading), a bit set.
enum class ReadingKind : uint8_t { instant, average, counter, bits };
struct SeriesSource {
  std::string signal;  // with device and of_node: which series
  int32_t device = 0;
  bool of_node = false;
  Scope scope = Scope::gpu;
  ReadingKind kind = ReadingKind::instant;
  std::string sensor;             // "nvml field 186"
  std::optional<Seconds> period;  // between two updates: seen, else as its maker states
  std::optional<Seconds> window;  // over which an average is taken
  friend bool operator==(const SeriesSource&, const SeriesSource&) = default;
};

/// The same moment on two clocks of one node.
struct ClockAnchor {
  int32_t node = 0;
  Instant instant;      // of the run
  int64_t unix_ns = 0;  // CLOCK_REALTIME
  friend bool operator==(const ClockAnchor&, const ClockAnchor&) = default;
};

struct Manifest {
  Origin origin = Origin::simulated;
  Fidelity fidelity = Fidelity::transient;
  std::string name;
  std::optional<spec::Job> job;  // absent for recordings of unknown commands
  std::string producer;          // "triplepoint 0.1.0"
  std::string numbers;  // simulated: a digest of model, cluster and stack, which are the data used
  std::optional<int64_t> epoch_unix_ns;  // realtime of Instant 0; simulated runs have none
  std::string job_digest;  // of a study: of all that the run rests on, so that it is taken again
  bool fits_memory = true;
  std::optional<std::string> failure;  // of a measurement: why there are no steps
  std::vector<std::string> notes;
  std::vector<std::string> hosts;    // name of each node; empty: not known
  std::vector<ClockAnchor> anchors;  // of recordings: at the start, every minute, at the end
  // Names that a producer states of itself ("command", "launcher", "device", "boot_id"); what it
  // found out are numbers below.
  std::map<std::string, std::string> facts;
};

/// A device that heat has switched off, and with it the job.
struct Shutdown {
  int32_t device = 0;
  double die_c = 0;
  std::optional<Seconds> time;  // since the run's beginning; absent: where it would come to rest
  friend bool operator==(const Shutdown&, const Shutdown&) = default;
};

/// What only the producer of a run knows beside its series, spans and summaries. Absent: it does
/// not say. visit_numbers() lists all of them for stores.
struct ProducerNumbers {
  // Of a simulation: how long it is (a steady state has neither), ...
  std::optional<double> duration_s;
  std::optional<int64_t> num_steps;
  // ... the median of the highest reading of any GPU's sensor, the swing within a microbatch, the
  // mean clock while passes run, what power limit and heat take from the clock, and the step with
  // every die as cool as its inlet.
  std::optional<double> power_peak_w, microbatch_swing_w, clock_in_passes_mhz,
      clock_lost_to_power_mhz, clock_lost_to_temperature_mhz, step_without_heat_s;
  // Of a predicted step: 80 of 100 measured ones lie between these; how many own runs say so.
  std::optional<double> step_time_low_s, step_time_high_s;
  std::optional<int64_t> own_runs;
  // Of a recording as a whole: all devices that know their energy, the GPUs that do not, what is
  // measured beside them, and the most by which energy by counter and by integrated power differ.
  std::optional<double> recording_s, recording_energy_j, recording_energy_uncertainty_j,
      recording_cpu_energy_j, recording_dram_energy_j, recording_node_energy_j,
      energy_counter_against_integral;
  std::optional<int64_t> gpus_without_energy;
  // Of its steps: means with half of their 95 % interval, how many, and how many were left out.
  std::optional<double> measured_step_time_s, measured_step_time_s_ci95, measured_step_energy_j,
      measured_step_energy_j_ci95;
  std::optional<int64_t> measured_steps, warmup_steps;
  // Of its recorder.
  std::optional<double> sampling_interval_s, sampler_share_of_a_core;
  std::optional<int64_t> sampler_lost_ticks;
  // Of a measurement that was repeated: how often, and (longest - shortest step) / this one's.
  std::optional<int64_t> repeats;
  std::optional<double> repeat_spread;
  std::optional<double> loss_first, loss_last;
  // Bytes of all collectives, ranks and steps: as the trainer counts them, as its job says.
  std::optional<double> collective_bytes, collective_bytes_of_job;
  // Shares of the processors' time that other programs used, and that was idle.
  std::optional<double> others_cpu_share, idle_cpu_share;
  std::optional<int64_t> epoch_monotonic_ns;  // CLOCK_MONOTONIC at instant 0
  std::optional<int64_t> world_size;          // ranks of the job, as its launcher or trace says
  // Of traces: threads of a warp and memory of their GPUs, and hosts, where they are several.
  std::optional<int64_t> warp_size;
  std::optional<double> gpu_memory_b;
  std::optional<int64_t> num_hosts;
  // Of a training's log: samples of a step; how often it began again, and steps that it then ran
  // twice.
  std::optional<int64_t> samples_per_step, restarts, steps_run_again;
  friend bool operator==(const ProducerNumbers&, const ProducerNumbers&) = default;
};
/// Their names in files, with units.
inline constexpr auto producer_numbers = [] {
  using P = ProducerNumbers;
  return std::tuple{
      std::pair{"duration_s", &P::duration_s},
      std::pair{"num_steps", &P::num_steps},
      std::pair{"power_peak_w", &P::power_peak_w},
      std::pair{"microbatch_swing_w", &P::microbatch_swing_w},
      std::pair{"clock_in_passes_mhz", &P::clock_in_passes_mhz},
      std::pair{"clock_lost_to_power_mhz", &P::clock_lost_to_power_mhz},
      std::pair{"clock_lost_to_temperature_mhz", &P::clock_lost_to_temperature_mhz},
      std::pair{"step_without_heat_s", &P::step_without_heat_s},
      std::pair{"step_time_low_s", &P::step_time_low_s},
      std::pair{"step_time_high_s", &P::step_time_high_s},
      std::pair{"own_runs", &P::own_runs},
      std::pair{"recording_s", &P::recording_s},
      std::pair{"recording_energy_j", &P::recording_energy_j},
      std::pair{"recording_energy_uncertainty_j", &P::recording_energy_uncertainty_j},
      std::pair{"recording_cpu_energy_j", &P::recording_cpu_energy_j},
      std::pair{"recording_dram_energy_j", &P::recording_dram_energy_j},
      std::pair{"recording_node_energy_j", &P::recording_node_energy_j},
      std::pair{"energy_counter_against_integral", &P::energy_counter_against_integral},
      std::pair{"gpus_without_energy", &P::gpus_without_energy},
      std::pair{"measured_step_time_s", &P::measured_step_time_s},
      std::pair{"measured_step_time_s_ci95", &P::measured_step_time_s_ci95},
      std::pair{"measured_step_energy_j", &P::measured_step_energy_j},
      std::pair{"measured_step_energy_j_ci95", &P::measured_step_energy_j_ci95},
      std::pair{"measured_steps", &P::measured_steps},
      std::pair{"warmup_steps", &P::warmup_steps},
      std::pair{"sampling_interval_s", &P::sampling_interval_s},
      std::pair{"sampler_share_of_a_core", &P::sampler_share_of_a_core},
      std::pair{"sampler_lost_ticks", &P::sampler_lost_ticks},
      std::pair{"repeats", &P::repeats},
      std::pair{"repeat_spread", &P::repeat_spread},
      std::pair{"loss_first", &P::loss_first},
      std::pair{"loss_last", &P::loss_last},
      std::pair{"collective_bytes", &P::collective_bytes},
      std::pair{"collective_bytes_of_job", &P::collective_bytes_of_job},
      std::pair{"others_cpu_share", &P::others_cpu_share},
      std::pair{"idle_cpu_share", &P::idle_cpu_share},
      std::pair{"epoch_monotonic_ns", &P::epoch_monotonic_ns},
      std::pair{"world_size", &P::world_size},
      std::pair{"warp_size", &P::warp_size},
      std::pair{"gpu_memory_b", &P::gpu_memory_b},
      std::pair{"num_hosts", &P::num_hosts},
      std::pair{"samples_per_step", &P::samples_per_step},
      std::pair{"restarts", &P::restarts},
      std::pair{"steps_run_again", &P::steps_run_again}};
}();
/// Calls visit(key, member) for each; of two ones visit(key, member, member of the other).
void visit_numbers(auto& n, const auto& visit) {
  std::apply([&](const auto&... each) { (visit(each.first, n.*each.second), ...); },
             producer_numbers);
}
void visit_numbers(auto& n, const ProducerNumbers& other, const auto& visit) {
  std::apply(
      [&](const auto&... each) { (visit(each.first, n.*each.second, other.*each.second), ...); },
      producer_numbers);
}

/// What happened: the one type that simulating, measuring and importing all yield.
struct Run {
  Manifest manifest;
  std::vector<Device> devices;
  std::vector<StepRecord> steps;
  Timeline timeline;  // of the detailed step(s); times since the run's epoch
  std::vector<Series> series;
  std::vector<SeriesSource> sources;     // of measured series; simulated ones have none
  std::vector<DeviceSummary> summaries;  // per device; of the last step
  std::vector<MemoryUse> memory;         // per pipeline stage
  // Of simulated runs, as the last step was: what is slow, and its cost; why, metrics say.
  std::vector<Bottleneck> bottlenecks;
  std::optional<Bytes> memory_limit;
  // Of the job, when it is known: numerators of MFU and HFU for one step, all devices.
  std::optional<Flops> model_flops, hardware_flops;
  std::optional<FlopsPerSecond> peak_flops;  // of one device, dense, of the precision used
  ProducerNumbers numbers;
  /// Of a recording with marks, by rank: how long it waits for a processor core in a step, mean.
  std::map<int32_t, Seconds> core_waits;
  std::optional<Shutdown> shutdown;
};

std::string_view name_of(Origin);
std::string_view name_of(Fidelity);
std::string_view name_of(Scope);
std::string_view name_of(ReadingKind);

/// The series of this signal and device (a node's, if `of_node`); null if the run has none.
const Series* find_series(const Run&, std::string_view signal, int32_t device,
                          bool of_node = false);

/// The steps the timeline shows: those it covers by at least half. All steps if the run has no
/// timeline.
std::vector<StepRecord> detailed_steps(const Run&);

/// Keeps it, and says it in a note.
void record_shutdown(Run&, const Shutdown&, Celsius shutdown_temperature);

/// "GPU 3 reaches 92.4 °C after 130 s and shuts down; the job ends there"; empty of runs that no
/// heat ended.
std::string shutdown_text(const Run&);

/// "steady state", "600 s from a cold start", "20 steps from a cold start"; empty of runs that were
/// not simulated.
std::string horizon_text(const Run&);

/// Whether it trained at all: neither memory nor heat forbade it.
bool has_trained(const Run&);
/// Did others use more than a fifth of the processors while less than a fifth was idle? Steps are
/// slower then, which alone may explain them.
bool was_disturbed(const ProducerNumbers&);
/// "ok", "oom", "shutdown" or "failed".
std::string_view verdict_of(const Run&);

/// find_series() for who asks for the series of all devices: each by bisection. The run's series
/// have to stay as they are.
class SeriesIndex {
 public:
  explicit SeriesIndex(const Run&);
  const Series* find(std::string_view signal, int32_t device, bool of_node = false) const;

 private:
  std::vector<const Series*> series_;  // of devices, then of nodes, by number
};

}  // namespace triplepoint::run
