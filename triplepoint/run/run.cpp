// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/run.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "triplepoint/base/result.h"

namespace triplepoint::run {

std::string_view shared_name(std::string_view name) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  const std::lock_guard lock(mutex);
  const auto found = names.find(name);
  return found != names.end() ? *found : *names.emplace(name).first;
}

double NamedValues::at(std::string_view name) const {
  const auto found = find(name);
  TPT_EXPECT(found != end());
  return found->second;
}
namespace {

/// Calls visit(value, seconds it held inside [begin, end]) for every value that held at all.
void for_each_held(const Series& series, Instant begin, Instant end, auto&& visit) {
  TPT_EXPECT(series.times.size() == series.values.size());
  const auto& times = series.times;
  auto next = std::upper_bound(times.begin(), times.end(), begin);
  if (next != times.begin()) --next;
  for (; next != times.end() && *next <= end; ++next) {
    const Instant from = std::max(*next, begin);
    const Instant until = next + 1 == times.end() ? end : std::min(next[1], end);
    const double value = series.values[as_size(next - times.begin())];
    if (from <= until) visit(value, (until - from) / unit::s);
  }
}

/// The counter's value at an instant between its first and its last stamp, by interpolation.
double counter_at(const Series& series, Instant when) {
  const auto& times = series.times;
  const auto after = std::lower_bound(times.begin(), times.end(), when);
  const auto i = as_size(after - times.begin());
  if (times[i] == when) return series.values[i];
  const double share = (when - times[i - 1]) / (times[i] - times[i - 1]);
  return series.values[i - 1] + share * (series.values[i] - series.values[i - 1]);
}

}  // namespace

SeriesStatistics statistics(const Series& series) {
  if (series.times.empty()) return {};
  return statistics(series, series.times.front(), series.times.back());
}

SeriesStatistics statistics(const Series& series, Instant begin, Instant end) {
  SeriesStatistics all;
  double seconds = 0, weighted = 0, plain = 0;
  for_each_held(series, begin, end, [&](double value, double held) {
    all.minimum = all.count == 0 ? value : std::min(all.minimum, value);
    all.maximum = all.count == 0 ? value : std::max(all.maximum, value);
    ++all.count;
    seconds += held;
    weighted += held * value;
    plain += value;
  });
  if (all.count == 0) return {};
  all.time_weighted_mean = seconds > 0 ? weighted / seconds : plain / as_real(all.count);
  return all;
}

std::optional<double> counter_difference(const Series& series, Instant begin, Instant end) {
  TPT_EXPECT(series.times.size() == series.values.size());
  if (series.times.empty() || begin < series.times.front() || end > series.times.back())
    return std::nullopt;
  return counter_at(series, end) - counter_at(series, begin);
}

std::optional<double> share_of_time(const Series& bits, uint32_t mask, Instant begin, Instant end) {
  double seconds = 0, with_bit = 0;
  for_each_held(bits, begin, end, [&](double value, double held) {
    seconds += held;
    if (value > 0 && (static_cast<uint64_t>(std::min(value, 0x1p53)) & mask) != 0) with_bit += held;
  });
  if (seconds <= 0) return std::nullopt;
  return with_bit / seconds;
}

Bytes MemoryUse::total() const {
  return weights + gradients + optimizer + activations + logits + buffers + reserve;
}

std::string_view name_of(Origin origin) {
  return word_for<Origin::imported>({"simulated", "measured", "imported"}, origin);
}

std::string_view name_of(Fidelity fidelity) {
  return word_for<Fidelity::real>({"step", "steady state", "transient", "real"}, fidelity);
}

std::string_view name_of(Scope scope) {
  return word_for<Scope::node>(
      {"gpu", "memory", "module", "package", "dram", "core", "nic", "host", "node"}, scope);
}

std::string_view name_of(ReadingKind kind) {
  return word_for<ReadingKind::bits>({"instant", "average", "counter", "bits"}, kind);
}

const Series* find_series(const Run& run, std::string_view signal, int32_t device, bool of_node) {
  return find_where(run.series, [&](const Series& series) {
    return series.device == device && series.of_node == of_node && series.signal == signal;
  });
}

std::vector<StepRecord> detailed_steps(const Run& run) {
  const std::optional<Extent> shown = extent(run.timeline);
  if (!shown) return run.steps;
  // A simulated timeline shows one step, without spans of the host's time before or after it, which
  // can exceed half a step; its last span may end some nanoseconds late.
  const bool simulated = run.manifest.origin == Origin::simulated;
  std::vector<StepRecord> detailed;
  for (const StepRecord& step : run.steps) {
    const Seconds covered = std::min(step.end, shown->end) - std::max(step.begin, shown->begin);
    const bool mostly = covered > Seconds() && 2 * covered >= step.end - step.begin;
    if (mostly || (simulated && 2 * covered >= shown->end - shown->begin)) detailed.push_back(step);
  }
  return detailed;
}

std::string shutdown_text(const Run& run) {
  if (!run.shutdown) return "";
  const auto& [device, die_c, time] = *run.shutdown;
  if (!time)
    return fmt::format(
        "GPU {} would reach {:.1f} °C at its lowest clock and shut down; the job does not run",
        device, die_c);
  return fmt::format("GPU {} reaches {:.1f} °C after {:.0f} s and shuts down; the job ends there",
                     device, die_c, *time / unit::s);
}

void record_shutdown(Run& run, const Shutdown& shutdown, Celsius limit) {
  run.shutdown = shutdown;
  run.manifest.notes.push_back(fmt::format("{} (limit {:.0f} °C){}", shutdown_text(run),
                                           limit.degrees(),
                                           shutdown.time ? "" : ". Add --duration to see when"));
}

std::string horizon_text(const Run& run) {
  if (run.manifest.origin != Origin::simulated) return "";
  if (run.numbers.duration_s) return fmt::format("{} s from a cold start", *run.numbers.duration_s);
  if (run.numbers.num_steps)
    return fmt::format("{} steps from a cold start", *run.numbers.num_steps);
  return "steady state";
}

bool has_trained(const Run& run) {
  return run.manifest.fits_memory && !run.manifest.failure && !(run.steps.empty() && run.shutdown);
}

bool was_disturbed(const ProducerNumbers& numbers) {
  constexpr double much = 0.2;
  const auto &others = numbers.others_cpu_share, &idle = numbers.idle_cpu_share;
  return others && idle && *others > much && *idle < much;
}

std::string_view verdict_of(const Run& run) {
  if (!run.manifest.fits_memory) return "oom";
  if (run.manifest.failure) return "failed";
  return run.shutdown ? "shutdown" : "ok";
}

namespace {

std::pair<bool, int32_t> owner_of(const Series* series) {
  return {series->of_node, series->device};
}

}  // namespace

SeriesIndex::SeriesIndex(const Run& run) {
  series_.reserve(run.series.size());
  for (const Series& series : run.series)
    series_.push_back(&series);
  // Stable, so that the first of two with one name is found, as by find_series().
  if (!std::ranges::is_sorted(series_, {}, owner_of))
    std::ranges::stable_sort(series_, {}, owner_of);
}

const Series* SeriesIndex::find(std::string_view signal, int32_t device, bool of_node) const {
  const std::pair owner(of_node, device);
  for (auto at = std::ranges::lower_bound(series_, owner, {}, owner_of);
       at != series_.end() && owner_of(*at) == owner; ++at)
    if ((*at)->signal == signal) return *at;
  return nullptr;
}

}  // namespace triplepoint::run
