// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/energy/energy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::telemetry {
namespace {

/// Growth of a counter over [begin, end], at its rate over the part that it covers.
std::optional<double> growth(const run::Series* counter, Instant begin, Instant end) {
  if (counter == nullptr || counter->times.size() < 2) return std::nullopt;
  const Instant from = std::max(begin, counter->times.front());
  const Instant until = std::min(end, counter->times.back());
  if (until <= from) return std::nullopt;
  const auto grown = run::counter_difference(*counter, from, until);
  if (!grown) return std::nullopt;
  return *grown * ((end - begin) / (until - from));
}

}  // namespace

bool ThrottleResidency::was_missed_by_polling() const {
  return counted && polled && *counted > Seconds() && !(*polled > Seconds());
}

std::map<std::string, ThrottleResidency> throttle_residency(const run::Run& run, int32_t device,
                                                            Instant begin, Instant end) {
  std::map<std::string, ThrottleResidency> all;
  const run::Series* bits = run::find_series(run, "throttle_reasons", device);
  for (const run::ThrottleReason& reason : run::throttle_reasons) {
    ThrottleResidency residency;
    if (const auto ns = growth(run::find_series(run, reason.counter, device), begin, end))
      residency.counted = *ns * unit::ns;
    if (bits != nullptr)
      if (const auto share = run::share_of_time(*bits, reason.bit, begin, end))
        residency.polled = *share * (end - begin);
    if (residency.counted || residency.polled) all[std::string(reason.name)] = residency;
  }
  return all;
}

run::NamedValues throttle_shares(const std::map<std::string, ThrottleResidency>& residencies,
                                 Seconds duration) {
  run::NamedValues shares;
  if (!(duration > Seconds())) return shares;
  for (const auto& [name, residency] : residencies) {
    const Seconds held =
        residency.counted ? *residency.counted : residency.polled.value_or(Seconds());
    if (held > Seconds()) shares[name] = std::min(1.0, held / duration);
  }
  run::leave_unexplained_slowdown(shares);
  return shares;
}

namespace {

using run::Series;

double in_seconds(int64_t nanoseconds) {
  return as_real(nanoseconds) * 1e-9;
}

const run::SeriesSource* source_of(const run::Run& run, const Series& series) {
  return find_where(run.sources, [&](const run::SeriesSource& source) {
    return source.device == series.device && source.of_node == series.of_node &&
           source.signal == series.signal;
  });
}

/// Between two updates: as seen or stated, else the median distance of the stamps.
int64_t period_of(const run::Run& run, const Series& series) {
  const run::SeriesSource* source = source_of(run, series);
  if (source != nullptr && source->period) return std::llround(*source->period / unit::ns);
  std::vector<int64_t> distances;
  for (size_t i = 1; i < series.times.size(); ++i)
    distances.push_back(series.times[i].nanoseconds() - series.times[i - 1].nanoseconds());
  if (distances.empty()) return 0;
  return upper_median(std::move(distances));
}

/// A series as a function of time, straight between its stamps, which may lie `shift` too late.
class Line {
 public:
  Line(const Series& series, int64_t shift) : series_(series), shift_(shift) {}

  int64_t time(size_t i) const { return series_.times[i].nanoseconds() - shift_; }
  double value(size_t i) const { return series_.values[i]; }
  size_t size() const { return series_.times.size(); }

  /// Index of the first stamp after a time.
  size_t after(int64_t time) const {
    const auto found =
        std::upper_bound(series_.times.begin(), series_.times.end(), Instant(time + shift_));
    return as_size(found - series_.times.begin());
  }
  /// Outside of its stamps a line goes on as it ends.
  double at(int64_t when) const {
    const size_t next = after(when);
    if (next == 0) return value(0);
    if (next == size()) return value(size() - 1);
    const double share = as_real(when - time(next - 1)) / as_real(time(next) - time(next - 1));
    return value(next - 1) + share * (value(next) - value(next - 1));
  }
  double integral(int64_t begin, int64_t end) const {
    double sum = 0, last = at(begin);
    int64_t from = begin;
    for (size_t i = after(begin); i < size() && time(i) < end; ++i) {
      sum += (last + value(i)) / 2 * in_seconds(time(i) - from);
      from = time(i);
      last = value(i);
    }
    return sum + (last + at(end)) / 2 * in_seconds(end - from);
  }

 private:
  const Series& series_;
  int64_t shift_;
};

EnergyEstimate estimate(double joules, double edges) {
  return {.energy = joules * unit::J,
          .edges = std::abs(edges) * unit::J,
          .gain = gain_error * std::abs(joules) * unit::J};
}

/// Time at the ends of a stretch that a series does not reach; nothing if it is too much to guess:
/// more than two updates, a twentieth of the stretch, and what opening a driver takes.
std::optional<int64_t> time_missing(const Line& line, int64_t slack, int64_t begin, int64_t end) {
  const int64_t front = std::max<int64_t>(0, line.time(0) - begin);
  const int64_t back = std::max<int64_t>(0, end - line.time(line.size() - 1));
  constexpr int64_t opening_ns = 1'000'000'000;
  const int64_t most_late =
      std::max({slack, (end - begin) / 20, std::min(opening_ns, (end - begin) / 5)});
  if (front > most_late || back > std::max(slack, (end - begin) / 20)) return std::nullopt;
  return front + back;
}

/// A stretch between two stamps that is far longer than an update: the driver was away, or the
/// recorder was stopped.
struct ReadingGap {
  int64_t begin = 0, end = 0;
};
std::vector<ReadingGap> gaps_of(const Line& line, int64_t period, int64_t begin, int64_t end) {
  constexpr int64_t least_ns = 500'000'000;
  const int64_t longest = std::max(10 * period, least_ns);
  std::vector<ReadingGap> gaps;
  for (size_t i = std::max<size_t>(1, line.after(begin)); i < line.size(); ++i) {
    const ReadingGap gap{std::max(line.time(i - 1), begin), std::min(line.time(i), end)};
    if (gap.begin >= end) break;
    if (gap.end - gap.begin > longest) gaps.push_back(gap);
  }
  return gaps;
}

/// What the counter says, if it reaches over the stretch but for an update at each end. A counter
/// that grew in a gap by less than half of what it does elsewhere was reset: the gap counts at the
/// mean power of the rest, and is uncertain as a whole.
std::optional<EnergyEstimate> from_counter(const Series& counter, int64_t period, int64_t begin,
                                           int64_t end) {
  if (counter.times.size() < 2) return std::nullopt;
  const Line line(counter, 0);
  const auto missing = time_missing(line, 2 * period, begin, end);
  if (!missing) return std::nullopt;
  // A straight line through the last two stamps, so that a stretch may end just behind them; what
  // lies farther off goes on at the mean, which two stamps do not tell.
  const size_t last_stamp = line.size() - 1;
  const auto slope_of = [&](size_t from, size_t to) {
    return (line.value(to) - line.value(from)) /
           std::max(1.0, as_real(line.time(to) - line.time(from)));
  };
  const auto at = [&](int64_t when) {
    if (when >= line.time(0) && when <= line.time(last_stamp)) return line.at(when);
    const size_t edge = when < line.time(0) ? 0 : last_stamp;
    const bool is_far = std::abs(when - line.time(edge)) > 2 * period;
    const size_t from = is_far || edge == 0 ? 0 : last_stamp - 1;
    const size_t to = is_far || edge > 0 ? last_stamp : 1;
    return line.value(edge) + slope_of(from, to) * as_real(when - line.time(edge));
  };
  double joules = at(end) - at(begin), seen = joules;
  int64_t seen_ns = end - begin;
  const std::vector<ReadingGap> gaps = gaps_of(line, period, begin, end);
  for (const ReadingGap& gap : gaps) {
    seen -= at(gap.end) - at(gap.begin);
    seen_ns -= gap.end - gap.begin;
  }
  double in_gaps = 0;
  for (const ReadingGap& gap : gaps) {
    const double grown = at(gap.end) - at(gap.begin);
    const double expected =
        seen_ns > 0 ? seen * as_real(gap.end - gap.begin) / as_real(seen_ns) : 0;
    if (2 * grown >= expected) continue;
    joules += expected - grown;
    in_gaps += expected;
  }
  // Power next to both ends, over one update.
  const double first = at(begin + period) - at(begin), last = at(end) - at(end - period);
  const double guessed = joules / as_real(end - begin) * as_real(*missing);
  return estimate(joules, std::abs(first + last) + std::abs(guessed) + in_gaps);
}

std::optional<EnergyEstimate> from_power(const Series& power, int64_t period, int64_t window,
                                         int64_t begin, int64_t end) {
  if (power.times.empty()) return std::nullopt;
  const Line line(power, window / 2);
  const auto missing = time_missing(line, 2 * period + window, begin, end);
  if (!missing) return std::nullopt;
  const double joules = line.integral(begin, end);
  const double guessed = joules / as_real(end - begin) * as_real(*missing);
  const double in_gaps = sum_of(gaps_of(line, period, begin, end), [&](const ReadingGap& gap) {
    return line.integral(gap.begin, gap.end);
  });
  return estimate(
      joules, (line.at(begin) + line.at(end)) * in_seconds(period) + std::abs(guessed) + in_gaps);
}

/// Instant readings first: those of one second smear what happens in between.
std::optional<EnergyEstimate> integrated(const run::Run& run, int32_t device, int64_t begin,
                                         int64_t end) {
  for (const char* signal : {"power_instant_w", "power_average_w", "power_w"}) {
    const Series* series = run::find_series(run, signal, device);
    if (series == nullptr || series->times.empty()) continue;
    const run::SeriesSource* source = source_of(run, *series);
    const int64_t window =
        source != nullptr && source->window ? std::llround(*source->window / unit::ns) : int64_t{0};
    if (auto found = from_power(*series, period_of(run, *series), window, begin, end)) return found;
  }
  return std::nullopt;
}

}  // namespace

const EnergyEstimate* MeasuredEnergy::best() const {
  if (method == "counter") return &*counter;
  return integrated ? &*integrated : nullptr;
}

std::optional<double> MeasuredEnergy::disagreement() const {
  if (!counter || !integrated || !(counter->energy > Joules())) return std::nullopt;
  return std::abs((counter->energy - integrated->energy) / counter->energy);
}

MeasuredEnergy energy_of(const run::Run& run, int32_t device, Instant begin, Instant end) {
  MeasuredEnergy found;
  if (end <= begin) return found;
  const int64_t from = begin.nanoseconds(), until = end.nanoseconds();
  found.integrated = integrated(run, device, from, until);
  if (found.integrated) found.method = "integrated";
  const Series* counter = run::find_series(run, "energy_j", device);
  if (counter == nullptr) return found;
  const int64_t period = period_of(run, *counter);
  found.counter = from_counter(*counter, period, from, until);
  const bool long_enough = as_real(until - from) >= least_updates * as_real(period);
  if (found.counter && (long_enough || !found.integrated)) found.method = "counter";
  return found;
}

std::optional<Joules> node_energy_of(const run::Run& run, std::string_view signal, int32_t node,
                                     Instant begin, Instant end) {
  const Series* series = run::find_series(run, signal, node, true);
  if (series == nullptr || series->times.size() < 2) return std::nullopt;
  const int64_t from = begin.nanoseconds(), until = end.nanoseconds();
  const int64_t period = period_of(run, *series);
  const bool counts = signal.ends_with("_j");
  const auto found = counts ? from_counter(*series, period, from, until)
                            : from_power(*series, period, 0, from, until);
  if (!found) return std::nullopt;
  return found->energy;
}

}  // namespace triplepoint::telemetry
