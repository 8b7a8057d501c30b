// SPDX-License-Identifier: Apache-2.0
// Which rank the others wait for, and what that rank did meanwhile (definitions: late_ranks.h).
//
// Windows begin where the rank's own communication before ended. What differs between the ranks'
// windows is what made one late there; what differs between their begins is lateness that it
// inherited. A cause is the part of which the late rank
// has most more than the median of the others; the median, because others may be late for other
// reasons. Explanations go one or two steps further where the trace shows them (kernel, clock,
// throttling; launch, call, data loader). Clocks have to agree first: an offset would look like
// lateness.
//
// Cost: per collective and rank a search in its sorted device spans, plus those in the window.
#include "triplepoint/metrics/trace/late_ranks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/run.h"
#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/delay_blame.h"
#include "triplepoint/metrics/trace/exposed_waits.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/occupancy.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

/// Between a rank's collective before and this one, in nanoseconds.
struct Window {
  int32_t rank = 0;
  int64_t begin = 0, end = 0;
  int32_t span = 0;         // of this collective on this rank
  int32_t collective = -1;  // that ended where the window begins; -1: none
  int64_t length() const { return end - begin; }
};

/// Explains why one rank came later than others; see find_late_ranks.
class LateCause {
 public:
  LateCause(const SpanList&, const run::Run* telemetry);

  /// `late` is one of `windows`.
  std::vector<std::string> explain(const Window& late, const std::vector<Window>& windows) const;

  /// Adds a lower clock than the others', and why it was low.
  void explain_clock(const Window&, const std::vector<Window>&, std::vector<std::string>&) const;

  /// When anything was first seen on this rank.
  int64_t first_activity(int32_t rank) const { return ranks_[static_cast<size_t>(rank)].first; }

 private:
  struct Parts {
    int64_t before = 0, kernels = 0, copies = 0, communication = 0, nothing = 0;
  };
  using Times = std::map<std::string, int64_t>;

  Parts parts_of(const Window&) const;
  Times kernel_times(const Window&) const;
  Times host_times(const Window&) const;
  int64_t data_loading(const Window&) const;
  int64_t launch_delay(const Window&) const;
  void explain_kernels(const Window&, const std::vector<Window>&, std::vector<std::string>&) const;
  void explain_host(const Window&, const std::vector<Window>&, std::vector<std::string>&) const;
  const LaneOfSpans* lane_of_launch(const Window&) const;
  template <class Visit>
  void for_each_device_span(const Window&, Visit) const;
  std::optional<double> mean_of_signal(std::string_view signal, const Window&) const;
  std::vector<double> signal_of_others(std::string_view signal, const Window& late,
                                       const std::vector<Window>& windows) const;
  std::string throttle_of(const Window&) const;
  std::string heat_of(const Window& late, const std::vector<Window>& windows) const;

  int32_t launch_of(int32_t span) const {
    return launches_.empty() ? -1 : launches_[static_cast<size_t>(span)];
  }

  const SpanList& spans_;
  const run::Run* telemetry_;
  struct OfRank {
    int64_t first = 0;             // when anything was first seen
    int64_t longest = 0;           // of its device spans
    std::vector<int32_t> device;   // its kernels and copies, by begin
    std::vector<int32_t> loading;  // calls of a data loader
  };
  std::vector<OfRank> ranks_;
  std::vector<int32_t> launches_;  // empty: the timeline knows none
  std::vector<LaneOfSpans> host_lanes_;
  std::vector<int32_t> host_lane_of_span_;          // empty: there is none
  std::vector<std::vector<HostSegment>> segments_;  // by host lane
};

constexpr double clock_difference = 0.005;  // relative; below, the clock is no explanation
constexpr double clearly_hotter_c = 8;      // of a die; below, its temperature is not named
constexpr double min_cause_share = 0.25;    // of the lateness; a smaller part is not its cause

int64_t overlap_of(const run::Span& span, const Window& window) {
  return std::max<int64_t>(0, std::min(span.end.nanoseconds(), window.end) -
                                  std::max(span.begin.nanoseconds(), window.begin));
}

/// What the late rank has more of than the median of the others; `of` asks one window.
template <class Of>
int64_t excess(const Window& late, const std::vector<Window>& windows, Of of) {
  std::vector<int64_t> others;
  for (const Window& window : windows)
    if (window.rank != late.rank) others.push_back(of(window));
  return of(late) - (others.empty() ? 0 : lower_median(std::move(others)));
}

bool loads_data(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return has("DataLoader") || has("dataloader") || has("data_loader") || has("_next_data") ||
         has("load_batch") || has("get_batch");
}

constexpr std::string_view untraced = "(no call traced)";

/// Of names that each window spends time on, the one of which the late rank has most more.
struct LargestExcess {
  std::string name;
  int64_t excess = 0;
};
template <class Of>
LargestExcess most_excessive(const Window& late, const std::vector<Window>& windows, Of times_of) {
  std::vector<std::map<std::string, int64_t>> others;
  for (const Window& window : windows)
    if (window.rank != late.rank) others.push_back(times_of(window));
  LargestExcess most;
  for (const auto& [name, time] : times_of(late)) {
    std::vector<int64_t> theirs;
    for (const auto& other : others) {
      const auto found = other.find(name);
      theirs.push_back(found == other.end() ? 0 : found->second);
    }
    const int64_t more = time - (theirs.empty() ? 0 : lower_median(std::move(theirs)));
    if (more > most.excess) most = {name, more};
  }
  return most;
}

LateCause::LateCause(const SpanList& spans, const run::Run* telemetry)
    : spans_(spans),
      telemetry_(telemetry),
      ranks_(static_cast<size_t>(spans.timeline().num_ranks),
             {.first = std::numeric_limits<int64_t>::max()}),
      host_lanes_(lanes_of(spans, LaneKind::host)) {
  const run::Timeline& timeline = spans.timeline();
  if (!timeline.details.empty()) launches_ = launches_of(timeline);
  if (!host_lanes_.empty()) host_lane_of_span_.assign(static_cast<size_t>(spans.size()), -1);
  std::vector<bool> loading;  // by type
  for (const run::SpanType& type : timeline.types)
    loading.push_back(!is_kernel(type.kind) && loads_data(type.name));
  for (int32_t i = 0; i < spans.size(); ++i) {
    OfRank& rank = ranks_[static_cast<size_t>(spans.rank(i))];
    rank.first = std::min(rank.first, spans.begin(i));
    if (loading[static_cast<size_t>(spans.work(i).type)]) rank.loading.push_back(i);
    if (!is_kernel(spans.type(i).kind)) continue;
    rank.device.push_back(i);
    rank.longest = std::max(rank.longest, spans.duration(i));
  }
  for (size_t lane = 0; lane < host_lanes_.size(); ++lane) {
    segments_.push_back(innermost_spans(spans, host_lanes_[lane]));
    for (int32_t span : host_lanes_[lane].spans)
      host_lane_of_span_[static_cast<size_t>(span)] = static_cast<int32_t>(lane);
  }
}

/// Visits what ran on the rank's device during the window.
template <class Visit>
void LateCause::for_each_device_span(const Window& window, Visit visit) const {
  const OfRank& rank = ranks_[static_cast<size_t>(window.rank)];
  const auto begin_of = [&](int32_t i) { return spans_.begin(i); };
  // Spans are sorted by begin and one that reaches into the window may have begun before it, but by
  // no more than the longest span of the rank.
  auto i = std::lower_bound(rank.device.begin(), rank.device.end(), window.begin - rank.longest,
                            [&](int32_t span, int64_t begin) { return begin_of(span) < begin; });
  for (; i != rank.device.end() && begin_of(*i) < window.end; ++i)
    visit(spans_.at(*i));
}

LateCause::Parts LateCause::parts_of(const Window& window) const {
  Activity activity(spans_.timeline());
  for_each_device_span(window, [&](run::Span span) {
    span.begin = std::max(span.begin, Instant(window.begin));
    span.end = std::min(span.end, Instant(window.end));
    activity.add(span);
  });
  Parts parts;
  parts.before =
      std::clamp<int64_t>(first_activity(window.rank) - window.begin, 0, window.length());
  int64_t busy = 0;
  for (const Segment& segment : activity.segments()) {
    const int64_t length = segment.end - segment.begin;
    busy += length;
    if ((segment.doing & DeviceActivity::computing) != 0)
      parts.kernels += length;
    else if ((segment.doing & DeviceActivity::communicating) != 0)
      parts.communication += length;
    else
      parts.copies += length;
  }
  parts.nothing = window.length() - parts.before - busy;
  return parts;
}

LateCause::Times LateCause::kernel_times(const Window& window) const {
  Times times;
  for_each_device_span(window, [&](const run::Span& span) {
    const run::SpanType& type = type_of(spans_.timeline(), span);
    if (type.kind != run::SpanKind::communication) times[type.name] += overlap_of(span, window);
  });
  return times;
}

const LaneOfSpans* LateCause::lane_of_launch(const Window& window) const {
  const int32_t launch = launch_of(window.span);
  if (launch < 0) return nullptr;
  const int32_t lane = host_lane_of_span_[static_cast<size_t>(launch)];
  return lane < 0 ? nullptr : &host_lanes_[static_cast<size_t>(lane)];
}

LateCause::Times LateCause::host_times(const Window& window) const {
  Times times;
  const LaneOfSpans* lane = lane_of_launch(window);
  if (lane == nullptr) return times;
  int64_t traced = 0;
  const auto& segments = segments_[static_cast<size_t>(lane - host_lanes_.data())];
  auto segment = std::lower_bound(segments.begin(), segments.end(), window.begin,
                                  [](const HostSegment& s, int64_t t) { return s.end <= t; });
  for (; segment != segments.end() && segment->begin < window.end; ++segment) {
    const int64_t length =
        std::min(segment->end, window.end) - std::max(segment->begin, window.begin);
    traced += length;
    times[spans_.type(segment->span).name] += length;
  }
  times[std::string(untraced)] += window.length() - traced;
  return times;
}

int64_t LateCause::data_loading(const Window& window) const {
  int64_t longest = 0;  // calls of it lie inside each other, so they do not add up
  for (int32_t span : ranks_[static_cast<size_t>(window.rank)].loading)
    longest = std::max(longest, overlap_of(spans_.at(span), window));
  return longest;
}

/// From the collective before until this one's launch was called.
int64_t LateCause::launch_delay(const Window& window) const {
  const int32_t launch = launch_of(window.span);
  if (launch < 0) return 0;
  return spans_.begin(launch) - window.begin;
}

std::optional<double> LateCause::mean_of_signal(std::string_view signal,
                                                const Window& window) const {
  for (const run::Device& device : telemetry_->devices) {
    if (device.rank != window.rank) continue;
    const run::Series* series = run::find_series(*telemetry_, signal, device.index);
    if (series == nullptr) return std::nullopt;
    const auto all = run::statistics(*series, Instant(window.begin), Instant(window.end));
    if (all.count == 0) return std::nullopt;
    return all.time_weighted_mean;
  }
  return std::nullopt;
}

std::string LateCause::throttle_of(const Window& window) const {
  std::string words;
  for (const run::Device& device : telemetry_->devices) {
    if (device.rank != window.rank) continue;
    const Instant begin(window.begin), end(window.end);
    for (const run::ThrottleReason& reason : run::throttle_reasons) {
      const auto share = run::throttled_share(*telemetry_, device.index, reason, begin, end);
      if (share.value_or(0) > 0)
        words += fmt::format("{}{} {:.0f} % of the time", words.empty() ? "" : ", ", reason.name,
                             *share * 100);
    }
  }
  return words;
}

std::vector<double> LateCause::signal_of_others(std::string_view signal, const Window& late,
                                                const std::vector<Window>& windows) const {
  std::vector<double> others;
  for (const Window& window : windows) {
    if (window.rank == late.rank) continue;
    if (const auto value = mean_of_signal(signal, window)) others.push_back(*value);
  }
  return others;
}

/// Empty unless its die is clearly hotter than the others'.
std::string LateCause::heat_of(const Window& late, const std::vector<Window>& windows) const {
  const auto mine = mean_of_signal("die_c", late);
  std::vector<double> others = signal_of_others("die_c", late, windows);
  if (!mine || others.empty()) return "";
  const double theirs = lower_median(std::move(others));
  if (*mine <= theirs + clearly_hotter_c) return "";
  return fmt::format("die at {:.1f} °C, the median of the others {:.1f} °C", *mine, theirs);
}

void LateCause::explain_clock(const Window& late, const std::vector<Window>& windows,
                              std::vector<std::string>& chain) const {
  if (telemetry_ == nullptr) return;
  const auto mine = mean_of_signal("sm_clock_mhz", late);
  std::vector<double> others = signal_of_others("sm_clock_mhz", late, windows);
  if (!mine || others.empty()) return;
  const double theirs = lower_median(std::move(others));
  if (*mine > theirs * (1 - clock_difference)) return;
  chain.push_back(
      fmt::format("lower clock: {:.0f} MHz, the median of the others {:.0f} MHz", *mine, theirs));
  const std::string reasons = throttle_of(late), heat = heat_of(late, windows);
  if (!reasons.empty()) chain.push_back("throttled: " + reasons);
  if (heat.empty()) return;
  if (reasons.find("thermal") != std::string::npos)
    chain.push_back(heat);
  else  // seen, but no cause of the clock
    chain.back() += " (" + heat + ", not throttled by heat)";
}

void LateCause::explain_kernels(const Window& late, const std::vector<Window>& windows,
                                std::vector<std::string>& chain) const {
  const LargestExcess most =
      most_excessive(late, windows, [&](const Window& w) { return kernel_times(w); });
  if (most.excess > 0)
    chain.push_back(fmt::format("most of it in {} (+{})", most.name, time_text(most.excess)));
  explain_clock(late, windows, chain);
}

void LateCause::explain_host(const Window& late, const std::vector<Window>& windows,
                             std::vector<std::string>& chain) const {
  const int64_t lateness = excess(late, windows, [](const Window& w) { return w.length(); });
  const auto enough = static_cast<int64_t>(min_cause_share * static_cast<double>(lateness));
  const int64_t launched = excess(late, windows, [&](const Window& w) { return launch_delay(w); });
  if (launched > enough)
    chain.push_back(
        fmt::format("its launch was called {} later than the median rank's", time_text(launched)));
  const int64_t loading = excess(late, windows, [&](const Window& w) { return data_loading(w); });
  if (loading > enough) chain.push_back(fmt::format("data loader: +{}", time_text(loading)));
  const LargestExcess most =
      most_excessive(late, windows, [&](const Window& w) { return host_times(w); });
  if (most.excess > 0)
    chain.push_back(
        fmt::format("its host thread was in {} (+{})", most.name, time_text(most.excess)));
}

std::vector<std::string> LateCause::explain(const Window& late,
                                            const std::vector<Window>& windows) const {
  std::map<int32_t, Parts> parts;
  for (const Window& window : windows)
    parts[window.rank] = parts_of(window);
  const auto more = [&](int64_t Parts::*part) {
    return excess(late, windows, [&](const Window& w) { return parts[w.rank].*part; });
  };
  const int64_t before = more(&Parts::before), kernels = more(&Parts::kernels);
  const int64_t copies = more(&Parts::copies), nothing = more(&Parts::nothing);
  const int64_t other = more(&Parts::communication);
  const int64_t most = std::max({before, kernels, copies, nothing, other});
  std::vector<std::string> chain;
  if (most <= 0) return chain;
  if (most == before) {
    chain.push_back(
        fmt::format("late already when the trace begins: first seen {} after the median rank",
                    time_text(before)));
  } else if (most == kernels) {
    chain.push_back(fmt::format("kernels took {} longer", time_text(kernels)));
    explain_kernels(late, windows, chain);
  } else if (most == copies) {
    chain.push_back(fmt::format("copies took {} longer", time_text(copies)));
  } else if (most == other) {
    chain.push_back(fmt::format("{} more in other communication", time_text(other)));
  } else {
    chain.push_back(fmt::format("device without work for {} longer", time_text(nothing)));
    explain_host(late, windows, chain);
  }
  return chain;
}

/// Smaller lateness is not explained.
constexpr int64_t min_lateness_ns = 1000;  // ns
constexpr size_t most_links = 6;           // of an inherited chain

class LateWatcher {
 public:
  LateWatcher(const SpanList& spans, const run::Run* telemetry)
      : spans_(spans), cause_(spans, telemetry) {
    if (const auto extent = run::extent(spans.timeline())) begin_ = extent->begin.nanoseconds();
  }

  LateRanks watch(const CollectiveMatch& match) {
    add_up_communication();
    const DelayBlame blame = blame_delays(spans_, match);
    const CommunicationEnds ends(match.collectives, spans_.timeline().num_ranks);
    start_of_.assign(match.collectives.size(), -1);
    for (size_t i = 0; i < match.collectives.size(); ++i)
      if (match.collectives[i].across_ranks())
        take(match.collectives[i], i, ends, blame.culprits[i]);
    LateRanks result = finish(blame);
    result.has_all_ranks = match.has_all_ranks;
    return result;
  }

 private:
  void add_up_communication() {
    for (int32_t i = 0; i < spans_.size(); ++i)
      if (spans_.type(i).kind == run::SpanKind::communication)
        of(spans_.rank(i)).in_communication += spans_.duration(i);
  }

  RankLateness& of(int32_t rank) {
    RankLateness& lateness = ranks_[rank];
    lateness.rank = rank;
    return lateness;
  }

  void take(const Collective& collective, size_t index, const CommunicationEnds& ends,
            const DelayBlame::Culprit& culprit) {
    LateStart start{.collective = index, .rank = collective.last_starter()};
    start.culprit = culprit.rank;
    start.blamed = culprit.blamed;
    start.own_delay = culprit.own_delay;
    start.start_spread = collective.last_begin() - collective.first_begin();
    start.end_spread = collective.last_end() - collective.first_end();
    start.shortest = INT64_MAX;
    int64_t second = collective.first_begin();
    for (const CollectivePart& part : collective.parts) {
      const int64_t wait = collective.wait_of(part);
      if (part.rank != start.rank) start.waits += wait;
      start.shortest = std::min(start.shortest, part.duration());
      start.longest = std::max(start.longest, part.duration());
      if (part.rank != start.rank) second = std::max(second, part.begin);
      of(part.rank).waited += wait;
      ++of(part.rank).collectives;
    }
    start.lead = collective.last_begin() - second;
    RankLateness& late = of(start.rank);
    ++late.times_last;
    late.caused += start.waits;
    late.alone += start.lead;
    if (start.start_spread > min_lateness_ns) explain(collective, start, ends, culprit);
    start_of_[index] = static_cast<int32_t>(starts_.size());
    starts_.push_back(std::move(start));
  }

  void explain(const Collective& collective, LateStart& start, const CommunicationEnds& ends,
               const DelayBlame::Culprit& culprit) {
    std::vector<Window> windows;
    for (const CollectivePart& part : collective.parts) {
      const CommunicationEnds::End before = ends.before(part, std::min(begin_, part.begin));
      windows.push_back({.rank = part.rank,
                         .begin = before.time,
                         .end = part.begin,
                         .span = part.span,
                         .collective = before.collective});
    }
    const auto late = std::find_if(windows.begin(), windows.end(),
                                   [&](const Window& w) { return w.rank == start.rank; });
    const auto enough = static_cast<int64_t>(min_cause_share * static_cast<double>(start.waits));
    if (waits_for_schedule(collective, spans_) && start.blamed <= enough) {
      start.chain = {"order of the pipeline: delays are not the reason"};
      start.by_order = true;
      return;
    }
    const int64_t inherited = excess(*late, windows, [](const Window& w) { return w.begin; });
    if (culprit.are_comparable) {
      start.chain = cause_.explain(*late, windows);
      if (inherited > std::max(culprit.own_delay, min_lateness_ns))
        inherit(inherited, late->collective, start);
      return;
    }
    start.chain = explain_by_kernels(culprit);
    if (culprit.own_delay >= min_lateness_ns && culprit.kernels >= culprit.gaps)
      cause_.explain_clock(*late, windows, start.chain);
    const bool by_others = start.culprit != start.rank || culprit.own_delay < min_lateness_ns;
    if (by_others && start.culprit >= 0)
      start.chain = {fmt::format("delays of rank {} before it", start.culprit)};
  }

  /// Of ranks whose windows hold different work, as the stages of a pipeline.
  std::vector<std::string> explain_by_kernels(const DelayBlame::Culprit& culprit) const {
    if (culprit.own_delay < min_lateness_ns) return {"the ranks do different work before it"};
    if (culprit.gaps > culprit.kernels)
      return {fmt::format("device without work for {} longer", time_text(culprit.gaps))};
    std::vector<std::string> chain = {fmt::format(
        "kernels took {} longer than the same ones elsewhere", time_text(culprit.kernels))};
    if (culprit.slowest >= 0)
      chain.push_back(fmt::format("most of it in {}", spans_.type(culprit.slowest).name));
    return chain;
  }

  /// The rank's communication before ended late, and why.
  void inherit(int64_t lateness, int32_t before, LateStart& start) const {
    std::vector<std::string> chain = {
        fmt::format("its communication before ended {} later", time_text(lateness))};
    const int32_t place = before < 0 ? -1 : start_of_[static_cast<size_t>(before)];
    if (place >= 0) {
      const LateStart& cause = starts_[static_cast<size_t>(place)];
      if (cause.rank != start.rank)
        chain.push_back(fmt::format("rank {} was late there", cause.rank));
      for (const std::string& link : cause.chain)
        if (chain.size() < most_links) chain.push_back(link);
    }
    start.chain = std::move(chain);
  }

  LateRanks finish(const DelayBlame& blame) {
    LateRanks result{.starts = std::move(starts_)};
    const RankLateness* worst = nullptr;
    const RankLateness* busiest = nullptr;
    for (auto& [rank, lateness] : ranks_) {
      const DelayBlame::Rank& of_rank = blame.ranks[static_cast<size_t>(rank)];
      lateness.blamed = of_rank.blamed;
      lateness.delay = of_rank.delay;
      if (of_rank.beyond_noise && (worst == nullptr || lateness.blamed > worst->blamed))
        worst = &lateness;
      if (busiest == nullptr || lateness.in_communication > busiest->in_communication)
        busiest = &lateness;
      result.ranks.push_back(lateness);
    }
    if (worst != nullptr) result.straggler = worst->rank;
    if (busiest != nullptr && busiest->in_communication > 0 && ranks_.size() > 1)
      result.naive_straggler = busiest->rank;
    return result;
  }

  const SpanList& spans_;
  LateCause cause_;
  int64_t begin_ = 0;
  std::map<int32_t, RankLateness> ranks_;
  std::vector<LateStart> starts_;
  std::vector<int32_t> start_of_;  // of each collective: its place in starts_; -1: not there
};

}  // namespace

std::string time_text(int64_t nanoseconds) {
  const auto time = static_cast<double>(nanoseconds);
  if (nanoseconds < 1'000'000) return fmt::format("{:.1f} us", time / 1e3);
  if (nanoseconds < 1'000'000'000) return fmt::format("{:.2f} ms", time / 1e6);
  return fmt::format("{:.2f} s", time / 1e9);
}

LateRanks find_late_ranks(const SpanList& spans, const CollectiveMatch& match,
                          const run::Run* telemetry) {
  return LateWatcher(spans, telemetry).watch(match);
}

LateRanks find_late_ranks(const run::Timeline& timeline, const CollectiveMatch& match,
                          const run::Run* telemetry) {
  return find_late_ranks(SpanList(timeline), match, telemetry);
}

}  // namespace triplepoint::metrics
