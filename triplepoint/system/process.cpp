// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/system/process.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "triplepoint/base/descriptor.h"

namespace triplepoint {

namespace {

// A signal handler can reach nothing but a lock-free global.
std::atomic<bool> mark{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<bool>::is_always_lock_free);

/// Only calls that a handler may make.
void end_with_a_word(int signal) {
  constexpr std::string_view word = "triplepoint: interrupted\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, word.data(), word.size());
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

void note_interrupt(int signal) {
  mark = true;
  std::signal(signal, SIG_DFL);
}

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds look_every{20};
constexpr std::chrono::seconds patience{5};

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers = mapped(texts, [](std::string& text) { return text.data(); });
  pointers.push_back(nullptr);
  return pointers;
}

std::optional<int> wait_until(pid_t id, Clock::time_point end,
                              const std::function<bool()>& stopped) {
  while (true) {
    if (const auto code = exit_code_of(id)) return code;
    if (Clock::now() >= end || stopped()) return std::nullopt;
    std::this_thread::sleep_for(look_every);
  }
}

/// Launchers end their ranks when they are asked to; what is left has no say.
void end_group(pid_t id) {
  const auto never = [] { return false; };
  kill(-id, SIGTERM);
  const auto code = wait_until(id, Clock::now() + patience, never);
  kill(-id, SIGKILL);
  if (!code) wait_until(id, Clock::now() + patience, never);
}

std::atomic<int64_t> running{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// What a task and the thread that waits for it share.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
};

}  // namespace

void listen_for_interrupts() {
  std::signal(SIGINT, note_interrupt);
  std::signal(SIGTERM, note_interrupt);
  if (std::signal(SIGHUP, note_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
  std::signal(SIGPIPE, SIG_IGN);
}

void let_interrupts_end_us() {
  std::signal(SIGINT, end_with_a_word);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGHUP, SIG_DFL) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

bool interrupted() {
  return mark;
}

void set_interrupted(bool value) {
  mark = value;
}

}  // namespace triplepoint

extern char** environ;  // NOLINT: POSIX says so

namespace triplepoint {

Result<pid_t> spawn(const SpawnPlan& plan) {
  std::vector<std::string> words = plan.command, environment = plan.environment;
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  if (plan.apart) posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (plan.output) posix_spawn_file_actions_adddup2(&files, *plan.output, STDOUT_FILENO);
  if (plan.errors) posix_spawn_file_actions_adddup2(&files, *plan.errors, STDERR_FILENO);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ})
    sigaddset(&defaults, signal);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  if (plan.blocked) posix_spawnattr_setsigmask(&attributes, &*plan.blocked);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGDEF | (plan.apart ? POSIX_SPAWN_SETPGROUP : 0) |
                         (plan.blocked ? POSIX_SPAWN_SETSIGMASK : 0)));
  pid_t id = 0;
  const int code =
      posix_spawnp(&id, words[0].c_str(), &files, &attributes, pointers_to(words).data(),
                   environment.empty() ? environ : pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (code == 0) return id;
  return error("cannot run {} ({}); check its name and PATH", words[0],
               std::generic_category().message(code));
}

std::optional<int> exit_code_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Result<GroupEnd> run_in_group(const std::vector<std::string>& command, const Path& log,
                              Seconds timeout, const std::function<bool()>& stopped) {
  const Descriptor file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file)
    return error("cannot write {} ({}); check the folder", log.string(),
                 std::generic_category().message(errno));
  const pid_t id =
      TPT_TRY(spawn({.command = command, .output = file.number(), .errors = file.number()}));
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout / unit::s));
  const auto code = wait_until(id, Clock::now() + limit, stopped);
  if (code) return GroupEnd{GroupEnd::How::exited, *code};
  const bool asked = stopped();
  end_group(id);
  return GroupEnd{asked ? GroupEnd::How::stopped : GroupEnd::How::timed_out, 128 + SIGTERM};
}

void start_detached(std::function<void()> task) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  ++running;
  std::thread([task = std::move(task)]() mutable {
    task();
    task = nullptr;  // what it owns is destroyed before the thread counts as ended
    --running;
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool ends_within(Seconds limit, std::function<void()> task) {
  const auto completion = std::make_shared<Completion>();
  start_detached([completion, task = std::move(task)]() mutable {
    task();
    task = nullptr;
    const std::lock_guard lock(completion->mutex);
    completion->ended = true;
    completion->changed.notify_all();
  });
  std::unique_lock lock(completion->mutex);
  return completion->changed.wait_for(lock, std::chrono::duration<double>(limit / unit::s),
                                      [&] { return completion->ended; });
}

int64_t detached_threads() {
  return running;
}

int leave_process(int code) {
  // A thread that has done its work may need a moment to end.
  for (int i = 0; i < 50 && running > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (running == 0) return code;
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace triplepoint
