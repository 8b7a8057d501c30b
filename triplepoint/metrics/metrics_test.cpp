// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/metrics.h"

#include <doctest/doctest.h>

TEST_CASE("a run that knows nothing yields metrics that know nothing") {
  const auto m = triplepoint::metrics::measure({});
  CHECK(!m.step_time);
  CHECK(!m.energy_j);
  CHECK(m.stages.empty());
}
