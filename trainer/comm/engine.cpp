// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/engine.h"

#include <algorithm>

#include <fmt/format.h>

#include "trainer/spans.h"

namespace triplepoint::trainer {

Endpoint::Engine::Engine(std::unique_ptr<Transport> transport, EndpointSettings settings)
    : transport_(std::move(transport)), settings_(std::move(settings)) {
  if (settings_.progress_thread) background_ = std::thread([this] { run_in_background(); });
}

Endpoint::Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  if (background_.joinable()) background_.join();
}

void Endpoint::Engine::add(GroupCommunicator& group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(&group);
}

void Endpoint::Engine::remove(GroupCommunicator& group) {
  const std::lock_guard lock(mutex_);
  groups_.erase(std::remove(groups_.begin(), groups_.end(), &group), groups_.end());
  active_ -= static_cast<int64_t>(group.queue_.size() + group.alone_.size());
}

void Endpoint::Engine::start(const std::shared_ptr<Pending::State>& state) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CommError(failure_);
    (state->alone ? state->group.alone_ : state->group.queue_).push_back(state);
    ++active_;
    progress();
  }
  if (settings_.progress_thread) started_.notify_one();
}

bool Endpoint::Engine::progress() {
  try {
    bool moved = false;
    for (GroupCommunicator* group : groups_) {
      if (!group->queue_.empty()) moved |= progress_group(*group);
      if (!group->alone_.empty()) moved |= progress_alone(*group);
    }
    return moved;
  } catch (const CommError& error) {
    failure_ = error.what();
    throw;
  }
}

bool Endpoint::Engine::progress_group(GroupCommunicator& group) {
  bool moved = false;
  while (!group.queue_.empty()) {
    Pending::State& state = *group.queue_.front();
    if (state.begin_ns == 0) state.begin_ns = triplepoint_now();
    if (!state.operation.advance(*transport_, group.workspaces_)) return moved;
    moved = true;
    state.moved_ns = triplepoint_now();
    if (!state.operation.complete()) return moved;
    --active_;
    group.finish(state);
    group.queue_.pop_front();
  }
  return moved;
}

bool Endpoint::Engine::progress_alone(GroupCommunicator& group) {
  bool moved = false;
  for (size_t i = 0; i < group.alone_.size();) {
    Pending::State& state = *group.alone_[i];
    if (state.begin_ns == 0) state.begin_ns = triplepoint_now();
    if (state.operation.advance(*transport_, state.own)) {
      moved = true;
      state.moved_ns = triplepoint_now();
    }
    if (!state.operation.complete()) {
      ++i;
      continue;
    }
    --active_;
    group.finish(state);
    group.alone_.erase(group.alone_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

bool Endpoint::Engine::look() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw CommError(failure_);
  return progress();
}

bool Endpoint::Engine::done(Pending::State& state) {
  if (!state.over.load(std::memory_order_acquire)) look();
  return state.over.load(std::memory_order_acquire);
}

void Endpoint::Engine::wait(Pending::State& state) {
  if (done(state)) return;
  const int64_t begin = triplepoint_now();
  int64_t checked = begin;
  for (int looks = 0; !state.over.load(std::memory_order_acquire);) {
    if (look()) {
      looks = 0;
      continue;
    }
    transport_->rest(looks++);
    const int64_t now = triplepoint_now();
    if (now - checked < 10'000'000) continue;
    checked = now;
    check_silence(state, begin);
  }
  Traffic& traffic = state.group.traffic_[static_cast<size_t>(state.collective)];
  const std::lock_guard lock(mutex_);
  traffic.wait_seconds += static_cast<double>(triplepoint_now() - begin) * 1e-9;
}

void Endpoint::Engine::check_silence(Pending::State& state, int64_t since_ns) {
  std::string sentence;
  {
    const std::lock_guard lock(mutex_);
    if (state.over.load()) return;
    // Those before it in the group's order hold it up.
    const Pending::State& first = state.alone ? state : *state.group.queue_.front();
    const int64_t silent = triplepoint_now() - std::max(first.moved_ns, since_ns);
    if (static_cast<double>(silent) * 1e-9 < settings_.timeout_seconds) return;
    sentence = fmt::format(
        "rank {} has waited {:.3g} s for rank {} in {} of the {} (it does not answer); see what "
        "rank {} said last, or allow a longer timeout",
        transport_->rank(), static_cast<double>(silent) * 1e-9, first.operation.waits_for(),
        spec::name_of(first.collective), state.group.text(), first.operation.waits_for());
    failure_ = sentence;
    transport_->abort(sentence.c_str());
  }
  throw CommError(sentence);
}

void Endpoint::Engine::abort(const char* why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  transport_->abort(why);
}

void Endpoint::Engine::run_in_background() {
  introduce_rank(transport_->rank());
  for (int looks = 0;;) {
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return stop_ || (active_ > 0 && failure_.empty()); });
      if (stop_) return;
      try {
        if (progress()) looks = 0;
      } catch (const CommError&) {
        continue;  // progress() has kept the sentence for the rank's own thread
      }
    }
    transport_->rest(looks++);
  }
}

}  // namespace triplepoint::trainer
