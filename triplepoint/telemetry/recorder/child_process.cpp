// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/child_process.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <unistd.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/open_file.h"

namespace triplepoint::telemetry {

namespace {

constexpr int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

/// nohup and its like make us deaf to a signal; then it is not ours to take.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Our environment with some variables set.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!variables.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  all.reserve(all.size() + variables.size());
  for (const auto& [name, value] : variables)
    all.push_back(fmt::format("{}={}", name, value));
  return all;
}

constexpr size_t most_processes = 4096;

/// The children of all threads of a process; kernels without CONFIG_PROC_CHILDREN tell none.
std::vector<int64_t> children_of(int64_t pid, const Path& proc) {
  std::vector<int64_t> children;
  const Path tasks = proc / std::to_string(pid) / "task";
  for (const std::string& task : names_in(tasks))
    if (const auto text = read_file(tasks / task / "children"))
      std::ranges::copy(numbers_in<int64_t>(*text), std::back_inserter(children));
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

SignalsForCommand::SignalsForCommand() {
  sigemptyset(&taken_);
  sigaddset(&taken_, SIGCHLD);
  for (int signal : passed_on)
    if (!is_ignored(signal)) sigaddset(&taken_, signal);
  pthread_sigmask(SIG_BLOCK, &taken_, &before_);
  // A file that may not grow any more is an error code, not an end.
  std::signal(SIGXFSZ, SIG_IGN);
}

SignalsForCommand::~SignalsForCommand() {
  const timespec now{};
  while (sigtimedwait(&taken_, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalsForCommand::take_end() const {
  sigset_t ends;
  sigemptyset(&ends);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (sigismember(&taken_, signal) == 1) sigaddset(&ends, signal);
  const timespec now{};
  const int signal = sigtimedwait(&ends, nullptr, &now);
  if (signal <= 0) return std::nullopt;
  return signal;
}

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command,
                                         const std::map<std::string, std::string>& variables,
                                         const SignalsForCommand& signals, Place place) {
  const pid_t id = TPT_TRY(spawn({.command = command,
                                  .environment = environment_with(variables),
                                  .apart = place == Place::apart,
                                  .blocked = signals.before()}));
  return ChildProcess(id, signals.taken(), place);
}

std::optional<int> ChildProcess::wait_for(Seconds most) {
  if (const auto code = exit_code_of(id_)) return code;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double end = as_real(now.tv_sec) + 1e-9 * as_real(now.tv_nsec) + most / unit::s;
  while (true) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double left = end - as_real(now.tv_sec) - 1e-9 * as_real(now.tv_nsec);
    if (left <= 0) return std::nullopt;
    const timespec wait{static_cast<time_t>(left),
                        static_cast<long>((left - as_real(static_cast<time_t>(left))) * 1e9)};
    siginfo_t info{};
    const int signal = sigtimedwait(&signals_, &info, &wait);
    if (signal == SIGCHLD) {
      if (const auto code = exit_code_of(id_)) return code;
    } else if (signal > 0) {
      pass_on(signal, info.si_code == SI_KERNEL);
    }
  }
}

void ChildProcess::pass_on(int signal, bool from_terminal) {
  const bool asks_for_end = signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
  const bool is_first = asks_for_end && !end_request_;
  if (is_first) end_request_ = signal;
  if (place_ == Place::apart)
    kill(id_, is_first && signal != SIGTERM ? SIGUSR1 : signal);
  else if (!from_terminal)
    kill(id_, signal);
}

int start_failed(const std::string& command) {
  constexpr int not_found = 127, not_runnable = 126;
  const bool is_path = command.find('/') != std::string::npos;
  return is_path && access(command.c_str(), F_OK) == 0 ? not_runnable : not_found;
}

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
          return value_at(variables, std::string_view(name));
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
