// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/search_parts.h"

#include <doctest/doctest.h>

#include "triplepoint/search/testing.h"

namespace triplepoint::search {
namespace {

TEST_CASE("the shards of a search, merged, find what the whole search finds") {
  for (const spec::Job& job : {test::few_jobs()[0], test::few_jobs()[2]}) {
    const Space space(job, Reach::launchable, {});
    const Objective objective{.goal = Goal::throughput};
    const Found whole = search(space, objective, {}, {.keep = 5});
    std::vector<Found> parts;
    for (size_t shard = 0; shard < 3; ++shard) {
      const std::string text =
          write_part(search(space, objective, {}, {.keep = 5, .shard = shard, .shards = 3}));
      parts.push_back(test::must(parse_part(space, text)));
    }
    const Found merged = merge(parts, 5);
    REQUIRE(merged.best.size() == whole.best.size());
    CHECK(merged.counts.bounded >= whole.counts.bounded);  // no shard knows what others found
    for (size_t i = 0; i < whole.best.size(); ++i) {
      CHECK(merged.best[i].index == whole.best[i].index);
      CHECK(merged.best[i].value == whole.best[i].value);
    }
  }
}

TEST_CASE("what is no part of this space's search is refused") {
  const Space space(test::few_jobs()[0], Reach::launchable, {});
  for (const char* text : {"", "{}", "[]", R"({"counts": [1, 2], "best": []})",
                           R"({"counts": [1e30, 0, 0, 0, 0, 0, 0, 0], "best": []})",
                           R"({"counts": [0, 0, 0, 0, 0, 0, 0, 0], "best": [{"index": -1}]})"})
    CHECK_FALSE(parse_part(space, text));
}

}  // namespace
}  // namespace triplepoint::search
