// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernels/kernel_power.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/calibrate/kernels/kernel_scores.h"
#include "triplepoint/clock/governor.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/perf/kernel_work.h"
#include "triplepoint/power/gpu_power.h"

namespace triplepoint::calibrate {
namespace {

std::string missing_for(const spec::Gpu& gpu, const spec::Op& op) {
  if (!gpu.peak(op.precision) || !gpu.hbm_bandwidth || !gpu.compute_units)
    return fmt::format("peak, memory bandwidth or compute units of {} are not known", gpu.name);
  if (!gpu.power || !gpu.governor || !gpu.max_clock || !gpu.tdp)
    return fmt::format("{} has no power model", gpu.name);
  return {};
}

// A product that lasts this long fills the meter's averaging window with its repetitions; of a
// shorter one the mean holds a part of rest. Powers of 10,710 bf16 products grow in proportion to
// their duration up to here, on H200 and B200 alike; attention kernels show nothing of it.
constexpr Seconds meter_fill = 70 * unit::us;
// From this many keys on, the meter's window includes the pause before attention: 848
// kernels of a B200 show this share of what they draw above rest, where kernels over 10240 keys
// show all of it.
constexpr int64_t keys_after_a_pause = 12288;
constexpr double shown_after_a_pause = 0.70;

/// The share of a loop's power above rest that the benchmark's meter shows.
double shown_share(const spec::Op& op, Seconds duration) {
  if (op.op_class == spec::OpClass::attention)
    return op.attention.key_length < keys_after_a_pause ? 1 : shown_after_a_pause;
  return op.op_class == spec::OpClass::gemm ? std::min(1.0, duration / meter_fill) : 1;
}

/// A product over and over with what its benchmark times beside it, at any clock.
class RepeatedKernel {
 public:
  RepeatedKernel(const spec::Gpu& gpu, const KernelRow& row, const KernelBenchmark& benchmark)
      : gpu_(gpu), op_(row.op), time_(perf::kernel_time(gpu, row.op)), pace_(benchmark.host_pace) {
    const Seconds one = predicted_time(gpu, row, benchmark);
    if (one > pace_)
      cast_ = std::max(Seconds(), one - time_.at(sustained_clock_ratio(gpu, row.op)));
    if (spec::is_quantized(op_.precision))
      cast_bytes_ = benchmark.cast_bytes * static_cast<double>(op_.gemm.m) *
                    static_cast<double>(op_.gemm.k) * unit::B;
  }
  spec::GpuLoad load(double clock_ratio) const {
    const Seconds kernel = time_.at(clock_ratio);
    spec::GpuLoad load = looped_load(gpu_, op_, kernel);
    load.hbm_bytes += cast_bytes_;
    load.computing = kernel + cast_;
    load.duration = std::max(load.computing, pace_);
    return load;
  }
  /// The limit holds for means over many kernels and what lies between them, not for a kernel.
  double settled_ratio() const {
    const auto power_at = [&](double ratio) {
      return power::gpu_power(*gpu_.power, load(ratio), ratio, benchmark_die, {});
    };
    return clock::choose_clock(*gpu_.governor, *gpu_.max_clock, *gpu_.tdp, power_at).clock /
           *gpu_.max_clock;
  }

 private:
  const spec::Gpu& gpu_;
  const spec::Op& op_;
  perf::KernelTime time_;
  Seconds pace_, cast_;
  Bytes cast_bytes_;
};

/// Kernel, cast and what the host leaves between them, over and over, as the meter shows it.
Watts predicted_power(const spec::Gpu& gpu, const KernelRow& row,
                      const KernelBenchmark& benchmark) {
  const RepeatedKernel repeated(gpu, row, benchmark);
  const double ratio = repeated.settled_ratio();
  const spec::GpuLoad load = repeated.load(ratio);
  const Watts drawn = power::gpu_power(*gpu.power, load, ratio, benchmark_die, {});
  const double shown = shown_share(row.op, load.duration);
  if (shown >= 1) return drawn;
  spec::GpuLoad nothing;
  nothing.duration = load.duration;
  const Watts rest = power::gpu_power(*gpu.power, nothing, 1, benchmark_die, {});
  return rest + shown * (drawn - rest);
}

}  // namespace

spec::GpuLoad looped_load(const spec::Gpu& gpu, const spec::Op& op, Seconds duration) {
  spec::GpuLoad load;
  load.duration = load.computing = duration;
  load.flops[static_cast<size_t>(op.op_class)] = perf::energy_flops(gpu, op);
  load.hbm_bytes = op.hbm_bytes;
  // Attention draws the same power in 8 bits: softmax and data movement stay what they were.
  if (op.op_class == spec::OpClass::attention) return load;
  if (op.precision == spec::Precision::nvfp4)
    load.fp4_flops = op.flops;
  else if (spec::is_quantized(op.precision))
    load.fp8_flops = op.flops;
  return load;
}

Result<ScoredRow> score_kernel_power(const spec::Gpu& gpu, const KernelRow& row,
                                     const KernelBenchmark& benchmark) {
  if (std::string reason = missing_for(gpu, row.op); !reason.empty()) return error(reason);
  const Watts predicted = predicted_power(with_library_of(gpu, benchmark), row, benchmark);
  return ScoredRow{.row_id = row.row_id,
                   .family = "power " + family_by_size(row),
                   .quantity = "power_w",
                   .sweep = {},
                   .measured = row.power_share * (*gpu.tdp / unit::W),
                   .predicted = predicted / unit::W,
                   .notes = {}};
}

}  // namespace triplepoint::calibrate
