// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/own_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/issued.h"

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

/// Rank by rank.
class RankKernels::Durations {
 public:
  void add(int32_t rank, int64_t time) {
    if (rank != rank_) end_rank();
    rank_ = rank;
    all_.push_back(time);
  }
  std::optional<Usual> usual() {
    end_rank();
    if (all_.empty()) return std::nullopt;
    Usual usual;
    usual.middle = lower_median(std::move(all_));
    usual.ranks = ranks_;
    if (!variances_.empty()) usual.variance = lower_median(std::move(variances_));
    return usual;
  }

 private:
  void end_rank() {
    const std::span<const int64_t> times = std::span<const int64_t>(all_).subspan(begin_of_rank_);
    begin_of_rank_ = all_.size();
    ranks_ += !times.empty();
    if (times.size() < 2) return;
    double sum = 0, squares = 0;
    for (const int64_t time : times)
      sum += as_real(time);
    const double mean = sum / as_real(times.size());
    for (const int64_t time : times)
      squares += (as_real(time) - mean) * (as_real(time) - mean);
    variances_.push_back(squares / as_real(times.size() - 1));
  }

  int32_t rank_ = -1, ranks_ = 0;
  size_t begin_of_rank_ = 0;
  std::vector<int64_t> all_;
  std::vector<double> variances_;
};

RankKernels::RankKernels(const SpanList& spans, std::map<int32_t, int64_t> ended)
    : spans_(spans),
      of_rank_(as_size(spans.timeline().num_ranks)),
      gap_(as_size(spans.size()), 0),
      ended_(std::move(ended)) {
  std::vector<Durations> durations, gaps;
  int64_t covered = 0;
  int32_t last_rank = -1;
  find_untimed();
  for (int32_t i = 0; i < spans.size(); ++i) {
    const run::SpanKind kind = spans.type(i).kind;
    if (!is_kernel(kind)) continue;
    const int32_t rank = spans.rank(i);
    const int64_t begin = spans.begin(i), end = spans.end(i);
    const size_t work = number_work(i);
    durations.resize(std::max(durations.size(), work + 1));
    gaps.resize(durations.size());
    int64_t& gap = gap_[as_size(i)];
    if (rank != last_rank) first_[rank] = begin;
    if (rank == last_rank && begin > covered) gap = begin - covered;
    if (rank == last_rank && !for_untimed(rank, begin - gap, begin, [](const Untimed&) {}))
      gaps[work].add(rank, gap);
    covered = rank == last_rank ? std::max(covered, end) : end;
    last_rank = rank;
    if (kind == run::SpanKind::communication) continue;
    OfRank& of = of_rank_[as_size(rank)];
    of.spans.push_back(i);
    of.longest = std::max(of.longest, end - begin);
    durations[work].add(rank, end - begin);
  }
  for (Durations& all : durations)
    usual_.push_back(all.usual());
  for (Durations& all : gaps)
    usual_gap_.push_back(all.usual());
}

/// Each lasts at most until the next of its lane begins.
void RankKernels::find_untimed() {
  const std::vector<run::SpanType>& types = spans_.timeline().types;
  for (size_t t = 0; t < types.size(); ++t) {
    const std::string_view name = types[t].name;
    const auto timed = std::ranges::find_if(types, [&](const run::SpanType& other) {
      return is_kernel(other.kind) && name == other.name + std::string(run::untimed_ending);
    });
    const bool is_one = run::is_untimed(types[t]) && timed != types.end();
    timed_type_.push_back(
        static_cast<int32_t>(is_one ? timed - types.begin() : static_cast<std::ptrdiff_t>(t)));
  }
  std::map<int32_t, std::vector<Untimed>> open;  // by lane
  const auto close = [&](auto found, int64_t end) {
    for (Untimed& one : found->second) {
      const auto ended = ended_.find(one.span);
      one.is_ended = ended != ended_.end() && ended->second <= end;
      one.end = one.is_ended ? std::max(one.begin, ended->second) : end;
      of_rank_[as_size(spans_.rank(one.span))].untimed.push_back(one);
    }
    return open.erase(found);
  };
  for (int32_t i = 0; i < spans_.size(); ++i) {
    const int32_t lane = spans_.detail(i) == nullptr ? -1 : spans_.detail(i)->lane;
    if (lane < 0) continue;
    if (run::is_untimed(spans_.type(i)))
      open[lane].push_back({.begin = spans_.begin(i), .span = i});
    else if (const auto found = open.find(lane);
             found != open.end() && is_kernel(spans_.type(i).kind))
      close(found, spans_.begin(i));
  }
  for (auto found = open.begin(); found != open.end();)
    found = close(found, INT64_MAX);
}

/// Whether there are any.
bool RankKernels::for_untimed(int32_t rank, int64_t begin, int64_t end, auto visit) const {
  bool any = false;
  for (const Untimed& one : of_rank_[as_size(rank)].untimed) {
    if (one.begin >= end || one.end <= begin) continue;
    any = true;
    visit(one);
  }
  return any;
}

void RankKernels::for_each(int32_t rank, int64_t begin, int64_t end, auto visit) const {
  const OfRank& of = of_rank_[as_size(rank)];
  const auto begin_of = [&](int32_t i) { return spans_.begin(i); };
  auto i = std::lower_bound(of.spans.begin(), of.spans.end(), begin - of.longest,
                            [&](int32_t span, int64_t time) { return begin_of(span) < time; });
  for (; i != of.spans.end() && begin_of(*i) < end; ++i)
    visit(*i);
}

OwnTime RankKernels::before(const CollectivePart& part, int64_t begin) const {
  OwnTime own = between(part.rank, begin, part.begin);
  if (!run::is_untimed(spans_.type(part.span))) add_gap(part.span, begin, own);
  own.is_untimed = for_untimed(part.rank, begin, part.begin, [](const Untimed&) {});
  return own;
}

OwnTime RankKernels::between(int32_t rank, int64_t begin, int64_t end) const {
  OwnTime own{.length = end - begin};
  int64_t covered = begin;
  for_each(rank, begin, end, [&](int32_t i) {
    const int64_t first = std::max(spans_.begin(i), begin);
    const int64_t last = std::min(spans_.end(i), end);
    const int64_t duration = spans_.duration(i);
    if (last <= first || duration <= 0) return;
    ++own.kernels;
    const double share = as_real(last - first) / as_real(duration);
    const Usual& usual = *usual_[work_of(i)];
    const int64_t excess = last - first - std::llround(share * as_real(usual.middle));
    own.kernel_excess += excess;
    if (excess > own.most_excess) {
      own.most_excess = excess;
      own.slowest = i;
    }
    if (usual.ranks == 1) own.unshared += last - first;
    own.variance += usual.variance;
    add_gap(i, begin, own);
    own.busy += std::max<int64_t>(0, last - std::max(first, covered));
    covered = std::max(covered, last);
  });
  return own;
}

/// The part behind `begin` of the gap before a span.
void RankKernels::add_gap(int32_t span, int64_t begin, OwnTime& own) const {
  const int64_t start = spans_.begin(span);
  const std::optional<Usual>& usual = usual_gap_[work_of(span)];
  if (start < begin || !usual) return;
  // Before what is seen first of a rank, a profiler shows no gap.
  if (spans_.detail(span) != nullptr && start == first_.at(spans_.rank(span))) return;
  int64_t gap = std::min(gap_[as_size(span)], start - begin);
  // A kernel in it whose stamps are left out is taken to be as long as usual; a collective waits,
  // until it ended on its peers.
  int64_t usual_kernels = 0;
  double variance = usual->variance;
  bool is_known = true;
  const bool has_untimed =
      for_untimed(spans_.rank(span), start - gap, start, [&](const Untimed& one) {
        if (one.is_ended) {
          gap = std::min(gap, start - one.end);
          return;
        }
        const int32_t type = timed_type_[as_size(spans_.work(one.span).type)];
        const auto work = works_.find({type, spans_.detail(one.span)->blocks});
        is_known =
            is_known && work != works_.end() && usual_[work->second] && usual_gap_[work->second];
        if (!is_known) return;
        usual_kernels += usual_[work->second]->middle + usual_gap_[work->second]->middle;
        variance += usual_[work->second]->variance + usual_gap_[work->second]->variance;
      });
  if (!is_known) return;
  const int64_t excess = gap - usual->middle - usual_kernels;
  own.gap_excess += has_untimed ? std::max<int64_t>(0, excess) : excess;
  own.variance += variance;
}

/// Kernels of one name and grid do the same work. Numbers count from 0.
size_t RankKernels::number_work(int32_t i) {
  const run::SpanDetail* detail = spans_.detail(i);
  if (detail == nullptr) return as_size(spans_.work(i).type);
  return works_.try_emplace({spans_.work(i).type, detail->blocks}, works_.size()).first->second;
}
size_t RankKernels::work_of(int32_t i) const {
  const run::SpanDetail* detail = spans_.detail(i);
  if (detail == nullptr) return as_size(spans_.work(i).type);
  return works_.at({spans_.work(i).type, detail->blocks});
}

namespace {

struct Gap {
  int64_t begin = 0, end = 0;
};
using Times = std::map<std::pair<HostCallKind, std::string>, int64_t>;

bool runs_on_device(run::SpanKind kind) {
  return kind != run::SpanKind::host && kind != run::SpanKind::pass && kind != run::SpanKind::step;
}

/// For which the host can be what was late.
std::vector<Gap> gaps_of(const SpanList& spans, int32_t rank,
                         const std::vector<int32_t>& launches) {
  std::vector<Gap> gaps;
  int64_t end = INT64_MIN;
  const auto [first, last] = spans.of_rank(rank);
  for (int32_t i = first; i < last; ++i) {
    if (!runs_on_device(spans.type(i).kind)) continue;
    const int32_t launch = launches.empty() ? -1 : launches[as_size(i)];
    const bool is_late = launches.empty() || (launch >= 0 && spans.begin(launch) > end);
    if (end != INT64_MIN && spans.begin(i) - end > IdleRules{}.kernel_gap && is_late)
      gaps.push_back({end, spans.begin(i)});
    end = std::max(end, spans.end(i));
  }
  return gaps;
}

void add_calls(const SpanList& spans, const LaneOfSpans& lane, const std::vector<Gap>& gaps,
               Times& times) {
  const std::vector<HostSegment> segments = innermost_spans(spans, lane);
  auto from = segments.begin();
  for (const Gap& gap : gaps) {
    while (from != segments.end() && from->end <= gap.begin)
      ++from;
    std::string waited;
    if (from != segments.end() && from->begin <= gap.begin)
      if (const std::string& name = spans.type(from->span).name;
          host_call_kind(name) == HostCallKind::synchronization)
        waited = name;
    int64_t left = gap.end - gap.begin;
    for (auto segment = from; segment != segments.end() && segment->begin < gap.end; ++segment) {
      const std::string& name = spans.type(segment->span).name;
      const HostCallKind kind = host_call_kind(name);
      const int64_t time = std::min(segment->end, gap.end) - std::max(segment->begin, gap.begin);
      const bool is_own = kind == HostCallKind::data_loader || kind == HostCallKind::allocator;
      if (waited.empty() || is_own) times[{kind, name}] += time, left -= time;
    }
    if (!waited.empty()) times[{HostCallKind::synchronization, waited}] += left;
  }
}

}  // namespace

HostCallKind host_call_kind(std::string_view name) {
  constexpr std::array loaders = {"DataLoader", "dataloader", "data_loader", "data loader",
                                  "_next_data", "load_batch", "get_batch",   "next_batch",
                                  "load_data",  "data_load",  "fetch_batch"};
  constexpr std::array allocators = {"cudaMalloc", "cudaFree", "hipMalloc",
                                     "hipFree",    "cuMem",    "empty_cache"};
  const auto has = [&](const char* part) { return name.find(part) != std::string_view::npos; };
  constexpr std::array waits = {"Synchronize", "_local_scalar_dense", "aten::item"};
  const bool is_mark = name == "data" || name == "load" || name == "loading";
  if (is_mark || std::ranges::any_of(loaders, has)) return HostCallKind::data_loader;
  if (std::ranges::any_of(allocators, has)) return HostCallKind::allocator;
  return std::ranges::any_of(waits, has) ? HostCallKind::synchronization : HostCallKind::other;
}

std::optional<GapCalls> calls_in_gaps(const run::Timeline& timeline) {
  const SpanList spans(timeline);
  std::vector<int32_t> launches;
  if (!timeline.details.empty()) launches = launches_of(timeline);
  if (!knows_launches(launches)) launches.clear();
  Times times;
  int64_t all = 0;
  // The thread with most spans is the one that launches.
  const auto busiest = busiest_lanes(spans, LaneKind::host);
  for (const auto& [rank, lane] : busiest) {
    const std::vector<Gap> gaps = gaps_of(spans, rank, launches);
    for (const Gap& gap : gaps)
      all += gap.end - gap.begin;
    add_calls(spans, lane, gaps, times);
  }
  if (times.empty() || all == 0) return std::nullopt;
  std::map<HostCallKind, int64_t> of_kind;
  for (const auto& [call, time] : times)
    of_kind[call.first] += time;
  const HostCallKind most =
      std::ranges::max_element(of_kind, {}, &std::pair<const HostCallKind, int64_t>::second)->first;
  GapCalls found{.kind = most, .time = as_real(of_kind[most]) / as_real(busiest.size()) * unit::ns};
  int64_t longest = -1;
  for (const auto& [call, time] : times)
    if (call.first == most && time > longest) longest = time, found.name = call.second;
  const int64_t shared = most == HostCallKind::other ? longest : of_kind[most];
  found.share = as_real(shared) / as_real(all);
  return found;
}

}  // namespace triplepoint::metrics
