// SPDX-License-Identifier: Apache-2.0
#include "trainer/machine/machine.h"

#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

namespace triplepoint::trainer {

TEST_CASE("every row of a machine's measurement took some of a core, and larger ones more") {
  const auto rows = measure_machine({.seconds = 0.0005, .steps = 3});
  REQUIRE_MESSAGE(rows, rows.error().what);
  CHECK(rows->cores >= 1);
  CHECK(rows->call_seconds > 0);
  CHECK(rows->copy_bytes_per_second > 1e8);
  REQUIRE(rows->gemms.size() == 64);
  for (const GemmRow& row : rows->gemms)
    CHECK(row.seconds > 0);
  CHECK(rows->gemms.back().seconds > rows->gemms.front().seconds);
  for (const AttentionRow& row : rows->attentions)
    CHECK(row.seconds > 0);
  std::set<std::string> collectives;
  for (const LinkRow& row : rows->links) {
    CHECK(row.core_seconds > 0);
    collectives.insert(row.collective);
  }
  CHECK(collectives.size() == 4);
  REQUIRE(rows->trainings.size() == 6);
  for (const TrainingRow& row : rows->trainings)
    CHECK(row.core_seconds > 0);
  CHECK(json_of(*rows)["gemm"].size() == 64);
}

}  // namespace triplepoint::trainer
