// SPDX-License-Identifier: Apache-2.0
#include "tests/doubles/cuda/streams.h"

#include <utility>

namespace triplepoint::trainer::cuda_double {

uint64_t EventState::begin_record() {
  const std::lock_guard lock(mutex_);
  return ++recorded_;
}

void EventState::complete(uint64_t record) {
  {
    const std::lock_guard lock(mutex_);
    completed_ = std::max(completed_, record);
  }
  changed_.notify_all();
}

void EventState::wait(uint64_t record) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= record; });
}

uint64_t EventState::recorded() {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

bool EventState::is_over(uint64_t record) {
  const std::lock_guard lock(mutex_);
  return completed_ >= record;
}

StreamState::StreamState() : thread_([this] { play(); }) {}

StreamState::~StreamState() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamState::give(Act act) {
  {
    const std::lock_guard lock(mutex_);
    if (captures_) {
      captured_.push_back(std::move(act));
      return;
    }
    queue_.push_back(std::move(act));
  }
  changed_.notify_all();
}

bool StreamState::idle() {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

void StreamState::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

void StreamState::begin_capture() {
  const std::lock_guard lock(mutex_);
  captures_ = true;
  captured_.clear();
}

std::vector<Act> StreamState::end_capture() {
  const std::lock_guard lock(mutex_);
  captures_ = false;
  return std::exchange(captured_, {});
}

void StreamState::play() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    busy_ = true;
    {
      const Act act = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      act();
    }
    lock.lock();
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

}  // namespace triplepoint::trainer::cuda_double
