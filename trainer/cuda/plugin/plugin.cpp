// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/detached.h"
#include "triplepoint/base/result.h"

#include "trainer/comm/communicator.h"
#include "trainer/comm/transport.h"
#include "trainer/cuda/plugin/gpu.h"
#include "trainer/cuda/plugin/gpu_math.h"

// What the program finds in the plug-in.

namespace triplepoint::trainer::cuda {
namespace {

/// Collectives of arrays on a GPU, by NCCL on a stream of the group's own; of everything else (sums
/// of some numbers, counts of rows) by the host's communicator that it is made from.
///
/// A collective begins when all that was computed before it is done, and what is computed after its
/// wait() begins when it is done: both are said to the streams, and the host goes on. Where blocks
/// have not one size, a gather is a broadcast per member and a scatter a reduction per member.
///
/// Messages have a communicator of two ranks and a stream per line (open_lines), so that none waits
/// behind another's. A receive is given to NCCL when it is waited for: given earlier, it would hold
/// multiprocessors all the while.
class GpuCommunicator final : public Communicator {
 public:
  GpuCommunicator(Gpu&, std::unique_ptr<Communicator> host);
  ~GpuCommunicator() override;
  GpuCommunicator(const GpuCommunicator&) = delete;
  GpuCommunicator& operator=(const GpuCommunicator&) = delete;

  spec::GroupKind kind() const override { return host_->kind(); }
  const std::vector<int>& ranks() const override { return host_->ranks(); }
  int index() const override { return host_->index(); }
  Pending all_reduce(std::span<float>, Reduction, Wire) override;
  Pending all_gather(std::span<const float>, std::span<float>, Wire) override;
  Pending reduce_scatter(std::span<const float>, std::span<float>, Reduction, Wire) override;
  Pending all_gather_uneven(std::span<const float>, std::span<float>, std::span<const int64_t>,
                            Wire) override;
  Pending reduce_scatter_uneven(std::span<const float>, std::span<float>, std::span<const int64_t>,
                                Reduction, Wire) override;
  Pending all_to_all(std::span<const float>, std::span<const int64_t>, std::span<float>,
                     std::span<const int64_t>, Wire) override;
  Pending broadcast(std::span<float>, int root, Wire) override;
  Pending send(std::span<const float>, int to, int channel, Wire) override;
  Pending receive(std::span<float>, int from, int channel, Wire) override;
  void open_lines(std::span<const MessageLine>) override;
  void barrier() override { host_->barrier(); }
  const Traffic& traffic(spec::Collective) const override;

 private:
  class Work;
  /// A stream and who talks on it.
  struct Channel {
    Nccl nccl = nullptr;
    Stream stream = nullptr;
  };
  using LineKey = std::array<int, 3>;  // peer, channel, sends
  using Act = std::function<void(const Channel&)>;

  bool here(const float* array) const { return gpu_.holds(array); }
  bool joins() const;
  void join_group();
  void meet(const char* what, std::function<int()> join) const;
  void drop(const Channel&) const;
  int type_of(const Array& array) const { return array.bf16 != 0 ? nccl_bf16 : nccl_fp32; }
  /// The array that travels: a copy where the wire is narrower than the storage.
  Array travelling(std::span<const float>, Wire, Work&, bool written);
  std::shared_ptr<Work> work_on(const Channel&);
  Pending start(spec::Collective, std::shared_ptr<Work>, double payload, const Act&);
  Pending gather(const Array& mine, const Array& whole, const std::vector<int64_t>& blocks,
                 std::shared_ptr<Work>);
  Pending scatter(const Array& whole, const Array& mine, const std::vector<int64_t>& blocks,
                  Reduction, std::shared_ptr<Work>);
  std::vector<int64_t> even_blocks(int64_t count) const;
  void check(int result, const char* what) const { gpu_.libraries().check_nccl(result, what); }

  Gpu& gpu_;
  std::unique_ptr<Communicator> host_;
  Channel group_;
  std::map<LineKey, Channel> lines_;
  std::array<Traffic, spec::collective_count> own_{}, before_{};  // before_: the host's, of opening
  mutable std::array<Traffic, spec::collective_count> sum_{};
};

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

/// One collective or message: the events around it, and what must be done with its copy.
class GpuCommunicator::Work final : public PendingWork {
 public:
  Work(Gpu& gpu, const Channel& channel)
      : gpu_(gpu), channel_(channel), ready_(gpu.make_event()), over_(gpu.make_event()) {
    gpu_.libraries().check(gpu_.driver().record(ready_, gpu_.stream()), "record an event");
  }
  ~Work() override {
    gpu_.driver().drop_event(ready_);
    gpu_.driver().drop_event(over_);
    for (const float* array : copies_)
      gpu_.arena().release(array);
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  Work(Work&&) = delete;
  Work& operator=(Work&&) = delete;

  void set_act(Act act) { act_ = std::move(act); }
  const Channel& channel() const { return channel_; }
  void issue() {
    if (!act_) return;
    const Act act = std::exchange(act_, nullptr);
    check(gpu_.driver().stream_waits(channel_.stream, ready_, 0));
    act(channel_);
    check(gpu_.driver().record(over_, channel_.stream));
  }
  bool done() override {
    issue();
    if (copied_back_.there()) return false;  // wait() writes it
    const int result = gpu_.driver().query(over_);
    if (result != not_ready) check(result);
    return result == 0;
  }
  void wait() override {
    issue();
    check(gpu_.driver().stream_waits(gpu_.stream(), over_, 0));
    if (copied_back_.there())
      gpu_.each(gpu_.functions().Copy, Copy{travelled_, copied_back_, 0, 0}, 1, count_);
    copied_back_ = {};
  }
  /// A copy in bf16, which lives as long as this; filled before it travels, and copied back after.
  Array copy_of(const Array& array, int64_t count, bool written) {
    copies_.push_back(gpu_.allocate(count, true));
    const Array copy = gpu_.arena().at(copies_.back());
    gpu_.each(gpu_.functions().Copy, Copy{array, copy, 0, 0}, 1, count);
    gpu_.libraries().check(gpu_.driver().record(ready_, gpu_.stream()), "record an event");
    if (written) travelled_ = copy, copied_back_ = array, count_ = count;
    return copy;
  }

 private:
  void check(int result) const { gpu_.libraries().check(result, "order its streams"); }

  Gpu& gpu_;
  Channel channel_;
  Event ready_, over_;
  Act act_;
  std::vector<float*> copies_;
  Array travelled_, copied_back_;
  int64_t count_ = 0;
};

GpuCommunicator::GpuCommunicator(Gpu& gpu, std::unique_ptr<Communicator> host)
    : gpu_(gpu), host_(std::move(host)) {
  if (joins()) join_group();
  for (size_t i = 0; i < before_.size(); ++i)
    before_[i] = host_->traffic(static_cast<Collective>(i));
}

GpuCommunicator::~GpuCommunicator() {
  drop(group_);
  for (const auto& [key, line] : lines_)
    drop(line);
}

/// What is still under way will never end: a peer is lost.
void GpuCommunicator::drop(const Channel& channel) const {
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
    Channel& channel = lines_[{lines[i].peer, lines[i].channel, lines[i].sends ? 1 : 0}];
    gpu_.libraries().check(gpu_.driver().make_stream(&channel.stream, non_blocking),
                           "make a stream");
    channel.nccl = (*joined)[i];
  }
  before_[static_cast<size_t>(Collective::send_recv)] = host_->traffic(Collective::send_recv);
}

std::shared_ptr<GpuCommunicator::Work> GpuCommunicator::work_on(const Channel& channel) {
  return std::make_shared<Work>(gpu_, channel);
}

Array GpuCommunicator::travelling(std::span<const float> data, Wire wire, Work& work,
                                  bool written) {
  const Array array = gpu_.arena().at(data.data());
  if (wire == Wire::fp32 || array.bf16 != 0) return array;
  return work.copy_of(array, static_cast<int64_t>(data.size()), written);
}

Pending GpuCommunicator::start(Collective collective, std::shared_ptr<Work> work, double payload,
                               const Act& act) {
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
               bytes_of(array, static_cast<int64_t>(count)), [=, this](const Channel& on) {
                 check(
                     gpu_.libraries().nccl.all_reduce(
                         array.data, array.data, count, type_of(array),
                         reduction == Reduction::sum ? nccl_sum : nccl_maximum, on.nccl, on.stream),
                     "all-reduce");
               });
}

Pending GpuCommunicator::gather(const Array& mine, const Array& whole,
                                const std::vector<int64_t>& blocks, std::shared_ptr<Work> work) {
  const NcclLibrary& nccl = gpu_.libraries().nccl;
  const Act act = [=, this](const Channel& on) {
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
                                 std::shared_ptr<Work> work) {
  const NcclLibrary& nccl = gpu_.libraries().nccl;
  const int how = reduction == Reduction::sum ? nccl_sum : nccl_maximum;
  const Act act = [=, this](const Channel& on) {
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
      [=, this](const Channel& on) {
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
               [=, this](const Channel& on) {
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
      [=, this](const Channel& on) {
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
  work->set_act([=, this](const Channel& on) {
    check(gpu_.libraries().nccl.receive(array.data, count, type_of(array), 0, on.nccl, on.stream),
          "receive");
  });
  return Pending(std::move(work));
}

const Traffic& GpuCommunicator::traffic(Collective collective) const {
  const auto i = static_cast<size_t>(collective);
  sum_[i] = host_->traffic(collective);
  sum_[i].calls += own_[i].calls - before_[i].calls;
  sum_[i].payload += own_[i].payload - before_[i].payload;
  return sum_[i];
}

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(const DeviceSettings& settings)
      : gpu_(settings, open_libraries(settings)), math_(gpu_, settings.rounding) {}

  Math& math() override { return math_; }
  std::unique_ptr<Communicator> communicator(std::unique_ptr<Communicator> host) override {
    return std::make_unique<GpuCommunicator>(gpu_, std::move(host));
  }
  Result<void> check_attention(const Attention& shape) const override {
    return math_.check_attention(shape);
  }
  int64_t bytes_for_arrays() const override { return gpu_.bytes_for_arrays(); }
  std::string text() const override { return gpu_.text(); }

 private:
  Gpu gpu_;
  GpuMath math_;
};

void write_text(const std::string& text, char* to, size_t size) {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

Device* open(const DeviceSettings& settings, char* error, size_t error_size) {
  try {
    return new GpuDevice(settings);
  } catch (const std::exception& thrown) {
    write_text(thrown.what(), error, error_size);
    return nullptr;
  }
}

bool identify(const DeviceSettings& settings, GpuIdentity* identity, char* error,
              size_t error_size) {
  try {
    *identity = Gpu::identify(settings, open_libraries(settings));
    return true;
  } catch (const std::exception& thrown) {
    write_text(thrown.what(), error, error_size);
    return false;
  }
}

}  // namespace

}  // namespace triplepoint::trainer::cuda
extern "C" __attribute__((visibility("default"))) const triplepoint::trainer::DevicePlugin*
triplepoint_train_cuda() {
  using namespace triplepoint::trainer;
  static const DevicePlugin plugin{device_plugin_version, sizeof(DevicePlugin),
                                   cuda::kernel_image_bytes(), cuda::open, cuda::identify};
  return &plugin;
}
