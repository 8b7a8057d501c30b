// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/trace_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

namespace {

constexpr double min_repeat_share = 0.9;
constexpr size_t most_candidates = 64;
constexpr size_t shortest_period = 4;  // kernels; fewer are a loop inside a step

/// Marks on the host, or if there are none on the device.
std::vector<size_t> step_marks(const run::Timeline& timeline) {
  std::vector<size_t> host, device;
  const auto is_profilers = [](const run::SpanType& type) {
    return type.kind == run::SpanKind::step && type.name.starts_with("ProfilerStep#");
  };
  const bool by_profiler = std::ranges::any_of(timeline.types, is_profilers);
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::SpanType& type = type_of(timeline, timeline.spans[i]);
    if (type.kind != run::SpanKind::step) continue;
    if (by_profiler && !is_profilers(type)) continue;  // the program's own lie inside, or across
    (type.stream == run::Stream::host ? host : device).push_back(i);
  }
  return host.empty() ? device : host;
}

std::vector<TraceStep> marked_steps(const run::Timeline& timeline) {
  std::vector<TraceStep> steps;
  std::map<std::pair<std::string_view, size_t>, size_t> places;  // name, n-th of a rank
  std::map<std::pair<std::string_view, int32_t>, size_t> seen;
  for (size_t i : step_marks(timeline)) {
    const run::Span& span = timeline.spans[i];
    const std::string_view name = type_of(timeline, span).name;
    const size_t nth = seen[{name, span.rank}]++;
    const auto [place, added] = places.try_emplace({name, nth}, steps.size());
    if (added) steps.push_back({.name = std::string(name)});
    steps[place->second].ranks.push_back(
        {span.rank, span.begin.nanoseconds(), span.end.nanoseconds()});
  }
  std::ranges::stable_sort(steps, [](const TraceStep& a, const TraceStep& b) {
    return a.ranks.front().begin < b.ranks.front().begin;
  });
  return steps;
}

/// Share of the names that are the same one period later.
double repeats(const std::vector<int32_t>& names, size_t period) {
  size_t same = 0;
  for (size_t i = 0; i + period < names.size(); ++i)
    same += names[i] == names[i + period];
  return as_real(same) / as_real(names.size() - period);
}

/// Distances between neighbours of the rarest names that occur more than once.
std::set<size_t> candidate_periods(const std::vector<int32_t>& names) {
  std::map<int32_t, std::vector<size_t>> places;
  for (size_t i = 0; i < names.size(); ++i)
    places[names[i]].push_back(i);
  std::vector<const std::vector<size_t>*> rarest;
  for (const auto& [name, list] : places)
    if (list.size() > 1) rarest.push_back(&list);
  std::ranges::stable_sort(rarest,
                           [](const auto* a, const auto* b) { return a->size() < b->size(); });
  std::set<size_t> periods;
  for (const auto* list : rarest) {
    for (size_t i = 1; i < list->size() && periods.size() < most_candidates; ++i) {
      const size_t distance = (*list)[i] - (*list)[i - 1];
      if (distance >= shortest_period && 2 * distance <= names.size()) periods.insert(distance);
    }
  }
  return periods;
}

std::optional<size_t> period_of(const std::vector<int32_t>& names) {
  for (size_t period : candidate_periods(names))
    if (repeats(names, period) >= min_repeat_share) return period;
  return std::nullopt;
}

/// Where in the period the steps begin: the place with the longest gaps before it.
size_t step_begin(const run::Timeline& timeline, const LaneOfSpans& lane, size_t period) {
  const auto span = [&](size_t i) -> const run::Span& {
    return timeline.spans[as_size(lane.spans[i])];
  };
  std::vector<int64_t> gaps(period, 0);
  for (size_t i = 1; i < lane.spans.size(); ++i)
    gaps[i % period] += span(i).begin.nanoseconds() - span(i - 1).end.nanoseconds();
  return as_size(std::ranges::max_element(gaps) - gaps.begin());
}

std::vector<TraceStep> repeating_steps(const run::Timeline& timeline) {
  std::vector<TraceStep> steps;
  for (const auto& entry : busiest_lanes(SpanList(timeline), LaneKind::device)) {
    const int32_t rank = entry.first;
    const LaneOfSpans& lane = entry.second;
    const std::vector<int32_t> names =
        mapped(lane.spans, [&](int32_t span) { return timeline.spans[as_size(span)].type; });
    const std::optional<size_t> period = period_of(names);
    if (!period) continue;
    const auto begin_of = [&](size_t i) {
      return timeline.spans[as_size(lane.spans[i])].begin.nanoseconds();
    };
    size_t number = 0;
    for (size_t i = step_begin(timeline, lane, *period); i + *period <= names.size();
         i += *period, ++number) {
      if (number == steps.size()) steps.push_back({.name = fmt::format("step {}", number + 1)});
      const size_t next = i + *period;
      const int64_t end = next < names.size()
                              ? begin_of(next)
                              : timeline.spans[as_size(lane.spans[next - 1])].end.nanoseconds();
      steps[number].ranks.push_back({rank, begin_of(i), end});
    }
  }
  return steps;
}

/// Which step of a rank is under way at a time.
class StepClock {
 public:
  explicit StepClock(const std::vector<TraceStep>& steps) {
    for (size_t i = 0; i < steps.size(); ++i)
      for (const TraceStep::OfRank& of : steps[i].ranks)
        ranks_[of.rank].push_back({of.begin, of.end, static_cast<int32_t>(i)});
    for (auto& [rank, list] : ranks_)
      std::ranges::sort(list, {}, &Entry::begin);
  }

  int32_t step_at(int32_t rank, int64_t time) const {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end()) return -1;
    const auto& list = found->second;
    auto next = std::upper_bound(list.begin(), list.end(), time,
                                 [](int64_t t, const Entry& e) { return t < e.begin; });
    if (next == list.begin()) return -1;
    --next;
    return time < next->end ? next->step : -1;
  }

 private:
  struct Entry {
    int64_t begin = 0, end = 0;
    int32_t step = 0;
  };
  std::map<int32_t, std::vector<Entry>> ranks_;
};

std::vector<int32_t> steps_of_spans(const run::Timeline& timeline, const TraceSteps& found,
                                    const std::vector<int32_t>& launches) {
  const StepClock clock(found.steps);
  std::vector<int32_t> steps;
  steps.reserve(timeline.spans.size());
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    const int32_t launch = launches.empty() ? -1 : launches[i];
    const Instant when = launch < 0 ? span.begin : timeline.spans[as_size(launch)].begin;
    steps.push_back(clock.step_at(span.rank, when.nanoseconds()));
  }
  return steps;
}

/// Begin and end on the device of each step of a rank, in order; those without kernels are empty.
using DeviceExtents = std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>>;

DeviceExtents device_extents(const run::Timeline& timeline, const TraceSteps& found) {
  DeviceExtents extents;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    if (found.step_of_span[i] < 0 || !is_kernel(type_of(timeline, span).kind)) continue;
    auto& own = extents[span.rank];
    own.resize(found.steps.size(), {INT64_MAX, INT64_MIN});
    auto& [begin, end] = own[as_size(found.step_of_span[i])];
    begin = std::min(begin, span.begin.nanoseconds());
    end = std::max(end, span.end.nanoseconds());
  }
  return extents;
}

/// Where a rank's device takes clearly longer for the steps than their marks on the host, which
/// runs ahead, a step lasts from the end of the one before on the device to its own.
bool follow_device(const run::Timeline& timeline, TraceSteps& found) {
  constexpr double clear = 1.2;
  bool any = false;
  for (const auto& [rank, extents] : device_extents(timeline, found)) {
    int64_t marked = 0, begin = INT64_MAX, end = INT64_MIN;
    std::vector<std::pair<size_t, TraceStep::OfRank*>> own;
    for (size_t s = 0; s < found.steps.size(); ++s)
      for (TraceStep::OfRank& of : found.steps[s].ranks)
        if (of.rank == rank) own.emplace_back(s, &of), marked += of.end - of.begin;
    for (const auto& extent : extents)
      begin = std::min(begin, extent.first), end = std::max(end, extent.second);
    if (as_real(end - begin) < clear * as_real(marked)) continue;
    any = true;
    for (const auto& [step, of] : own) {
      of->begin = begin;
      of->end = begin = std::max(begin, extents[step].second);
    }
  }
  return any;
}

/// What the whole has beyond the sum of its steps lies between them. `extent`: of all steps.
MeanStep mean_step_of(const RankBreakdown& whole, const std::vector<IdleTime>& steps,
                      int64_t extent) {
  MeanStep mean{.rank = whole.rank, .steps = static_cast<int64_t>(steps.size())};
  mean.length = extent / mean.steps;
  const int64_t inside = sum_of(steps, [](const IdleTime& step) { return step.total(); });
  if (inside > whole.idle_time.total()) {  // kernels of others run in the gaps of a step
    for (const auto of : idle_classes)
      mean.idle.*of = whole.idle_time.*of / mean.steps;
    return mean;
  }
  for (const auto of : idle_classes) {
    for (const IdleTime& step : steps)
      mean.idle.*of += step.*of;
    if (mean.steps > 1)
      mean.between.*of =
          std::max<int64_t>(0, whole.idle_time.*of - mean.idle.*of) / (mean.steps - 1);
    mean.idle.*of /= mean.steps;
  }
  const int64_t most = mean.length - whole.busy / mean.steps - mean.idle.total();
  const double share = std::min(1.0, as_real(std::max<int64_t>(0, most)) /
                                         as_real(std::max<int64_t>(1, mean.between.total())));
  for (const auto of : idle_classes) {
    mean.between.*of = std::llround(share * as_real(mean.between.*of));
    mean.idle.*of += mean.between.*of;
  }
  return mean;
}

}  // namespace

TraceSteps find_steps(const run::Timeline& timeline) {
  TraceSteps found{.source = StepSource::annotations, .steps = marked_steps(timeline)};
  if (found.steps.empty()) {
    found.source = StepSource::periodicity;
    found.steps = repeating_steps(timeline);
  }
  if (found.steps.empty()) found.source = StepSource::none;
  std::vector<int32_t> launches;
  const bool is_marked = found.source == StepSource::annotations;
  if (is_marked) launches = launches_of(timeline);
  found.step_of_span = steps_of_spans(timeline, found, launches);
  if (!is_marked || !follow_device(timeline, found)) return found;
  // Kernels whose launch is not known lie in the device's step.
  const StepClock clock(found.steps);
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    if (launches[i] < 0 && is_kernel(type_of(timeline, timeline.spans[i]).kind))
      found.step_of_span[i] =
          clock.step_at(timeline.spans[i].rank, timeline.spans[i].begin.nanoseconds());
  return found;
}

TraceSteps consecutive_steps(TraceSteps all) {
  const auto number_of = [](const TraceStep& step) {
    const size_t mark = step.name.rfind('#');
    return mark == std::string::npos ? std::nullopt : whole_number(step.name.substr(mark + 1));
  };
  size_t best = 0, most = 0;  // first of the longest stretch, and its length
  for (size_t from = 0, i = 0; i < all.steps.size(); ++i) {
    const auto number = number_of(all.steps[i]);
    if (!number || all.source != StepSource::annotations) return all;
    if (i > from && *number != *number_of(all.steps[i - 1]) + 1) from = i;
    if (i - from + 1 > most) best = from, most = i - from + 1;
  }
  if (most == all.steps.size()) return all;
  all.steps = std::vector<TraceStep>(all.steps.begin() + static_cast<ptrdiff_t>(best),
                                     all.steps.begin() + static_cast<ptrdiff_t>(best + most));
  for (int32_t& step : all.step_of_span) {
    step -= static_cast<int32_t>(best);
    if (step < 0 || step >= std::ssize(all.steps)) step = -1;
  }
  return all;
}

run::Timeline part_of(const run::Timeline& timeline, const std::function<bool(size_t)>& keeps) {
  run::Timeline part;
  part.types = timeline.types;
  part.num_ranks = timeline.num_ranks;
  part.names = timeline.names;
  part.lanes = timeline.lanes;
  part.communicators = timeline.communicators;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    if (!keeps(i)) continue;
    part.spans.push_back(timeline.spans[i]);
    if (!timeline.details.empty()) part.details.push_back(timeline.details[i]);
  }
  return part;
}

run::Timeline inside_steps(const run::Timeline& timeline, const TraceSteps& steps) {
  return part_of(timeline, [&](size_t i) { return steps.step_of_span[i] >= 0; });
}

run::Timeline step_of(const run::Timeline& timeline, const TraceSteps& steps, size_t step) {
  return part_of(timeline,
                 [&](size_t i) { return steps.step_of_span[i] == static_cast<int32_t>(step); });
}

void for_each_step(const run::Timeline& timeline, const TraceSteps& steps,
                   const std::function<void(size_t, const run::Timeline&)>& visit) {
  std::vector<std::vector<size_t>> spans(steps.steps.size());
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    if (steps.step_of_span[i] >= 0) spans[as_size(steps.step_of_span[i])].push_back(i);
  run::Timeline part = part_of(timeline, [](size_t) { return false; });
  for (size_t step = 0; step < spans.size(); ++step) {
    part.spans.clear();
    part.details.clear();
    for (const size_t i : spans[step]) {
      part.spans.push_back(timeline.spans[i]);
      if (!timeline.details.empty()) part.details.push_back(timeline.details[i]);
    }
    visit(step, part);
  }
}

std::vector<MeanStep> mean_steps(const run::Timeline& timeline, const TraceSteps& steps) {
  std::vector<MeanStep> means;
  if (steps.steps.empty()) {
    for (const RankBreakdown& rank : breakdown_of_ranks(timeline))
      means.push_back({.rank = rank.rank, .length = rank.span(), .idle = rank.idle_time});
    return means;
  }
  std::map<int32_t, std::vector<IdleTime>> inside;
  std::map<int32_t, std::pair<int64_t, int64_t>> extents;
  for_each_step(timeline, steps, [&](size_t i, const run::Timeline& step) {
    for (const RankBreakdown& rank : breakdown_of_ranks(step)) {
      const auto of = std::ranges::find(steps.steps[i].ranks, rank.rank, &TraceStep::OfRank::rank);
      inside[rank.rank].push_back(rank.idle_time);
      auto& extent = extents.try_emplace(rank.rank, of->begin, of->end).first->second;
      extent.second = std::max(extent.second, of->end);
    }
  });
  const auto is_within = [&](size_t i) {
    const run::Span& span = timeline.spans[i];
    if (steps.step_of_span[i] >= 0) return true;
    const auto extent = extents.find(span.rank);
    return extent != extents.end() && span.begin.nanoseconds() >= extent->second.first &&
           span.end.nanoseconds() <= extent->second.second;
  };
  std::map<int32_t, int64_t> busy;
  for (const RankBreakdown& rank : breakdown_of_ranks(inside_steps(timeline, steps)))
    busy[rank.rank] = rank.busy;
  for (const RankBreakdown& rank : breakdown_of_ranks(part_of(timeline, is_within))) {
    const auto [begin, end] = extents[rank.rank];
    means.push_back(mean_step_of(rank, inside[rank.rank], end - begin));
    means.back().outside = (rank.busy - busy[rank.rank]) / means.back().steps;
  }
  return means;
}

}  // namespace triplepoint::metrics
