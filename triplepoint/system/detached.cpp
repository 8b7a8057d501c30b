// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/system/detached.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <pthread.h>
#include <unistd.h>

namespace triplepoint {
namespace {

std::atomic<int64_t> running{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// What a task and the thread that waits for it share.
struct Completion {
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
};

}  // namespace

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
