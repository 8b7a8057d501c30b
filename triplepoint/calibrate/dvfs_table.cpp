// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/dvfs_table.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "triplepoint/spec/machine_names.h"

#include "triplepoint/calibrate/dvfs_kernel.h"
#include "triplepoint/calibrate/power_loads.h"
#include "triplepoint/calibrate/table_cells.h"

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

/// The name of a kernel without what was set around it: "cap-300w" and "cap-400w" run the same,
/// and so do "cap-300" and "cap-400", and "gemm-cap300-bf16" at 300 W and its like.
std::string without_settings(std::string_view workload, std::optional<double> cap) {
  const std::string limit = cap ? fmt::format("{:.0f}", *cap) : std::string();
  std::string kept, number;
  for (const char c : workload) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit) {
      number += c;
      continue;
    }
    const bool watts = !number.empty() && (c == 'w' || c == 'W');
    if (!watts && number != limit) kept += number;
    if (!watts) kept += c;
    number.clear();
  }
  return kept;
}

std::optional<DutyCycle> duty_of(const Cells& cells) {
  const double on = cells.number_or("duty_on_ms", 0), off = cells.number_or("duty_off_ms", 0);
  if (on <= 0 || off <= 0) return std::nullopt;
  return DutyCycle{.on = on * unit::ms, .off = off * unit::ms};
}

BoardSetting setting_of(const Cells& cells, const spec::Gpu& gpu) {
  const auto lock = cells.number("lock_sm_mhz");
  const auto cap = cells.number("power_cap_w"), die = cells.number("temp_avg_c");
  // Without a lock, rates that the row states were reached at the clock that it states.
  const bool rates = cells.has("mem_gbps");
  const auto reached = rates ? cells.number("sm_clock_avg_mhz") : std::nullopt;
  Hertz highest = *gpu.max_clock;
  if (lock) highest = std::min(highest, *lock * unit::MHz);
  if (!lock && reached) highest = std::min(highest, *reached * unit::MHz);
  return {.highest_clock = highest,
          .cap = cap ? *cap * unit::W : *gpu.tdp,
          .die = die ? Celsius(*die) : unstated_die};
}

Point point_of(const Cells& cells, const spec::Gpu& gpu) {
  Point point{.row_id = cells.id(),
              .family = cells.text("family"),
              .group = {},
              .precision = cells.text("precision"),
              .unit = cells.text("perf_unit"),
              .gpu = &gpu,
              .setting = setting_of(cells, gpu)};
  point.group = fmt::format(
      "{}|{}|{}|{}|{}|{}", point.family, gpu.name, cells.text("form"), cells.text("gpu_index"),
      without_settings(cells.text("workload"), cells.number("power_cap_w")), point.precision);
  point.locked = cells.has("lock_sm_mhz");
  point.power =
      cells.has("power_avg_w") ? cells.number("power_avg_w") : cells.number("power_peak_w");
  point.rate = cells.number("perf");
  point.clock_mhz = cells.number("sm_clock_avg_mhz");
  point.bandwidth = cells.number("mem_gbps");
  point.fp32 = cells.number("fp32_gflops");
  point.duty = duty_of(cells);
  return point;
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
    scores_.skipped.push_back({point.row_id, std::move(reason)});
  }
  void add(const Point& point, const char* quantity, double measured, double predicted) {
    scores_.scored.push_back({.row_id = point.row_id,
                              .family = point.family,
                              .quantity = quantity,
                              .sweep = fmt::format("{}|{}", point.group, quantity),
                              .measured = measured,
                              .predicted = predicted,
                              .notes = {}});
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
  double best = 0;
  for (const Point* point : group)
    best = std::max(best, point->rate.value_or(0));
  const SteadyKernel kernel{
      .products = {}, .vector = {}, .traffic = best * (unit::GB / unit::s), .clocked_share = 0};
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
                                            : "says what the kernel of its sweep draws");
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
  std::stable_sort(group.begin(), group.end(), freer);
  if (group[0]->unit == "GB/s") return score_bandwidth(scorer, group);
  score_learned(scorer, group);
}

}  // namespace

bool is_dvfs_table(const Header& header) {
  const auto has = [&](std::string_view title) {
    return std::find(header.begin(), header.end(), title) != header.end();
  };
  return has("lock_sm_mhz") && has("power_cap_w") && has("power_avg_w") && has("perf");
}

TableScores score_dvfs_points(const CsvTable& table, GpuShelf& shelf) {
  TableScores scores{.table = "dvfs", .rows = static_cast<int64_t>(table.rows())};
  Scorer scorer(scores);
  std::vector<Point> points;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    const auto name = spec::gpu_named(cells.text("gpu"));
    const std::string reason =
        name ? missing_for(shelf.gpu(*name))
             : fmt::format("no GPU of the library is named in '{}'", cells.text("gpu"));
    if (reason.empty())
      points.push_back(point_of(cells, *shelf.gpu(*name)));
    else
      scores.skipped.push_back({cells.id(), reason});
  }
  std::map<std::string, std::vector<const Point*>> groups;
  for (const Point& point : points) {
    if (point.bandwidth && point.fp32)
      scorer.score(point,
                   {.products = {},
                    .vector = *point.fp32 * (unit::GFLOP / unit::s),
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
  return scores;
}

Result<TableScores> score_dvfs_table(const CsvTable& table, const spec::Library& library) {
  GpuShelf shelf(library);
  return score_dvfs_points(table, shelf);
}

}  // namespace triplepoint::calibrate
