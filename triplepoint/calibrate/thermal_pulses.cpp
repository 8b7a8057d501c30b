// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/thermal_pulses.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "triplepoint/base/statistics.h"

#include "triplepoint/calibrate/kernel_simplex.h"
#include "triplepoint/thermal/ladder.h"

namespace triplepoint::calibrate {
namespace {

using Sample = ThermalTrace::Sample;

constexpr double noticeable_w = 25;
constexpr double unexplained_k2 = 0.25;  // whole degrees alone leave 0.083
constexpr double fastest_s = 0.04, slowest_s = 1.25;
constexpr int phases = 6;  // of a period, that are tried
constexpr double unseen_s = 0.1;

/// What is known of a train before its numbers are: the readings' levels, and where it can lie.
struct Stretch {
  double before_w = 0, low_w = 0, high_w = 0, after_w = 0;
  double before_s = 0, first_s = 0, last_s = 0, after_s = 0;  // readings at rest, at work
};

struct Train {
  double period = 0, share = 0.5, begin = 0, end = 0;
};

struct Candidate {
  double misfit = 0;
  Train train;
};

/// A die over its coolant, one rise for each mode.
class Die {
 public:
  explicit Die(const std::vector<thermal::Mode>& modes) {
    for (const thermal::Mode& mode : modes) {
      resistance_.push_back(mode.resistance / (unit::K / unit::W));
      rate_.push_back(1 / (mode.time_constant / unit::s));
    }
    rise_.resize(rate_.size());
  }
  void settle(double watts) {
    for (size_t k = 0; k < rise_.size(); ++k)
      rise_[k] = resistance_[k] * watts;
  }
  void advance(double watts, double seconds) {
    for (size_t k = 0; k < rise_.size(); ++k) {
      const double settled = resistance_[k] * watts;
      rise_[k] = settled + (rise_[k] - settled) * std::exp(-seconds * rate_[k]);
    }
  }
  double rise() const {
    double sum = 0;
    for (const double rise : rise_)
      sum += rise;
    return sum;
  }

 private:
  std::vector<double> resistance_, rate_, rise_;
};

double median_of(const std::vector<Sample>& samples, double otherwise) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples)
    values.push_back(sample.value);
  return values.empty() ? otherwise : upper_median(std::move(values));
}

std::optional<Stretch> find_stretch(const ThermalTrace& trace) {
  double low = INFINITY, high = 0;
  for (const Sample& sample : trace.power) {
    low = std::min(low, sample.value);
    high = std::max(high, sample.value);
  }
  const auto works = [&](const Sample& sample) { return sample.value > low + noticeable_w; };
  const auto first = std::find_if(trace.power.begin(), trace.power.end(), works);
  const auto last = std::find_if(trace.power.rbegin(), trace.power.rend(), works);
  const bool dense = trace.temperature.size() > 2 * trace.power.size();
  if (!dense || first == trace.power.end()) return std::nullopt;
  Stretch stretch{.low_w = low, .high_w = high};
  stretch.before_w = median_of({trace.power.begin(), first}, low);
  stretch.after_w = median_of({last.base(), trace.power.end()}, low);
  stretch.first_s = first->at / unit::s;
  stretch.last_s = last->at / unit::s;
  stretch.before_s = (first == trace.power.begin() ? first : first - 1)->at / unit::s - unseen_s;
  stretch.after_s = (last == trace.power.rbegin() ? last->at : (last - 1)->at) / unit::s;
  return stretch;
}

/// Power from each of these moments on.
std::vector<Sample> powers_of(const Train& train, const Stretch& stretch) {
  std::vector<Sample> powers;
  for (int k = 0;; ++k) {
    const double on = train.begin + k * train.period, off = on + train.share * train.period;
    if (on >= train.end) break;
    powers.push_back({on * unit::s, stretch.high_w});
    powers.push_back({std::min(off, train.end) * unit::s, stretch.low_w});
  }
  powers.push_back({train.end * unit::s, stretch.after_w});
  return powers;
}

/// Variance of what a train leaves of the temperatures: the coolant's is not known.
double misfit_of(const ThermalTrace& trace, const Stretch& stretch, Die die, const Train& train) {
  const std::vector<Sample> powers = powers_of(train, stretch);
  die.settle(stretch.before_w);
  double watts = stretch.before_w, now = trace.temperature.front().at / unit::s;
  double sum = 0, squares = 0;
  size_t next = 0;
  for (const Sample& reading : trace.temperature) {
    for (; next < powers.size() && powers[next].at <= reading.at; ++next) {
      const double at = std::max(now, powers[next].at / unit::s);
      die.advance(watts, at - now);
      watts = powers[next].value;
      now = at;
    }
    die.advance(watts, reading.at / unit::s - now);
    now = reading.at / unit::s;
    const double error = reading.value - die.rise();
    sum += error;
    squares += error * error;
  }
  const auto count = static_cast<double>(trace.temperature.size());
  return squares / count - (sum / count) * (sum / count);
}

/// The best of all shares and phases at one period.
Candidate best_at(const ThermalTrace& trace, const Stretch& stretch, const Die& die,
                  double period) {
  Candidate best{.misfit = INFINITY, .train = {}};
  const int places = static_cast<int>((stretch.first_s - stretch.before_s) / period * phases) + 1;
  for (const double share : {0.25, 0.4, 0.55, 0.75})
    for (int i = 0; i < places; ++i) {
      const double begin = stretch.before_s + i * period / phases;
      const Train train{period, share, begin,
                        std::min(stretch.last_s + share * period, stretch.after_s)};
      const double misfit = misfit_of(trace, stretch, die, train);
      if (misfit < best.misfit) best = {misfit, train};
    }
  return best;
}

/// A meter can miss pulses at both ends for as long as its window and the pulses take to meet
/// again.
Train stretched(const ThermalTrace& trace, const Stretch& stretch, const Die& die, Train train) {
  constexpr int places = 40;
  const double first = trace.temperature.front().at / unit::s,
               last = trace.temperature.back().at / unit::s;
  Candidate best{misfit_of(trace, stretch, die, train), train};
  const auto consider = [&](const Train& other) {
    const double misfit = misfit_of(trace, stretch, die, other);
    if (misfit < best.misfit) best = {misfit, other};
  };
  for (int i = 0; i <= places; ++i) {
    train.end = stretch.last_s + (last - stretch.last_s) * i / places;
    consider(train);
  }
  train = best.train;
  const double step = std::max(1.0, std::floor((train.begin - first) / places / train.period));
  for (; train.begin >= first; train.begin -= step * train.period)
    consider(train);
  return best.train;
}

Candidate refined(const ThermalTrace& trace, const Stretch& stretch, const Die& die,
                  const Train& rough) {
  constexpr int evaluations = 300;
  const Train from = stretched(trace, stretch, die, rough);
  const double length = from.end - from.begin;
  const double reach = from.period * from.period / length / 2;
  const std::vector<Parameter> parameters = {
      {"period", from.period, from.period - reach, from.period + reach},
      {"share", from.share, std::max(0.05, from.share - 0.2), std::min(0.95, from.share + 0.2)},
      {"begin", from.begin, from.begin - from.period / 4, from.begin + from.period / 4},
      {"end", from.end, from.end - unseen_s, from.end + unseen_s}};
  const auto train_at = [](const std::vector<double>& at) {
    return Train{at[0], at[1], at[2], at[3]};
  };
  const Minimum found = minimize(
      parameters,
      [&](const std::vector<double>& at) { return misfit_of(trace, stretch, die, train_at(at)); },
      evaluations);
  return {found.value, train_at(found.at)};
}

/// Periods in steps of a quarter of a turn over the train; the best few are looked at closely.
Candidate best_train(const ThermalTrace& trace, const Stretch& stretch, const Die& die) {
  constexpr size_t close_looks = 6;
  const double step = 1 / (4 * (stretch.after_s - stretch.before_s));
  std::vector<Candidate> candidates;
  const int rates = static_cast<int>((1 / fastest_s - 1 / slowest_s) / step) + 1;
  candidates.reserve(static_cast<size_t>(rates));
  for (int i = 0; i < rates; ++i)
    candidates.push_back(best_at(trace, stretch, die, 1 / (1 / slowest_s + i * step)));
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.misfit < b.misfit; });
  candidates.resize(std::min(candidates.size(), close_looks));
  Candidate best{.misfit = INFINITY, .train = {}};
  for (const Candidate& candidate : candidates) {
    const Candidate close = refined(trace, stretch, die, candidate.train);
    if (close.misfit < best.misfit) best = close;
  }
  return best;
}

/// A long train is found in its first seconds and then followed to its end: the search costs the
/// square of what it looks at.
Candidate find_train(const ThermalTrace& trace, const Stretch& stretch, const Die& die) {
  constexpr double enough_s = 10;
  const double until = stretch.before_s + enough_s;
  if (stretch.after_s <= until) return best_train(trace, stretch, die);
  ThermalTrace head = trace;
  std::erase_if(head.temperature,
                [&](const Sample& reading) { return reading.at / unit::s > until; });
  Stretch part = stretch;
  part.last_s = std::min(part.last_s, until);
  part.after_s = until;
  Train train = best_train(head, part, die).train;
  train.end = stretch.last_s;
  return refined(trace, stretch, die, train);
}

double mean_square_of(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
                      const spec::Chassis& chassis) {
  const std::vector<double> shown = predict_trace(trace, ladder, chassis);
  double squares = 0;
  for (size_t i = 0; i < shown.size(); ++i)
    squares += std::pow(shown[i] - trace.temperature[i].value, 2);
  return squares / static_cast<double>(shown.size());
}

}  // namespace

ThermalTrace explain_pulses(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
                            const spec::Chassis& chassis) {
  const std::optional<Stretch> stretch = find_stretch(trace);
  const double unexplained = stretch ? mean_square_of(trace, ladder, chassis) : 0;
  if (unexplained < unexplained_k2) return trace;
  const Candidate found = find_train(trace, *stretch, Die(thermal::modes_of(ladder)));
  ThermalTrace explained = trace;
  explained.power = {{trace.power.front().at, stretch->before_w}};
  for (const Sample& change : powers_of(found.train, *stretch))
    explained.power.push_back(change);
  explained.power.push_back({trace.power.back().at, stretch->after_w});
  explained.switches_known = true;
  return mean_square_of(explained, ladder, chassis) < 0.5 * unexplained ? explained : trace;
}

}  // namespace triplepoint::calibrate
