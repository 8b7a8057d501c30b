// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "trainer/comm/comm_testing.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {
namespace {

using spec::GroupKind;

/// Small whole numbers: any order of adding gives the same bits.
float number(int rank, int64_t place) {
  return static_cast<float>((int64_t{rank} * 7 + place * 3) % 11 - 5);
}

std::vector<float> numbers(int rank, int64_t count) {
  std::vector<float> all(as_size(count));
  for (int64_t i = 0; i < count; ++i)
    all[as_size(i)] = number(rank, i);
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
  Reduction reduction;
  int64_t count;
};

template <typename Check>
void for_all_cases(const Check& check) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const int64_t count : {0, 1, 5, 257, 40'099})
      for (const Reduction reduction : {Reduction::sum, Reduction::maximum})
        check(Case{ranks, reduction, count});
}

int64_t first_of(const Case& one, int64_t rank) {
  return one.count * rank / one.ranks;
}

std::vector<float> block_of(const std::vector<float>& whole, const Case& one, int rank) {
  return {whole.begin() + first_of(one, rank), whole.begin() + first_of(one, rank + 1)};
}

const EndpointSettings settings{.timeout_seconds = 20};

std::vector<int> line(int first, int step, int count) {
  return numbered(count, [&](int i) { return first + i * step; });
}

/// Rows and columns of a grid of 4 x 2 ranks, and all ranks: each rank starts what it has to do in
/// its own order, waits in yet another one.
void communicate_on_grid(Endpoint& endpoint, unsigned seed) {
  const int rank = endpoint.rank();
  const auto row = endpoint.communicator(GroupKind::tensor, line(rank / 2 * 2, 1, 2));
  const auto column = endpoint.communicator(GroupKind::data, line(rank % 2, 2, 4));
  const auto all = endpoint.communicator(GroupKind::model, line(0, 1, 8));
  std::mt19937 random(seed * 100 + static_cast<unsigned>(rank));
  std::vector<std::vector<float>> arrays;
  std::vector<Pending> pending;
  std::vector<Communicator*> groups = {row.get(), column.get(), all.get()};
  arrays.reserve(30);
  for (int i = 0; i < 10; ++i) {
    std::shuffle(groups.begin(), groups.end(), random);
    for (Communicator* group : groups) {
      arrays.emplace_back(as_size(100 + i * 517), static_cast<float>(rank + i));
      pending.push_back(group->all_reduce(arrays.back()));
    }
  }
  std::vector<size_t> order(pending.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  for (const size_t i : order)
    pending[i].wait();
  float sum = 0, expected = 0;
  for (const std::vector<float>& array : arrays)
    sum += array.back();
  for (int i = 0; i < 10; ++i)
    expected +=
        static_cast<float>(rank / 2 * 4 + 1 + 2 * i + rank % 2 * 4 + 12 + 4 * i + 28 + 8 * i);
  TPT_SAME(sum, expected);
}

}  // namespace

TEST_CASE("an all_reduce gives every rank the sum or the maximum of all") {
  for_all_cases([](const Case& one) {
    testing::on_ranks(one.ranks, settings, [&](Endpoint&, Communicator& all) {
      std::vector<float> data = numbers(all.index(), one.count);
      all.all_reduce(data, one.reduction).wait();
      for (int64_t i = 0; i < one.count; ++i)
        TPT_SAME(data[as_size(i)], reduced(one.ranks, i, one.reduction));
    });
  });
}

TEST_CASE("a reduce_scatter gives every rank its block of the sum and leaves the input alone") {
  for_all_cases([](const Case& one) {
    testing::on_ranks(one.ranks, settings, [&](Endpoint&, Communicator& all) {
      const std::vector<float> whole = numbers(all.index(), one.count);
      std::vector<float> kept = whole, mine = block_of(whole, one, all.index());
      all.reduce_scatter(kept, mine, one.reduction).wait();
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
    testing::on_ranks(one.ranks, settings, [&](Endpoint&, Communicator& all) {
      const std::vector<float> expected = numbers(3, one.count);
      const std::vector<float> mine = block_of(expected, one, all.index());
      std::vector<float> whole(expected.size(), -1);
      all.all_gather(mine, whole).wait();
      TPT_SAME(whole == expected, true);
      std::vector<float> there(expected.size(), -1);
      const auto own = std::span(there).subspan(as_size(first_of(one, all.index())), mine.size());
      std::ranges::copy(mine, own.begin());
      all.all_gather(own, there).wait();
      TPT_SAME(there == expected, true);
    });
  });
}

TEST_CASE("messages of one pair and channel arrive in order, others pass them") {
  testing::on_ranks(2, settings, [](Endpoint&, Communicator& all) {
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

TEST_CASE(
    "groups that cross each other never wait in a circle, in whatever order they are waited for") {
  for (const bool progress_thread : {false, true})
    for (unsigned seed = 0; seed < 10; ++seed)
      testing::on_transports(thread_transports(8),
                             {.timeout_seconds = 20, .progress_thread = progress_thread},
                             [&](Endpoint& endpoint) { communicate_on_grid(endpoint, seed); });
}

TEST_CASE("traffic counts the payload, a barrier nothing") {
  testing::on_ranks(4, settings, [](Endpoint&, Communicator& all) {
    std::vector<float> data(400, 1);
    all.barrier();
    all.all_reduce(data).wait();
    all.all_reduce(data, Reduction::maximum).wait();
    all.barrier();
    const Traffic& traffic = all.traffic(spec::Collective::all_reduce);
    TPT_SAME(traffic.calls, 2);
    TPT_SAME(traffic.payload, 400.0 * (4 + 4));
  });
}

TEST_CASE("a silent peer is an error that names rank, peer, group and collective, for all ranks") {
  std::vector<std::string> said(3);
  std::vector<std::thread> threads;
  auto transports = thread_transports(3);
  for (size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      Endpoint endpoint(std::move(transports[rank]), {.timeout_seconds = rank == 0 ? 0.2 : 20});
      const auto all = endpoint.communicator(GroupKind::data, {0, 1, 2});
      const auto two = endpoint.communicator(GroupKind::tensor, {0, 1, 2});
      std::vector<float> data(10'000);
      try {
        // Rank 2 waits in another group, which no other rank enters.
        (rank == 2 ? two : all)->all_reduce(data).wait();
      } catch (const CommError& error) {
        said[rank] = error.what();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(said[0] == said[1]);
  CHECK(said[0] == said[2]);
  for (const char* word : {"rank 0 has waited", "for rank 2", "all_reduce", "group [0, 1, 2]"})
    CHECK(said[0].find(word) != std::string::npos);
}

TEST_CASE("a group that disagrees about sizes is told so") {
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  auto transports = thread_transports(2);
  for (size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Endpoint endpoint(std::move(transports[rank]), settings);
      const auto all = endpoint.communicator(GroupKind::data, {0, 1});
      std::vector<float> data(rank == 0 ? 10 : 20);
      try {
        all->all_reduce(data).wait();
      } catch (const CommError& error) {
        told += std::string(error.what()).find("same order") != std::string::npos ? 1 : 0;
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  CHECK(told == 2);
}

}  // namespace triplepoint::trainer
