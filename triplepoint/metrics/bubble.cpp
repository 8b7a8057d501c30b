// SPDX-License-Identifier: Apache-2.0
// What share of the step does the schedule leave a rank without work?
//
//   bubble_fraction = 1 - (time in passes, in kernels, in communication) / step
//
// A pipeline kernel that spins for its peer has no work either: the wait inside send/recv, inside
// the all-reduce over the model group at the end of the step (gradient norm), and inside that of a
// tied embedding counts as bubble. Waiting in the collectives of the tensor, context, expert and
// data groups does not: that is skew, not schedule. Gaps between the kernels of a pass are the
// host's, see launch_gaps. So the bubble of 1F1B is its closed form (p-1)/(m+p-1) as long as
// nothing else happens in the step. A timeline without passes cannot tell launch gaps from bubbles;
// there, all idle time counts.
#include <algorithm>

#include "triplepoint/metrics/view.h"

namespace triplepoint::metrics {

double bubble_fraction(const Occupancy& occupancy, Seconds duration) {
  if (duration <= Seconds()) return 0;
  const Seconds at_work = occupancy.time_with_any(Doing::computing | Doing::copying |
                                                  Doing::exchanging | Doing::in_pass);
  return std::max(0.0, 1 - at_work / duration);
}

void answer_bubble(const View& view, Metrics& answer) {
  if (view.ranks.empty()) return;
  double sum = 0;
  for (int32_t rank : view.ranks)
    sum += bubble_fraction(view.occupancy[static_cast<size_t>(rank)], view.duration());
  answer.bubble_fraction = sum / static_cast<double>(view.ranks.size());
}

}  // namespace triplepoint::metrics
