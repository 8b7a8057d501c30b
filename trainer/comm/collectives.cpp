// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

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

/// All of a group of one.
void keep(std::span<const float> from, std::span<float> to) {
  if (to.data() != from.data()) std::ranges::copy(from, to.begin());
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

/// `numbers`: moved, as they are counted; nothing where the other side says how many.
template <class Begin>
Pending Communicator::start(Collective collective, std::optional<int64_t> numbers,
                            const Begin& begin) {
  const double payload = numbers ? as_real(*numbers) * sizeof(float) : -1;
  auto state = std::make_shared<Pending::State>(endpoint_, *this, collective, payload);
  endpoint_.start(state, [&] {
    state->begin_ns = triplepoint_now();
    state->transfer = begin();
  });
  return Pending(std::move(state));
}

Pending Communicator::all_reduce(std::span<float> data, Reduction reduction) {
  if (size() == 1) return {};
  const auto count = static_cast<int64_t>(data.size());
  return start(Collective::all_reduce, count,
               [&] { return transport_->all_reduce(data.data(), count, reduction); });
}

void Communicator::barrier() {
  if (size() == 1) return;
  float nothing = 0;
  auto state = std::make_shared<Pending::State>(endpoint_, *this, Collective::all_reduce, 0);
  state->counted = false;
  endpoint_.start(state,
                  [&] { state->transfer = transport_->all_reduce(&nothing, 1, Reduction::sum); });
  Pending(std::move(state)).wait();
}

Pending Communicator::all_gather(std::span<const float> mine, std::span<float> whole) {
  const auto count = static_cast<int64_t>(whole.size());
  TPT_EXPECT(static_cast<int64_t>(mine.size()) == block_of(count, index_, size()).count);
  if (size() == 1) return keep(mine, whole), Pending();
  return start(Collective::all_gather, count,
               [&] { return transport_->all_gather(mine.data(), whole.data(), count); });
}

Pending Communicator::reduce_scatter(std::span<const float> whole, std::span<float> mine,
                                     Reduction reduction) {
  const auto count = static_cast<int64_t>(whole.size());
  TPT_EXPECT(static_cast<int64_t>(mine.size()) == block_of(count, index_, size()).count);
  if (size() == 1) return keep(whole, mine), Pending();
  return start(Collective::reduce_scatter, count, [&] {
    return transport_->reduce_scatter(whole.data(), mine.data(), count, reduction);
  });
}

Pending Communicator::send(std::span<const float> data, int to, int channel) {
  TPT_EXPECT(to >= 0 && to < size() && to != index_);
  const auto count = static_cast<int64_t>(data.size());
  return start(Collective::send_recv, count,
               [&] { return transport_->send(data.data(), count, to, channel); });
}

Pending Communicator::receive(std::span<float> data, int from, int channel) {
  TPT_EXPECT(from >= 0 && from < size() && from != index_);
  const auto count = static_cast<int64_t>(data.size());
  return start(Collective::send_recv, std::nullopt,
               [&] { return transport_->receive(data.data(), count, from, channel); });
}

}  // namespace triplepoint::trainer
