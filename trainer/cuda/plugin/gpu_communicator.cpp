// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/gpu_communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/detached.h"
#include "triplepoint/base/result.h"

#include "trainer/comm/transport.h"

namespace triplepoint::trainer::cuda {
namespace {

using spec::Collective;
using spec::GroupKind;

constexpr size_t id_numbers = sizeof(NcclId);  // a byte per float: exact

std::array<float, id_numbers> numbers_of(const NcclId& id) {
  std::array<float, id_numbers> numbers{};
  std::transform(id.bytes, id.bytes + id_numbers, numbers.begin(),
                 [](char byte) { return static_cast<float>(static_cast<unsigned char>(byte)); });
  return numbers;
}

NcclId id_of(const std::array<float, id_numbers>& numbers) {
  NcclId id{};
  std::transform(numbers.begin(), numbers.end(), id.bytes,
                 [](float number) { return static_cast<char>(static_cast<int>(number)); });
  return id;
}

double bytes_of(const Array& array, int64_t count) {
  return static_cast<double>(count) * (array.bf16 != 0 ? 2 : 4);
}

int64_t total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

bool all_alike(const std::vector<int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(),
                     [&](int64_t count) { return count == counts.front(); });
}

std::vector<int64_t> copied(std::span<const int64_t> counts) {
  return {counts.begin(), counts.end()};
}

}  // namespace

GpuCommunicator::GpuCommunicator(Gpu& gpu, std::unique_ptr<Communicator> host)
    : gpu_(gpu), host_(std::move(host)) {
  if (joins()) join_group();
  for (size_t i = 0; i < before_.size(); ++i)
    before_[i] = host_->traffic(static_cast<Collective>(i));
}

GpuCommunicator::~GpuCommunicator() {
  if (!lines_.empty()) gpu_.before_waiting({});
  drop(group_);
  for (const auto& [key, line] : lines_)
    drop(line);
}

/// What is still under way will never end: a peer is lost.
void GpuCommunicator::drop(const GpuChannel& channel) const {
  if (channel.stream == nullptr) return;
  if (channel.nccl != nullptr && gpu_.driver().query_stream(channel.stream) == 0)
    gpu_.libraries().nccl.leave(channel.nccl);
  else if (channel.nccl != nullptr)
    gpu_.libraries().nccl.give_up(channel.nccl);
  gpu_.driver().drop_stream(channel.stream);
}

/// Stages exchange messages only; the whole model and its context groups only numbers of the host.
bool GpuCommunicator::joins() const {
  return size() > 1 && kind() != GroupKind::pipeline && kind() != GroupKind::model &&
         kind() != GroupKind::context;
}

void GpuCommunicator::join_group() {
  NcclId id{};
  if (index() == 0) check(gpu_.libraries().nccl.make_id(&id), "make an id");
  std::array<float, id_numbers> numbers = numbers_of(id);
  host_->broadcast(numbers, 0).wait();
  gpu_.libraries().check(gpu_.driver().make_stream(&group_.stream, non_blocking), "make a stream");
  const auto joined = std::make_shared<Nccl>();
  meet("join a group", [joined, nccl = gpu_.libraries().nccl, id = id_of(numbers), ranks = size(),
                        index = index()] { return nccl.join(joined.get(), ranks, id, index); });
  group_.nccl = *joined;
}

/// NCCL waits for the other ranks without an end, here on a separate thread. `join` owns what it
/// uses: that thread is left behind where a rank does not come.
void GpuCommunicator::meet(const char* what, std::function<int()> join) const {
  const double limit = gpu_.settings().timeout_seconds;
  const auto entered = std::make_shared<int>(), result = std::make_shared<int>();
  const bool ended =
      ends_within(limit * unit::s,
                  [=, join = std::move(join), driver = gpu_.driver(), context = gpu_.context()] {
                    *entered = driver.set_context(context);
                    if (*entered == 0) *result = join();
                  });
  if (!ended)
    throw CommError(
        fmt::format("NCCL could not {} within {:.3g} s (of ranks {} not all have come: one has "
                    "failed, or they cannot reach each other); see the other ranks' last output, "
                    "set NCCL_DEBUG=INFO, or allow a longer --timeout",
                    what, limit, fmt::join(ranks(), ", ")));
  gpu_.libraries().check(*entered, "use its context");
  check(*result, what);
}

void GpuCommunicator::open_lines(std::span<const MessageLine> lines) {
  if (lines.empty()) return;
  std::vector<std::array<float, id_numbers>> ids(lines.size());
  std::vector<Pending> travelling;
  for (size_t i = 0; i < lines.size(); ++i) {
    const MessageLine& line = lines[i];
    if (!line.sends) {
      travelling.push_back(host_->receive(ids[i], line.peer, line.channel));
      continue;
    }
    NcclId id{};
    check(gpu_.libraries().nccl.make_id(&id), "make an id");
    ids[i] = numbers_of(id);
    travelling.push_back(host_->send(ids[i], line.peer, line.channel));
  }
  for (Pending& pending : travelling)
    pending.wait();
  // All at once: the ends of different lines come in different orders.
  const auto joined = std::make_shared<std::vector<Nccl>>(lines.size());
  meet("open pipeline links", [joined, ids, nccl = gpu_.libraries().nccl,
                               lines = std::vector<MessageLine>(lines.begin(), lines.end())] {
    int result = nccl.begin();
    for (size_t i = 0; i < lines.size() && result == 0; ++i)
      result = nccl.join(&(*joined)[i], 2, id_of(ids[i]), lines[i].sends ? 0 : 1);
    const int ended = nccl.end();
    return result != 0 ? result : ended;
  });
  for (size_t i = 0; i < lines.size(); ++i) {
    GpuChannel& channel = lines_[{lines[i].peer, lines[i].channel, lines[i].sends ? 1 : 0}];
    gpu_.libraries().check(gpu_.driver().make_stream(&channel.stream, non_blocking),
                           "make a stream");
    channel.nccl = (*joined)[i];
  }
  before_[static_cast<size_t>(Collective::send_recv)] = host_->traffic(Collective::send_recv);
  gpu_.before_waiting([this] { issue_receives(); });
}

void GpuCommunicator::issue_receives() {
  for (const auto& posted : posted_)
    if (const auto work = posted.lock()) work->issue();
  posted_.clear();
}

std::shared_ptr<GpuWork> GpuCommunicator::work_on(const GpuChannel& channel) {
  return std::make_shared<GpuWork>(gpu_, channel);
}

Array GpuCommunicator::travelling(std::span<const float> data, Wire wire, GpuWork& work,
                                  bool written) {
  const Array array = gpu_.arena().at(data.data());
  if (wire == Wire::fp32 || array.bf16 != 0) return array;
  return work.copy_of(array, static_cast<int64_t>(data.size()), written);
}

Pending GpuCommunicator::start(Collective collective, std::shared_ptr<GpuWork> work, double payload,
                               const ChannelAct& act) {
  Traffic& traffic = own_[static_cast<size_t>(collective)];
  ++traffic.calls;
  traffic.payload += payload;
  if (work->channel().nccl == nullptr) {  // alone
    work->wait();
    return {};
  }
  work->set_act(act);
  work->issue();
  return Pending(std::move(work));
}

std::vector<int64_t> GpuCommunicator::even_blocks(int64_t count) const {
  std::vector<int64_t> blocks;
  for (int64_t i = 0; i < size(); ++i)
    blocks.push_back(count * (i + 1) / size() - count * i / size());
  return blocks;
}

Pending GpuCommunicator::all_reduce(std::span<float> data, Reduction reduction, Wire wire) {
  if (!here(data.data())) return host_->all_reduce(data, reduction, wire);
  auto work = work_on(group_);
  const Array array = travelling(data, wire, *work, true);
  const size_t count = data.size();
  return start(Collective::all_reduce, std::move(work),
               bytes_of(array, static_cast<int64_t>(count)), [=, this](const GpuChannel& on) {
                 check(
                     gpu_.libraries().nccl.all_reduce(
                         array.data, array.data, count, type_of(array),
                         reduction == Reduction::sum ? nccl_sum : nccl_maximum, on.nccl, on.stream),
                     "all-reduce");
               });
}

Pending GpuCommunicator::gather(const Array& mine, const Array& whole,
                                const std::vector<int64_t>& blocks, std::shared_ptr<GpuWork> work) {
  const NcclLibrary& nccl = gpu_.libraries().nccl;
  const ChannelAct act = [=, this](const GpuChannel& on) {
    if (all_alike(blocks))
      return check(nccl.all_gather(mine.data, whole.data, static_cast<size_t>(blocks.front()),
                                   type_of(whole), on.nccl, on.stream),
                   "all-gather");
    check(nccl.begin(), "begin");
    int64_t first = 0;
    for (int root = 0; root < size(); ++root) {
      const auto count = blocks[static_cast<size_t>(root)];
      const Array block = whole.from(first);
      const void* from = root == index() ? mine.data : block.data;
      if (count > 0)
        check(nccl.broadcast(from, block.data, static_cast<size_t>(count), type_of(whole), root,
                             on.nccl, on.stream),
              "broadcast a block");
      first += count;
    }
    check(nccl.end(), "gather blocks");
  };
  if (size() == 1 && mine.data != whole.data)
    gpu_.each(gpu_.functions().Copy, Copy{mine, whole, 0, 0}, 1, total(blocks));
  return start(Collective::all_gather, std::move(work), bytes_of(whole, total(blocks)), act);
}

Pending GpuCommunicator::all_gather(std::span<const float> mine, std::span<float> whole,
                                    Wire wire) {
  if (!here(whole.data())) return host_->all_gather(mine, whole, wire);
  const auto blocks = even_blocks(static_cast<int64_t>(whole.size()));
  return all_gather_uneven(mine, whole, blocks, wire);
}

Pending GpuCommunicator::all_gather_uneven(std::span<const float> mine, std::span<float> whole,
                                           std::span<const int64_t> counts, Wire wire) {
  if (!here(whole.data())) return host_->all_gather_uneven(mine, whole, counts, wire);
  auto work = work_on(group_);
  const Array to = travelling(whole, wire, *work, true);
  const bool apart = to.bf16 != gpu_.arena().at(whole.data()).bf16;
  const Array from =
      apart ? work->copy_of(gpu_.arena().at(mine.data()), static_cast<int64_t>(mine.size()), false)
            : gpu_.arena().at(mine.data());
  return gather(from, to, copied(counts), std::move(work));
}

Pending GpuCommunicator::scatter(const Array& whole, const Array& mine,
                                 const std::vector<int64_t>& blocks, Reduction reduction,
                                 std::shared_ptr<GpuWork> work) {
  const NcclLibrary& nccl = gpu_.libraries().nccl;
  const int how = reduction == Reduction::sum ? nccl_sum : nccl_maximum;
  const ChannelAct act = [=, this](const GpuChannel& on) {
    if (all_alike(blocks))
      return check(nccl.reduce_scatter(whole.data, mine.data, static_cast<size_t>(blocks.front()),
                                       type_of(whole), how, on.nccl, on.stream),
                   "reduce-scatter");
    check(nccl.begin(), "begin");
    int64_t first = 0;
    for (int root = 0; root < size(); ++root) {
      const auto count = blocks[static_cast<size_t>(root)];
      const Array block = whole.from(first);
      if (count > 0)
        check(
            nccl.reduce(block.data, root == index() ? mine.data : block.data,
                        static_cast<size_t>(count), type_of(whole), how, root, on.nccl, on.stream),
            "reduce a block");
      first += count;
    }
    check(nccl.end(), "scatter blocks");
  };
  if (size() == 1) gpu_.each(gpu_.functions().Copy, Copy{whole, mine, 0, 0}, 1, total(blocks));
  return start(Collective::reduce_scatter, std::move(work), bytes_of(whole, total(blocks)), act);
}

Pending GpuCommunicator::reduce_scatter(std::span<const float> whole, std::span<float> mine,
                                        Reduction reduction, Wire wire) {
  if (!here(whole.data())) return host_->reduce_scatter(whole, mine, reduction, wire);
  const auto blocks = even_blocks(static_cast<int64_t>(whole.size()));
  return reduce_scatter_uneven(whole, mine, blocks, reduction, wire);
}

Pending GpuCommunicator::reduce_scatter_uneven(std::span<const float> whole, std::span<float> mine,
                                               std::span<const int64_t> counts, Reduction reduction,
                                               Wire wire) {
  if (!here(whole.data()))
    return host_->reduce_scatter_uneven(whole, mine, counts, reduction, wire);
  auto work = work_on(group_);
  const Array from = travelling(whole, wire, *work, false);
  const Array to = gpu_.arena().at(mine.data());
  const bool apart = from.bf16 != to.bf16;
  const Array target = apart ? work->copy_of(to, static_cast<int64_t>(mine.size()), true) : to;
  return scatter(from, target, copied(counts), reduction, std::move(work));
}

Pending GpuCommunicator::all_to_all(std::span<const float> send,
                                    std::span<const int64_t> send_counts, std::span<float> receive,
                                    std::span<const int64_t> receive_counts, Wire wire) {
  if (!here(receive.data()) && !here(send.data()))
    return host_->all_to_all(send, send_counts, receive, receive_counts, wire);
  const auto sends = copied(send_counts), receives = copied(receive_counts);
  const Array from = gpu_.arena().at(send.data()), to = gpu_.arena().at(receive.data());
  const NcclLibrary& nccl = gpu_.libraries().nccl;
  const auto bytes = static_cast<size_t>(from.bf16 != 0 ? 2 : 4);
  return start(
      Collective::all_to_all, work_on(group_), bytes_of(from, total(sends)),
      [=, this](const GpuChannel& on) {
        check(nccl.begin(), "begin");
        int64_t out = 0, in = 0;
        for (int peer = 0; peer < size(); ++peer) {
          const auto sent = static_cast<size_t>(sends[static_cast<size_t>(peer)]);
          const auto received = static_cast<size_t>(receives[static_cast<size_t>(peer)]);
          const Array source = from.from(out), target = to.from(in);
          if (peer == index() && sent > 0)
            gpu_.libraries().check(
                gpu_.driver().copy(target.data, source.data, sent * bytes, on.stream), "copy");
          else if (peer != index()) {
            if (sent > 0)
              check(nccl.send(source.data, sent, type_of(from), peer, on.nccl, on.stream), "send");
            if (received > 0)
              check(nccl.receive(target.data, received, type_of(to), peer, on.nccl, on.stream),
                    "receive");
          }
          out += static_cast<int64_t>(sent);
          in += static_cast<int64_t>(received);
        }
        check(nccl.end(), "exchange blocks");
      });
}

Pending GpuCommunicator::broadcast(std::span<float> data, int root, Wire wire) {
  if (!here(data.data())) return host_->broadcast(data, root, wire);
  const Array array = gpu_.arena().at(data.data());
  const size_t count = data.size();
  return start(Collective::broadcast, work_on(group_), bytes_of(array, static_cast<int64_t>(count)),
               [=, this](const GpuChannel& on) {
                 check(gpu_.libraries().nccl.broadcast(array.data, array.data, count,
                                                       type_of(array), root, on.nccl, on.stream),
                       "broadcast");
               });
}

Pending GpuCommunicator::send(std::span<const float> data, int to, int channel, Wire wire) {
  if (!here(data.data())) return host_->send(data, to, channel, wire);
  const auto line = lines_.find({to, channel, 1});
  TPT_EXPECT(line != lines_.end());
  auto work = work_on(line->second);
  const Array array = travelling(data, wire, *work, false);
  const size_t count = data.size();
  return start(
      Collective::send_recv, std::move(work), bytes_of(array, static_cast<int64_t>(count)),
      [=, this](const GpuChannel& on) {
        check(gpu_.libraries().nccl.send(array.data, count, type_of(array), 1, on.nccl, on.stream),
              "send");
      });
}

Pending GpuCommunicator::receive(std::span<float> data, int from, int channel, Wire wire) {
  if (!here(data.data())) return host_->receive(data, from, channel, wire);
  const auto line = lines_.find({from, channel, 0});
  TPT_EXPECT(line != lines_.end());
  auto work = work_on(line->second);
  const Array array = travelling(data, wire, *work, true);
  const size_t count = data.size();
  work->set_act([=, this](const GpuChannel& on) {
    check(gpu_.libraries().nccl.receive(array.data, count, type_of(array), 0, on.nccl, on.stream),
          "receive");
  });
  posted_.push_back(work);
  return Pending(std::move(work));
}

const Traffic& GpuCommunicator::traffic(Collective collective) const {
  const auto i = static_cast<size_t>(collective);
  sum_[i] = host_->traffic(collective);
  sum_[i].calls += own_[i].calls - before_[i].calls;
  sum_[i].payload += own_[i].payload - before_[i].payload;
  return sum_[i];
}

}  // namespace triplepoint::trainer::cuda
