// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/machine_text.h"

#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/live/snapshot_testing.h"

namespace triplepoint::tui {
namespace {

namespace live = telemetry::testing;
std::string table_of(const telemetry::Snapshot& snapshot, std::optional<std::size_t> width = {}) {
  std::ostringstream out, err;
  return snapshot_table(snapshot, Console(out, err, {.width = width}));
}

TEST_CASE("a machine without GPUs has a table, too") {
  telemetry::Snapshot snapshot;
  snapshot.node.host = "laptop";
  snapshot.readings = {live::node_reading("memory_used_b", run::ReadingKind::instant, 8e9)};
  const std::string text = table_of(snapshot, 80);
  CHECK(contains(text, "no GPU"));
  CHECK(contains(text, "memory 8.0 GB"));
}

TEST_CASE("a narrow terminal loses columns, not what slows a GPU") {
  const std::string text = table_of(live::sample_snapshot(), 100);
  for (const std::string_view line : triplepoint::lines_of(text))
    if (contains(line, "H200")) CHECK(display_width(line) <= 100);
  CHECK(contains(text, "power cap 25%"));
  CHECK(contains(text, "no room for"));
}

TEST_CASE("the table of a snapshot says what is missing instead of 0, and what went wrong") {
  const std::string text = table_of(live::sample_snapshot());
  CHECK(contains(text, "690 W"));
  CHECK(contains(text, "n/a"));
  CHECK(contains(text, "does not answer"));
  CHECK(contains(text, "GPU 1 fell off the bus"));
  CHECK(contains(text, "triplepoint doctor"));
}

TEST_CASE("numbers have the prefix that leaves them readable") {
  CHECK(watts_text(690.4) == "690 W");
  CHECK(watts_text(5432.0) == "5.4 kW");
  CHECK(watts_text(std::nullopt) == "n/a");
  CHECK(rate_text(999.0) == "999 B/s");
  CHECK(rate_text(2.0e9) == "2.0 GB/s");
  CHECK(memory_text(70e9, 141e9) == "70/141 GB");
}

}  // namespace
}  // namespace triplepoint::tui
