// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/own_time.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/trace/kernel_class.h"

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
    if (!variances_.empty()) usual.variance = lower_median(std::move(variances_));
    return usual;
  }

 private:
  void end_rank() {
    const std::span<const int64_t> times = std::span<const int64_t>(all_).subspan(begin_of_rank_);
    begin_of_rank_ = all_.size();
    if (times.size() < 2) return;
    double sum = 0, squares = 0;
    for (const int64_t time : times)
      sum += static_cast<double>(time);
    const double mean = sum / static_cast<double>(times.size());
    for (const int64_t time : times)
      squares += (static_cast<double>(time) - mean) * (static_cast<double>(time) - mean);
    variances_.push_back(squares / static_cast<double>(times.size() - 1));
  }

  int32_t rank_ = -1;
  size_t begin_of_rank_ = 0;
  std::vector<int64_t> all_;
  std::vector<double> variances_;
};

RankKernels::RankKernels(const SpanList& spans)
    : spans_(spans),
      of_rank_(static_cast<size_t>(spans.timeline().num_ranks)),
      gap_(static_cast<size_t>(spans.size()), 0) {
  std::vector<Durations> durations, gaps;
  int64_t covered = 0;
  int32_t last_rank = -1;
  for (int32_t i = 0; i < spans.size(); ++i) {
    const run::SpanKind kind = spans.type(i).kind;
    if (!is_kernel(kind)) continue;
    const int32_t rank = spans.rank(i);
    const int64_t begin = spans.begin(i), end = spans.end(i);
    const size_t work = number_work(i);
    durations.resize(std::max(durations.size(), work + 1));
    gaps.resize(durations.size());
    int64_t& gap = gap_[static_cast<size_t>(i)];
    if (rank != last_rank) first_[rank] = begin;
    if (rank == last_rank && begin > covered) gap = begin - covered;
    if (rank == last_rank) gaps[work].add(rank, gap);
    covered = rank == last_rank ? std::max(covered, end) : end;
    last_rank = rank;
    if (kind == run::SpanKind::communication) continue;
    OfRank& of = of_rank_[static_cast<size_t>(rank)];
    of.spans.push_back(i);
    of.longest = std::max(of.longest, end - begin);
    durations[work].add(rank, end - begin);
  }
  for (Durations& all : durations)
    usual_.push_back(all.usual());
  for (Durations& all : gaps)
    usual_gap_.push_back(all.usual());
}

template <class Visit>
void RankKernels::for_each(int32_t rank, int64_t begin, int64_t end, Visit visit) const {
  const OfRank& of = of_rank_[static_cast<size_t>(rank)];
  const auto begin_of = [&](int32_t i) { return spans_.begin(i); };
  auto i = std::lower_bound(of.spans.begin(), of.spans.end(), begin - of.longest,
                            [&](int32_t span, int64_t time) { return begin_of(span) < time; });
  for (; i != of.spans.end() && begin_of(*i) < end; ++i)
    visit(*i);
}

OwnTime RankKernels::before(const CollectivePart& part, int64_t begin) const {
  OwnTime own = between(part.rank, begin, part.begin);
  add_gap(part.span, begin, own);
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
    const double share = static_cast<double>(last - first) / static_cast<double>(duration);
    const Usual& usual = *usual_[work_of(i)];
    const int64_t excess = last - first - std::llround(share * static_cast<double>(usual.middle));
    own.kernel_excess += excess;
    if (excess > own.most_excess) {
      own.most_excess = excess;
      own.slowest = i;
    }
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
  own.gap_excess += std::min(gap_[static_cast<size_t>(span)], start - begin) - usual->middle;
  own.variance += usual->variance;
}

/// Kernels of one name and grid do the same work. Numbers count from 0.
size_t RankKernels::number_work(int32_t i) {
  const run::SpanDetail* detail = spans_.detail(i);
  if (detail == nullptr) return static_cast<size_t>(spans_.work(i).type);
  return works_.try_emplace({spans_.work(i).type, detail->blocks}, works_.size()).first->second;
}
size_t RankKernels::work_of(int32_t i) const {
  const run::SpanDetail* detail = spans_.detail(i);
  if (detail == nullptr) return static_cast<size_t>(spans_.work(i).type);
  return works_.at({spans_.work(i).type, detail->blocks});
}

}  // namespace triplepoint::metrics
