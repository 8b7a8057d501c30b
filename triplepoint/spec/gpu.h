// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/op.h"

namespace triplepoint::spec {

/// How well kernels use the chip; parameters of perf/kernel_time.h. All are per GPU type.
struct KernelCoefficients {
  double gemm_peak_share = 0.75;           // of the dense peak at max clock, large shapes
  double gemm_fp8_share = 0.6;             // the same with fp8 operands, of peak_fp8
  std::optional<double> gemm_mxfp8_share;  // with block scales; absent: has none
  std::optional<double> gemm_fp4_share;    // of peak_fp4; absent: gemm_fp8_share
  double gemm_half_k = 0;  // k at which a tile reaches half of its rate (prologue), 2-byte operands
  double gemm_half_tile = 0;  // tile side at which fetching operands takes as long as multiplying
  double wave_quantization = 1;  // an unfilled last wave of tiles costs: 1 a whole one, 0 its share
  int64_t tile_m = 128, tile_n = 128;     // largest tile of the library; smaller ones are tried
  double attention_forward_share = 0.45;  // of the dense peak at max clock, causal flops, long keys
  double attention_backward_share = 0.35;  // the same of the backward pass
  double attention_half_length = 0;        // key length at which half of that is reached
  double attention_half_head_dim = 0;  // head dimension where softmax takes as long as the products
  double attention_portable_share = 1;     // speed of kernels that were not written for this chip
                                           // (flash attention 2 on Hopper) over those that were
  double attention_flash_1_share = 1;      // speed of FlashAttention 1 over FlashAttention 2
  int64_t attention_tile = 128;            // query rows of one block
  double attention_wave_quantization = 1;  // as wave_quantization, of blocks of attention
  double grouped_gemm_share = 0.7;         // relative to a dense GEMM of the same tile count
  double hbm_share = 0.85;                 // achieved over datasheet bandwidth, streaming kernels
  double roofline_norm = 4;                // p of the p-norm that joins compute and memory time
  double clock_insensitive_share = 0;      // of compute time that does not scale with the SM clock
  double memory_clock_knee = 0;  // clock ratio below which the SMs cannot keep the HBM busy
  Seconds kernel_start;          // fill and drain of one kernel, comes on top of its work
  Seconds attention_start;       // the same of an attention kernel: its longest block drains alone
  Seconds kernel_floor;          // shortest kernel
  // Within a step: time of a kernel over the same one repeated alone (cold caches, operands just
  // written), and bandwidth of norms and elementwise kernels over that of long streams.
  double in_context_slowdown = 1, elementwise_share = 1;
  double scan_share = 1;     // rate of state-space scans over what flops and bytes would allow
  double rowwise_share = 1;  // rate of 8-bit products with a scale per row over one per tensor
  friend bool operator==(const KernelCoefficients&, const KernelCoefficients&) = default;
};

/// Parameters of power/power.h.
///   P = idle + leakage(T, V) + sum_class e_class F/t (f/f_max)^exponent + e_hbm B/t + e_link L/t
///       + communication_power while a collective kernel is resident
struct PowerCoefficients {
  Watts idle;                     // clocks down, no context, at reference_temperature
  Watts active_idle;              // full clock, context alive, no kernel
  Watts waiting;                  // a kernel is resident and spins, at max clock, all included
  Watts communicating;            // extra while data moves over scale-up links
  Watts communicating_scale_out;  // extra while data moves over the NIC
  std::array<double, op_class_count> joules_per_tflop{};  // at max clock, dynamic part
  double fp8_energy_share = 0.5;       // energy of an fp8 flop over that of a 16-bit one
  double fp4_energy_share = 0.25;      // the same of a 4-bit one
  double joules_per_hbm_gb = 0;        // per 10^9 bytes read or written
  double joules_per_scale_up_gb = 0;   // per 10^9 bytes sent
  double joules_per_scale_out_gb = 0;  // per 10^9 bytes sent
  double clock_exponent = 1;  // energy per flop ~ (f/f_max)^exponent, i.e. V^2 along the V/f curve
  double energy_floor = 0;    // what the lowest voltage leaves of that: floor + (1 - floor) r^x
  double hbm_clocked_share = 0;       // of joules_per_hbm_gb: on-chip, follows SM clock and voltage
  Watts leakage;                      // at reference_temperature and max voltage
  Kelvins leakage_e_fold;             // leakage grows by e over this rise
  Celsius reference_temperature{30};  // of the die, for idle and leakage
  friend bool operator==(const PowerCoefficients&, const PowerCoefficients&) = default;
};

/// One package from die to coolant: a ladder of poles. Index 0 is the die.
///   die -- r[0] -- node 1 -- r[1] -- ... -- coolant
struct ThermalLadder {
  std::vector<KelvinsPerWatt> resistances;  // r[i] between node i and node i+1 (last: to coolant)
  std::vector<JoulesPerKelvin> capacities;  // of node i
  KelvinsPerWatt memory_resistance;         // HBM above the first node, per watt of HBM power
  std::optional<Watts> memory_idle;         // of the HBM without traffic, at full memory clock
  std::optional<KelvinsPerWatt> lateral_resistance;  // between neighbour dies' node 1 (shared lid)
  friend bool operator==(const ThermalLadder&, const ThermalLadder&) = default;
};

/// Parameters of clock/governor.h.
struct GovernorCoefficients {
  Hertz clock_step;                             // granularity of the SM clock
  Hertz min_clock;                              // the governor goes no lower
  Seconds power_time_constant;                  // of the filter through which the cap sees power
  std::optional<Celsius> target_temperature;    // software thermal slowdown starts
  std::optional<Celsius> slowdown_temperature;  // hardware thermal slowdown starts
  double thermal_steps_per_kelvin = 4;          // clock steps down per kelvin above the target
  std::optional<Celsius> shutdown_temperature;  // the device switches off
  double regulation_share = 1;                  // regulated mean over the limit
  friend bool operator==(const GovernorCoefficients&, const GovernorCoefficients&) = default;
};

/// How the driver's readings come about; parameters of power/sensor.h.
struct SensorCoefficients {
  Seconds power_window;  // averaging window of the instant field
  Seconds power_period;  // update period
  friend bool operator==(const SensorCoefficients&, const SensorCoefficients&) = default;
};

/// Board-to-board spread: relative standard deviations, drawn with the job's seed.
struct Variability {
  double dynamic_energy = 0;      // of energy per operation
  double leakage = 0;             // of leakage power
  double thermal_resistance = 0;  // of the path from die to coolant
  friend bool operator==(const Variability&, const Variability&) = default;
};

/// One device as the framework sees it (on MI250: one die of a two-die package).
/// What no source states is absent; a job that needs it is refused.
struct Gpu {
  std::string name;    // "h200"
  std::string title;   // "H200 SXM 141GB"
  std::string vendor;  // "nvidia", "amd"
  std::optional<FlopsPerSecond> peak_bf16, peak_fp16, peak_fp8, peak_fp4, peak_fp32;  // dense
  std::optional<BytesPerSecond> hbm_bandwidth;                                        // datasheet
  std::optional<Bytes> memory;  // what the driver reports
  std::optional<Watts> tdp;     // of the device; a two-die package has dies_per_package times this
  std::optional<Watts> min_power_limit;  // lowest that the driver takes
  std::optional<Hertz> max_clock;        // of the SMs
  std::optional<Hertz> boost_clock;      // of the data sheet
  std::optional<int64_t> compute_units;  // SMs or CUs
  std::optional<Bytes> l2_cache;
  std::optional<BytesPerSecond> scale_up_bandwidth;  // NVLink / xGMI, one direction
  // Copies between its memory and the host's, each way, as all GPUs of a node reach it at once.
  std::optional<BytesPerSecond> host_bandwidth;
  int dies_per_package = 1;  // devices that share a package and its power
  KernelCoefficients kernels;
  std::optional<PowerCoefficients> power;
  std::optional<ThermalLadder> thermal;
  std::optional<GovernorCoefficients> governor;
  SensorCoefficients sensor;
  Variability variability;

  std::optional<FlopsPerSecond> peak(Precision) const;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

}  // namespace triplepoint::spec
