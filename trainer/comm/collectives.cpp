// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/result.h"

#include "triplepoint/mark/mark.h"

#include "trainer/comm/communicator.h"
#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;

constexpr int stamp_channels = 1 << 8;  // above all channels
static_assert(stamp_channels >= Endpoint::most_channels);

/// All of a group of one.
void keep(std::span<const float> from, std::span<float> to) {
  if (to.data() != from.data()) std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

bool Pending::done() {
  return state_ == nullptr || state_->endpoint.done(*state_);
}

void Pending::wait() {
  if (state_ != nullptr) state_->endpoint.wait(*state_);
  state_.reset();
}

Communicator::Communicator(Endpoint& endpoint, std::unique_ptr<GroupTransport> transport,
                           spec::GroupKind kind, std::vector<int> ranks, int index)
    : endpoint_(endpoint),
      transport_(std::move(transport)),
      kind_(kind),
      ranks_(std::move(ranks)),
      index_(index) {}

Communicator::~Communicator() {
  endpoint_.forget(*this);
}

std::string Communicator::text() const {
  return fmt::format("{} group [{}]", spec::name_of(kind_), fmt::join(ranks_, ", "));
}

std::shared_ptr<Pending::State> Communicator::state_of(Collective collective, double numbers) {
  const double payload = numbers * sizeof(float);
  auto state = std::make_shared<Pending::State>(endpoint_, *this, collective, payload);
  if (endpoint_.links_ && collective != Collective::send_recv)
    state->load = endpoint_.links_->collective(collective, ranks_, payload);
  return state;
}

/// On a shaped link all members tell each other when they could begin.
template <class Begin>
Pending Communicator::start(std::shared_ptr<Pending::State> state, const Begin& begin) {
  endpoint_.start(state, [&] {
    state->begin_ns = triplepoint_now();
    state->transfer = begin();
    if (state->load.steps == 0) return;
    state->due_ns = std::max(state->begin_ns, endpoint_.links_->free_ns());
    state->stamp = transport_->all_reduce(Number::int64, &state->due_ns, 1, Reduction::maximum);
  });
  return Pending(std::move(state));
}

Pending Communicator::all_reduce(std::span<float> data, Reduction reduction) {
  if (size() == 1) return keep(data, data), Pending();
  const auto count = static_cast<int64_t>(data.size());
  auto state = state_of(Collective::all_reduce, static_cast<double>(count));
  return start(state,
               [&] { return transport_->all_reduce(Number::fp32, data.data(), count, reduction); });
}

void Communicator::barrier() {
  if (size() == 1) return;
  float nothing = 0;
  auto state = state_of(Collective::all_reduce, 0);
  state->counted = false;
  state->load = {};
  start(state, [&] {
    return transport_->all_reduce(Number::fp32, &nothing, 1, Reduction::sum);
  }).wait();
}

Pending Communicator::all_gather(std::span<const float> mine, std::span<float> whole) {
  const auto count = static_cast<int64_t>(whole.size());
  TPT_EXPECT(static_cast<int64_t>(mine.size()) == block_of(count, index_, size()).count);
  if (size() == 1) return keep(mine, whole), Pending();
  auto state = state_of(Collective::all_gather, static_cast<double>(whole.size()));
  return start(state, [&] {
    return transport_->all_gather(Number::fp32, mine.data(), whole.data(), count);
  });
}

Pending Communicator::reduce_scatter(std::span<const float> whole, std::span<float> mine,
                                     Reduction reduction) {
  const auto count = static_cast<int64_t>(whole.size());
  TPT_EXPECT(static_cast<int64_t>(mine.size()) == block_of(count, index_, size()).count);
  if (size() == 1) return keep(whole, mine), Pending();
  auto state = state_of(Collective::reduce_scatter, static_cast<double>(whole.size()));
  return start(state, [&] {
    return transport_->reduce_scatter(Number::fp32, whole.data(), mine.data(), count, reduction);
  });
}

/// On a shaped link the time of arrival travels beside it.
Pending Communicator::send(std::span<const float> data, int to, int channel) {
  TPT_EXPECT(to >= 0 && to < size() && to != index_);
  TPT_EXPECT(channel >= 0 && channel < Endpoint::most_channels);
  const auto count = static_cast<int64_t>(data.size());
  auto state = state_of(Collective::send_recv, static_cast<double>(count));
  state->sends = true;
  endpoint_.start(state, [&] {
    state->begin_ns = triplepoint_now();
    state->transfer = transport_->send(Number::fp32, data.data(), count, to, channel);
    if (!endpoint_.links_ || !endpoint_.links_->leaves_node(ranks_[static_cast<size_t>(to)]))
      return;
    state->due_ns = endpoint_.links_->take(
        state->begin_ns, {.bytes = state->payload, .node_bytes = state->payload, .steps = 1});
    state->stamp = transport_->send(Number::int64, &state->due_ns, 1, to, channel + stamp_channels);
  });
  return Pending(std::move(state));
}

Pending Communicator::receive(std::span<float> data, int from, int channel) {
  TPT_EXPECT(from >= 0 && from < size() && from != index_);
  TPT_EXPECT(channel >= 0 && channel < Endpoint::most_channels);
  const auto count = static_cast<int64_t>(data.size());
  auto state = state_of(Collective::send_recv, static_cast<double>(count));
  state->payload = -1;
  endpoint_.start(state, [&] {
    state->begin_ns = triplepoint_now();
    state->transfer = transport_->receive(Number::fp32, data.data(), count, from, channel);
    if (!endpoint_.links_ || !endpoint_.links_->leaves_node(ranks_[static_cast<size_t>(from)]))
      return;
    state->stamp =
        transport_->receive(Number::int64, &state->due_ns, 1, from, channel + stamp_channels);
  });
  return Pending(std::move(state));
}

}  // namespace triplepoint::trainer
