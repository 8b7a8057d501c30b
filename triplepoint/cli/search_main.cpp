// SPDX-License-Identifier: Apache-2.0
// `triplepoint plan` under mpirun: the same command, searched by all ranks together. A separate
// program, so that nothing else links MPI.
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include <mpi.h>

#include "triplepoint/base/process.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/cli/commands/plan.h"
#include "triplepoint/tui/console.h"

namespace {

using triplepoint::search::WorkerPool;

/// What every rank gave, by rank.
std::vector<std::string> share_over_mpi(int size, const std::string& mine) {
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<size_t>(size)), offsets(lengths.size());
  MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int total = 0;
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    offsets[rank] = total;
    total += lengths[rank];
  }
  std::string all(static_cast<size_t>(total), '\0');
  MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                 MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> parts;
  for (size_t rank = 0; rank < lengths.size(); ++rank)
    parts.push_back(
        all.substr(static_cast<size_t>(offsets[rank]), static_cast<size_t>(lengths[rank])));
  return parts;
}

WorkerPool pool_of_world() {
  WorkerPool pool;
  MPI_Comm_rank(MPI_COMM_WORLD, &pool.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &pool.size);
  pool.share = [size = pool.size](const std::string& mine) { return share_over_mpi(size, mine); };
  return pool;
}

int plan_together(const std::vector<std::string>& words) {
  using namespace triplepoint;
  using namespace triplepoint::cli;
  namespace tui = triplepoint::tui;
  const WorkerPool pool = pool_of_world();
  std::ostringstream discarded;
  tui::Console console =
      pool.rank == 0 ? tui::process_console() : tui::Console(discarded, discarded, {});
  const std::unique_ptr<Command> command = make_plan_in_pool(pool);
  for (const CommandEntry& entry : commands())
    if (entry.name == "plan")
      return run_command(entry, *command, std::span(words).subspan(1), console);
  return exit_failed;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  int code = triplepoint::cli::exit_usage;
  if (words.empty() || words[0] != "plan") {
    std::fputs(
        "usage: mpirun -n N triplepoint-search plan ... (mpirun -n N triplepoint plan ... "
        "starts it)\n",
        stderr);
  } else {
    triplepoint::listen_for_interrupts();
    code = plan_together(words);
  }
  MPI_Finalize();
  return code;
}
