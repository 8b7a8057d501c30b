// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/cli/commands/plan_in_pool.h"

namespace triplepoint::cli {
namespace {

/// How many processes an MPI launcher says it started: Open MPI, MPICH and its like.
long launched_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::strtol(value, nullptr, 10);
  return 1;
}

/// The words this process was started with.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');)
    words.push_back(std::move(word));
  return words;
}

}  // namespace

Result<void> become_distributed_search() {
  if (launched_processes() < 2) return {};
  std::vector<std::string> words = own_words();
  if (words.size() < 2 || words[1] != "plan") return {};
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path search = own.parent_path() / "triplepoint-search";
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(search.c_str(), pointers.data());
  return error(fmt::format(
      "plan was started by mpirun, but {} cannot be run (it is built where MPI is found); install "
      "it (apt install libopenmpi-dev openmpi-bin, then build), or use --shard and --merge",
      search.string()));
}

}  // namespace triplepoint::cli
