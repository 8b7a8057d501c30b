// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "trainer/comm/comm_testing.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;
using spec::GroupKind;

/// What has arrived is told some looks later, differently each time.
class LateTransport final : public Transport {
 public:
  LateTransport(std::unique_ptr<Transport> inner, unsigned seed)
      : inner_(std::move(inner)), random_(seed) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Ticket send(int to, int channel, std::span<const std::byte> bytes) override {
    return inner_->send(to, channel, bytes);
  }
  Ticket receive(int from, int channel, std::span<std::byte> bytes) override {
    return inner_->receive(from, channel, bytes);
  }
  bool done(Ticket ticket) override { return random_() % 4 == 0 && inner_->done(ticket); }
  void abort(const char* why) override { inner_->abort(why); }
  void rest(int, std::chrono::nanoseconds) override { std::this_thread::yield(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::mt19937 random_;
};

std::vector<std::unique_ptr<Transport>> late_transports(int ranks, unsigned seed) {
  auto transports = thread_transports(ranks);
  for (std::unique_ptr<Transport>& transport : transports)
    transport = std::make_unique<LateTransport>(std::move(transport), seed++);
  return transports;
}

std::vector<int> line(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i)
    ranks.push_back(first + i * step);
  return ranks;
}

/// Rows and columns of a grid of 4 x 2 ranks, and all ranks: each rank starts what it has to do in
/// its own order, waits in yet another one.
void play_on_grid(Endpoint& endpoint, unsigned seed) {
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
      arrays.emplace_back(static_cast<size_t>(100 + i * 517), static_cast<float>(rank + i));
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

TEST_CASE(
    "groups that cross each other never wait in a circle, in whatever order they are waited for") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const auto play = [&](Endpoint& endpoint) { play_on_grid(endpoint, seed); };
    const EndpointSettings settings{.timeout_seconds = 20, .nodes = {}, .segment_bytes = 4000};
    testing::on_transports(thread_transports(8), settings, play);
    testing::on_transports(late_transports(8, seed), settings, play);
    testing::on_transports(shared_transports(8), settings, play);
  }
}

TEST_CASE("a progress thread and the rank's own take turns and lose nothing") {
  EndpointSettings settings{.timeout_seconds = 20, .nodes = {}, .segment_bytes = 4000};
  settings.progress_thread = true;
  for (unsigned seed = 0; seed < 5; ++seed)
    testing::on_transports(thread_transports(8), settings,
                           [&](Endpoint& endpoint) { play_on_grid(endpoint, seed); });
}

TEST_CASE("processes that share memory get the same numbers as threads, long messages too") {
  testing::on_transports(
      shared_transports(3), {.timeout_seconds = 20, .nodes = {}}, [](Endpoint& endpoint) {
        const auto all = endpoint.communicator(GroupKind::data, line(0, 1, 3));
        for (const size_t count : {size_t{1}, size_t{3}, size_t{65'535}, size_t{1'000'003}}) {
          std::vector<float> data(count);
          for (size_t i = 0; i < count; ++i)
            data[i] = static_cast<float>(i % 1000) * static_cast<float>(endpoint.rank() + 1);
          all->all_reduce(data).wait();
          bool same = true;
          for (size_t i = 0; i < count; ++i)
            same = same && data[i] == static_cast<float>(i % 1000) * 6;
          TPT_SAME(same, true);
        }
      });
}

TEST_CASE("messages that come before they are asked for are kept, in order and by channel") {
  testing::on_transports(shared_transports(2), {.timeout_seconds = 20, .nodes = {}},
                         [](Endpoint& endpoint) {
                           const auto pair = endpoint.communicator(GroupKind::pipeline, {0, 1});
                           std::vector<std::vector<float>> arrays(6, std::vector<float>(40'000));
                           std::vector<Pending> pending;
                           if (endpoint.rank() == 0) {
                             for (size_t i = 0; i < arrays.size(); ++i) {
                               arrays[i].assign(arrays[i].size(), static_cast<float>(i));
                               pending.push_back(pair->send(arrays[i], 1, static_cast<int>(i % 2)));
                             }
                           } else {
                             for (const size_t i : {1U, 3U, 5U, 0U, 2U, 4U}) {
                               pair->receive(arrays[i], 0, static_cast<int>(i % 2)).wait();
                               TPT_SAME(arrays[i].back(), static_cast<float>(i));
                             }
                           }
                           for (Pending& each : pending)
                             each.wait();
                         });
}

TEST_CASE("traffic counts the payload and every byte by the kind of link, a barrier nothing") {
  EndpointSettings settings{.timeout_seconds = 20, .nodes = {0, 0, 1, 1}};
  settings.algorithms.fill(Algorithm::hierarchical);
  testing::on_ranks(4, settings, [](Endpoint&, Communicator& all) {
    std::vector<float> data(400, 1);
    all.barrier();
    all.all_reduce(data).wait();
    all.all_reduce(data, Reduction::sum, Wire::bf16).wait();
    all.barrier();
    const Traffic& traffic = all.traffic(Collective::all_reduce);
    TPT_SAME(traffic.calls, 2);
    TPT_SAME(traffic.payload, 400.0 * (4 + 2));
    TPT_SAME(traffic.sent_in_node, 2 * 200.0 * (4 + 2));  // half of it, there and back
    TPT_SAME(traffic.sent_across, 2 * 100.0 * (4 + 2));
  });
}

TEST_CASE("a silent peer is an error that names rank, peer, group and collective, for all ranks") {
  for (const bool shared : {false, true}) {
    std::vector<std::string> said(3);
    std::vector<std::thread> threads;
    auto transports = shared ? shared_transports(3) : thread_transports(3);
    for (size_t rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        Endpoint endpoint(std::move(transports[rank]),
                          {.timeout_seconds = rank == 0 ? 0.2 : 20, .nodes = {}});
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
    for (const char* word : {"rank ", "has waited", "all_reduce", "group [0, 1, 2]"})
      CHECK(said[0].find(word) != std::string::npos);
  }
}

TEST_CASE("two ranks that share memory add up in several groups, whichever each starts first") {
  constexpr size_t count = 300'001;
  const auto play = [&](Endpoint& endpoint) {
    const bool other_order = endpoint.rank() == 1;
    const auto one = endpoint.communicator(GroupKind::data, {0, 1});
    const auto two = endpoint.communicator(GroupKind::tensor, {0, 1});
    std::vector<float> a(count), b(count), nothing;
    for (size_t turn = 0; turn < 3; ++turn) {
      for (size_t i = 0; i < count; ++i) {
        a[i] = static_cast<float>(other_order ? i % 97 : turn);
        b[i] = static_cast<float>(other_order ? turn : i % 97);
      }
      const auto add = [&](bool first) {
        return first ? one->all_reduce(a) : two->all_reduce(b, Reduction::maximum);
      };
      Pending earlier = add(!other_order);
      // Rank 1 goes on only when this is over; rank 0 has begun both.
      if (other_order) earlier.wait();
      Pending later = add(other_order);
      one->all_reduce(nothing).wait();
      later.wait();
      earlier.wait();
      for (size_t i = 0; i < count; ++i) {
        TPT_SAME(a[i], static_cast<float>(i % 97 + turn));
        TPT_SAME(b[i], static_cast<float>(std::max(i % 97, turn)));
      }
    }
  };
  EndpointSettings settings{.timeout_seconds = 20, .nodes = {}};
  settings.algorithms.fill(Algorithm::ring);  // of nothing, too
  for (const bool threads : {false, true})
    testing::on_transports(threads ? thread_transports(2) : shared_transports(2), settings, play);
}

TEST_CASE("a group that disagrees about sizes is told so") {
  for (const bool shared : {false, true})
    for (const size_t most : {20, 200'000}) {
      std::atomic<int> send_ticket{0};
      std::vector<std::thread> threads;
      auto transports = shared ? shared_transports(2) : thread_transports(2);
      for (size_t rank = 0; rank < 2; ++rank)
        threads.emplace_back([&, rank] {
          Endpoint endpoint(std::move(transports[rank]), {.timeout_seconds = 20, .nodes = {}});
          const auto all = endpoint.communicator(GroupKind::data, {0, 1});
          std::vector<float> data(rank == 0 ? most / 2 : most);
          try {
            all->all_reduce(data).wait();
          } catch (const CommError& error) {
            send_ticket +=
                std::string(error.what()).find("same order") != std::string::npos ? 1 : 0;
          }
        });
      for (std::thread& thread : threads)
        thread.join();
      CHECK(send_ticket == 2);
    }
}

}  // namespace triplepoint::trainer
