// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace triplepoint::telemetry::host {
namespace {

constexpr std::size_t most_output = 65536;

/// The two ends of a pipe, closed at the end.
class Pipe {
 public:
  Pipe() { works_ = pipe2(ends_.data(), O_CLOEXEC) == 0; }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  Pipe(Pipe&&) = delete;
  Pipe& operator=(Pipe&&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  bool works() const { return works_; }
  int end(std::size_t which) const { return ends_.at(which); }
  void close_end(std::size_t which) {
    if (ends_.at(which) >= 0) close(ends_.at(which));
    ends_.at(which) = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  bool works_ = false;
};

/// Starts the program in its own process group: Ctrl-C at the terminal is not for it, and it
/// can be killed with all it started.
int start(const std::vector<std::string>& command, int output, pid_t& pid) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t how;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&how);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, 1);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  const int failed = posix_spawnp(&pid, words[0], &files, &how, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  return failed;
}

/// Reads until the end of the pipe; false if that takes longer than the limit.
bool read_all(int from, int64_t end_ns, std::string& text) {
  std::array<char, 4096> buffer{};
  while (true) {
    const int64_t left_ms = (end_ns - monotonic_now_ns()) / 1'000'000;
    pollfd ready{.fd = from, .events = POLLIN, .revents = 0};
    if (left_ms <= 0 || poll(&ready, 1, static_cast<int>(left_ms)) == 0) return false;
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    if (text.size() < most_output) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<std::string> output_of(const std::vector<std::string>& command, Seconds limit) {
  Pipe pipe;
  pid_t pid = 0;
  if (!pipe.works()) return error("no pipe (too many open files?)");
  if (const int failed = start(command, pipe.end(1), pid); failed != 0)
    return error(fmt::format("{}: {}", command.front(), std::generic_category().message(failed)));
  pipe.close_end(1);
  std::string text;
  const auto limit_ns = static_cast<int64_t>(limit / unit::ns);
  const bool ended = read_all(pipe.end(0), monotonic_now_ns() + limit_ns, text);
  if (!ended) kill(-pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended)
    return error(fmt::format("{} takes longer than {:.0f} s", command.front(), limit / unit::s));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return error(fmt::format("{} failed (status {})", command.front(),
                             WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
  return text;
}

CommandSensor::CommandSensor(std::string name, CommandNumber number, double first)
    : name_(std::move(name)),
      number_(std::move(number)),
      channels_{number_.channel},
      value_(first),
      stamp_ns_(monotonic_now_ns()),
      asking_([this] { ask_again_and_again(); }) {}

CommandSensor::~CommandSensor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  asking_.join();
}

void CommandSensor::ask_again_and_again() {
  const auto period = std::chrono::nanoseconds(static_cast<int64_t>(number_.period / unit::ns));
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return stop_; })) {
    lock.unlock();
    ask();
    lock.lock();
  }
}

void CommandSensor::ask() {
  const int64_t begin = monotonic_now_ns();
  const auto text = output_of(number_.command, number_.limit);
  const int64_t end = monotonic_now_ns();
  const auto value = text ? number_.parse(*text) : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (value) {
    value_ = *value;
    stamp_ns_ = begin + (end - begin) / 2;
    failing_ = false;
    return;
  }
  if (std::exchange(failing_, true)) return;
  troubles_.push_back(
      fmt::format("{} cannot be read ({}); its series has a gap", channels_.front().about.signal,
                  text ? number_.command.front() + " prints no number" : text.error().what));
}

void CommandSensor::read(bool slow, std::vector<Reading>& readings) {
  if (!slow) return;
  // Never waits for the thread that asks: without the lock there is no reading this time.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const auto oldest = static_cast<int64_t>(3 * number_.period / unit::ns);
  if (lock && monotonic_now_ns() - stamp_ns_ <= oldest) readings.push_back({0, stamp_ns_, value_});
}

std::vector<std::string> CommandSensor::take_troubles() {
  const std::lock_guard lock(mutex_);
  return std::exchange(troubles_, {});
}

}  // namespace triplepoint::telemetry::host
