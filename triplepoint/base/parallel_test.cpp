// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/parallel.h"

#include <new>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

TEST_CASE("every item is done once, whatever the number of threads") {
  for (const std::size_t items : {0U, 1U, 2U, 1000U})
    for (const int threads : {0, 1, 2, 7}) {
      std::vector<int> done(items, 0);
      parallel_for(items, threads, [&](std::size_t i) { ++done[i]; });
      CHECK(done == std::vector<int>(items, 1));
    }
}

TEST_CASE("after a stop request no further item begins") {
  std::stop_source source;
  std::vector<int> done(100, 0);
  parallel_for(
      done.size(), 1,
      [&](std::size_t i) {
        ++done[i];
        if (i == 9) source.request_stop();
      },
      source.get_token());
  CHECK(std::accumulate(done.begin(), done.end(), 0) == 10);
}

TEST_CASE("an exception of a task reaches the caller, whichever thread ran it") {
  for (const int threads : {1, 4})
    CHECK_THROWS_AS(parallel_for(64, threads,
                                 [](std::size_t i) {
                                   if (i >= 8) throw std::bad_alloc();
                                 }),
                    std::bad_alloc);
}

TEST_CASE("there is at least one thread") {
  CHECK(available_threads() >= 1);
}

TEST_CASE("under a limit no more threads are available, and one inside of it can only lower it") {
  const int all = available_threads();
  {
    const ThreadLimit limit(6);
    CHECK(available_threads() == 6);
    const ThreadLimit lower(4), higher(8);
    CHECK(available_threads() == 4);
  }
  CHECK(available_threads() == all);
}

TEST_CASE("threads that run tasks share what is allowed among them") {
  const auto shares = [](std::size_t items, int threads) {
    std::vector<int> shares(items);
    parallel_for(items, threads, [&](std::size_t i) { shares[i] = available_threads(); });
    return shares;
  };
  CHECK(shares(2, 7) == std::vector<int>(2, 3));
  CHECK(shares(9, 3) == std::vector<int>(9, 1));
  CHECK(shares(9, 1) == std::vector<int>(9, 1));
  const ThreadLimit limit(2);
  CHECK(shares(1, 7) == std::vector<int>(1, 2));
  CHECK(shares(2, 7) == std::vector<int>(2, 1));
}

TEST_CASE("under a limit of one thread tasks run in order on the caller's") {
  const ThreadLimit limit(1);
  std::vector<std::size_t> order;
  parallel_for(50, 8, [&](std::size_t i) { order.push_back(i); });
  std::vector<std::size_t> expected(50);
  std::iota(expected.begin(), expected.end(), std::size_t{0});
  CHECK(order == expected);
}

}  // namespace
}  // namespace triplepoint
