// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/step_history.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "triplepoint/base/statistics.h"

namespace triplepoint::metrics {
namespace {

using Kind = StepPattern::Kind;
using Values = std::vector<double>;

constexpr size_t fewest = 20;                            // lines that can show a pattern
constexpr size_t shortest_level = 6;                     // lines
constexpr double least_level = 0.04;                     // relative, between two levels
constexpr double least_drift = 0.003, most_drift = 0.3;  // relative; more is no mere warming
constexpr double outlier = 6;                            // deviations
constexpr double least_outlier = 0.1;                    // relative
constexpr double high = 3;               // deviations, of a step that may belong to a period
constexpr double least_high = 0.005;     // relative
constexpr double clear_difference = 10;  // of the information criterion: "very strong"
constexpr double least_cost = 0.003;     // of the mean step; a smaller part is not worth a sentence
constexpr double most_probability = 0.999;  // models are compared, others are not excluded
constexpr size_t longest_period = 3000;
constexpr double pause_s = 10;  // after which a GPU has cooled noticeably

/// Steps that a log's line tells together.
struct Line {
  double begin = 0, time = 0;  // s
  double pause = 0;            // before it, s
  double steps = 1;
  double idle = 0;  // s of an outlier beyond the usual step: it waits, and nothing gets warmer

  double busy() const { return time * steps - idle; }
};

int64_t length_of(const run::StepRecord& step) {
  return step.end.nanoseconds() - step.begin.nanoseconds();
}

/// Whether a step is of the line of the one before: their mean is the same to the nanosecond.
bool is_same_line(const run::StepRecord& before, const run::StepRecord& step) {
  return std::abs(length_of(step) - length_of(before)) <= 2 &&
         std::abs(step.begin.nanoseconds() - before.end.nanoseconds()) <= 2;
}

std::vector<Line> lines_of(std::span<const run::StepRecord> steps, StepTimes times) {
  constexpr double least_alike = 0.4;  // of all steps; fewer are alike by chance
  std::vector<run::StepRecord> sorted(steps.begin(), steps.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.begin < b.begin; });
  size_t alike = 0;
  for (size_t i = 1; i < sorted.size(); ++i)
    alike += is_same_line(sorted[i - 1], sorted[i]);
  const bool has_means =
      times == StepTimes::of_lines && as_real(alike) > least_alike * as_real(sorted.size());
  std::vector<Line> lines;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && has_means && is_same_line(sorted[i - 1], sorted[i])) {
      ++lines.back().steps;
      continue;
    }
    const double pause = i == 0 ? 0 : (sorted[i].begin - sorted[i - 1].end) / unit::s;
    lines.push_back({(sorted[i].begin - sorted.front().begin) / unit::s,
                     as_real(length_of(sorted[i])) * 1e-9, pause});
  }
  return lines;
}

double probability_of(double difference) {
  return std::min(most_probability, 1 / (1 + std::exp(-difference / 2)));
}

double sum_of_squares(const Values& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

/// How many independent values these are worth, by the correlation of neighbours.
double independent(const Values& residuals) {
  double both = 0;
  for (size_t i = 1; i < residuals.size(); ++i)
    both += residuals[i] * residuals[i - 1];
  const double all = sum_of_squares(residuals);
  const double r = all > 0 ? std::clamp(both / all, 0.0, 0.98) : 0;
  return as_real(residuals.size()) * (1 - r) / (1 + r);
}

/// By which the information criterion prefers the richer of two models.
double difference_of(double plain, const Values& rich, double more_parameters) {
  const double n = independent(rich), squares = sum_of_squares(rich);
  if (!(squares > 0)) return plain > 0 ? 1e6 : 0;
  return n * std::log(plain / squares) - more_parameters * std::log(std::max(2.0, n));
}

Values around_mean(std::span<const double> values) {
  const double middle = mean(values);
  return mapped(values, [&](const double value) { return value - middle; });
}

/// The median of eleven.
Values running_median(const Values& values) {
  constexpr size_t half = 5;
  Values medians;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t from = i < half ? 0 : i - half, to = std::min(values.size(), i + half + 1);
    medians.push_back(median({values.begin() + static_cast<std::ptrdiff_t>(from),
                              values.begin() + static_cast<std::ptrdiff_t>(to)}));
  }
  return medians;
}

double scatter_of(const Values& values) {
  Values differences;
  for (size_t i = 1; i < values.size(); ++i)
    differences.push_back(std::abs(values[i] - values[i - 1]));
  return differences.empty() ? 0 : 1.4826 * median(std::move(differences)) / std::sqrt(2.0);
}

/// A residue class in which values are high.
struct Period {
  size_t length = 0, first = 0;
  double evidence = 0;  // log of the odds against chance
};

/// m KL(k/m || share): minus the log of the chance of k of m, at most (Chernoff).
double against_chance(double k, double m, double share) {
  const double p = k / m;
  double sum = p * std::log(p / share);
  if (p < 1) sum += (1 - p) * std::log((1 - p) / (1 - share));
  return p > share ? m * sum : 0;
}

/// `done`: steps before the first of the `count`. Half of all periods are taken to be at multiples
/// of their length, as saving and evaluation are, and a quarter beside these, as programs count
/// from 0 or 1 and stamps do not tell the length of the first step; so such a place is no choice of
/// many.
std::optional<Period> find_period(const std::vector<size_t>& highs, size_t count, size_t done) {
  constexpr size_t least_times = 3;
  constexpr double least_share = 0.7;
  if (highs.size() < least_times || 2 * highs.size() > count) return std::nullopt;
  const double share = as_real(highs.size()) / as_real(count);
  const size_t longest = std::min(longest_period, count / least_times);
  Period best;
  for (size_t length = 2; length <= longest; ++length) {
    std::vector<size_t> hits(length);
    for (const size_t place : highs)
      ++hits[place % length];
    for (size_t first = 0; first < length; ++first) {
      const size_t members = (count - first + length - 1) / length;
      if (hits[first] < least_times || as_real(hits[first]) < least_share * as_real(members))
        continue;
      const bool is_multiple = (done + first + 1) % length == 0;
      const bool is_beside = (done + first + 2) % length <= 2;
      const double weight = is_multiple ? 0.5 : is_beside ? 0.125 : 0.25 / as_real(length);
      const double evidence = against_chance(as_real(hits[first]), as_real(members), share) -
                              std::log(as_real(longest) / weight);
      if (evidence > best.evidence) best = {length, first, evidence};
    }
  }
  return best.evidence > clear_difference / 2 ? std::optional(best) : std::nullopt;
}

class History {
 public:
  explicit History(std::vector<Line> lines) : lines_(std::move(lines)) {
    for (const Line& line : lines_) {
      times_.push_back(line.time);
      all_ += line.steps;
    }
    least_pause_ = 2.5 * resolution();
  }

  StepHistory read() {
    StepHistory history{.steps = static_cast<int64_t>(all_)};
    if (lines_.empty()) return history;
    const Line& last = lines_.back();
    history.mean = (last.begin + last.time * last.steps) / all_ * unit::s;
    model_.assign(lines_.size(), usual_time());
    if (lines_.size() >= fewest) {
      find_start();
      find_outliers();
      find_drift_or_levels();
      find_periods();
      find_tails();
      find_pauses();
    } else {
      find_long_first();
      find_clear_pauses();
    }
    history.base = base_or_median() * unit::s;
    history.scatter = scatter_ * unit::s;
    history.patterns = std::move(patterns_);
    // What is too small to be told stays in the rest.
    std::erase_if(history.patterns, [&](const StepPattern& pattern) {
      return pattern.cost < least_cost * history.mean;
    });
    std::ranges::stable_sort(history.patterns,
                             [](const auto& a, const auto& b) { return a.cost > b.cost; });
    history.rest = history.mean - history.base;
    for (const StepPattern& pattern : history.patterns)
      history.rest = history.rest - pattern.cost;
    return history;
  }

 private:
  /// Of a step, not of a line, which may stand for many.
  double usual_time() const {
    std::vector<std::pair<double, double>> order;  // time, steps
    for (const Line& line : lines_)
      order.emplace_back(line.time, line.steps);
    std::ranges::sort(order);
    double steps = 0;
    auto usual = order.begin();
    while (usual + 1 != order.end() && 2 * (steps += usual->second) < all_)
      ++usual;
    return usual->first;
  }
  double base_or_median() const { return base_ > 0 ? base_ : usual_time(); }

  /// Of many steps in few lines: the first, where it is clearly longer than all others.
  void find_long_first() {
    constexpr double clear = 1.5;
    if (all_ < as_real(fewest) || lines_.size() < 2 || lines_[0].steps > 1) return;
    const double longest = *std::max_element(times_.begin() + 1, times_.end());
    if (times_[0] < clear * longest) return;
    const double excess = times_[0] - usual_time();
    StepPattern& pattern = add(Kind::start, excess);
    pattern.count = 1;
    pattern.excess = excess * unit::s;
  }

  StepPattern& add(Kind kind, double seconds, std::optional<double> probability = {}) {
    patterns_.push_back(
        {.kind = kind, .cost = seconds / all_ * unit::s, .probability = probability});
    return patterns_.back();
  }

  void find_start() {
    const auto half = static_cast<std::ptrdiff_t>(times_.size() / 2);
    const Values later(times_.begin() + half, times_.end());
    const double level = median(later);
    const double least = level + std::max(outlier * scatter_of(later), least_outlier * level);
    const size_t most = std::min<size_t>(50, lines_.size() / 4);
    while (start_ < most && times_[start_] > least)
      ++start_;
    if (start_ == most) start_ = 0;  // it does not end: these are no first steps
    double seconds = 0, steps = 0;
    for (size_t i = 0; i < start_; ++i) {
      seconds += lines_[i].steps * (times_[i] - level);
      steps += lines_[i].steps;
      model_[i] = times_[i];
    }
    if (start_ == 0) return;
    StepPattern& pattern = add(Kind::start, seconds);
    pattern.count = static_cast<int64_t>(steps);
    pattern.excess = seconds / steps * unit::s;
  }

  void find_outliers() {
    const Values later(times_.begin() + static_cast<std::ptrdiff_t>(start_), times_.end());
    const Values middle = running_median(later);
    scatter_ = std::max(scatter_of(later), 1e-3 * median(later));
    for (size_t i = 0; i < start_; ++i)
      lines_[i].idle = lines_[i].steps * std::max(0.0, times_[i] - middle.front());
    for (size_t i = 0; i < later.size(); ++i)
      if (std::abs(later[i] - middle[i]) < std::max(outlier * scatter_, 0.05 * middle[i]))
        ordinary_.push_back(start_ + i);
      else
        lines_[start_ + i].idle = lines_[start_ + i].steps * std::max(0.0, later[i] - middle[i]);
  }

  // ---- drift and levels

  /// How warm the machine is in each ordinary line, 0 to 1.
  Values warmth(double time_constant) const {
    Values all;
    double x = 0;
    size_t next = 0;
    for (size_t i = 0; i < lines_.size(); ++i) {
      const double pause = lines_[i].pause > least_pause_ ? lines_[i].pause : 0;
      x *= std::exp(-(pause + lines_[i].idle) / time_constant);
      const double cold = (1 - x) * std::exp(-lines_[i].busy() / 2 / time_constant);
      if (next < ordinary_.size() && ordinary_[next] == i) all.push_back(1 - cold), ++next;
      x = 1 - cold * std::exp(-lines_[i].busy() / 2 / time_constant);
    }
    return all;
  }

  struct Drift {
    double time_constant = 0, base = 0, slope = 0, difference = 0;
    bool is_steady = false;
    Values residuals;
  };

  /// Least squares of base + slope x over ordinary lines from `from` on.
  Drift fit(double time_constant, size_t from) const {
    const Values x = warmth(time_constant);
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    const auto n = as_real(ordinary_.size() - from);
    for (size_t i = from; i < ordinary_.size(); ++i) {
      const double y = times_[ordinary_[i]];
      sx += x[i], sy += y, sxx += x[i] * x[i], sxy += x[i] * y;
    }
    const double spread = sxx - sx * sx / n;
    Drift drift{.time_constant = time_constant};
    drift.slope = spread > 1e-9 ? (sxy - sx * sy / n) / spread : 0;
    drift.base = (sy - drift.slope * sx) / n;
    for (size_t i = from; i < ordinary_.size(); ++i)
      drift.residuals.push_back(times_[ordinary_[i]] - drift.base - drift.slope * x[i]);
    return drift;
  }

  Values ordinary_times(size_t from = 0) const {
    Values times;
    for (size_t i = from; i < ordinary_.size(); ++i)
      times.push_back(times_[ordinary_[i]]);
    return times;
  }

  std::optional<Drift> find_drift(size_t from = 0) const {
    const double span = lines_.back().begin + lines_.back().time;
    const double shortest = std::max(5.0, 2 * median(times_));
    if (ordinary_.size() < from + fewest || span < 4 * shortest) return std::nullopt;
    std::optional<Drift> best;
    constexpr int tries = 24;
    for (int i = 0; i < tries; ++i) {
      Drift drift = fit(shortest * std::pow(span / 3 / shortest, i / (tries - 1.0)), from);
      if (!best || sum_of_squares(drift.residuals) < sum_of_squares(best->residuals))
        best = std::move(drift);
    }
    // What grows all along does so steadily.
    if (best->slope > most_drift * best->base) {
      best = fit(3 * span, from);
      best->is_steady = true;
    }
    best->difference =
        difference_of(sum_of_squares(around_mean(ordinary_times(from))), best->residuals, 2);
    const bool is_clear = best->base > 0 && best->slope > least_drift * best->base &&
                          best->difference > clear_difference;
    return is_clear ? best : std::nullopt;
  }

  /// Mean of the lines after a place less that of those before it.
  static double jump(const Values& logs, size_t at) {
    const auto middle = logs.begin() + static_cast<std::ptrdiff_t>(at);
    constexpr auto n = static_cast<std::ptrdiff_t>(shortest_level);
    return mean({middle, middle + n}) - mean({middle - n, middle});
  }

  /// Where levels end: the greatest jumps, levels apart.
  std::vector<size_t> find_jumps(const Values& logs) const {
    const double least = std::max(least_level, 4 * scatter_ / median(times_));
    std::vector<std::pair<double, size_t>> sizes;
    for (size_t at = shortest_level; at + shortest_level <= logs.size(); ++at)
      if (const double size = std::abs(jump(logs, at)); size >= least) sizes.emplace_back(size, at);
    std::ranges::sort(sizes, std::greater<>());
    std::vector<size_t> jumps;
    for (const auto& [size, at] : sizes)
      if (std::ranges::none_of(jumps, [at = at](size_t other) {
            return std::max(at, other) - std::min(at, other) < shortest_level;
          }))
        jumps.push_back(at);
    std::ranges::sort(jumps);
    return jumps;
  }

  struct Levels {
    std::vector<StepLevel> levels;
    std::vector<size_t> ends;  // in the ordinary lines
    double difference = 0;
    Values residuals;
  };

  Levels find_levels() const {
    Levels found;
    const Values logs = mapped(ordinary_times(), [](const double time) { return std::log(time); });
    if (logs.size() >= 2 * shortest_level) found.ends = find_jumps(logs);
    found.ends.push_back(logs.size());
    size_t from = 0;
    for (const size_t end : found.ends) {
      Values times = ordinary_times();
      times = {times.begin() + static_cast<std::ptrdiff_t>(from),
               times.begin() + static_cast<std::ptrdiff_t>(end)};
      for (const double residual : around_mean(times))
        found.residuals.push_back(residual);
      const int64_t first = steps_before(ordinary_[from]);
      const int64_t next =
          end < ordinary_.size() ? steps_before(ordinary_[end]) : static_cast<int64_t>(all_);
      const Line& line = lines_[ordinary_[from]];
      found.levels.push_back({first, next - first, line.begin * unit::s, median(times) * unit::s});
      from = end;
    }
    found.difference = difference_of(sum_of_squares(around_mean(ordinary_times())), found.residuals,
                                     2 * (as_real(found.ends.size()) - 1));
    return found;
  }

  int64_t steps_before(size_t line) const {
    double steps = 0;
    for (size_t i = 0; i < line; ++i)
      steps += lines_[i].steps;
    return static_cast<int64_t>(steps);
  }

  void find_drift_or_levels() {
    const Levels levels = find_levels();
    const std::optional<Drift> drift = find_drift();
    if (levels.levels.size() > 1 && (!drift || levels.difference > drift->difference))
      take(levels);
    else if (drift)
      take(*drift);
    else
      take_constant();
  }

  void take_constant() {
    base_ = median(ordinary_times());
    for (size_t i = start_; i < model_.size(); ++i)
      model_[i] = base_;
  }

  void take(const Drift& drift) {
    base_ = drift.base;
    const Values x = warmth(drift.time_constant);
    double seconds = 0, last = 0;
    size_t next = 0;
    for (size_t i = start_; i < lines_.size(); ++i) {
      if (next < ordinary_.size() && ordinary_[next] == i) last = x[next++];
      model_[i] = drift.base + drift.slope * last;
      seconds += lines_[i].steps * drift.slope * last;
    }
    StepPattern& pattern = add(Kind::drift, seconds, probability_of(drift.difference));
    pattern.amplitude = (drift.is_steady ? last : 1) * drift.slope / drift.base;
    if (!drift.is_steady) pattern.time_constant = drift.time_constant * unit::s;
    size_t pause = 1;
    while (pause < ordinary_.size() && !is_behind_pause(pause))
      ++pause;
    pattern.after_pauses = pause < ordinary_.size() && find_drift(pause).has_value();
  }

  /// Whether the training stood still between the ordinary line before and this one.
  bool is_behind_pause(size_t place) const {
    double still = 0;
    for (size_t i = place == 0 ? start_ : ordinary_[place - 1] + 1; i <= ordinary_[place]; ++i)
      still += lines_[i].pause + lines_[i].idle;
    return still >= pause_s;
  }
  /// About here, as jumps are found to within two lines.
  bool follows_pause(size_t place) const {
    for (size_t i = place < 2 ? 0 : place - 2; i < std::min(place + 3, ordinary_.size()); ++i)
      if (is_behind_pause(i)) return true;
    return false;
  }

  bool is_base(double time) const { return time < (1 + least_level / 2) * base_; }

  /// The median over all levels that are about as fast as the fastest.
  double level_of_base(const Levels& found) const {
    const Values times = ordinary_times();
    Values fast;
    for (size_t l = 0, i = 0; l < found.levels.size(); ++l)
      for (; i < found.ends[l]; ++i)
        if (is_base(found.levels[l].time / unit::s)) fast.push_back(times[i]);
    return median(std::move(fast));
  }

  void take(const Levels& found) {
    base_ = found.levels.front().time / unit::s;
    bool gets_slower = true, after_pauses = true;
    for (size_t l = 0; l < found.levels.size(); ++l) {
      base_ = std::min(base_, found.levels[l].time / unit::s);
      if (l == 0 || follows_pause(found.ends[l - 1])) continue;
      after_pauses = false;
      gets_slower &= found.levels[l].time >= found.levels[l - 1].time;
    }
    base_ = level_of_base(found);
    size_t level = 0;
    double seconds = 0;
    for (size_t i = start_; i < lines_.size(); ++i) {
      while (level + 1 < found.levels.size() && ordinary_[found.ends[level]] <= i)
        ++level;
      const double time = found.levels[level].time / unit::s;
      model_[i] = is_base(time) ? base_ : time;
      seconds += lines_[i].steps * (model_[i] - base_);
    }
    StepPattern& pattern =
        add(gets_slower ? Kind::slowdown : Kind::spell, seconds, probability_of(found.difference));
    pattern.amplitude = found.levels.back().time / unit::s / base_ - 1;
    pattern.after_pauses = after_pauses;
    pattern.levels = found.levels;
    pattern.count = static_cast<int64_t>(found.levels.size());
  }

  // ---- periods, tails, pauses

  double usual_steps() const { return median(mapped(lines_, &Line::steps)); }

  /// Takes periods out of `excess` (one per line from `start_` on) as long as there are any among
  /// those above `clear`; all of a period that are above `least` belong to it.
  void take_periods(Values& excess, double clear, double least, bool pauses) {
    const size_t done = pauses ? std::max<size_t>(start_, 1) - 1 : start_;
    constexpr int most = 4;
    for (int turn = 0; turn < most; ++turn) {
      std::vector<size_t> highs;
      for (size_t i = 0; i < excess.size(); ++i)
        if (excess[i] > clear) highs.push_back(i);
      const std::optional<Period> period = find_period(highs, excess.size(), done);
      if (!period) return;
      double seconds = 0, count = 0;
      Values values;
      for (size_t i = period->first; i < excess.size(); i += period->length)
        if (excess[i] > least) values.push_back(excess[i]);
      const double usual = median(values);
      for (size_t i = period->first; i < excess.size(); i += period->length) {
        if (excess[i] <= least) continue;
        const double steps = pauses ? 1 : lines_[start_ + i].steps;
        const double taken = excess[i] > 2 * usual ? usual : excess[i];  // the rest is another's
        seconds += steps * taken, count += 1;
        excess[i] -= taken;
      }
      StepPattern& pattern = add(Kind::periodic, seconds, probability_of(2 * period->evidence));
      pattern.count = static_cast<int64_t>(count);
      pattern.period = std::llround(as_real(period->length) * usual_steps());
      pattern.is_pause = pauses;
      pattern.excess = seconds / count * unit::s;
    }
  }

  void find_periods() {
    for (size_t i = start_; i < lines_.size(); ++i)
      excess_.push_back(times_[i] - model_[i]);
    const double least = std::max(high * scatter_, least_high * base_);
    // Clear ones first: three checkpoints are easily seen, unless every small delay is counted.
    take_periods(excess_, clear_excess(), least, false);
    take_periods(excess_, least, least, false);
  }

  double clear_excess() const { return std::max(outlier * scatter_, least_outlier * base_); }

  /// Lines that are as their neighbours are no single ones, however far from the model.
  void find_tails() {
    const double least = clear_excess();
    double seconds = 0, count = 0;
    for (size_t i = 0; i < excess_.size(); ++i)
      if (excess_[i] > least && !std::ranges::binary_search(ordinary_, start_ + i)) {
        seconds += lines_[start_ + i].steps * excess_[i];
        ++count;
      }
    if (count == 0) return;
    StepPattern& pattern = add(Kind::tails, seconds);
    pattern.count = static_cast<int64_t>(count);
    pattern.excess = seconds / count * unit::s;
  }

  /// Stamps of whole seconds make pauses that are none.
  double resolution() const {
    const auto end = [](const Line& line) { return line.begin + line.time * line.steps; };
    const bool whole = std::ranges::all_of(lines_, [&](const Line& line) {
      const double since_first = end(line) - end(lines_.front());
      return std::abs(since_first - std::round(since_first)) < 1e-5;
    });
    return whole ? 1 : 0;
  }

  void find_pauses() {
    Values pauses;
    for (size_t i = std::max<size_t>(start_, 1); i < lines_.size(); ++i)
      pauses.push_back(lines_[i].pause);
    const double deviation = robust_deviation(pauses), usual = median(pauses);
    const double least =
        std::max({usual + outlier * deviation, usual + 0.2 * base_or_median(), least_pause_});
    const Values short_ones = filtered(pauses, [&](const double pause) { return pause <= least; });
    const double between = short_ones.empty() ? 0 : mean(short_ones);
    if (between > 0)
      add(Kind::between, between * as_real(pauses.size())).excess = between * unit::s;
    for (double& pause : pauses)
      pause = pause > least ? pause - std::max(0.0, between) : 0;
    take_periods(pauses, 0, 0, true);
    add_pauses(pauses, 0);
  }

  /// Of few steps: those longer than a step, and than any stall.
  void find_clear_pauses() {
    add_pauses(mapped(lines_, &Line::pause), std::max(pause_s, base_or_median()));
  }

  /// Those above `least`.
  void add_pauses(Values pauses, double least) {
    std::erase_if(pauses, [&](const double pause) { return pause <= least; });
    if (pauses.empty()) return;
    const double seconds = sum_of(pauses);
    StepPattern& pattern = add(Kind::pauses, seconds);
    pattern.count = static_cast<int64_t>(pauses.size());
    pattern.excess = seconds / as_real(pauses.size()) * unit::s;
  }

  std::vector<Line> lines_;
  Values times_;   // of the lines
  Values model_;   // of the lines: base, drift and levels
  Values excess_;  // over it, from start_ on
  std::vector<size_t> ordinary_;
  double all_ = 0, base_ = 0, scatter_ = 0;
  double least_pause_ = 0;  // that stamps can tell, s
  size_t start_ = 0;
  std::vector<StepPattern> patterns_;
};

}  // namespace

const StepPattern* StepHistory::find(Kind kind) const {
  return find_in(patterns, kind, &StepPattern::kind);
}

Seconds StepHistory::ordinary() const {
  Seconds time = base;
  for (const StepPattern& pattern : patterns)
    if (pattern.kind == Kind::drift || pattern.kind == Kind::slowdown ||
        pattern.kind == Kind::spell)
      time += pattern.cost;
  return time;
}

StepHistory step_history(std::span<const run::StepRecord> steps, StepTimes times) {
  return History(lines_of(steps, times)).read();
}

}  // namespace triplepoint::metrics
