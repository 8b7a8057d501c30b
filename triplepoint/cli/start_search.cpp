// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/start_search.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace triplepoint::cli {
namespace {

/// How many processes an MPI launcher says it started: Open MPI, MPICH and its like.
long launched_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::strtol(value, nullptr, 10);
  return 1;
}

}  // namespace

Result<void> become_search_under_mpi(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "plan" || launched_processes() < 2) return {};
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path search = own.parent_path() / "triplepoint-search";
  execv(search.c_str(), argv);
  return error(fmt::format(
      "plan was started by mpirun, but {} cannot be run (it is built where MPI is found); install "
      "it (apt install libopenmpi-dev openmpi-bin, then build), or use --shard and --merge",
      search.string()));
}

}  // namespace triplepoint::cli
