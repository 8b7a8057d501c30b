// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "trainer/comm/comm_testing.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/schedule.h"
#include "trainer/comm/shared_transport.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;

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
  EndpointSettings settings{.timeout_seconds = 20, .segment_bytes = 400};
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
        settings.segment_bytes = 1 << 14;
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
