// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {

Metrics measure(const run::Run& run) {
  const View view = look_at(run);
  Metrics answer;
  answer_speed(view, answer);
  answer_kernels(view, answer);
  answer_overlap(view, answer);
  answer_bubble(view, answer);
  answer_links(view, answer);
  answer_energy(view, answer);
  answer_temperature(view, answer);
  answer_throttle(view, answer);
  answer_straggler(view, answer);
  answer_pace(view, answer);
  return answer;
}

}  // namespace triplepoint::metrics
