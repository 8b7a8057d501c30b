// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/descendants.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "triplepoint/telemetry/open_file.h"

namespace triplepoint::telemetry {
namespace {

constexpr size_t most_processes = 4096;

std::vector<int64_t> numbers_in(std::string_view text) {
  std::vector<int64_t> numbers;
  while (true) {
    while (!text.empty() && (text.front() < '0' || text.front() > '9'))
      text.remove_prefix(1);
    int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc()) return numbers;
    numbers.push_back(number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
}

/// The children of all threads of a process; kernels without CONFIG_PROC_CHILDREN tell none.
std::vector<int64_t> children_of(int64_t pid, const Path& proc) {
  std::vector<int64_t> children;
  const Path tasks = proc / std::to_string(pid) / "task";
  for (const std::string& task : names_in(tasks))
    if (const auto text = read_file(tasks / task / "children"))
      std::ranges::copy(numbers_in(*text), std::back_inserter(children));
  return children;
}

/// The process and all below it, parents first.
std::vector<int64_t> tree_of(int64_t pid, const Path& proc) {
  std::vector<int64_t> tree = {pid};
  std::set<int64_t> seen = {pid};
  for (size_t i = 0; i < tree.size() && tree.size() < most_processes; ++i)
    for (const int64_t child : children_of(tree[i], proc))
      if (seen.insert(child).second) tree.push_back(child);
  return tree;
}

/// What a process was started with; empty where that may not be read.
std::map<std::string, std::string, std::less<>> environment_of(int64_t pid, const Path& proc) {
  std::map<std::string, std::string, std::less<>> variables;
  const auto text = read_file(proc / std::to_string(pid) / "environ");
  for (std::string_view rest = text ? std::string_view(*text) : ""; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (const auto equals = entry.find('='); equals != std::string_view::npos)
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

}  // namespace

bool sees_all_processes(const Path& proc) {
  // The number of the first name space of processes: PROC_PID_INIT_INO of Linux.
  constexpr std::string_view first = "pid:[4026531836]";
  std::error_code problem;
  return std::filesystem::read_symlink(proc / "self/ns/pid", problem).string() == first;
}

std::vector<RankProcess> ranks_below(int64_t pid, const LaunchEnvironment& own, const Path& proc) {
  std::vector<RankProcess> found;
  for (const int64_t process : tree_of(pid, proc)) {
    const auto variables = environment_of(process, proc);
    LaunchEnvironment launch =
        read_launch_environment([&](const char* name) -> std::optional<std::string> {
          const auto value = variables.find(std::string_view(name));
          return value == variables.end() ? std::nullopt : std::optional(value->second);
        });
    if (!launch.rank) continue;
    if (launch.launcher == own.launcher && launch.rank == own.rank) continue;
    const auto same = std::ranges::find_if(
        found, [&](const RankProcess& other) { return other.launch.rank == launch.rank; });
    if (same == found.end())
      found.push_back({process, std::move(launch), {process}});
    else
      same->all_pids.push_back(process);
  }
  return found;
}

}  // namespace triplepoint::telemetry
