// SPDX-License-Identifier: Apache-2.0
// A measured timeline, repeated with other lengths.
//
// One pass over all begins and ends in the order in which they were measured. That order is a
// topological one, as nothing can have waited for what came later, so when a point is reached all
// it may need has its new time. Per point only the last events of each queue are looked at, so the
// cost is sorting, O(n log n), plus O(queues of the rank) per point.
//
// What bound a point in the measurement is inferred from times, since traces do not record it: the
// need whose time plus least lag came last (Needs). Its measured lag is kept; other needs only push
// the point back if they become later. So an unscaled timeline reproduces itself. Times are integer
// nanoseconds, which stay exact over long traces.
#include "triplepoint/sim/trace_what_if.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "triplepoint/perf/collective_time.h"

namespace triplepoint::sim {

namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::min();

/// A point that is done: when it was, and when it is now.
struct DonePoint {
  int64_t before = never, now = never;
  int32_t queue = -1;
  bool known() const { return before != never; }
};

/// The last two points of different queues.
struct LastTwo {
  DonePoint last, other;
  void add(const DonePoint& point) {
    // Two of different queues suffice: a point never explains itself by its own queue here.
    if (point.queue != last.queue) other = last;
    last = point;
  }
  const DonePoint& not_of(int32_t queue) const { return last.queue == queue ? other : last; }
};

/// The needs of one point: which one bound it when it was measured, and when it may come now.
class Needs {
 public:
  explicit Needs(int64_t time) : time_(time) {}
  void add(const DonePoint& need, int64_t least_lag, double factor = 1) {
    if (!need.known()) return;
    // A lag that was shorter in the measurement than assumed shows that less is needed.
    const int64_t lag = std::min(least_lag, time_ - need.before);
    earliest_ = std::max(earliest_, need.now + scaled(lag, factor));
    if (binding_.known() && need.before + lag <= bound_) return;
    bound_ = need.before + lag;
    binding_ = need;
    factor_ = factor;
  }
  bool any() const { return binding_.known(); }
  /// Time that passed between what was needed and the point.
  int64_t gap() const { return time_ - bound_; }
  int64_t now() const {
    return std::max(earliest_, binding_.now + scaled(time_ - binding_.before, factor_));
  }

  /// Whole nanoseconds; what is not scaled stays exact however long it is.
  static int64_t scaled(int64_t lag, double factor) {
    return factor == 1 ? lag : std::llround(static_cast<double>(lag) * factor);
  }

 private:
  int64_t time_;

  int64_t bound_ = 0, earliest_ = never;
  double factor_ = 1;
  DonePoint binding_;
};

using run::Span;
using run::SpanKind;

// Shorter gaps need no explanation: between kernels of a stream, from a launch to its kernel.
constexpr int64_t device_gap_ns = 10'000;
// What a synchronizing call takes to notice, and threads to wake each other.
constexpr int64_t host_gap_ns = 100'000;

/// A begin or an end.
struct Point {
  int64_t time = 0;
  int32_t span = 0;
  // Of one instant: ends before begins, and those that others may need first.
  uint8_t order = 0;
  bool is_end = false;
};

bool is_device(SpanKind kind) {
  return kind <= SpanKind::other || kind == SpanKind::copy;
}
/// Drawn around others; nothing runs because of it.
bool is_frame(SpanKind kind) {
  return kind == SpanKind::step || kind == SpanKind::pass;
}

/// Calls that return when a device has done something.
bool waits_for_device(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  // cudaMemcpy waits for its copy and cudaFree for the device; Async variants return at once.
  const bool copies = has("Memcpy") && !has("Async") && (has("cuda") || has("hip"));
  return has("Synchronize") || copies || name == "cudaFree" || name == "hipFree";
}

/// Ranks that take part in one collective.
struct Rendezvous {
  int64_t last_begin = never, last_end = never;
  int64_t first_end = std::numeric_limits<int64_t>::max();
  int32_t first_rank = std::numeric_limits<int32_t>::max(), last_rank = 0, spans = 0;
  int64_t last_begin_now = never, transfer_now = -1;
  int64_t transfer() const { return last_end - last_begin; }
};

class WhatIf {
 public:
  WhatIf(run::Timeline timeline, const TraceScaling& scaling)
      : scaling_(scaling), timeline_(std::move(timeline)) {
    spans_ = &timeline_.spans;
  }

  TraceWhatIf run() && {
    find_queues();
    find_launches();
    find_rendezvous();
    begin_now_.assign(spans_->size(), never);
    end_now_.assign(spans_->size(), never);
    for (const Point& point : points())
      instance(point);
    move_frames();
    for (size_t i = 0; i < spans_->size(); ++i) {
      (*spans_)[i].begin = Instant(begin_now_[i]);
      (*spans_)[i].end = Instant(std::max(begin_now_[i], end_now_[i]));
    }
    run::sort(timeline_);
    result_.timeline = std::move(timeline_);
    return std::move(result_);
  }

 private:
  struct RankState {
    int64_t launch_latency = std::numeric_limits<int64_t>::max();
    LastTwo device, host;
    std::set<int32_t> device_queues;
    std::vector<std::pair<int64_t, int64_t>> shifts;  // before, now; in order of before
  };

  const Span& span(int32_t index) const { return (*spans_)[static_cast<size_t>(index)]; }
  const run::SpanType& type(int32_t index) const {
    return timeline_.types[static_cast<size_t>(span(index).type)];
  }
  run::SpanDetail detail(int32_t index) const {
    return timeline_.details.empty() ? run::SpanDetail{}
                                     : timeline_.details[static_cast<size_t>(index)];
  }
  int32_t count() const { return static_cast<int32_t>(spans_->size()); }

  /// A lane where there are lanes, else one queue per stream of a rank.
  void find_queues() {
    const auto lanes = static_cast<int32_t>(timeline_.lanes.size());
    int32_t queues = lanes;
    for (int32_t i = 0; i < count(); ++i) {
      const int32_t lane = detail(i).lane;
      const int32_t stream = static_cast<int32_t>(type(i).stream);
      queue_of_.push_back(lane >= 0 ? lane : lanes + 3 * span(i).rank + stream);
      queues = std::max(queues, queue_of_.back() + 1);
    }
    ranks_.resize(static_cast<size_t>(std::max(timeline_.num_ranks, 1)));
    for (int32_t i = 0; i < count(); ++i)
      if (is_device(type(i).kind))
        ranks_[static_cast<size_t>(span(i).rank)].device_queues.insert(
            queue_of_[static_cast<size_t>(i)]);
    last_end_.resize(static_cast<size_t>(queues));
    last_begin_.resize(static_cast<size_t>(queues));
    last_host_.resize(static_cast<size_t>(queues));
  }

  /// Launch of each device span, and the shortest way from one to the other on its rank.
  void find_launches() {
    launch_of_.assign(spans_->size(), -1);
    std::map<std::pair<int32_t, int64_t>, int32_t> calls;
    for (int32_t i = 0; i < count(); ++i)
      if (type(i).kind == SpanKind::host && detail(i).correlation >= 0)
        calls.try_emplace({span(i).rank, detail(i).correlation}, i);
    for (int32_t i = 0; i < count(); ++i) {
      if (!is_device(type(i).kind) || detail(i).correlation < 0) continue;
      const auto call = calls.find({span(i).rank, detail(i).correlation});
      if (call == calls.end() || span(call->second).begin > span(i).begin) continue;
      launch_of_[static_cast<size_t>(i)] = call->second;
      const int64_t latency = span(i).begin.nanoseconds() - span(call->second).begin.nanoseconds();
      int64_t& least = ranks_[static_cast<size_t>(span(i).rank)].launch_latency;
      least = std::min(least, latency);
    }
  }

  /// Spans of one collective share communicator and sequence; in a simulated timeline, type and
  /// end. They meet if each is there before the first leaves.
  void find_rendezvous() {
    meeting_of_.assign(spans_->size(), -1);
    std::map<std::tuple<int64_t, int64_t, int64_t>, int32_t> known;
    for (int32_t i = 0; i < count(); ++i) {
      if (type(i).kind != SpanKind::communication) continue;
      const run::SpanDetail d = detail(i);
      const bool named = d.communicator >= 0 && d.sequence >= 0;
      const auto key =
          named ? std::tuple(int64_t{d.communicator}, d.sequence, int64_t{-1})
                : std::tuple(int64_t{-1}, int64_t{span(i).type}, span(i).end.nanoseconds());
      const auto [found, is_new] = known.try_emplace(key, static_cast<int32_t>(meetings_.size()));
      if (is_new) meetings_.emplace_back();
      meeting_of_[static_cast<size_t>(i)] = found->second;
      join(meetings_[static_cast<size_t>(found->second)], span(i));
    }
    for (const Rendezvous& meeting : meetings_) {
      if (is_meeting(meeting))
        ++result_.rendezvous;
      else
        result_.single += meeting.spans;
    }
  }

  static void join(Rendezvous& meeting, const Span& span) {
    meeting.last_begin = std::max(meeting.last_begin, span.begin.nanoseconds());
    meeting.first_end = std::min(meeting.first_end, span.end.nanoseconds());
    meeting.first_rank = std::min(meeting.first_rank, span.rank);
    meeting.last_rank = std::max(meeting.last_rank, span.rank);
    meeting.last_end = std::max(meeting.last_end, span.end.nanoseconds());
    ++meeting.spans;
  }
  static bool is_meeting(const Rendezvous& meeting) {
    return meeting.first_rank != meeting.last_rank && meeting.last_begin < meeting.first_end;
  }
  Rendezvous* meeting_of(int32_t index) {
    const int32_t meeting = meeting_of_[static_cast<size_t>(index)];
    if (meeting < 0 || !is_meeting(meetings_[static_cast<size_t>(meeting)])) return nullptr;
    return &meetings_[static_cast<size_t>(meeting)];
  }

  std::vector<Point> points() const {
    std::vector<Point> all;
    all.reserve(2 * spans_->size());
    for (int32_t i = 0; i < count(); ++i) {
      if (is_frame(type(i).kind)) continue;
      const bool device = is_device(type(i).kind);
      const int64_t begin = span(i).begin.nanoseconds(), end = span(i).end.nanoseconds();
      all.push_back({begin, i, static_cast<uint8_t>(device ? 3 : 2), false});
      // A span without length must end after it has begun; all other ends come before the begins of
      // their instant, since those may wait for them.
      const uint8_t after_begin = device ? 4 : 5, before_begins = device ? 0 : 1;
      all.push_back({end, i, end == begin ? after_begin : before_begins, true});
    }
    std::sort(all.begin(), all.end(), [](const Point& a, const Point& b) {
      return std::tuple(a.time, a.order, a.span, a.is_end) <
             std::tuple(b.time, b.order, b.span, b.is_end);
    });
    return all;
  }

  void instance(const Point& point) {
    const bool device = is_device(type(point.span).kind);
    const auto index = static_cast<size_t>(point.span);
    int64_t now = 0;
    if (!device)
      now = finish_host(point);
    else if (point.is_end)
      now = finish_device_end(point);
    else
      now = finish_device_begin(point);
    (point.is_end ? end_now_ : begin_now_)[index] = now;
    remember(point, device, {point.time, now, queue_of_[index]});
  }

  void remember(const Point& point, bool device, const DonePoint& done) {
    RankState& rank = ranks_[static_cast<size_t>(span(point.span).rank)];
    const auto queue = static_cast<size_t>(done.queue);
    rank.shifts.push_back({done.before, done.now});
    if (!device) {
      last_host_[queue] = done;
      rank.host.add(done);
    } else if (point.is_end) {
      last_end_[queue] = done;
      rank.device.add(done);
    } else {
      last_begin_[queue] = done;
    }
  }

  /// The host's points of one thread follow each other; the time between them is work, unless the
  /// host can be seen to have waited.
  int64_t finish_host(const Point& point) {
    RankState& rank = ranks_[static_cast<size_t>(span(point.span).rank)];
    const int32_t queue = queue_of_[static_cast<size_t>(point.span)];
    const DonePoint& before = last_host_[static_cast<size_t>(queue)];
    Needs needs(point.time);
    const bool synchronizes = point.is_end && waits_for_device(type(point.span).name);
    if (synchronizes) {
      // What had ended before the call may end after it now.
      for (const int32_t device_queue : rank.device_queues)
        needs.add(last_end_[static_cast<size_t>(device_queue)], 0);
      const DonePoint& device = rank.device.last;
      const bool waited = device.known() && device.before > span(point.span).begin.nanoseconds() &&
                          point.time - device.before < host_gap_ns;
      if (waited) {
        ++result_.waits;
        needs.add(device, point.time - device.before);
        needs.add(before, 0);
        return needs.now();
      }
    }
    const DonePoint& other = rank.host.not_of(queue);
    const bool woken = before.known() && other.known() &&
                       point.time - before.before > host_gap_ns &&
                       point.time - other.before < host_gap_ns && other.before > before.before;
    const bool begun = other.known() && (woken || !before.known());
    if (begun) {
      ++result_.inferred;
      needs.add(other, point.time - other.before);
    }
    // The host's own work takes its time. A call that has nothing to wait for does not.
    const bool works = before.known() && !begun && !synchronizes;
    needs.add(before, works ? point.time - before.before : 0, works ? scaling_.host_time : 1);
    return needs.any() ? needs.now() : point.time;
  }

  int64_t finish_device_begin(const Point& point) {
    const auto index = static_cast<size_t>(point.span);
    RankState& rank = ranks_[static_cast<size_t>(span(point.span).rank)];
    const int32_t queue = queue_of_[index];
    Needs needs(point.time);
    const DonePoint& before = last_end_[static_cast<size_t>(queue)];
    const DonePoint& beside = last_begin_[static_cast<size_t>(queue)];
    needs.add(beside, 0);
    needs.add(before, 0);
    if (const int32_t launch = launch_of_[index]; launch >= 0) {
      const auto call = static_cast<size_t>(launch);
      needs.add({span(launch).begin.nanoseconds(), begin_now_[call], queue_of_[call]},
                rank.launch_latency);
    }
    if (type(point.span).kind == SpanKind::communication) add_inputs(point, rank, needs);
    if (!needs.any() || needs.gap() > device_gap_ns) {
      const DonePoint& other = rank.device.not_of(queue);
      const bool near = other.known() && point.time - other.before < device_gap_ns;
      if (near || (!needs.any() && other.known())) {
        ++result_.inferred;
        needs.add(other, point.time - other.before);
      }
    }
    const int64_t now = needs.any() ? needs.now() : point.time;
    if (Rendezvous* meeting = meeting_of(point.span))
      meeting->last_begin_now = std::max(meeting->last_begin_now, now);
    return now;
  }

  /// A collective's stream waits for the kernels that were launched before it: frameworks see to
  /// that. They ended before it began, and may not now.
  void add_inputs(const Point& point, const RankState& rank, Needs& needs) const {
    const int32_t own = queue_of_[static_cast<size_t>(point.span)];
    for (const int32_t queue : rank.device_queues)
      if (queue != own) needs.add(last_end_[static_cast<size_t>(queue)], 0);
  }

  int64_t finish_device_end(const Point& point) {
    const auto index = static_cast<size_t>(point.span);
    const int64_t length =
        span(point.span).end.nanoseconds() - span(point.span).begin.nanoseconds();
    if (Rendezvous* meeting = meeting_of(point.span)) {
      // Ranks leave within microseconds of each other; how far apart is kept.
      const int64_t early = meeting->last_end - point.time;
      const int64_t last_end_now = meeting->last_begin_now + transfer_now(*meeting, point.span);
      return std::max(begin_now_[index], last_end_now - early);
    }
    return begin_now_[index] + Needs::scaled(length, factor_of(type(point.span)));
  }

  int64_t transfer_now(Rendezvous& meeting, int32_t index) {
    if (meeting.transfer_now >= 0) return meeting.transfer_now;
    meeting.transfer_now = meeting.transfer();
    if (!scaling_.transfer) return meeting.transfer_now;
    const run::SpanDetail d = detail(index);
    CollectiveInstance instance{.collective = type(index).collective,
                                .payload = span(index).bytes,
                                .ranks = meeting.spans,
                                .first_rank = meeting.first_rank,
                                .last_rank = meeting.last_rank,
                                .transfer = static_cast<double>(meeting.transfer()) * unit::ns};
    if (d.communicator >= 0)
      instance.ranks = std::max<int64_t>(
          instance.ranks, timeline_.communicators[static_cast<size_t>(d.communicator)].size);
    meeting.transfer_now = std::llround(std::max(0., scaling_.transfer(instance) / unit::ns));
    return meeting.transfer_now;
  }

  double factor_of(const run::SpanType& kernel) const {
    switch (kernel.kind) {
      case SpanKind::compute:
        return scaling_.compute_time;
      case SpanKind::memory:
        return scaling_.memory_time;
      case SpanKind::other:
        return scaling_.other_time;
      case SpanKind::copy:
        return scaling_.copy_time;
      default:
        return 1;  // a collective whose other ranks are not known: waiting and transfer in one
    }
  }

  /// Frames move with the points of their rank nearest to their begin and end.
  void move_frames() {
    for (int32_t i = 0; i < count(); ++i) {
      if (!is_frame(type(i).kind)) continue;
      const auto& shifts = ranks_[static_cast<size_t>(span(i).rank)].shifts;
      begin_now_[static_cast<size_t>(i)] = moved(shifts, span(i).begin.nanoseconds(), Side::after);
      end_now_[static_cast<size_t>(i)] = moved(shifts, span(i).end.nanoseconds(), Side::before);
    }
  }

  enum class Side { before, after };
  static int64_t moved(const std::vector<std::pair<int64_t, int64_t>>& shifts, int64_t time,
                       Side side) {
    if (shifts.empty()) return time;
    const auto by_time = [](const auto& shift, int64_t t) { return shift.first < t; };
    auto at = std::lower_bound(shifts.begin(), shifts.end(), side == Side::after ? time : time + 1,
                               by_time);
    if (side == Side::before && at == shifts.begin()) return time + at->second - at->first;
    if (side == Side::before) --at;
    if (at == shifts.end()) --at;
    return time + at->second - at->first;
  }

  const TraceScaling& scaling_;
  run::Timeline timeline_;
  std::vector<Span>* spans_ = nullptr;
  std::vector<int32_t> queue_of_, launch_of_, meeting_of_;
  std::vector<Rendezvous> meetings_;
  std::vector<int64_t> begin_now_, end_now_;
  std::vector<DonePoint> last_end_, last_begin_, last_host_;  // by queue
  std::vector<RankState> ranks_;
  TraceWhatIf result_;
};

}  // namespace

TraceWhatIf what_if_from_trace(const run::Timeline& timeline, const TraceScaling& scaling) {
  return WhatIf(run::expand(timeline), scaling).run();
}

// Factors for a what-if of a trace, from models. A trace holds effects that no model has, so
// measured times are scaled by the ratio of two predictions where both clusters are known: errors
// that both predictions share cancel. Only without the measured cluster does a prediction replace a
// measured time.

namespace {

/// The group as the network sees it, ranks side by side on the nodes.
perf::GroupPlacement placement_of(const CollectiveInstance& instance,
                                  const spec::Cluster& cluster) {
  const int64_t domain = std::max<int64_t>(1, cluster.scale_up.domain_size);
  const int64_t reach = instance.last_rank - instance.first_rank + 1;
  perf::GroupPlacement placement{.ranks = instance.ranks};
  placement.nodes =
      std::min(instance.ranks, (std::max(reach, instance.ranks) + domain - 1) / domain);
  placement.ranks_per_node = (instance.ranks + placement.nodes - 1) / placement.nodes;
  placement.groups_per_node =
      std::max<int64_t>(1, domain / std::max<int64_t>(1, placement.ranks_per_node));
  return placement;
}

Seconds model_time(const CollectiveInstance& instance, const spec::Cluster& cluster) {
  return perf::collective_time(cluster, *instance.collective, instance.payload,
                               placement_of(instance, cluster))
      .total();
}

}  // namespace

TraceScaling at_clock(double clock_ratio, double insensitive_share) {
  const double factor = (1 - insensitive_share) / clock_ratio + insensitive_share;
  return {.compute_time = factor, .other_time = factor};
}

TraceScaling on_cluster(const spec::Cluster& there, const spec::Cluster* measured_on) {
  TraceScaling scaling;
  if (measured_on) {
    const auto peaks = [](const spec::Gpu& gpu) { return gpu.peak(spec::Precision::bf16); };
    const auto from = peaks(measured_on->gpu), to = peaks(there.gpu);
    if (from && to) scaling.compute_time = scaling.other_time = *from / *to;
    if (measured_on->gpu.hbm_bandwidth && there.gpu.hbm_bandwidth)
      scaling.memory_time = *measured_on->gpu.hbm_bandwidth / *there.gpu.hbm_bandwidth;
  }
  const std::optional<spec::Cluster> from =
      measured_on ? std::optional(*measured_on) : std::nullopt;
  scaling.transfer = [there, from](const CollectiveInstance& instance) {
    if (!instance.collective || instance.payload <= Bytes() || instance.ranks < 2)
      return instance.transfer;
    const Seconds time = model_time(instance, there);
    if (!from) return time;
    const Seconds was = model_time(instance, *from);
    return was > Seconds() ? instance.transfer * (time / was) : instance.transfer;
  };
  return scaling;
}

}  // namespace triplepoint::sim
