// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/result.h"

#include "trainer/comm/engine.h"
#include "trainer/comm/wire.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;

constexpr size_t most_known_schedules = 256;
constexpr int first_message_channel = 16;
// An MPI counts in int, and two halves of a very long message can overlap.
constexpr int64_t longest_message = int64_t{1} << 26U;

/// As the recorder and the traces of others call them.
const char* short_name(spec::GroupKind kind) {
  constexpr std::array names = {"tp", "cp",    "ep",        "etp",   "dp",     "edp",
                                "pp", "model", "embedding", "shard", "replica"};
  static_assert(names.size() == spec::group_kind_count);
  return names[static_cast<size_t>(kind)];
}

/// Those of a context group under workload's names.
const char* span_name(spec::GroupKind kind, Collective collective) {
  constexpr std::array of_context = {"cp_all_reduce", "cp_all_gather", "cp_reduce_scatter",
                                     "cp_all_to_all", "cp_broadcast",  "cp_send_recv"};
  static_assert(of_context.size() == spec::collective_count);
  if (kind == spec::GroupKind::context) return of_context[static_cast<size_t>(collective)];
  return spec::name_of(collective).data();  // names are literals
}

int64_t sum(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

/// The block of member i, of n numbers over p.
int64_t block_size(int64_t n, int64_t i, int64_t p) {
  return block_begin(n, i + 1, p) - block_begin(n, i, p);
}

}  // namespace

GroupCommunicator::GroupCommunicator(Endpoint::Engine& engine, spec::GroupKind kind,
                                     std::vector<int> ranks, int index, int channel)
    : engine_(engine), kind_(kind), ranks_(std::move(ranks)), index_(index), channel_(channel) {
  const std::vector<int>& nodes = engine.settings().nodes;
  if (!nodes.empty())
    for (const int rank : ranks_)
      nodes_.push_back(nodes[static_cast<size_t>(rank)]);
  const auto& algorithms = engine.settings().algorithms;
  if (std::find(algorithms.begin(), algorithms.end(), Algorithm::native) != algorithms.end())
    natives_ = engine.transport().native();
  if (natives_ != nullptr && ranks_.size() > 1) native_group_ = natives_->join(ranks_, channel_);
  engine_.add(*this);
}

GroupCommunicator::~GroupCommunicator() {
  engine_.remove(*this);
}

std::string GroupCommunicator::text() const {
  return fmt::format("{} group [{}]", spec::name_of(kind_), fmt::join(ranks_, ", "));
}

ScheduleRequest GroupCommunicator::request(Collective collective, int64_t count) const {
  const EndpointSettings& settings = engine_.settings();
  const bool one_node = std::all_of(nodes_.begin(), nodes_.end(),
                                    [this](int node) { return node == nodes_.front(); });
  const int64_t segment = one_node ? settings.segment_bytes : settings.across_segment_bytes;
  return {.collective = collective,
          .algorithm = settings.algorithms[static_cast<size_t>(collective)],
          .count = count,
          .index = index_,
          .size = size(),
          .nodes = nodes_,
          .segment = std::max<int64_t>(1, segment / 4),
          .sends = {}};
}

std::shared_ptr<const Schedule> GroupCommunicator::schedule_for(Collective collective,
                                                                int64_t count, int root) {
  for (const Known& known : known_)
    if (known.collective == collective && known.count == count && known.root == root)
      return known.schedule;
  ScheduleRequest wanted = request(collective, count);
  wanted.root = root;
  auto schedule = std::make_shared<const Schedule>(make_schedule(wanted));
  if (known_.size() == most_known_schedules) known_.pop_front();
  known_.push_back({collective, count, root, schedule});
  return schedule;
}

bool GroupCommunicator::is_native(Collective collective, Wire wire) const {
  return natives_ != nullptr && wire == Wire::fp32 &&
         engine_.settings().algorithms[static_cast<size_t>(collective)] == Algorithm::native;
}

std::vector<int> GroupCommunicator::block_sizes(int64_t count) const {
  std::vector<int> sizes;
  sizes.reserve(static_cast<size_t>(size()));
  for (int i = 0; i < size(); ++i)
    sizes.push_back(static_cast<int>(block_size(count, i, size())));
  return sizes;
}

Operation GroupCommunicator::native(Collective collective, const Buffers& buffers, int64_t count,
                                    int root) {
  const auto n = static_cast<size_t>(count);
  const auto block = static_cast<size_t>(block_size(count, index_, size()));
  const bool maximum = buffers.reduction == Reduction::maximum;
  const auto post = [=, this]() -> Transport::Ticket {
    switch (collective) {
      case Collective::all_reduce:
        return natives_->all_reduce(native_group_, {buffers.output, n}, maximum);
      case Collective::all_gather:
        return natives_->all_gather(native_group_, {buffers.input, block}, {buffers.output, n},
                                    block_sizes(count));
      case Collective::reduce_scatter:
        return natives_->reduce_scatter(native_group_, {buffers.input, n}, {buffers.output, block},
                                        block_sizes(count), maximum);
      default:
        return natives_->broadcast(native_group_, {buffers.output, n}, root);
    }
  };
  return {post, buffers};
}

Pending GroupCommunicator::start(Collective collective, Operation operation, double payload) {
  auto state = std::make_shared<Pending::State>(engine_, *this, collective, std::move(operation));
  state->payload = payload;
  engine_.start(state);
  return Pending(state);
}

Pending GroupCommunicator::start(Collective collective, const Buffers& buffers, int64_t count,
                                 int root) {
  const auto payload = static_cast<double>(count * bytes_of(buffers.wire));
  if (is_native(collective, buffers.wire) && size() > 1)
    return start(collective, native(collective, buffers, count, root), payload);
  auto schedule = schedule_for(collective, count, root);
  if (is_swap(collective, buffers.wire, *schedule))
    return start(collective, swap(std::move(schedule), buffers), payload);
  return start(collective,
               Operation(std::move(schedule), buffers, {.ranks = &ranks_, .channel = channel_}),
               payload);
}

bool GroupCommunicator::is_swap(Collective collective, Wire wire, const Schedule& schedule) const {
  return collective == Collective::all_reduce && wire == Wire::fp32 && size() == 2 &&
         schedule.algorithm == Algorithm::ring && engine_.transport().swaps();
}

/// A ring of two, which a transport may do better than message by message.
Operation GroupCommunicator::swap(std::shared_ptr<const Schedule> moves, const Buffers& buffers) {
  const int peer = ranks_[static_cast<size_t>(1 - index_)];
  const auto post = [this, peer, buffers] {
    return engine_.transport().all_reduce_with(
        peer, channel_, {buffers.output, static_cast<size_t>(buffers.output_count)},
        buffers.reduction == Reduction::maximum);
  };
  return {post, std::move(moves), buffers, peer};
}

void GroupCommunicator::barrier() {
  float nothing = 0;
  const Buffers buffers{&nothing, &nothing, 1, Reduction::sum, Wire::fp32};
  auto state =
      std::make_shared<Pending::State>(engine_, *this, Collective::all_reduce,
                                       Operation(schedule_for(Collective::all_reduce, 1), buffers,
                                                 {.ranks = &ranks_, .channel = channel_}));
  state->counted = false;
  engine_.start(state);
  Pending(state).wait();
}

Pending GroupCommunicator::all_reduce(std::span<float> data, Reduction reduction, Wire wire) {
  const auto count = static_cast<int64_t>(data.size());
  return start(Collective::all_reduce, {data.data(), data.data(), count, reduction, wire}, count);
}

Pending GroupCommunicator::all_gather(std::span<const float> mine, std::span<float> whole,
                                      Wire wire) {
  const auto count = static_cast<int64_t>(whole.size());
  TPT_EXPECT(static_cast<int64_t>(mine.size()) == block_size(count, index_, size()));
  return start(Collective::all_gather, {mine.data(), whole.data(), count, Reduction::sum, wire},
               count);
}

Pending GroupCommunicator::reduce_scatter(std::span<const float> whole, std::span<float> mine,
                                          Reduction reduction, Wire wire) {
  const auto count = static_cast<int64_t>(whole.size());
  const auto block = static_cast<int64_t>(mine.size());
  TPT_EXPECT(block == block_size(count, index_, size()));
  return start(Collective::reduce_scatter, {whole.data(), mine.data(), block, reduction, wire},
               count);
}

/// By its own schedule, which the next call will not find again; never an MPI's.
Pending GroupCommunicator::start_uneven(Collective collective, const Buffers& buffers,
                                        std::span<const int64_t> counts) {
  TPT_EXPECT(counts.size() == ranks_.size());
  ScheduleRequest wanted = request(collective, sum(counts));
  wanted.blocks.assign(counts.begin(), counts.end());
  return start(collective,
               Operation(std::make_shared<const Schedule>(make_schedule(wanted)), buffers,
                         {.ranks = &ranks_, .channel = channel_}),
               static_cast<double>(wanted.count * bytes_of(buffers.wire)));
}

Pending GroupCommunicator::all_gather_uneven(std::span<const float> mine, std::span<float> whole,
                                             std::span<const int64_t> counts, Wire wire) {
  const auto count = static_cast<int64_t>(whole.size());
  TPT_EXPECT(static_cast<int64_t>(mine.size()) == counts[static_cast<size_t>(index_)]);
  TPT_EXPECT(count == sum(counts));
  return start_uneven(Collective::all_gather,
                      {mine.data(), whole.data(), count, Reduction::sum, wire}, counts);
}

Pending GroupCommunicator::reduce_scatter_uneven(std::span<const float> whole,
                                                 std::span<float> mine,
                                                 std::span<const int64_t> counts,
                                                 Reduction reduction, Wire wire) {
  const auto block = static_cast<int64_t>(mine.size());
  TPT_EXPECT(block == counts[static_cast<size_t>(index_)]);
  TPT_EXPECT(static_cast<int64_t>(whole.size()) == sum(counts));
  return start_uneven(Collective::reduce_scatter,
                      {whole.data(), mine.data(), block, reduction, wire}, counts);
}

Pending GroupCommunicator::broadcast(std::span<float> data, int root, Wire wire) {
  TPT_EXPECT(root >= 0 && root < size());
  const auto count = static_cast<int64_t>(data.size());
  return start(Collective::broadcast, {data.data(), data.data(), count, Reduction::sum, wire},
               count, root);
}

Pending GroupCommunicator::all_to_all(std::span<const float> send,
                                      std::span<const int64_t> send_counts,
                                      std::span<float> receive,
                                      std::span<const int64_t> receive_counts, Wire wire) {
  TPT_EXPECT(send_counts.size() == ranks_.size() && receive_counts.size() == ranks_.size());
  const int64_t sent = sum(send_counts), received = sum(receive_counts);
  TPT_EXPECT(sent <= static_cast<int64_t>(send.size()) &&
             received <= static_cast<int64_t>(receive.size()));
  const Buffers buffers{send.data(), receive.data(), received, Reduction::sum, wire};
  const auto payload = static_cast<double>(sent * bytes_of(wire));
  if (is_native(Collective::all_to_all, wire) && size() > 1)
    return start(
        Collective::all_to_all,
        Operation(
            [this, send, receive, out = std::vector<int>(send_counts.begin(), send_counts.end()),
             in = std::vector<int>(receive_counts.begin(), receive_counts.end())] {
              return natives_->all_to_all(native_group_, send, out, receive, in);
            },
            buffers),
        payload);
  ScheduleRequest wanted = request(Collective::all_to_all, sent);
  wanted.sends.assign(send_counts.begin(), send_counts.end());
  wanted.receives.assign(receive_counts.begin(), receive_counts.end());
  return start(Collective::all_to_all,
               Operation(std::make_shared<const Schedule>(make_schedule(wanted)), buffers,
                         {.ranks = &ranks_, .channel = channel_}),
               payload);
}

Pending GroupCommunicator::message(bool sends, const Buffers& buffers, int peer, int channel,
                                   int64_t count) {
  TPT_EXPECT(peer >= 0 && peer < size() && peer != index_);
  TPT_EXPECT(channel >= 0 && channel < Endpoint::most_channels);
  Schedule schedule;
  Round& round = schedule.lanes.emplace_back().emplace_back();
  for (int64_t begin = 0; begin < count; begin += longest_message)
    (sends ? round.sends : round.receives)
        .push_back({peer,
                    {sends ? Array::input : Array::output, begin,
                     std::min(longest_message, count - begin)}});
  const auto node = [&](int member) {
    return nodes_.empty() ? 0 : nodes_[static_cast<size_t>(member)];
  };
  if (sends) (node(peer) == node(index_) ? schedule.sent_in_node : schedule.sent_across) = count;
  auto state = std::make_shared<Pending::State>(
      engine_, *this, Collective::send_recv,
      Operation(std::make_shared<const Schedule>(std::move(schedule)), buffers,
                {.ranks = &ranks_, .channel = channel_ + first_message_channel + channel}));
  state->alone = true;
  state->payload = sends ? static_cast<double>(count * bytes_of(buffers.wire)) : -1;
  engine_.start(state);
  return Pending(state);
}

Pending GroupCommunicator::send(std::span<const float> data, int to, int channel, Wire wire) {
  return message(true, {data.data(), nullptr, 0, Reduction::sum, wire}, to, channel,
                 static_cast<int64_t>(data.size()));
}

Pending GroupCommunicator::receive(std::span<float> data, int from, int channel, Wire wire) {
  const auto count = static_cast<int64_t>(data.size());
  return message(false, {nullptr, data.data(), count, Reduction::sum, wire}, from, channel, count);
}

void GroupCommunicator::finish(Pending::State& state) {
  if (state.counted) count(state);
  state.over.store(true, std::memory_order_release);
}

void GroupCommunicator::count(Pending::State& state) {
  const Schedule& schedule = state.operation.schedule();
  Traffic& traffic = traffic_[static_cast<size_t>(state.collective)];
  const auto width = static_cast<double>(bytes_of(state.operation.wire()));
  const int64_t end = triplepoint_now();
  if (state.payload >= 0) {
    ++traffic.calls;
    traffic.payload += state.payload;
  }
  traffic.sent_in_node += static_cast<double>(schedule.sent_in_node) * width;
  traffic.sent_across += static_cast<double>(schedule.sent_across) * width;
  traffic.busy_seconds += static_cast<double>(end - state.begin_ns) * 1e-9;
  if (size() > 1)
    ScopedSpan::emit({.name = span_name(kind_, state.collective),
                      .group = short_name(kind_),
                      .bytes = state.payload},
                     state.begin_ns, end);
}

}  // namespace triplepoint::trainer
