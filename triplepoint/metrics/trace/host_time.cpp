// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/host_time.h"

#include <algorithm>

namespace triplepoint::metrics {

namespace {

class CallStack {
 public:
  void open(int64_t begin, int64_t end, int32_t span) {
    close_until(begin);
    if (!open_.empty()) {
      book(begin);
      end = std::min(end, open_.back().end);
    }
    open_.push_back({begin, end, span});
    now_ = begin;
  }
  std::vector<HostSegment> finish() {
    close_until(INT64_MAX);
    return std::move(segments_);
  }

 private:
  void close_until(int64_t when) {
    while (!open_.empty() && open_.back().end <= when) {
      book(open_.back().end);
      open_.pop_back();
    }
  }
  /// The innermost open span had the time from `now_` on.
  void book(int64_t until) {
    if (now_ < until) segments_.push_back({now_, until, open_.back().span});
    now_ = std::max(now_, until);
  }

  std::vector<HostSegment> open_, segments_;
  int64_t now_ = 0;
};

}  // namespace

std::vector<HostSegment> innermost_spans(const run::Timeline& timeline, const LaneOfSpans& lane) {
  CallStack nest;
  for (int32_t index : lane.spans) {
    const run::Span& span = timeline.spans[static_cast<size_t>(index)];
    nest.open(span.begin.nanoseconds(), span.end.nanoseconds(), index);
  }
  return nest.finish();
}

}  // namespace triplepoint::metrics
