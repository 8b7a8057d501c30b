// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/engine.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "triplepoint/base/result.h"

#include "trainer/comm/endpoint.h"
#include "trainer/comm/wire.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {
namespace {

// Of a communicator: the lanes of its collectives, then the channels of its messages.
constexpr int lane_channels = 16;
constexpr int channels_each = lane_channels + Endpoint::most_channels;
static_assert(lane_channels >= most_lanes);

}  // namespace

Endpoint::Endpoint(std::unique_ptr<Transport> transport, EndpointSettings settings)
    : engine_(std::make_unique<Engine>(std::move(transport), std::move(settings))) {}

Endpoint::~Endpoint() = default;

int Endpoint::rank() const {
  return engine_->transport().rank();
}

int Endpoint::size() const {
  return engine_->transport().size();
}

void Endpoint::abort(const char* why) {
  engine_->abort(why);
}

std::unique_ptr<Communicator> Endpoint::communicator(spec::GroupKind kind, std::vector<int> ranks,
                                                     int instance) {
  const auto me = std::find(ranks.begin(), ranks.end(), rank());
  TPT_EXPECT(me != ranks.end());
  TPT_EXPECT(instance >= 0 && instance < most_instances);
  const int number = static_cast<int>(kind) * most_instances + instance;
  const int index = static_cast<int>(me - ranks.begin());
  return std::make_unique<GroupCommunicator>(*engine_, kind, std::move(ranks), index,
                                             number * channels_each);
}

namespace {

int64_t numbers_in(const std::vector<Message>& messages) {
  int64_t count = 0;
  for (const Message& message : messages)
    count += message.slice.count;
  return count;
}

struct WireNeeds {
  int64_t sends = 0, receives = 0;  // of the largest round
  int64_t total() const { return sends + 2 * receives; }
};

WireNeeds wire_needs(const Lane& lane) {
  WireNeeds needs;
  for (const Round& round : lane) {
    needs.sends = std::max(needs.sends, numbers_in(round.sends));
    needs.receives = std::max(needs.receives, numbers_in(round.receives));
  }
  return needs;
}

template <typename T>
std::span<const std::byte> bytes_at(const T* numbers, int64_t count) {
  return std::as_bytes(std::span(numbers, static_cast<size_t>(count)));
}

template <typename T>
std::span<std::byte> room_at(T* numbers, int64_t count) {
  return std::as_writable_bytes(std::span(numbers, static_cast<size_t>(count)));
}

}  // namespace

float* Operation::place(const Slice& slice) const {
  return (slice.array == Array::scratch ? scratch_ : buffers_.output) + slice.begin;
}

const float* Operation::source(const Slice& slice) const {
  return slice.array == Array::input ? buffers_.input + slice.begin : place(slice);
}

void Operation::start(const Transport& transport, Workspaces& workspaces) {
  started_ = true;
  absorbs_ = transport.can_reduce_on_receive() && buffers_.wire == Wire::fp32;
  scratch_ = workspaces.scratch.at_least(schedule_->scratch);
  lanes_.resize(schedule_->lanes.size());
  if (buffers_.wire == Wire::fp32) return;
  int64_t total = 0;
  for (const Lane& lane : schedule_->lanes)
    total += wire_needs(lane).total();
  uint16_t* wire = workspaces.wire.at_least(total);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const WireNeeds needs = wire_needs(schedule_->lanes[i]);
    lanes_[i].send_wire = wire;
    lanes_[i].receive_wire[0] = wire + needs.sends;
    lanes_[i].receive_wire[1] = wire + needs.sends + needs.receives;
    wire += needs.total();
  }
}

bool Operation::advance(Transport& transport, Workspaces& workspaces) {
  if (native_ != nullptr) return advance_native(transport);
  bool moved = false;
  if (!started_) start(transport, workspaces), moved = true;
  for (size_t i = 0; i < lanes_.size(); ++i)
    moved |= advance_lane(schedule_->lanes[i], lanes_[i], transport);
  finished_lanes_ = 0;
  for (size_t i = 0; i < lanes_.size(); ++i)
    finished_lanes_ += lanes_[i].round == schedule_->lanes[i].size() ? 1 : 0;
  if (moved && complete() && buffers_.wire == Wire::bf16)
    round_to_bf16(buffers_.output, buffers_.output_count);
  return moved;
}

bool Operation::advance_native(Transport& transport) {
  if (!started_) {
    native_ticket_ = native_();
    return started_ = true;
  }
  if (!transport.done(native_ticket_)) return false;
  native_ = nullptr;
  return true;
}

bool Operation::advance_lane(const Lane& lane, LaneRun& run, Transport& transport) {
  bool moved = false;
  while (run.round < lane.size()) {
    const Round& round = lane[run.round];
    if (!run.posted) {
      if (!run.next_receives_posted)
        post_receives(lane, run.round, run, run.receives, transport);
      else
        run.receives.swap(run.next_receives), run.next_receives.clear();
      run.next_receives_posted = false;
      post_sends(round, run, transport);
      run.posted = moved = true;
    }
    const bool received = poll(run.receives, transport, moved);
    const bool sent = poll(run.sends, transport, moved);
    if (!received || !sent) {
      if (!run.next_receives_posted && run.round + 1 < lane.size() && lane[run.round + 1].early) {
        post_receives(lane, run.round + 1, run, run.next_receives, transport);
        run.next_receives_posted = true;
      }
      return moved;
    }
    work(round, run);
    run.posted = false;
    ++run.round;
  }
  return moved;
}

void Operation::post_receives(const Lane& lane, size_t number, LaneRun& run,
                              std::vector<Flight>& flights, Transport& transport) {
  flights.clear();
  const int channel = route_.channel + static_cast<int>(&run - lanes_.data());
  uint16_t* wire = run.receive_wire[number % 2];
  for (const Message& message : lane[number].receives) {
    const int from = (*route_.ranks)[static_cast<size_t>(message.peer)];
    const int64_t count = message.slice.count;
    if (absorbs_ && message.absorbed_by >= 0) {
      const LocalWork& work = lane[number].then[static_cast<size_t>(message.absorbed_by)];
      flights.push_back({absorb(message, work, channel, transport), &message, nullptr, false});
      continue;
    }
    const auto room = wire != nullptr ? room_at(wire, count) : room_at(place(message.slice), count);
    flights.push_back({transport.receive(from, channel, room), &message, wire, false});
    if (wire != nullptr) wire += count;
  }
}

Transport::Ticket Operation::absorb(const Message& message, const LocalWork& work, int channel,
                                    Transport& transport) {
  const int from = (*route_.ranks)[static_cast<size_t>(message.peer)];
  return transport.receive_reduce(from, channel,
                                  static_cast<size_t>(message.slice.count) * sizeof(float),
                                  {.to = place(work.to),
                                   .other = source(work.other),
                                   .maximum = buffers_.reduction == Reduction::maximum});
}

void Operation::post_sends(const Round& round, LaneRun& run, Transport& transport) {
  run.sends.clear();
  const int channel = route_.channel + static_cast<int>(&run - lanes_.data());
  uint16_t* wire = run.send_wire;
  for (const Message& message : round.sends) {
    const int to = (*route_.ranks)[static_cast<size_t>(message.peer)];
    const int64_t count = message.slice.count;
    const float* numbers = source(message.slice);
    if (wire != nullptr) encode(numbers, wire, count);
    const auto bytes = wire != nullptr ? bytes_at(wire, count) : bytes_at(numbers, count);
    run.sends.push_back({transport.send(to, channel, bytes), &message, wire, false});
    if (wire != nullptr) wire += count;
  }
}

bool Operation::poll(std::vector<Flight>& flights, Transport& transport, bool& moved) {
  bool all = true;
  for (Flight& flight : flights) {
    if (!flight.landed && transport.done(flight.ticket)) flight.landed = moved = true;
    all &= flight.landed;
  }
  return all;
}

void Operation::work(const Round& round, const LaneRun& run) {
  if (buffers_.wire == Wire::bf16)
    for (const Flight& flight : run.receives)
      decode(flight.wire, place(flight.message->slice), flight.message->slice.count);
  for (const LocalWork& local : round.then) {
    if (absorbs_ && local.can_reduce_on_receive) continue;
    float* to = place(local.to);
    const float* from = source(local.from);
    if (local.kind == LocalWork::Kind::combine)
      combine(from, source(local.other), to, local.to.count, buffers_.reduction, buffers_.wire);
    else if (to != from)
      std::memmove(to, from, static_cast<size_t>(local.to.count) * sizeof(float));
  }
}

int Operation::waits_for() const {
  for (const LaneRun& run : lanes_)
    for (const std::vector<Flight>* flights : {&run.receives, &run.sends})
      for (const Flight& flight : *flights)
        if (run.posted && !flight.landed)
          return (*route_.ranks)[static_cast<size_t>(flight.message->peer)];
  return peer_;
}

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
    transport_->rest(looks++, Transport::longest_rest);
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
        "rank {} has waited {:.3g} s for rank {} in {} of the {} (it does not answer); see the "
        "last output of rank {}, or allow a longer timeout",
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
    transport_->rest(looks++, Transport::longest_rest);
  }
}

}  // namespace triplepoint::trainer
