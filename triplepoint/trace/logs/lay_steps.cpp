// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/lay_steps.h"

#include <algorithm>
#include <cmath>

namespace triplepoint::trace {
namespace {

constexpr int64_t second_ns = 1'000'000'000, minute_ns = 60 * second_ns;
constexpr int64_t zone_step_minutes = 15, most_zone_minutes = 14 * 60;
constexpr int64_t fine_resolution_ns = second_ns / 20;  // a line is printed soon after its step

/// A step on the log's clock; its end may be later by up to the common slack.
struct Placed {
  int64_t begin = 0, end = 0;
  const LoggedStep* step = nullptr;
};

struct Chain {
  std::vector<Placed> steps;
  int64_t slack = 0, resolution = 0;
};

/// Steps one after the other, each with an end that agrees with its stamp.
Result<Chain> chain_of(const TrainingLog& log) {
  Chain chain;
  bool whole_seconds = true;
  for (const LoggedStep& step : log.steps) {
    if (!step.time) continue;
    if (!step.at) return error("its lines of steps have no date and time");
    whole_seconds = whole_seconds && step.at->nanoseconds() % second_ns == 0;
    chain.steps.push_back({.end = step.at->nanoseconds(), .step = &step});
  }
  if (chain.steps.empty()) return error("it has no step time");
  chain.resolution = chain.slack = whole_seconds ? second_ns : fine_resolution_ns;
  const Placed* before = nullptr;
  for (Placed& placed : chain.steps) {
    const int64_t stamp = placed.end;
    const auto length = static_cast<int64_t>(std::llround(*placed.step->time / unit::s * 1e9));
    if (before != nullptr) placed.end = std::max(stamp, before->end + length);
    placed.begin = placed.end - length;
    chain.slack = std::min(chain.slack, stamp + chain.resolution - placed.end);
    if (chain.slack < 0) return error("its step times and the dates of its lines do not agree");
    before = &placed;
  }
  return chain;
}

struct Window {
  int64_t begin = 0, end = 0;  // with the tolerance
  bool holds(const Placed& placed, int64_t later) const {
    return placed.begin + later >= begin && placed.end + later <= end;
  }
};

struct Fit {
  std::ptrdiff_t count = 0;
  int64_t later = 0;  // from the log's clock to the recording's
};

/// With no shift, or with the smallest that brings one more step into the window.
Fit fit_in_zone(const Chain& chain, const Window& window, int64_t zone_ns) {
  const auto count = [&](int64_t later) {
    return std::count_if(chain.steps.begin(), chain.steps.end(),
                         [&](const Placed& placed) { return window.holds(placed, later); });
  };
  const Fit as_printed{count(-zone_ns), -zone_ns};
  int64_t least = chain.slack + 1;
  for (const Placed& placed : chain.steps)
    if (const int64_t shift = window.begin - placed.begin + zone_ns; shift > 0)
      least = std::min(least, shift);
  if (least > chain.slack) return as_printed;
  const Fit shifted{count(least - zone_ns), least - zone_ns};
  return shifted.count > as_printed.count ? shifted : as_printed;
}

}  // namespace

Result<LaidSteps> lay_steps(const TrainingLog& log, Instant begin, Instant end, Seconds tolerance) {
  const Chain chain = TPT_TRY(chain_of(log));
  const auto over = static_cast<int64_t>(std::llround(tolerance / unit::s * 1e9));
  const Window window{begin.nanoseconds() - over, end.nanoseconds() + over};
  Fit best;
  LaidSteps laid{.steps = {}, .resolution = static_cast<double>(chain.resolution) / 1e9 * unit::s};
  bool several = false;
  for (int64_t zone = -most_zone_minutes; zone <= most_zone_minutes; zone += zone_step_minutes) {
    const Fit fit = fit_in_zone(chain, window, zone * minute_ns);
    if (fit.count < best.count || fit.count == 0) continue;
    several = fit.count == best.count;
    best = fit;
    laid.zone_minutes = zone;
  }
  if (best.count == 0) return error("none of its steps lies in the recording");
  if (several) return error("the time zone of its dates is not known, and several fit");
  for (const Placed& placed : chain.steps)
    if (window.holds(placed, best.later))
      laid.steps.push_back({.begin = std::max(begin, Instant(placed.begin + best.later)),
                            .end = std::min(end, Instant(placed.end + best.later)),
                            .samples = placed.step->samples.value_or(0),
                            .tokens = placed.step->tokens.value_or(0)});
  return laid;
}

}  // namespace triplepoint::trace
