// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/worker_pool.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "triplepoint/search/finalists.h"
#include "triplepoint/search/testing.h"

namespace triplepoint::search {
namespace {

/// Members of a pool as threads of this process.
class Table {
 public:
  explicit Table(int members) : given_(static_cast<size_t>(members)) {}

  WorkerPool member(int rank) {
    return {.rank = rank,
            .size = static_cast<int>(given_.size()),
            .share = [this, rank](const std::string& mine) { return share(rank, mine); }};
  }

 private:
  std::vector<std::string> share(int rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    given_[static_cast<size_t>(rank)] = mine;
    if (++here_ == given_.size()) {
      here_ = 0;
      taken_ = given_;
      ++round_;
      changed_.notify_all();
      return taken_;
    }
    const int64_t round = round_;
    changed_.wait(lock, [&] { return round_ != round; });
    return taken_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> given_, taken_;
  size_t here_ = 0;
  int64_t round_ = 0;
};

std::vector<Ranking> rank_together(const Space& space, const Objective& objective,
                                   const Limits& limits, int members) {
  Table table(members);
  std::vector<Ranking> rankings(static_cast<size_t>(members));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < members; ++rank)
    threads.emplace_back([&, rank] {
      const WorkerPool pool = table.member(rank);
      FinalOptions options;
      options.top = 3;
      options.search.keep = 4;
      options.search.pool = &pool;
      rankings[static_cast<size_t>(rank)] = rank_plans(space, objective, limits, options);
    });
  for (std::thread& thread : threads)
    thread.join();
  return rankings;
}

void check_same(const Ranking& a, const Ranking& b) {
  REQUIRE(a.ranked.size() == b.ranked.size());
  for (size_t i = 0; i < a.ranked.size(); ++i) {
    CHECK(a.ranked[i].candidate.index == b.ranked[i].candidate.index);
    CHECK(a.ranked[i].candidate.plan == b.ranked[i].candidate.plan);
    CHECK(a.ranked[i].candidate.memory == b.ranked[i].candidate.memory);
    CHECK(a.ranked[i].time == b.ranked[i].time);
    CHECK(a.ranked[i].energy == b.ranked[i].energy);
    CHECK(a.ranked[i].terms == b.ranked[i].terms);
  }
  CHECK(a.refused.size() == b.refused.size());
}

TEST_CASE("a pool of any size finds what one process finds, to the bit, and counts the same") {
  const Space space(test::job_on("gpt3-5b", "dgx-a100", {.nodes = 1, .batch = 16}),
                    Reach::launchable, {});
  const Objective objective{.goal = Goal::edp};
  FinalOptions options;
  options.top = 3;
  options.search.keep = 4;
  const Ranking alone = rank_plans(space, objective, {}, options);
  for (const int members : {2, 3})
    for (const Ranking& ranking : rank_together(space, objective, {}, members)) {
      check_same(alone, ranking);
      CHECK(ranking.counts.simulated == alone.counts.simulated);
      CHECK(ranking.counts.bounded == alone.counts.bounded);
      CHECK(ranking.counts.out_of_memory == alone.counts.out_of_memory);
    }
}

TEST_CASE("the shards of a search, merged, find what the whole search finds") {
  for (const spec::Job& job : {test::few_jobs()[0], test::few_jobs()[2]}) {
    const Space space(job, Reach::launchable, {});
    const Objective objective{.goal = Goal::throughput};
    const Found whole = search(space, objective, {}, {.keep = 5});
    for (const size_t shards : {3}) {
      std::vector<Found> parts;
      for (size_t shard = 0; shard < shards; ++shard)
        parts.push_back(
            search(space, objective, {}, {.keep = 5, .shard = shard, .shards = shards}));
      const Found merged = merge(parts, 5);
      REQUIRE(merged.best.size() == whole.best.size());
      CHECK(merged.counts.bounded >= whole.counts.bounded);  // no shard knows what others found
      for (size_t i = 0; i < whole.best.size(); ++i) {
        CHECK(merged.best[i].index == whole.best[i].index);
        CHECK(merged.best[i].value == whole.best[i].value);
      }
    }
  }
}

}  // namespace
}  // namespace triplepoint::search
