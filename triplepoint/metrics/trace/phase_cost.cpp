// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/phase_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "triplepoint/base/result.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::metrics {
namespace {

constexpr double singular = 1e-10;  // a pivot, relative to its diagonal element

/// Inverts a symmetric matrix in place; false if it is singular.
bool invert(std::vector<double>& matrix, size_t n) {
  std::vector<double> scale, inverse(n * n, 0.0);
  for (size_t i = 0; i < n; ++i) {
    scale.push_back(std::abs(matrix[i * n + i]));
    inverse[i * n + i] = 1;
  }
  for (size_t column = 0; column < n; ++column) {
    const double pivot = matrix[column * n + column];
    if (std::abs(pivot) <= singular * std::max(scale[column], 1e-300)) return false;
    for (size_t k = 0; k < n; ++k) {
      matrix[column * n + k] /= pivot;
      inverse[column * n + k] /= pivot;
    }
    for (size_t row = 0; row < n; ++row) {
      const double factor = matrix[row * n + column];
      if (row == column || factor == 0) continue;
      for (size_t k = 0; k < n; ++k) {
        matrix[row * n + k] -= factor * matrix[column * n + k];
        inverse[row * n + k] -= factor * inverse[column * n + k];
      }
    }
  }
  matrix = std::move(inverse);
  return true;
}

/// Collects equations y = sum of a[k] x[k] one by one, then solves them in the least-squares sense.
/// For a handful of unknowns: normal equations, Gauss-Jordan with pivots.
class LeastSquares {
 public:
  explicit LeastSquares(size_t unknowns)
      : unknowns_(unknowns), products_(unknowns * unknowns, 0.0), right_(unknowns, 0.0) {}
  void add(const std::vector<double>& a, double y) {
    TPT_EXPECT(a.size() == unknowns_);
    for (size_t i = 0; i < unknowns_; ++i) {
      if (a[i] == 0) continue;
      right_[i] += a[i] * y;
      for (size_t j = 0; j < unknowns_; ++j)
        products_[i * unknowns_ + j] += a[i] * a[j];
    }
    squares_ += y * y;
    ++equations_;
  }

  struct Solution {
    std::vector<double> x;
    std::vector<double> deviation;      // one standard deviation of each, from the residuals
    double residual = 0, variance = 0;  // sum of their squares; of one
  };
  /// Nothing where the equations do not tell the unknowns apart, or leave no residual to judge by.
  std::optional<Solution> solve() const {
    if (equations_ <= unknowns_) return std::nullopt;
    std::vector<double> inverse = products_;
    if (!invert(inverse, unknowns_)) return std::nullopt;
    Solution solution;
    double residual = squares_;
    for (size_t i = 0; i < unknowns_; ++i) {
      double x = 0;
      for (size_t j = 0; j < unknowns_; ++j)
        x += inverse[i * unknowns_ + j] * right_[j];
      solution.x.push_back(x);
      residual -= x * right_[i];
    }
    solution.residual = std::max(0.0, residual);
    const double variance = solution.residual / as_real(equations_ - unknowns_);
    solution.variance = variance;
    for (size_t i = 0; i < unknowns_; ++i)
      solution.deviation.push_back(std::sqrt(variance * std::max(0.0, inverse[i * unknowns_ + i])));
    return solution;
  }

 private:
  size_t unknowns_, equations_ = 0;
  std::vector<double> products_;  // A'A, row by row
  std::vector<double> right_;     // A'y
  double squares_ = 0;            // y'y
};

/// A sampled signal as a function of time: each value holds over a stretch of time.
class HeldSeries {
 public:
  struct Piece {
    int64_t begin = 0, end = 0;  // ns
    double value = 0;
  };
  enum class Holds {
    until_next,    // from its stamp to the next one: clocks, temperatures, throttle reasons
    since_last,    // from the stamp before to its own: a mean since then (power_w)
    around_window  // nearest to the middle of its window: instant readings, running means
  };
  HeldSeries(const run::Series&, Holds, int64_t window = 0);

  const std::vector<Piece>& pieces() const { return pieces_; }
  int64_t period() const { return period_; }  // median distance of the stamps; 0 for one value
  bool covers(const TimeInterval&) const;

  /// Calls visit(piece, overlap) for every piece that the intervals touch.
  template <class Visit>
  void over(const std::vector<TimeInterval>& intervals, Visit visit) const {
    for (const TimeInterval& interval : intervals)
      for (size_t i = first_after(interval.begin); i < pieces_.size(); ++i) {
        if (pieces_[i].begin >= interval.end) break;
        visit(pieces_[i], TimeInterval{std::max(interval.begin, pieces_[i].begin),
                                       std::min(interval.end, pieces_[i].end)});
      }
  }

  /// Index of the first piece that ends after a time.
  size_t first_after(int64_t time) const;

 private:
  std::vector<Piece> pieces_;
  int64_t period_ = 0;
};

int64_t median_distance(const run::Times& times) {
  std::vector<int64_t> distances;
  for (size_t i = 1; i < times.size(); ++i)
    distances.push_back(times[i].nanoseconds() - times[i - 1].nanoseconds());
  if (distances.empty()) return 0;
  return upper_median(std::move(distances));
}

HeldSeries::HeldSeries(const run::Series& series, Holds holds, int64_t window)
    : period_(median_distance(series.times)) {
  const auto at = [&](size_t i) { return series.times[i].nanoseconds(); };
  const size_t count = series.times.size();
  for (size_t i = 0; i < count; ++i) {
    const int64_t before = i > 0 ? at(i - 1) : at(i) - period_;
    const int64_t after = i + 1 < count ? at(i + 1) : at(i) + period_;
    Piece piece{at(i), after, series.values[i]};
    if (holds == Holds::since_last) piece = {before, at(i), series.values[i]};
    if (holds == Holds::around_window) {
      const auto middle = [&](int64_t a, int64_t b) { return a + (b - a) / 2 - window / 2; };
      piece = {middle(before, at(i)), middle(at(i), after), series.values[i]};
    }
    if (piece.begin < piece.end) pieces_.push_back(piece);
  }
}

size_t HeldSeries::first_after(int64_t time) const {
  const auto found = std::upper_bound(pieces_.begin(), pieces_.end(), time,
                                      [](int64_t t, const Piece& p) { return t < p.end; });
  return as_size(found - pieces_.begin());
}

bool HeldSeries::covers(const TimeInterval& interval) const {
  return !pieces_.empty() && pieces_.front().begin <= interval.begin &&
         interval.end <= pieces_.back().end;
}

constexpr int64_t average_window =
    1'000'000'000;                            // ns; "power_average_w" is a mean over one second
constexpr int64_t periods_to_integrate = 10;  // in shorter ones, borders are too much of it
constexpr int64_t periods_to_count = 20;      // a counter's steps are a twentieth of that at most

double seconds(int64_t nanoseconds) {
  return as_real(nanoseconds) * 1e-9;
}

/// The power that a device's series show, best signal first, and how its values see.
struct PowerView {
  const run::Series* series = nullptr;
  HeldSeries held;
  int64_t window = 0;  // ns before its stamp that a value is the mean of
};

/// Mean power between the values of a counter.
run::Series differenced(const run::Series& counter) {
  run::Series power{.signal = "power_w", .device = counter.device};
  for (size_t i = 1; i < counter.times.size(); ++i) {
    const double length = (counter.times[i] - counter.times[i - 1]) / unit::s;
    const double growth = counter.values[i] - counter.values[i - 1];
    if (length <= 0 || growth < 0) continue;
    power.times.push_back(counter.times[i]);
    power.values.push_back(growth / length);
  }
  return power;
}

/// The best that there is; of a counter what it says, put into `made`.
std::optional<PowerView> find_power(const run::Run& run, int32_t device, const SensorView& view,
                                    run::Series& made) {
  using Holds = HeldSeries::Holds;
  struct Signal {
    std::string_view name;
    Holds holds;
    int64_t window;  // -1: since the last value
  };
  for (const Signal& signal : {Signal{"power_w", Holds::since_last, -1},
                               Signal{"power_instant_w", Holds::around_window, 0},
                               Signal{"power_average_w", Holds::around_window, average_window}}) {
    const run::Series* series = run::find_series(run, signal.name, device);
    if (series == nullptr || series->times.size() < 2) continue;
    const int64_t window = view.window.value_or(signal.window);
    PowerView found{series, HeldSeries(*series, signal.holds, std::max<int64_t>(0, window)),
                    window};
    if (window < 0) found.window = found.held.period();
    return found;
  }
  const run::Series* counter = run::find_series(run, "energy_j", device);
  if (counter == nullptr || counter->times.size() < 3) return std::nullopt;
  made = differenced(*counter);
  PowerView found{&made, HeldSeries(made, Holds::since_last), 0};
  found.window = found.held.period();
  return found;
}

/// One rank's phases and its device's series.
class RankCosts {
 public:
  RankCosts(const std::vector<const Phase*>& phases, const run::Run& run, int32_t device,
            const SensorView& view)
      : phases_(phases), run_(run), device_(device), power_(find_power(run, device, view, made_)) {
    if (power_ && !view.window && power_->series->signal == "power_instant_w") fit_window();
  }

  std::vector<PhaseCost> costs() {
    std::vector<PhaseCost> all;
    for (const Phase* phase : phases_) {
      PhaseCost cost{.label = phase->label,
                     .rank = phase->rank,
                     .time = phase->time(),
                     .occurrences = static_cast<int64_t>(phase->intervals.size())};
      if (power_)
        power_->held.over(phase->intervals, [&](const auto&, const TimeInterval& part) {
          cost.sampled += part.end - part.begin;
        });
      add_energy(*phase, cost);
      add_readings(*phase, cost);
      add_throttle(*phase, cost);
      all.push_back(std::move(cost));
    }
    add_folded(all);
    return all;
  }

 private:
  static int64_t mean_interval(const Phase& phase) {
    return phase.intervals.empty() ? 0
                                   : phase.time() / static_cast<int64_t>(phase.intervals.size());
  }

  void add_energy(const Phase& phase, PhaseCost& cost) {
    if (add_counted(phase, cost)) return;
    if (!power_) {
      cost.missing = "the run has no power of this device";
    } else if (!std::ranges::any_of(phase.intervals,
                                    [&](const auto& i) { return power_->held.covers(i); })) {
      cost.missing = "no power was sampled during it";
    } else if (mean_interval(phase) >= periods_to_integrate * power_->held.period()) {
      integrate(phase, cost);
    } else {
      cost.method = "folded";  // filled in later, all phases at once
    }
  }

  bool add_counted(const Phase& phase, PhaseCost& cost) const {
    const run::Series* counter = run::find_series(run_, "energy_j", device_);
    if (counter == nullptr || counter->times.size() < 2) return false;
    const int64_t period = HeldSeries(*counter, HeldSeries::Holds::until_next).period();
    if (mean_interval(phase) < periods_to_count * period) return false;
    double energy = 0;
    for (const TimeInterval& interval : phase.intervals) {
      const auto difference =
          run::counter_difference(*counter, Instant(interval.begin), Instant(interval.end));
      if (!difference) return false;
      energy += *difference;
    }
    const double power = energy / seconds(cost.time);
    const double step = power * seconds(period) / 2;
    const double uncertainty = step * std::sqrt(2.0 * as_real(cost.occurrences));
    set_energy(cost, "counter", energy, uncertainty);
    return true;
  }

  static void set_energy(PhaseCost& cost, std::string_view method, double energy,
                         double uncertainty) {
    cost.method = method;
    cost.energy_j = energy;
    cost.energy_uncertainty_j = uncertainty;
    if (cost.time == 0) return;
    cost.power_mean_w = energy / seconds(cost.time);
    cost.power_uncertainty_w = uncertainty / seconds(cost.time);
  }

  /// What a border that cuts a piece off at `time` may be wrong by, in joules.
  double border_error(int64_t time) const {
    const auto& pieces = power_->held.pieces();
    const size_t i = power_->held.first_after(time);
    if (i >= pieces.size() || time <= pieces[i].begin) return 0;
    double change = 0;
    if (i > 0) change = std::max(change, std::abs(pieces[i].value - pieces[i - 1].value));
    if (i + 1 < pieces.size())
      change = std::max(change, std::abs(pieces[i + 1].value - pieces[i].value));
    return seconds(std::min(time - pieces[i].begin, pieces[i].end - time)) * change;
  }

  void integrate(const Phase& phase, PhaseCost& cost) const {
    double energy = 0, error = 0;
    int64_t known = 0;
    power_->held.over(phase.intervals, [&](const HeldSeries::Piece& piece, TimeInterval part) {
      energy += piece.value * seconds(part.end - part.begin);
      known += part.end - part.begin;
    });
    for (const TimeInterval& interval : phase.intervals)
      error += border_error(interval.begin) + border_error(interval.end);
    if (known == 0) return;
    // What no sample covers counts at the mean of what they do.
    const double scale = as_real(cost.time) / as_real(known);
    set_energy(cost, "integrated", energy * scale, error * scale);
  }

  /// Shares of a value's window that each phase takes; the last one is for all the rest.
  std::vector<double> shares(int64_t begin, int64_t end) const {
    std::vector<double> result(phases_.size() + 1, 0.0);
    double rest = 1;
    for (size_t k = 0; k < phases_.size(); ++k) {
      result[k] = share_of(phases_[k]->intervals, begin, end);
      rest -= result[k];
    }
    result.back() = rest > 1e-9 ? rest : 0;
    return result;
  }

  static double share_of(const std::vector<TimeInterval>& intervals, int64_t begin, int64_t end) {
    auto next = std::upper_bound(intervals.begin(), intervals.end(), begin,
                                 [](int64_t t, const TimeInterval& i) { return t < i.end; });
    if (begin == end) return next != intervals.end() && next->begin <= begin ? 1 : 0;
    int64_t inside = 0;
    for (; next != intervals.end() && next->begin < end; ++next)
      inside += std::min(end, next->end) - std::max(begin, next->begin);
    return as_real(inside) / as_real(end - begin);
  }

  TimeInterval reach() const {
    TimeInterval all{INT64_MAX, INT64_MIN};
    for (const Phase* phase : phases_) {
      if (phase->intervals.empty()) continue;
      all.begin = std::min(all.begin, phase->intervals.front().begin);
      all.end = std::max(all.end, phase->intervals.back().end);
    }
    return all;
  }

  /// Some "instant" readings are means over a short time; the phases show over which.
  void fit_window() {
    constexpr std::array<int64_t, 10> candidates_ms = {5, 10, 15, 20, 25, 30, 40, 50, 75, 100};
    constexpr double clearly_less = 0.8;
    const auto start = residual();
    if (!start) return;
    double least = clearly_less * *start;
    int64_t best = power_->window;
    for (const int64_t candidate : candidates_ms) {
      power_->window = candidate * 1'000'000;
      if (power_->window > power_->held.period()) break;
      const auto left = residual();
      if (!left || *left >= least) continue;
      least = *left;
      best = power_->window;
    }
    power_->window = best;
    power_->held = HeldSeries(*power_->series, HeldSeries::Holds::around_window, best);
  }

  /// The power of each phase by least squares over all samples.
  struct Fold {
    std::vector<size_t> seen;  // phases that some sample saw
    std::optional<LeastSquares::Solution> solution;
    size_t samples = 0;
    double highest = 0;          // that was sampled
    double spread = 0;           // W, of the phases of a kind
    std::vector<size_t> groups;  // of the seen: of their kind, else the number of kinds
    size_t kinds = 0;
  };
  Fold fold() const {
    Fold made;
    const std::vector<std::vector<double>> rows = sample_shares();
    made.samples = rows.size();
    for (size_t k = 0; k <= phases_.size(); ++k)
      if (std::ranges::any_of(rows, [&](const auto& row) { return row[k] > 0; }))
        made.seen.push_back(k);
    for (const auto& row : rows)
      made.highest = std::max(made.highest, row.back());
    group(made);
    constexpr double spread_in_kind = 0.2;  // of the mean power
    if (!rows.empty())
      made.spread = spread_in_kind * sum_of(rows, [](const auto& row) { return row.back(); }) /
                    as_real(rows.size());
    // How much a kind holds depends on the noise, which is known once it holds.
    double hold = 1;
    constexpr int passes = 4;
    std::vector<bool> is_none(made.seen.size(), false);  // draws nothing: less would be negative
    for (int pass = 0; pass < (made.kinds == 0 ? 1 : passes); ++pass) {
      made.solution = solved(made, rows, hold, is_none);
      if (!made.solution || made.spread <= 0) break;
      hold = std::max(1e-3, std::sqrt(made.solution->variance) / made.spread);
      for (size_t i = 0; i < made.seen.size(); ++i)
        is_none[i] = is_none[i] || made.solution->x[i] < 0;
    }
    for (size_t i = 0; i < made.seen.size(); ++i)
      if (is_none[i] && made.solution) made.solution->x[i] = 0;
    return made;
  }

  /// Numbers the kinds of which several phases were seen.
  void group(Fold& made) const {
    std::map<std::string_view, size_t> counts, numbers;
    const auto kind = [&](size_t k) {
      return k < phases_.size() ? std::string_view(phases_[k]->kind) : std::string_view();
    };
    for (const size_t k : made.seen)
      ++counts[kind(k)];
    for (const auto& [name, count] : counts)
      if (!name.empty() && count > 1) numbers.emplace(name, numbers.size());
    made.kinds = numbers.size();
    for (const size_t k : made.seen)
      made.groups.push_back(value_at(numbers, kind(k)).value_or(made.kinds));
  }

  /// The samples' equations, and one for each phase of a kind: `hold` times its distance to the
  /// kind's power, another unknown, is 0.
  static std::optional<LeastSquares::Solution> solved(const Fold& made,
                                                      const std::vector<std::vector<double>>& rows,
                                                      double hold,
                                                      const std::vector<bool>& is_none) {
    const size_t seen = made.seen.size(), unknowns = seen + made.kinds;
    LeastSquares equations(unknowns);
    for (const auto& row : rows) {
      std::vector<double> a = mapped(made.seen, [&](const size_t k) { return row[k]; });
      a.resize(unknowns, 0.0);
      equations.add(a, row.back());
    }
    for (size_t i = 0; i < seen; ++i) {
      if (is_none[i]) {
        std::vector<double> a(unknowns, 0.0);
        a[i] = as_real(rows.size());
        equations.add(a, 0);
      }
      if (made.groups[i] == made.kinds) continue;
      std::vector<double> a(unknowns, 0.0);
      a[i] = hold, a[seen + made.groups[i]] = -hold;
      equations.add(a, 0);
    }
    return equations.solve();
  }

  /// Mean square that the phases' powers leave of the sampled values.
  std::optional<double> residual() const {
    const Fold folded = fold();
    if (!folded.solution) return std::nullopt;
    return folded.solution->residual / as_real(folded.samples);
  }

  void add_folded(std::vector<PhaseCost>& costs) const {
    const auto is_folded = [](const PhaseCost& cost) { return cost.method == "folded"; };
    if (std::ranges::none_of(costs, is_folded)) return;
    const Fold folded = fold();
    const auto& solution = folded.solution;
    // Nearly collinear shares have a solution, but not one that a device can draw.
    const auto is_told = [&](size_t i) {
      return solution->x[i] >= -solution->deviation[i] && solution->deviation[i] <= folded.highest;
    };
    for (size_t k = 0; k < costs.size(); ++k) {
      if (!is_folded(costs[k])) continue;
      const auto place = std::ranges::find(folded.seen, k);
      const auto i = as_size(place - folded.seen.begin());
      if (solution && place != folded.seen.end() && is_told(i)) {
        const bool of_kind =
            folded.groups[i] < folded.kinds && solution->deviation[i] > folded.spread / 2;
        set_energy(costs[k], of_kind ? "kind" : "folded", solution->x[i] * seconds(costs[k].time),
                   solution->deviation[i] * seconds(costs[k].time));
      } else {
        costs[k].method.clear();
        costs[k].missing =
            fmt::format("{} samples do not separate it from other phases", folded.samples);
      }
    }
  }

  /// One row per value whose window lies inside of the phases: the shares, then the value.
  std::vector<std::vector<double>> sample_shares() const {
    std::vector<std::vector<double>> rows;
    const TimeInterval inside = reach();
    const auto& times = power_->series->times;
    const bool since_last = power_->series->signal == "power_w";
    for (size_t i = 1; i < times.size(); ++i) {
      const int64_t end = times[i].nanoseconds();
      const int64_t begin = since_last ? times[i - 1].nanoseconds() : end - power_->window;
      if (begin < inside.begin || end > inside.end) continue;
      rows.push_back(shares(begin, end));
      rows.back().push_back(power_->series->values[i]);
    }
    return rows;
  }

  /// Temperatures, clocks, and the highest power of values that saw nothing else.
  void add_readings(const Phase& phase, PhaseCost& cost) const {
    mean_and_peak(phase, "die_c", cost.die_mean_c, cost.die_peak_c);
    std::optional<double> ignored;
    mean_and_peak(phase, "sm_clock_mhz", cost.sm_clock_mean_mhz, ignored);
    if (!power_) return;
    const auto& times = power_->series->times;
    for (size_t i = 0; i < times.size(); ++i) {
      const int64_t end = times[i].nanoseconds();
      if (share_of(phase.intervals, end - power_->window, end) >= 1)
        cost.power_peak_w =
            std::max(cost.power_peak_w.value_or(-INFINITY), power_->series->values[i]);
    }
  }

  void mean_and_peak(const Phase& phase, std::string_view signal, std::optional<double>& mean,
                     std::optional<double>& peak) const {
    const run::Series* series = run::find_series(run_, signal, device_);
    if (series == nullptr) return;
    double sum = 0;
    int64_t known = 0;
    HeldSeries(*series, HeldSeries::Holds::until_next)
        .over(phase.intervals, [&](const HeldSeries::Piece& piece, TimeInterval part) {
          sum += piece.value * as_real(part.end - part.begin);
          known += part.end - part.begin;
          peak = std::max(peak.value_or(piece.value), piece.value);
        });
    if (known > 0) mean = sum / as_real(known);
  }

  void add_throttle(const Phase& phase, PhaseCost& cost) const {
    for (const run::ThrottleReason& reason : run::throttle_reasons) {
      auto share = counted_share(phase, reason);
      if (!share) share = polled_share(phase, reason);
      cost.throttle_known = cost.throttle_known || share.has_value();
      if (share.value_or(0) > 0) cost.throttle[std::string(reason.name)] = *share;
    }
  }

  /// By the residency counter, which sees what falls between samples.
  std::optional<double> counted_share(const Phase& phase, const run::ThrottleReason& reason) const {
    const run::Series* counter = run::find_series(run_, reason.counter, device_);
    if (counter == nullptr) return std::nullopt;
    double held_ns = 0;
    int64_t known = 0;
    for (const TimeInterval& interval : phase.intervals) {
      const auto growth =
          run::counter_difference(*counter, Instant(interval.begin), Instant(interval.end));
      if (!growth) continue;
      held_ns += *growth;
      known += interval.end - interval.begin;
    }
    if (known == 0) return std::nullopt;
    return held_ns / as_real(known);
  }

  std::optional<double> polled_share(const Phase& phase, const run::ThrottleReason& reason) const {
    const run::Series* series = run::find_series(run_, "throttle_reasons", device_);
    if (series == nullptr) return std::nullopt;
    int64_t held = 0, known = 0;
    HeldSeries(*series, HeldSeries::Holds::until_next)
        .over(phase.intervals, [&](const HeldSeries::Piece& piece, TimeInterval part) {
          known += part.end - part.begin;
          const auto bits = static_cast<uint64_t>(std::clamp(piece.value, 0.0, 0x1p53));
          if ((bits & reason.bit) != 0) held += part.end - part.begin;
        });
    if (known == 0) return std::nullopt;
    return as_real(held) / as_real(known);
  }

  const std::vector<const Phase*>& phases_;
  const run::Run& run_;
  int32_t device_;
  run::Series made_;  // of a counter
  std::optional<PowerView> power_;
};

}  // namespace

std::vector<PhaseCost> cost_of_phases(const std::vector<Phase>& phases, const run::Run& run,
                                      const SensorView& view) {
  std::map<int32_t, std::vector<const Phase*>> ranks;
  for (const Phase& phase : phases)
    ranks[phase.rank].push_back(&phase);
  std::vector<PhaseCost> costs;
  for (const auto& [rank, of_rank] : ranks) {
    const auto device = std::ranges::find_if(
        run.devices, [rank = rank](const run::Device& d) { return d.rank == rank; });
    if (device == run.devices.end()) {
      for (const Phase* phase : of_rank)
        costs.push_back({.label = phase->label,
                         .rank = rank,
                         .time = phase->time(),
                         .occurrences = static_cast<int64_t>(phase->intervals.size()),
                         .missing = "the run has no device of this rank"});
      continue;
    }
    for (PhaseCost& cost : RankCosts(of_rank, run, device->index, view).costs())
      costs.push_back(std::move(cost));
  }
  return costs;
}

}  // namespace triplepoint::metrics
