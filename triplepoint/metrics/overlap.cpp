// SPDX-License-Identifier: Apache-2.0
// How much communication hides behind computation, and how much does not?
//
//   exposed    = time with a collective running and no other kernel on that GPU
//   overlapped = time with a collective and another kernel running
//   idle       = time of the step without any kernel; launch gaps: the part of it inside passes
// Per rank, mean over ranks, one step. Exact: unions of intervals in whole nanoseconds.
// Source: Holistic Trace Analysis, "temporal breakdown" and "communication computation overlap".
#include <algorithm>

#include "triplepoint/metrics/view.h"

namespace triplepoint::metrics {

void answer_overlap(const View& view, Metrics& answer) {
  if (view.ranks.empty()) return;
  Seconds exposed, overlapped, idle, gaps;
  for (int32_t rank : view.ranks) {
    const Occupancy& doing = view.occupancy[static_cast<size_t>(rank)];
    exposed += doing.time(Doing::communicating, Doing::computing);
    overlapped += doing.time(Doing::communicating | Doing::computing);
    const Seconds busy = doing.time_with_any(Doing::on_device);
    idle += std::max(Seconds(), view.duration() - busy);
    gaps += doing.time(Doing::in_pass, Doing::on_device);
  }
  const double parts = static_cast<double>(view.ranks.size()) * view.num_steps();
  answer.exposed_communication = exposed / parts;
  answer.overlapped_communication = overlapped / parts;
  answer.idle = idle / parts;
  answer.launch_gaps = gaps / parts;
}

}  // namespace triplepoint::metrics
