// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/schedule.h"

#include <bit>
#include <cmath>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/spec/op.h"

#include "trainer/comm/comm_testing.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"

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

namespace {

constexpr std::array algorithms = {Algorithm::automatic,          Algorithm::ring,
                                   Algorithm::recursive_doubling, Algorithm::tree,
                                   Algorithm::hierarchical,       Algorithm::pairwise};

/// Small whole numbers: any order of adding gives the same bits, in bf16 too.
float number(int rank, int64_t place) {
  return static_cast<float>((int64_t{rank} * 7 + place * 3) % 11 - 5);
}

std::vector<float> numbers(int rank, int64_t count) {
  std::vector<float> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    all[static_cast<size_t>(i)] = number(rank, i);
  return all;
}

float reduced(int ranks, int64_t place, Reduction reduction) {
  float result = number(0, place);
  for (int rank = 1; rank < ranks; ++rank)
    result = reduction == Reduction::sum ? result + number(rank, place)
                                         : std::max(result, number(rank, place));
  return result;
}

struct Case {
  int ranks;
  Algorithm algorithm;
  Wire wire;
  Reduction reduction;
  int64_t count;
  int ranks_per_node;
};

EndpointSettings settings_of(const Case& one) {
  EndpointSettings settings{
      .timeout_seconds = 20, .segment_bytes = 1600, .across_segment_bytes = 400};
  for (int rank = 0; rank < one.ranks; ++rank)
    settings.nodes.push_back(rank / one.ranks_per_node);
  settings.algorithms.fill(one.algorithm);
  return settings;
}

/// What is checked of one number of ranks and one algorithm; `count` numbers are cut into several
/// segments where there are enough.
std::vector<Case> cases_of(int ranks, Algorithm algorithm) {
  std::vector<Case> cases;
  for (const int64_t count : {0, 1, 5, 257, 4099})
    for (const int ranks_per_node : {2, 3, 9}) {
      cases.push_back({ranks, algorithm, Wire::fp32, Reduction::sum, count, ranks_per_node});
      cases.push_back({ranks, algorithm, Wire::bf16, Reduction::sum, count, ranks_per_node});
      cases.push_back({ranks, algorithm, Wire::fp32, Reduction::maximum, count, ranks_per_node});
      cases.push_back({ranks, algorithm, Wire::bf16, Reduction::maximum, count, ranks_per_node});
    }
  return cases;
}

template <typename Check>
void for_all_cases(const Check& check) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const Algorithm algorithm : algorithms)
      for (const Case& one : cases_of(ranks, algorithm))
        check(one);
}

int64_t first_of(const Case& one, int64_t rank) {
  return block_begin(one.count, rank, one.ranks);
}

std::vector<float> block_of(const std::vector<float>& whole, const Case& one, int rank) {
  return {whole.begin() + first_of(one, rank), whole.begin() + first_of(one, rank + 1)};
}

}  // namespace

TEST_CASE("an all_reduce gives every rank the sum or the maximum of all") {
  for_all_cases([](const Case& one) {
    testing::on_ranks(one.ranks, settings_of(one), [&](Endpoint&, Communicator& all) {
      std::vector<float> data = numbers(all.index(), one.count);
      all.all_reduce(data, one.reduction, one.wire).wait();
      for (int64_t i = 0; i < one.count; ++i)
        TPT_SAME(data[static_cast<size_t>(i)], reduced(one.ranks, i, one.reduction));
    });
  });
}

TEST_CASE("what is added as it arrives has the bits of what is added afterwards") {
  for (const Algorithm algorithm : algorithms)
    for (int ranks = 2; ranks <= 6; ++ranks)
      for (const int64_t count : {7, 4099, 300001}) {
        const Case one{ranks, algorithm, Wire::fp32, Reduction::sum, count, 3};
        EndpointSettings settings = settings_of(one);
        settings.segment_bytes = 1 << 16;
        settings.across_segment_bytes = 1 << 14;
        const auto sums = [&](std::vector<std::unique_ptr<Transport>> transports) {
          std::vector<float> found(static_cast<size_t>(2 * count));
          testing::on_transports(std::move(transports), settings, [&](Endpoint& endpoint) {
            std::vector<int> everybody(static_cast<size_t>(ranks));
            std::iota(everybody.begin(), everybody.end(), 0);
            const auto all = endpoint.communicator(spec::GroupKind::data, everybody);
            std::vector<float> data(static_cast<size_t>(count));
            for (size_t i = 0; i < data.size(); ++i)
              data[i] = std::sin(static_cast<float>(i * 7 + static_cast<size_t>(all->index())));
            std::vector<float> mine = block_of(data, one, all->index());
            all->reduce_scatter(data, mine).wait();
            all->all_reduce(data).wait();
            if (all->index() != 0) return;
            std::copy(data.begin(), data.end(), found.begin());
            std::copy(mine.begin(), mine.end(), found.begin() + count);
          });
          return found;
        };
        CHECK(sums(shared_transports(ranks)) == sums(thread_transports(ranks)));
      }
}

TEST_CASE("a reduce_scatter gives every rank its block of the sum and leaves the input alone") {
  for_all_cases([](const Case& one) {
    testing::on_ranks(one.ranks, settings_of(one), [&](Endpoint&, Communicator& all) {
      const std::vector<float> whole = numbers(all.index(), one.count);
      std::vector<float> kept = whole, mine = block_of(whole, one, all.index());
      all.reduce_scatter(kept, mine, one.reduction, one.wire).wait();
      for (size_t i = 0; i < mine.size(); ++i)
        TPT_SAME(mine[i], reduced(one.ranks, first_of(one, all.index()) + static_cast<int64_t>(i),
                                  one.reduction));
      TPT_SAME(kept == whole, true);
    });
  });
}

TEST_CASE("an all_gather gives every rank the blocks of all, in place or not") {
  for_all_cases([](const Case& one) {
    if (one.reduction == Reduction::maximum) return;
    testing::on_ranks(one.ranks, settings_of(one), [&](Endpoint&, Communicator& all) {
      const std::vector<float> expected = numbers(3, one.count);
      const std::vector<float> mine = block_of(expected, one, all.index());
      std::vector<float> whole(expected.size(), -1);
      all.all_gather(mine, whole, one.wire).wait();
      TPT_SAME(whole == expected, true);
      std::vector<float> there(expected.size(), -1);
      const auto own =
          std::span(there).subspan(static_cast<size_t>(first_of(one, all.index())), mine.size());
      std::copy(mine.begin(), mine.end(), own.begin());
      all.all_gather(own, there, one.wire).wait();
      TPT_SAME(there == expected, true);
    });
  });
}

TEST_CASE("blocks of any size are gathered, and reduced and scattered, as even ones are") {
  const auto size_of_block = [](int rank, int64_t most) { return (rank * 5 + 2) % 7 * most; };
  for_all_cases([&](const Case& one) {
    if (one.count == 257) return;
    std::vector<int64_t> counts;
    for (int rank = 0; rank < one.ranks; ++rank)
      counts.push_back(size_of_block(rank, one.count / 7));
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    testing::on_ranks(one.ranks, settings_of(one), [&](Endpoint&, Communicator& all) {
      const int64_t first =
          std::accumulate(counts.begin(), counts.begin() + all.index(), int64_t{0});
      const auto own = static_cast<size_t>(counts[static_cast<size_t>(all.index())]);
      const std::vector<float> whole = numbers(all.index(), total);
      std::vector<float> kept = whole, mine(own, -1);
      all.reduce_scatter_uneven(kept, mine, counts, one.reduction, one.wire).wait();
      for (size_t i = 0; i < mine.size(); ++i)
        TPT_SAME(mine[i], reduced(one.ranks, first + static_cast<int64_t>(i), one.reduction));
      TPT_SAME(kept == whole, true);
      const std::vector<float> expected = numbers(3, total);
      std::vector<float> there(expected.size(), -1);
      all.all_gather_uneven(std::span(expected).subspan(static_cast<size_t>(first), own), there,
                            counts, one.wire)
          .wait();
      TPT_SAME(there == expected, true);
    });
  });
}

TEST_CASE("a broadcast gives every rank the root's data") {
  for_all_cases([](const Case& one) {
    if (one.reduction == Reduction::maximum) return;
    testing::on_ranks(one.ranks, settings_of(one), [&](Endpoint&, Communicator& all) {
      for (const int root : {0, one.ranks / 2, one.ranks - 1}) {
        std::vector<float> data = numbers(all.index(), one.count);
        all.broadcast(data, root, one.wire).wait();
        TPT_SAME(data == numbers(root, one.count), true);
      }
    });
  });
}

TEST_CASE("an all_to_all is a transposition, with counts of any size") {
  const auto count = [](int from, int to) { return int64_t{(from * 5 + to * 3) % 7} * 13; };
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const Wire wire : {Wire::fp32, Wire::bf16})
      testing::on_ranks(ranks, {}, [&](Endpoint&, Communicator& all) {
        std::vector<float> send, expected;
        std::vector<int64_t> send_counts, receive_counts;
        for (int peer = 0; peer < ranks; ++peer) {
          send_counts.push_back(count(all.index(), peer));
          receive_counts.push_back(count(peer, all.index()));
          send.insert(send.end(), static_cast<size_t>(send_counts.back()),
                      number(all.index(), peer));
          expected.insert(expected.end(), static_cast<size_t>(receive_counts.back()),
                          number(peer, all.index()));
        }
        std::vector<float> received(expected.size(), -1);
        all.all_to_all(send, send_counts, received, receive_counts, wire).wait();
        TPT_SAME(received == expected, true);
      });
}

TEST_CASE("messages of one pair and channel arrive in order, others pass them") {
  testing::on_ranks(2, {}, [](Endpoint&, Communicator& all) {
    const int other = 1 - all.index();
    std::vector<float> out{1, 2, 3}, in(3, 0);
    std::vector<Pending> sent, received;
    for (size_t i = 0; i < 3; ++i)
      sent.push_back(all.send(std::span(out).subspan(i, 1), other, i == 2 ? 5 : 0));
    all.receive(std::span(in).subspan(2, 1), other, 5).wait();
    for (size_t i = 0; i < 2; ++i)
      all.receive(std::span(in).subspan(i, 1), other, 0).wait();
    for (Pending& each : sent)
      each.wait();
    TPT_SAME(in == out, true);
  });
}

TEST_CASE("bf16 numbers are the same on all ranks whatever the algorithm") {
  for (const Algorithm algorithm : algorithms) {
    const Case one{7, algorithm, Wire::bf16, Reduction::sum, 513, 3};
    std::vector<std::vector<float>> results(7);
    testing::on_ranks(one.ranks, settings_of(one), [&](Endpoint&, Communicator& all) {
      std::vector<float> data(513);
      for (size_t i = 0; i < data.size(); ++i)
        data[i] = std::sin(static_cast<float>(i * 7 + static_cast<size_t>(all.index())));
      all.all_reduce(data, Reduction::sum, Wire::bf16).wait();
      results[static_cast<size_t>(all.index())] = data;
    });
    for (const std::vector<float>& result : results)
      CHECK(result == results.front());
  }
}

}  // namespace triplepoint::trainer
