// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/schedule.h"

#include <bit>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/spec/op.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;

struct Sent {
  int64_t in_node = 0, across = 0;
  int64_t total() const { return in_node + across; }
};

/// By all ranks together.
Sent sent_by_all(ScheduleRequest request) {
  Sent sent;
  for (request.index = 0; request.index < request.size; ++request.index) {
    const Schedule schedule = make_schedule(request);
    sent.in_node += schedule.sent_in_node;
    sent.across += schedule.sent_across;
  }
  return sent;
}

std::vector<int> nodes_of(int ranks, int per_node) {
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank)
    nodes.push_back(rank / per_node);
  return nodes;
}

constexpr std::array in_blocks = {Algorithm::ring, Algorithm::pairwise, Algorithm::hierarchical};

}  // namespace

TEST_CASE("all algorithms that move blocks send (p-1) n numbers, twice that for an all_reduce") {
  for (int p = 1; p <= 9; ++p)
    for (const int64_t n : {0, 1, 7, 1000, 30011})
      for (const Algorithm algorithm : in_blocks)
        for (const int per_node : {2, 3, 9}) {
          ScheduleRequest request{.algorithm = algorithm,
                                  .count = n,
                                  .size = p,
                                  .nodes = nodes_of(p, per_node),
                                  .segment = 100,
                                  .sends = {}};
          CHECK(sent_by_all(request).total() == 2 * (p - 1) * n);
          for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
            if (algorithm == Algorithm::hierarchical && p % per_node != 0 && p > per_node) continue;
            request.collective = collective;
            CHECK(sent_by_all(request).total() == (p - 1) * n);
          }
          request.collective = Collective::broadcast;
          CHECK(sent_by_all(request).total() == (p - 1) * n);
        }
}

TEST_CASE("recursive doubling sends q log2 q arrays and two for each rank beyond q") {
  for (int p = 1; p <= 9; ++p)
    for (const int64_t n : {1, 1000}) {
      const ScheduleRequest request{.algorithm = Algorithm::recursive_doubling,
                                    .count = n,
                                    .size = p,
                                    .nodes = {},
                                    .sends = {}};
      const auto q = static_cast<int64_t>(std::bit_floor(static_cast<unsigned>(p)));
      const int64_t rounds = std::countr_zero(static_cast<uint64_t>(q));
      CHECK(sent_by_all(request).total() == (q * rounds + 2 * (p - q)) * n);
    }
}

TEST_CASE("a tree reduces and broadcasts (p-1) arrays each") {
  for (int p = 1; p <= 9; ++p) {
    ScheduleRequest request{
        .algorithm = Algorithm::tree, .count = 77, .size = p, .nodes = {}, .sends = {}};
    CHECK(sent_by_all(request).total() == 2 * (p - 1) * 77);
    request.collective = Collective::broadcast;
    request.root = p / 2;
    CHECK(sent_by_all(request).total() == (p - 1) * 77);
  }
}

TEST_CASE("hierarchical sends 2 (N-1) n across nodes, a ring N edges of 2 (p-1)/p n") {
  for (const int nodes : {2, 3, 4})
    for (const int per_node : {2, 3, 4}) {
      const int p = nodes * per_node;
      const int64_t n = 120 * p;
      ScheduleRequest request{.algorithm = Algorithm::hierarchical,
                              .count = n,
                              .size = p,
                              .nodes = nodes_of(p, per_node),
                              .sends = {}};
      CHECK(sent_by_all(request).across == 2 * (nodes - 1) * n);
      request.algorithm = Algorithm::ring;
      CHECK(sent_by_all(request).across == nodes * 2 * (p - 1) * (n / p));
    }
}

TEST_CASE("an all_to_all sends what is for others, once") {
  for (int p = 1; p <= 9; ++p) {
    ScheduleRequest request{.collective = Collective::all_to_all, .size = p, .nodes = {}};
    request.sends.assign(static_cast<size_t>(p), 13);
    request.receives = request.sends;
    CHECK(sent_by_all(request).total() == p * (p - 1) * 13);
  }
}

TEST_CASE("what one rank sends another receives, in the same order") {
  for (int p = 2; p <= 9; ++p)
    for (int a = 0; a <= static_cast<int>(Algorithm::pairwise); ++a)
      for (const Collective collective : {Collective::all_reduce, Collective::all_gather,
                                          Collective::reduce_scatter, Collective::broadcast}) {
        std::vector<Schedule> schedules;
        ScheduleRequest request{.collective = collective,
                                .algorithm = static_cast<Algorithm>(a),
                                .count = 1001,
                                .size = p,
                                .nodes = nodes_of(p, 4),
                                .segment = 50,
                                .sends = {}};
        for (request.index = 0; request.index < p; ++request.index)
          schedules.push_back(make_schedule(request));
        const auto line = [&](int owner, int peer, size_t lane, bool sends) {
          std::vector<int64_t> counts;
          for (const Round& round : schedules[static_cast<size_t>(owner)].lanes[lane])
            for (const Message& message : sends ? round.sends : round.receives)
              if (message.peer == peer) counts.push_back(message.slice.count);
          return counts;
        };
        bool same = true;
        for (int from = 0; from < p; ++from)
          for (int to = 0; to < p; ++to)
            for (size_t lane = 0; lane < schedules.front().lanes.size(); ++lane)
              same = same && line(from, to, lane, true) == line(to, from, lane, false);
        CHECK(same);
      }
}

}  // namespace triplepoint::trainer
