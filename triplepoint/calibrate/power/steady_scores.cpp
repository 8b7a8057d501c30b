// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/power/steady_scores.h"

#include <algorithm>
#include <map>

#include "triplepoint/clock/governor.h"
#include "triplepoint/power/power.h"

namespace triplepoint::calibrate {
namespace {

constexpr Celsius unstated_die{45};

/// One row, understood.
struct Point {
  std::string row_id, family, group, precision, unit;
  const spec::Gpu* gpu = nullptr;
  BoardSetting setting;
  bool locked = false;
  std::optional<double> power, rate, clock_mhz, bandwidth, fp32;
  std::optional<DutyCycle> duty;
};

std::optional<DutyCycle> duty_of(const Cells& cells) {
  const double on = cells.number_or("duty_on_ms", 0), off = cells.number_or("duty_off_ms", 0);
  if (on <= 0 || off <= 0) return std::nullopt;
  return DutyCycle{.on = on * unit::ms, .off = off * unit::ms};
}

BoardSetting setting_of(const Cells& cells, const spec::Gpu& gpu) {
  const auto lock = cells.number("lock_mhz"), reached = cells.number("ran_at_mhz"),
             cap = cells.number("cap_w"), die = cells.number("die_c");
  Hertz highest = *gpu.max_clock;
  if (lock) highest = std::min(highest, *lock * unit::MHz);
  if (!lock && reached) highest = std::min(highest, *reached * unit::MHz);
  return {.highest_clock = highest,
          .cap = cap ? *cap * unit::W : *gpu.tdp,
          .die = die ? Celsius(*die) : unstated_die};
}

Point point_of(const Cells& cells, const spec::Gpu& gpu) {
  return {.row_id = cells.id(),
          .family = cells.family(),
          .group = cells.text("kernel"),
          .precision = cells.text("precision"),
          .unit = cells.text("rate_unit"),
          .gpu = &gpu,
          .setting = setting_of(cells, gpu),
          .locked = cells.has("lock_mhz"),
          .power = cells.number("power_w"),
          .rate = cells.number("rate"),
          .clock_mhz = cells.number("clock_mhz"),
          .bandwidth = cells.number("mem_gb_per_s"),
          .fp32 = cells.number("fp32_gflops"),
          .duty = duty_of(cells)};
}

std::string missing_for(const Result<spec::Gpu>& gpu) {
  if (!gpu) return gpu.error().what;
  if (!gpu->power || !gpu->governor || !gpu->max_clock || !gpu->tdp)
    return fmt::format("{} has no power model", gpu->name);
  return {};
}

class Scorer {
 public:
  explicit Scorer(TableScores& scores) : scores_(scores) {}

  void skip(const Point& point, std::string reason) {
    scores_.skip(point.row_id, std::move(reason));
  }
  void add(const Point& point, const char* quantity, double measured, double predicted) {
    scores_.scored.push_back({.row_id = point.row_id,
                              .family = point.family,
                              .quantity = quantity,
                              .sweep = fmt::format("{}|{}", point.group, quantity),
                              .measured = measured,
                              .predicted = predicted});
  }
  /// A point whose kernel is known. `full_rate`: what the kernel reaches at full clock, or nothing.
  void score(const Point& point, const SteadyKernel& kernel, std::optional<double> full_rate) {
    const SteadyPoint settled = settle(*point.gpu, kernel, point.setting);
    if (point.power) add(point, "power_w", *point.power, settled.power / unit::W);
    if (point.rate && full_rate)
      add(point, "rate", *point.rate, *full_rate * kernel.rate(settled.clock_ratio));
    if (point.clock_mhz && point.setting.cap < *point.gpu->tdp && !point.locked)
      add(point, "sm_clock_mhz", *point.clock_mhz,
          settled.clock_ratio * (*point.gpu->max_clock / unit::MHz));
  }

 private:
  TableScores& scores_;
};

double ratio_of(const Point& point) {
  return point.setting.highest_clock / *point.gpu->max_clock;
}

/// Highest cap first, then highest clock.
bool freer(const Point* a, const Point* b) {
  if (a->setting.cap != b->setting.cap) return a->setting.cap > b->setting.cap;
  return a->setting.highest_clock > b->setting.highest_clock;
}

/// The lowest locked clock at the freest point's cap, if clocks were locked.
const Point* slowest_lock(const std::vector<const Point*>& group) {
  const Point* slowest = nullptr;
  for (const Point* point : group)
    if (point->locked && point->setting.cap == group[0]->setting.cap) slowest = point;
  return slowest == group[0] ? nullptr : slowest;
}

void score_bandwidth(Scorer& scorer, const std::vector<const Point*>& group) {
  const double best = most_of(group, [](const Point* point) { return point->rate.value_or(0); });
  const SteadyKernel kernel{
      .products = {}, .traffic = best * (unit::GB / unit::s), .clocked_share = 0};
  for (const Point* point : group)
    scorer.score(*point, kernel, best);
}

SteadyKernel learned(const Point& free, const Point* slow) {
  const SteadyPoint fast{*free.power * unit::W, ratio_of(free)};
  if (!slow || !slow->power || !slow->rate || !free.rate)
    return kernel_that_draws(*free.gpu, fast.power, fast.clock_ratio, free.setting.die, 1);
  const SteadyPoint at_lock{*slow->power * unit::W, ratio_of(*slow)};
  const double share = clocked_share_of(*slow->rate / *free.rate, at_lock.clock_ratio);
  return kernel_through(*free.gpu, fast, at_lock, free.setting.die, share);
}

void score_learned(Scorer& scorer, const std::vector<const Point*>& group) {
  const Point& free = *group[0];
  const Point* slow = slowest_lock(group);
  if (!free.power) return scorer.skip(free, "no power is stated");
  const SteadyKernel kernel = learned(free, slow);
  std::optional<double> full_rate;
  if (free.rate) full_rate = *free.rate / kernel.rate(ratio_of(free));
  for (const Point* point : group)
    if (point == &free || point == slow)
      scorer.skip(*point, group.size() == 1 ? "no other point of this kernel (one is needed to "
                                              "learn what it draws)"
                                            : "gives the power of its sweep's kernel");
    else
      scorer.score(*point, kernel, full_rate);
}

/// The steady kernel that a duty cycle turns on and off, of all with its precision and unit: under
/// its own cap the one whose rate while on is nearest, within 5 %; under a lowered cap, which
/// lowers the rate, the fastest.
const Point* kernel_of_duty(const std::vector<Point>& points, const Point& duty) {
  const bool capped = duty.setting.cap < *duty.gpu->tdp;
  const Point* nearest = nullptr;
  double best = 0.05, fastest = 0;
  for (const Point& point : points) {
    const bool alike = !point.duty && point.gpu == duty.gpu && point.power && point.rate &&
                       point.precision == duty.precision && point.unit == duty.unit &&
                       point.setting.cap == *point.gpu->tdp;
    if (!alike) continue;
    const double off_by = std::abs(*duty.rate / duty.duty->share() / *point.rate - 1);
    if (capped ? *point.rate <= fastest : off_by >= best) continue;
    best = off_by;
    fastest = *point.rate;
    nearest = &point;
  }
  return nearest;
}

void score_duty(Scorer& scorer, const std::vector<Point>& points, const Point& duty) {
  if (!duty.rate || !duty.power) return scorer.skip(duty, "a duty cycle without power or rate");
  const Point* steady = kernel_of_duty(points, duty);
  if (!steady) return scorer.skip(duty, "no steady kernel of the same rate is in the table");
  const spec::Gpu& gpu = *duty.gpu;
  const SteadyKernel kernel =
      kernel_that_draws(gpu, *steady->power * unit::W, 1, steady->setting.die, 1);
  const DutyPoint settled = settle_duty(gpu, kernel, duty.setting, *duty.duty);
  scorer.add(duty, "power_w", *duty.power, settled.power / unit::W);
  if (duty.setting.cap < *gpu.tdp)
    scorer.add(duty, "rate", *duty.rate, *steady->rate * settled.rate);
}

void score_group(Scorer& scorer, std::vector<const Point*> group) {
  std::ranges::stable_sort(group, freer);
  if (group[0]->unit == "GB/s") return score_bandwidth(scorer, group);
  score_learned(scorer, group);
}

void score_points(Scorer& scorer, const std::vector<Point>& points) {
  std::map<std::string, std::vector<const Point*>> groups;
  for (const Point& point : points) {
    if (point.bandwidth && point.fp32)
      scorer.score(point,
                   {.vector = *point.fp32 * (unit::GFLOP / unit::s),
                    .traffic = *point.bandwidth * (unit::GB / unit::s),
                    .clocked_share = 0},
                   std::nullopt);
    else if (point.duty)
      score_duty(scorer, points, point);
    else
      groups[point.group].push_back(&point);
  }
  for (const auto& [name, group] : groups)
    score_group(scorer, group);
}

constexpr size_t gemm_class = as_size(spec::OpClass::gemm);

Watts power_of(const spec::Gpu& gpu, const SteadyKernel& kernel, double clock_ratio, Celsius die) {
  return power::gpu_power(*gpu.power, kernel.load(clock_ratio), clock_ratio, die, {});
}

/// The same kernel without its arithmetic.
SteadyKernel only_traffic(double clocked_share, BytesPerSecond traffic) {
  return {.traffic = traffic, .clocked_share = clocked_share};
}

}  // namespace

Result<TableScores> score_steady_power(const CsvTable& table, const ScoreContext& context) {
  TableScores scores{.table = "steady-power", .rows = static_cast<int64_t>(table.rows())};
  GpuCache gpus(context.library);
  std::vector<Point> points;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    std::string reason = cells.text("skip");
    if (reason.empty()) reason = missing_for(gpus.gpu(cells.text("gpu")));
    if (reason.empty())
      points.push_back(point_of(cells, *gpus.gpu(cells.text("gpu"))));
    else
      scores.skip(cells.id(), reason);
  }
  Scorer scorer(scores);
  score_points(scorer, points);
  return scores;
}

spec::GpuLoad SteadyKernel::load(double clock_ratio) const {
  const double speed = rate(clock_ratio);
  spec::GpuLoad load;
  load.duration = load.computing = 1 * unit::s;
  load.flops[gemm_class] = speed * products * load.duration;
  load.flops[as_size(spec::OpClass::elementwise)] = speed * vector * load.duration;
  load.hbm_bytes = speed * traffic * load.duration;
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
  const SteadyPoint under = settle(gpu, kernel, setting);
  // Each time of work ends at the cap, if it reaches it, and the next one begins below it.
  const Watts level = clock::filtered_power(*gpu.governor, setting.cap, rest, duty.off);
  const double at_first =
      clock::time_to_cap(*gpu.governor, level, free.power, setting.cap, duty.on) / duty.on;
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
