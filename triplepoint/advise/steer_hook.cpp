// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_hook.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace triplepoint::advise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto pause = std::chrono::milliseconds(10);

/// The command in its own process group, with a pipe to its standard input.
struct Child {
  pid_t id = -1;
  int input = -1;
};

Child start(const std::string& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t id = ::fork();
  if (id == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[0], STDIN_FILENO);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[0]);
  if (id < 0) {
    ::close(ends[1]);
    return {};
  }
  ::setpgid(id, id);  // both sides do: the first one counts
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  return {id, ends[1]};
}

/// Hands over what the command takes now. False: nothing more will be taken.
bool feed(const Child& child, const std::string& text, std::size_t& done) {
  while (done < text.size()) {
    const ssize_t count = ::write(child.input, text.data() + done, text.size() - done);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    done += static_cast<std::size_t>(count);
  }
  return false;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

/// Feeds and waits; nothing if it took too long.
std::optional<int> wait_for(Child& child, const std::string& text, Seconds timeout) {
  const auto end = Clock::now() + std::chrono::duration<double>(timeout / unit::s);
  std::size_t done = 0;
  while (true) {
    if (child.input >= 0 && !feed(child, text, done)) {
      ::close(child.input);
      child.input = -1;
    }
    int status = 0;
    if (::waitpid(child.id, &status, WNOHANG) == child.id) return status;
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Hook::Outcome Hook::call(const std::string& json, Seconds now) {
  if (in_a_row_ >= most_failures)
    return {false, false,
            fmt::format("the hook failed {} times in a row and is left alone", in_a_row_)};
  if (last_call_ && now - *last_call_ < gap_)
    return {false, false,
            fmt::format("the hook was called {:.0f} s ago; not again within {:.0f} s",
                        (now - *last_call_) / unit::s, gap_ / unit::s)};
  last_call_ = now;
  // A command that does not read must not end us.
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  Child child = start(command_);
  std::optional<int> status;
  if (child.id > 0) status = wait_for(child, json, timeout_);
  if (child.id > 0 && !status) {
    ::kill(-child.id, SIGKILL);
    ::waitpid(child.id, nullptr, 0);
  }
  if (child.input >= 0) ::close(child.input);
  std::signal(SIGPIPE, before);
  const bool worked = status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
  in_a_row_ = worked ? 0 : in_a_row_ + 1;
  failures_ += worked ? 0 : 1;
  if (worked) return {true, true, "the hook did it"};
  if (child.id < 0) return {true, false, "the hook could not be started"};
  if (!status)
    return {true, false,
            fmt::format("the hook took longer than {:.0f} s and was ended", timeout_ / unit::s)};
  return {true, false, "the hook " + how_it_ended(*status)};
}

}  // namespace triplepoint::advise
