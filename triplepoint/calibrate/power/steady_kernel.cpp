// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/power/steady_kernel.h"

#include <algorithm>

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/gpu_power.h"

namespace triplepoint::calibrate {
namespace {

constexpr size_t gemm_class = static_cast<size_t>(spec::OpClass::gemm);

Watts power_of(const spec::Gpu& gpu, const SteadyKernel& kernel, double clock_ratio, Celsius die) {
  return power::gpu_power(*gpu.power, kernel.load(clock_ratio), clock_ratio, die, {});
}

/// The same kernel without its arithmetic.
SteadyKernel only_traffic(double clocked_share, BytesPerSecond traffic) {
  return {.products = {}, .vector = {}, .traffic = traffic, .clocked_share = clocked_share};
}

}  // namespace

spec::GpuLoad SteadyKernel::load(double clock_ratio) const {
  const double pace = rate(clock_ratio);
  spec::GpuLoad load;
  load.duration = load.computing = 1 * unit::s;
  load.flops[gemm_class] = pace * products * load.duration;
  load.flops[static_cast<size_t>(spec::OpClass::elementwise)] = pace * vector * load.duration;
  load.hbm_bytes = pace * traffic * load.duration;
  return load;
}

SteadyPoint settle(const spec::Gpu& gpu, const SteadyKernel& kernel, const BoardSetting& setting) {
  const double highest = setting.highest_clock / *gpu.max_clock;
  const auto power_at = [&](double of_highest) {
    return power_of(gpu, kernel, of_highest * highest, setting.die);
  };
  const auto choice =
      clock::choose_clock(*gpu.governor, setting.highest_clock, setting.cap, power_at);
  return {.power = power_at(choice.clock / setting.highest_clock),
          .clock_ratio = choice.clock / *gpu.max_clock};
}

DutyPoint settle_duty(const spec::Gpu& gpu, const SteadyKernel& kernel, const BoardSetting& setting,
                      const DutyCycle& duty) {
  BoardSetting without_cap = setting;
  without_cap.cap = std::max(setting.cap, *gpu.tdp);
  spec::GpuLoad nothing;
  nothing.duration = 1 * unit::s;
  const Watts rest = power::gpu_power(*gpu.power, nothing, 1, setting.die, {});
  const SteadyPoint free = settle(gpu, kernel, without_cap);
  const double share = duty.share();
  const Seconds window = gpu.governor->power_window;
  const bool averaged = duty.on + duty.off <= window;
  BoardSetting held = setting;
  if (averaged) held.cap = (setting.cap - (1 - share) * rest) / share;
  const SteadyPoint under = settle(gpu, kernel, held);
  double at_first = 0;
  if (!averaged && free.power > setting.cap)
    at_first =
        std::clamp(window / duty.on * ((setting.cap - rest) / (free.power - rest)), 0.0, 1.0);
  const Watts working = at_first * free.power + (1 - at_first) * under.power;
  return {.power = share * working + (1 - share) * rest,
          .rate = share * (at_first * kernel.rate(free.clock_ratio) +
                           (1 - at_first) * kernel.rate(under.clock_ratio))};
}

SteadyKernel kernel_that_draws(const spec::Gpu& gpu, Watts power, double clock_ratio, Celsius die,
                               double clocked_share) {
  SteadyKernel kernel = only_traffic(clocked_share, {});
  const Watts standing = power_of(gpu, kernel, clock_ratio, die);
  kernel.products = 1 * (unit::TFLOP / unit::s);
  const Watts each = power_of(gpu, kernel, clock_ratio, die) - standing;
  kernel.products *= std::max(0.0, (power - standing) / each);
  return kernel;
}

SteadyKernel kernel_through(const spec::Gpu& gpu, SteadyPoint fast, SteadyPoint slow, Celsius die,
                            double clocked_share) {
  const SteadyKernel nothing = only_traffic(clocked_share, {});
  const SteadyKernel bytes = only_traffic(clocked_share, 1 * (unit::GB / unit::s));
  SteadyKernel flops = nothing;
  flops.products = 1 * (unit::TFLOP / unit::s);
  const auto over = [&](const SteadyKernel& kernel, double ratio) {
    return (power_of(gpu, kernel, ratio, die) - power_of(gpu, nothing, ratio, die)) / unit::W;
  };
  const auto left = [&](SteadyPoint point) {
    return (point.power - power_of(gpu, nothing, point.clock_ratio, die)) / unit::W;
  };
  const double bf = over(bytes, fast.clock_ratio), bs = over(bytes, slow.clock_ratio),
               ff = over(flops, fast.clock_ratio), fs = over(flops, slow.clock_ratio),
               determinant = ff * bs - fs * bf;
  // Powers that fall far less than memory's alone would are all memory: two readings that ask for
  // several times of what the fast one has room for contradict each other.
  constexpr double contradiction = 2.5;
  const double most = std::max(0.0, left(fast) / bf);
  const double wanted =
      determinant == 0 ? 0 : std::max(0.0, (ff * left(slow) - fs * left(fast)) / determinant);
  const double gigabytes = wanted > contradiction * most ? most : wanted;
  SteadyKernel kernel = only_traffic(clocked_share, gigabytes * (unit::GB / unit::s));
  kernel.products = std::max(0.0, (left(fast) - gigabytes * bf) / ff) * (unit::TFLOP / unit::s);
  return kernel;
}

double clocked_share_of(double rate_ratio, double clock_ratio) {
  if (clock_ratio >= 1 || rate_ratio <= 0) return 1;
  return std::clamp((1 / rate_ratio - 1) / (1 / clock_ratio - 1), 0.0, 1.0);
}

}  // namespace triplepoint::calibrate
