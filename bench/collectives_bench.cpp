// SPDX-License-Identifier: Apache-2.0
// Our all-reduce between processes of one machine against the MPI's own, in turn: load of others
// hits both alike.
//
//   mpirun -n 2 build/bench/bench/ranks/collectives_bench [PAIRS]
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
// Only the C functions: the header warns about its C++ ones.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "triplepoint/mark/mark.h"

#include "trainer/comm/endpoint.h"
#include "trainer/comm/mpi_session.h"

namespace triplepoint::trainer {
namespace {

double user_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Side {
  std::vector<double> wall_ms;
  double cpu_ms = 0;

  double median() {
    std::sort(wall_ms.begin(), wall_ms.end());
    return wall_ms[wall_ms.size() / 2];
  }
};

template <class Work>
void time_one(Communicator& all, Side& side, const Work& work) {
  all.barrier();
  const double cpu = user_seconds();
  const int64_t begin = triplepoint_now();
  work();
  side.wall_ms.push_back(static_cast<double>(triplepoint_now() - begin) * 1e-6);
  side.cpu_ms += (user_seconds() - cpu) * 1e3;
}

/// Of all ranks.
double sum(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

void compare(Communicator& all, int64_t bytes, int pairs) {
  std::vector<float> ours(static_cast<size_t>(bytes / 4), 1e-6F), theirs = ours;
  Side own, mpi;
  for (int pair = 0; pair < pairs + 2; ++pair) {
    if (pair == 2) own = mpi = Side();  // the first two take pages from the system
    time_one(all, own, [&] { all.all_reduce(ours).wait(); });
    time_one(all, mpi, [&] {
      MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(theirs.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
    });
  }
  const double own_cpu = sum(own.cpu_ms) / pairs, mpi_cpu = sum(mpi.cpu_ms) / pairs;
  int faster = 0;
  for (size_t i = 0; i < own.wall_ms.size(); ++i)
    faster += own.wall_ms[i] <= mpi.wall_ms[i] ? 1 : 0;
  const double own_ms = own.median(), mpi_ms = mpi.median();
  if (all.index() != 0) return;
  fmt::print(
      "{:2} ranks {:6.1f} MB: ours {:8.2f} ms (least {:7.2f}, CPU {:8.2f}), MPI {:8.2f} ms (least "
      "{:7.2f}, CPU {:8.2f}), ours over "
      "MPI {:.2f}, faster in {} of {}\n",
      all.size(), static_cast<double>(bytes) / 1048576, own_ms, own.wall_ms.front(), own_cpu,
      mpi_ms, mpi.wall_ms.front(), mpi_cpu, own_ms / mpi_ms, faster, pairs);
}

int run(int pairs) {
  const Result<std::unique_ptr<MpiSession>> session = MpiSession::open();
  if (!session) return 1;
  auto transport = (*session)->transport(Carrier::automatic);
  if (!transport) return 1;
  Endpoint endpoint(*std::move(transport));
  std::vector<int> ranks(static_cast<size_t>(endpoint.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto all = endpoint.communicator(spec::GroupKind::data, ranks);
  for (const int64_t megabytes : {1, 4, 8, 16, 64})
    compare(*all, megabytes << 20, megabytes > 16 ? std::max(4, pairs / 4) : pairs);
  return 0;
}

}  // namespace
}  // namespace triplepoint::trainer

int main(int argc, char** argv) {
  return triplepoint::trainer::run(argc > 1 ? std::atoi(argv[1]) : 20);
}
