// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/collectives.h"
#include "triplepoint/metrics/host_time.h"

namespace triplepoint::metrics {

/// Between a rank's collective before and this one, in nanoseconds.
struct Window {
  int32_t rank = 0;
  int64_t begin = 0, end = 0;
  int32_t span = 0;  // of this collective on this rank
  int64_t length() const { return end - begin; }
};

/// Explains why one rank came later than others; see find_late_ranks.
class LateCause {
 public:
  LateCause(const run::Timeline&, const run::Run* telemetry);

  /// `late` is one of `windows`.
  std::vector<std::string> explain(const Window& late, const std::vector<Window>& windows) const;

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
  void explain_clock(const Window&, const std::vector<Window>&, std::vector<std::string>&) const;
  const LaneOfSpans* lane_of_launch(const Window&) const;
  template <class Visit>
  void for_each_device_span(const Window&, Visit) const;
  std::optional<double> mean_of_signal(std::string_view signal, const Window&) const;
  std::string throttle_of(const Window&) const;

  const run::Timeline& timeline_;
  const run::Run* telemetry_;
  struct OfRank {
    int64_t first = 0;             // when anything was first seen
    int64_t longest = 0;           // of its device spans
    std::vector<int32_t> device;   // its kernels and copies, by begin
    std::vector<int32_t> loading;  // calls of a data loader
  };
  std::vector<OfRank> ranks_;
  std::vector<int32_t> launches_;
  std::vector<LaneOfSpans> host_lanes_;
  std::vector<int32_t> host_lane_of_span_;
  std::vector<std::vector<HostSegment>> segments_;  // by host lane
};

}  // namespace triplepoint::metrics
