// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/endpoint.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/result.h"

#include "triplepoint/mark/mark.h"

#include "trainer/spans.h"

namespace triplepoint::trainer {
namespace {

/// As the recorder and the traces of others call them.
const char* short_name(spec::GroupKind kind) {
  constexpr std::array names = {"tp", "cp",    "ep",        "etp",   "dp",     "edp",
                                "pp", "model", "embedding", "shard", "replica"};
  static_assert(names.size() == spec::group_kind_count);
  return names[as_size(kind)];
}

}  // namespace

Endpoint::Endpoint(std::unique_ptr<Transport> transport, EndpointSettings settings)
    : transport_(std::move(transport)), settings_(settings) {
  if (settings_.progress_thread) background_ = std::thread([this] { run_in_background(); });
}

Endpoint::~Endpoint() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  if (background_.joinable()) background_.join();
}

std::unique_ptr<Communicator> Endpoint::communicator(spec::GroupKind kind, std::vector<int> ranks,
                                                     int instance) {
  const auto me = std::ranges::find(ranks, rank());
  TPT_EXPECT(me != ranks.end());
  TPT_EXPECT(instance >= 0 && instance < most_instances);
  const int index = static_cast<int>(me - ranks.begin());
  const std::lock_guard lock(mutex_);
  auto transport =
      ranks.size() == 1
          ? nullptr
          : transport_->group(ranks, static_cast<int>(kind) * most_instances + instance);
  return std::make_unique<Communicator>(*this, std::move(transport), kind, std::move(ranks), index);
}

void Endpoint::forget(const Communicator& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(under_way_, [&](const auto& state) { return &state->group == &group; });
}

bool Endpoint::progress() {
  try {
    const size_t before = under_way_.size();
    std::erase_if(under_way_, [this](const std::shared_ptr<Pending::State>& state) {
      if (!state->transfer->done()) return false;
      finish(*state);
      return true;
    });
    return under_way_.size() < before;
  } catch (const CommError& error) {
    failure_ = error.what();
    throw;
  }
}

void Endpoint::finish(Pending::State& state) {
  Traffic& traffic = state.group.traffic_[as_size(state.collective)];
  if (state.counted && state.payload >= 0) {
    ++traffic.calls;
    traffic.payload += state.payload;
  }
  if (state.counted)
    ScopedSpan::emit({.name = spec::name_of(state.collective).data(),  // a literal
                      .group = short_name(state.group.kind()),
                      .bytes = state.payload},
                     state.begin_ns, triplepoint_now());
  state.over.store(true, std::memory_order_release);
}

bool Endpoint::look() {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw CommError(failure_);
  return progress();
}

bool Endpoint::done(Pending::State& state) {
  if (!state.over.load(std::memory_order_acquire)) look();
  return state.over.load(std::memory_order_acquire);
}

void Endpoint::wait(Pending::State& state) {
  const int64_t begin = triplepoint_now();
  int64_t checked = begin;
  for (int looks = 0; !done(state);) {
    transport_->rest(looks++);
    const int64_t now = triplepoint_now();
    if (now - checked < 10'000'000) continue;
    checked = now;
    check_silence(state, begin);
  }
}

void Endpoint::check_silence(Pending::State& state, int64_t since_ns) {
  std::string sentence;
  {
    const std::lock_guard lock(mutex_);
    const double silent = as_real(triplepoint_now() - since_ns) * 1e-9;
    if (silent < settings_.timeout_seconds || state.over.load() || state.transfer->done()) return;
    const int peer = state.transfer->waits_for();
    const std::string who = peer < 0 ? "others" : fmt::format("rank {}", peer);
    sentence = fmt::format(
        "rank {} has waited {:.3g} s for {} in {} of the {} (no answer); see the last output of "
        "{}, or allow a longer timeout",
        rank(), silent, who, spec::name_of(state.collective), state.group.text(), who);
  }
  abort(sentence.c_str());
  throw CommError(sentence);
}

void Endpoint::abort(const char* why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  transport_->abort(why);
  under_way_.clear();
}

void Endpoint::run_in_background() {
  introduce_rank(rank());
  for (int looks = 0;;) {
    {
      std::unique_lock lock(mutex_);
      started_.wait(lock, [&] { return stop_ || (!under_way_.empty() && failure_.empty()); });
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
