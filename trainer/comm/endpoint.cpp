// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/endpoint.h"

#include <algorithm>

#include "triplepoint/base/expect.h"

#include "trainer/comm/engine.h"

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

}  // namespace triplepoint::trainer
