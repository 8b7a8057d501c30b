// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "triplepoint/mark/mark.h"

#include "trainer/comm/endpoint.h"
#include "trainer/comm/shared_transport.h"
#include "trainer/machine/machine.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;

struct Case {
  Collective collective;
  int64_t numbers;
};

struct CaseArrays {
  std::vector<float> whole, other;
  std::vector<int64_t> counts;
};

void play(Communicator& all, const Case& one, CaseArrays& arrays) {
  const int64_t p = all.size(), me = all.index();
  const std::span<float> whole = arrays.whole, other = arrays.other;
  const auto block =
      other.subspan(0, static_cast<size_t>(one.numbers * (me + 1) / p - one.numbers * me / p));
  switch (one.collective) {
    case Collective::all_reduce:
      return all.all_reduce(whole).wait();
    case Collective::all_gather:
      return all.all_gather(block, whole).wait();
    case Collective::reduce_scatter:
      return all.reduce_scatter(whole, block).wait();
    case Collective::all_to_all:
      return all.all_to_all(whole, arrays.counts, other, arrays.counts).wait();
    case Collective::broadcast:
      return all.broadcast(whole, 0).wait();
    case Collective::send_recv:
      if (me == 0) return all.send(whole, 1, 0).wait();
      if (me == 1) return all.receive(whole, 0, 0).wait();
  }
}

LinkRow measure(Communicator& all, const Case& one, double seconds) {
  CaseArrays arrays;
  const auto count = static_cast<size_t>(one.numbers);
  arrays.whole.assign(count, 0), arrays.other.assign(count, 0);
  arrays.counts.assign(static_cast<size_t>(all.size()), one.numbers / all.size());
  LinkRow row{.collective = std::string(spec::name_of(one.collective)),
              .ranks = all.size(),
              .bytes = static_cast<double>(one.numbers * 4)};
  const double bytes_per_second = 2e9;
  const auto rounds =
      static_cast<int>(std::clamp(seconds * bytes_per_second / (row.bytes + 10'000), 5.0, 2000.0));
  play(all, one, arrays);
  all.barrier();
  row.wall_seconds = 1e9;
  const double begin = thread_core_seconds();
  for (int i = 0; i < rounds; ++i) {
    const int64_t from = triplepoint_now();
    play(all, one, arrays);
    row.wall_seconds =
        std::min(row.wall_seconds, static_cast<double>(triplepoint_now() - from) * 1e-9);
  }
  row.core_seconds = (thread_core_seconds() - begin) / rounds;
  all.barrier();
  return row;
}

void measure_on(int ranks, const MachineEffort& effort, std::vector<LinkRow>& rows) {
  std::vector<std::thread> threads;
  std::vector<std::vector<LinkRow>> of_rank(static_cast<size_t>(ranks));
  auto transports = shared_transports(ranks);
  for (size_t rank = 0; rank < transports.size(); ++rank)
    threads.emplace_back([&, rank] {
      Endpoint endpoint(std::move(transports[rank]));
      std::vector<int> everybody(static_cast<size_t>(ranks));
      std::iota(everybody.begin(), everybody.end(), 0);
      const auto all = endpoint.communicator(spec::GroupKind::data, everybody);
      for (int c = 0; c < spec::collective_count; ++c)
        for (const int64_t numbers : {64, 4096, 16'384, 65'536, 262'144, 1'048'576})
          of_rank[rank].push_back(
              measure(*all, {static_cast<Collective>(c), numbers}, effort.seconds));
    });
  for (std::thread& thread : threads)
    thread.join();
  for (size_t i = 0; !of_rank.empty() && i < of_rank.front().size(); ++i) {
    LinkRow row = of_rank.front()[i];
    const size_t taking_part = row.collective == "send_recv" ? 2 : of_rank.size();
    row.core_seconds = 0;
    for (size_t rank = 0; rank < taking_part; ++rank) {
      row.core_seconds += of_rank[rank][i].core_seconds / static_cast<double>(taking_part);
      row.wall_seconds = std::max(row.wall_seconds, of_rank[rank][i].wall_seconds);
    }
    rows.push_back(row);
  }
}

}  // namespace

std::vector<LinkRow> measure_links(const MachineEffort& effort) {
  std::vector<LinkRow> rows;
  for (const int ranks : {2, 4})
    measure_on(ranks, effort, rows);
  return rows;
}

}  // namespace triplepoint::trainer
