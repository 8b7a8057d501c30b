// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/builder.h"

#include <doctest/doctest.h>

#include "triplepoint/trace/bulk.h"
#include "triplepoint/trace/timeline_testing.h"

namespace triplepoint::trace {
namespace {

NamedTrace one_rank(std::string name, std::optional<int32_t> rank, int64_t epoch) {
  NamedTrace named{.name = std::move(name)};
  named.trace.timeline = sample_timeline(7, 1, 5);
  named.trace.rank = rank;
  named.trace.epoch_unix_ns = epoch;
  named.trace.facts = {{"device", "H100"}, {"traceName", named.name}};
  return named;
}

TEST_CASE("ranks stand in names in the ways people write them") {
  CHECK(rank_in_name("trace/rank-3.json") == 3);
  CHECK(rank_in_name("rank_12_trace.json.gz") == 12);
  CHECK(rank_in_name("a.tar.gz: dlrm/worker7_step_12.169.pt.trace.json") == 7);
  CHECK(rank_in_name("ranks-0/trace.json") == std::nullopt);  // of a folder
  CHECK(rank_in_name("frank.rank5") == 5);
  CHECK(rank_in_name("trace_3.json") == std::nullopt);
  CHECK(rank_in_name("rank99999999999999999999") == std::nullopt);
}

TEST_CASE("ranks come in numeric order on the earliest epoch") {
  const Trace merged =
      merge({one_rank("rank10.json", {}, 5000), one_rank("rank2.json", {}, 4000)}).value();
  CHECK(merged.timeline.num_ranks == 11);
  CHECK(merged.epoch_unix_ns == 4000);
  CHECK(merged.facts == std::map<std::string, std::string>{{"device", "H100"}});
  CHECK(!run::find_fault(merged.timeline));
  const auto& spans = merged.timeline.spans;
  CHECK(spans.front().rank == 2);
  CHECK(spans.front().begin == Instant(0));
  const auto of_ten = std::find_if(spans.begin(), spans.end(),
                                   [](const run::Span& span) { return span.rank == 10; });
  CHECK(of_ten->begin == Instant(1000));
  // The same groups and types on both.
  CHECK(merged.timeline.types.size() == sample_timeline(7, 1, 5).types.size());
  CHECK(merged.timeline.communicators.size() == 2);
}

TEST_CASE("traces that do not know their rank take the places that are left") {
  const Trace merged =
      merge({one_rank("b.json", {}, 0), one_rank("a.json", 0, 0), one_rank("c.json", {}, 0)})
          .value();
  CHECK(merged.timeline.num_ranks == 3);
}

TEST_CASE("two traces of one rank are named") {
  const auto merged = merge({one_rank("a.json", 3, 0), one_rank("b.json", 3, 0)});
  REQUIRE(!merged);
  CHECK(merged.error().what.find("a.json and b.json are both of rank 3") != std::string::npos);
}

TEST_CASE("sorting by digits is sorting") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    run::Timeline a = sample_timeline(seed, 3, 100);
    for (size_t i = a.spans.size(); i > 1; --i) {
      const auto other = static_cast<size_t>(random_bits({seed, 9}, i) % i);
      std::swap(a.spans[i - 1], a.spans[other]);
      std::swap(a.details[i - 1], a.details[other]);
    }
    run::Timeline b = a;
    sort_spans(a);
    run::sort(b);
    CHECK(a == b);
  }
}

}  // namespace
}  // namespace triplepoint::trace
