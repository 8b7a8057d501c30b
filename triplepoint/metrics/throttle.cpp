// SPDX-License-Identifier: Apache-2.0
// What do the clocks do, and what keeps them down for how long?
#include "triplepoint/metrics/view.h"

namespace triplepoint::metrics {

void answer_throttle(const View& view, Metrics& answer) {
  using run::DeviceSummary;
  answer.sm_clock_mean_mhz = mean_of(view.devices, &DeviceSummary::sm_clock_mean_mhz);
  answer.sm_clock_per_gpu_mhz = list_of(view.devices, &DeviceSummary::sm_clock_mean_mhz);
  answer.throttle = mean_by_name(view.devices, &DeviceSummary::throttle);
}

}  // namespace triplepoint::metrics
