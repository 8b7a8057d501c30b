// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "triplepoint/base/result.h"

#include "triplepoint/mark/mark.h"

#include "trainer/comm/shared_segment.h"
#include "trainer/comm/transport.h"
#include "trainer/comm/wire.h"

namespace triplepoint::trainer {
namespace {

/// Two ranks add up an array of which each has its own: one does the first half, the other the
/// second. Numbers are added where they were laid out for it, and the sums taken from there: what
/// passes between the caches of two cores is each number once there and once back.
struct Swap {
  int channel = 0;
  std::span<float> data{};
  bool maximum = false;
  bool live = false;                      // the other one has begun, too
  size_t given_begin = 0, given_end = 0;  // this rank's half of numbers for the other
  size_t laid = 0, taken = 0, added = 0;  // numbers

  bool is_over() const {
    const size_t given = given_end - given_begin;
    return taken == given && added == data.size() - given;
  }
};

/// A swap, and how the two tell each other that they have begun: by its size in bytes.
struct SwapHandshake {
  Swap swap;
  uint64_t mine = 0, others = 0;
  Transport::Ticket send_ticket = 0, receive_ticket = 0;
  bool size_sent = false, size_received = false;
};

/// One rank's side of all swaps with one other rank. Both sides of a swap have begun before the
/// first piece is laid, so whatever lies there can be added: no order of swaps can lock up.
class Swaps {
 public:
  using SwapBuffer = SharedSegment::SwapBuffer;

  Swaps(SwapBuffer& mine, SwapBuffer& others) : mine_(&mine), others_(&others) {}
  /// The caller keeps it until it is over.
  void begin(Swap& swap) { swaps_.push_back(&swap); }
  /// As much as there is to do; true if anything was.
  bool advance();

 private:
  bool add_piece();
  bool take_piece();
  bool lay_piece();
  Swap* on_channel(int channel);
  void forget_finished();

  SwapBuffer* mine_;
  SwapBuffer* others_;
  uint64_t taken_ = 0;  // pieces of my swap buffer
  std::vector<Swap*> swaps_;
};

/// The lower rank adds up the first half.
Swap make_swap(bool is_lower, int channel, std::span<float> data, bool maximum) {
  const size_t half = data.size() / 2 / 16 * 16;  // whole cache lines
  return {.channel = channel,
          .data = data,
          .maximum = maximum,
          .given_begin = is_lower ? half : 0,
          .given_end = is_lower ? data.size() : half};
}

Swap* Swaps::on_channel(int channel) {
  const auto its = std::find_if(swaps_.begin(), swaps_.end(),
                                [&](const Swap* swap) { return swap->channel == channel; });
  TPT_EXPECT(its != swaps_.end());
  return *its;
}

bool Swaps::advance() {
  bool moved = false;
  for (;;) {
    const bool added = add_piece(), taken = take_piece(), laid = lay_piece();
    if (!added && !taken && !laid) break;
    moved = true;
  }
  forget_finished();
  return moved;
}

bool Swaps::add_piece() {
  const uint64_t piece = others_->added.load(std::memory_order_relaxed);
  if (piece == others_->laid.load(std::memory_order_acquire)) return false;
  const size_t place = piece % SwapBuffer::pieces;
  const SwapBuffer::Label& label = others_->labels[place];
  Swap& swap = *on_channel(label.channel);
  combine_twice(others_->numbers[place].data(), swap.data.data() + label.begin,
                static_cast<int64_t>(label.count),
                swap.maximum ? Reduction::maximum : Reduction::sum);
  swap.added += label.count;
  others_->added.store(piece + 1, std::memory_order_release);
  return true;
}

bool Swaps::take_piece() {
  if (taken_ == mine_->added.load(std::memory_order_acquire)) return false;
  const size_t place = taken_ % SwapBuffer::pieces;
  const SwapBuffer::Label& label = mine_->labels[place];
  Swap& swap = *on_channel(label.channel);
  std::memcpy(swap.data.data() + label.begin, mine_->numbers[place].data(),
              label.count * sizeof(float));
  swap.taken += label.count;
  ++taken_;
  return true;
}

bool Swaps::lay_piece() {
  const uint64_t piece = mine_->laid.load(std::memory_order_relaxed);
  if (piece - taken_ == SwapBuffer::pieces) return false;
  const auto next = std::find_if(swaps_.begin(), swaps_.end(), [](const Swap* swap) {
    return swap->live && swap->given_begin + swap->laid < swap->given_end;
  });
  if (next == swaps_.end()) return false;
  Swap& swap = **next;
  const size_t begin = swap.given_begin + swap.laid;
  const size_t count = std::min(swap.given_end - begin, SwapBuffer::piece_numbers);
  const size_t place = piece % SwapBuffer::pieces;
  mine_->labels[place] = {swap.channel, begin, count};
  std::memcpy(mine_->numbers[place].data(), swap.data.data() + begin, count * sizeof(float));
  swap.laid += count;
  mine_->laid.store(piece + 1, std::memory_order_release);
  return true;
}

void Swaps::forget_finished() {
  swaps_.erase(std::remove_if(swaps_.begin(), swaps_.end(),
                              [](const Swap* swap) { return swap->is_over(); }),
               swaps_.end());
}

using Ring = SharedSegment::Ring;

constexpr uint64_t ring_bytes = SharedSegment::ring_bytes;
// Published piece by piece, so that the reader copies one while the writer copies the next.
constexpr size_t piece = 1 << 15;

/// Before each message in a ring.
struct FrameHead {
  int32_t channel = 0;
  int32_t reserved = 0;
  uint64_t size = 0;
};

constexpr size_t padded(size_t size) {
  return (size + 7) / 8 * 8;
}

void copy_in(Ring& ring, uint64_t at, const std::byte* from, size_t size) {
  const size_t begin = at % ring_bytes;
  const size_t first = std::min(size, static_cast<size_t>(ring_bytes - begin));
  std::memcpy(ring.bytes.data() + begin, from, first);
  std::memcpy(ring.bytes.data(), from + first, size - first);
}

/// Calls take(bytes, count) for what lies in a ring, which may be in two parts.
template <class Take>
void take_out(const Ring& ring, uint64_t at, size_t size, const Take& take) {
  const size_t begin = at % ring_bytes;
  const size_t first = std::min(size, static_cast<size_t>(ring_bytes - begin));
  take(ring.bytes.data() + begin, first);
  if (first < size) take(ring.bytes.data(), size - first);
}

struct Request {
  bool sends = false, done = false;
  int peer = 0, channel = 0;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  ReduceTarget reduce_target{};  // in the place of a target
  size_t size = 0, moved = 0;
  bool headed = false;
  std::unique_ptr<SwapHandshake> handshake{};

  /// Bytes [at, at + count) have arrived: whole floats, where they are absorbed.
  void take(const std::byte* from, size_t at, size_t count) const {
    if (reduce_target.to == nullptr) {
      if (count > 0) std::memcpy(target + at, from, count);
      return;
    }
    const size_t first = at / sizeof(float);
    combine(reinterpret_cast<const float*>(from), reduce_target.other + first,
            reduce_target.to + first, static_cast<int64_t>(count / sizeof(float)),
            reduce_target.maximum ? Reduction::maximum : Reduction::sum, Wire::fp32);
  }
};

/// A message that arrived before its receive was posted.
struct UnexpectedMessage {
  std::vector<std::byte> bytes;
  bool whole = false;
};

/// What comes from one peer.
struct Incoming {
  FrameHead head;
  bool headed = false;
  size_t moved = 0;
  Request* request = nullptr;  // where it goes, or
  UnexpectedMessage* early = nullptr;
  struct Channel {
    std::deque<Request*> requests;
    std::deque<std::unique_ptr<UnexpectedMessage>> early;
  };
  std::map<int, Channel> channels;

  void take(const std::byte* from, size_t count) {
    if (request != nullptr)
      request->take(from, moved, count);
    else
      std::memcpy(early->bytes.data() + moved, from, count);
    moved += count;
  }
};

class SharedTransport final : public Transport {
 public:
  SharedTransport(std::shared_ptr<SharedSegment> segment, int rank)
      : segment_(std::move(segment)),
        rank_(rank),
        outgoing_(static_cast<size_t>(size())),
        incoming_(static_cast<size_t>(size())),
        spins_(size() <= sysconf(_SC_NPROCESSORS_ONLN) ? 100 : 0) {
    for (int peer = 0; peer < size(); ++peer)
      swaps_.emplace_back(segment_->swap_buffer(rank, peer), segment_->swap_buffer(peer, rank));
    segment_->wake_signal(rank).process.store(getpid());
  }

  int rank() const override { return rank_; }
  int size() const override { return segment_->ranks(); }

  Ticket send(int to, int channel, std::span<const std::byte> bytes) override {
    Request& request = make(to, channel, bytes.size());
    request.sends = true;
    request.source = bytes.data();
    std::deque<Request*>& queue = outgoing_[static_cast<size_t>(to)];
    queue.push_back(&request);
    if (queue.size() == 1) write(to);
    return newest_;
  }

  Ticket receive(int from, int channel, std::span<std::byte> bytes) override {
    Request& request = make(from, channel, bytes.size());
    request.target = bytes.data();
    return await(request);
  }

  bool can_reduce_on_receive() const override { return true; }

  Ticket receive_reduce(int from, int channel, size_t size,
                        const ReduceTarget& reduce_target) override {
    Request& request = make(from, channel, size);
    request.reduce_target = reduce_target;
    return await(request);
  }

  bool swaps() const override { return true; }

  Ticket all_reduce_with(int peer, int channel, std::span<float> data, bool maximum) override {
    Request& request = make(peer, channel, data.size_bytes());
    const Ticket ticket = newest_;
    request.handshake = std::make_unique<SwapHandshake>();
    SwapHandshake& handshake = *request.handshake;
    handshake.swap = make_swap(rank_ < peer, channel, data, maximum);
    handshake.mine = data.size_bytes();
    swaps_[static_cast<size_t>(peer)].begin(handshake.swap);
    handshake.receive_ticket =
        receive(peer, channel, std::as_writable_bytes(std::span(&handshake.others, 1)));
    handshake.send_ticket = send(peer, channel, std::as_bytes(std::span(&handshake.mine, 1)));
    return ticket;
  }

  bool done(Ticket ticket) override {
    Request& request = *requests_[static_cast<size_t>(ticket)];
    if (!request.done) {
      if (segment_->aborted()) throw CommError(segment_->reason());
      if (request.handshake != nullptr)
        meet(request);
      else if (request.sends)
        write(request.peer);
      else
        read(request.peer);
    }
    if (!request.done) return false;
    free_.push_back(static_cast<size_t>(ticket));
    return true;
  }

  void abort(const char* why) override { segment_->abort(why); }

  std::atomic<int64_t>* shared_number(int place) override {
    static_assert(most_shared_numbers == std::tuple_size_v<decltype(SharedSegment::Head::numbers)>);
    return &segment_->head().numbers.at(static_cast<size_t>(place));
  }

  void rest(int looks, std::chrono::nanoseconds longest) override {
    // Who has a core for itself may wait there for those who are as good as there.
    if (looks != sleep_at_once) looks = std::min(looks, idle_looks_++);
    if (looks < spins_) return pause();
    const int patient_looks = spins_ + 24;
    const uint32_t seen = segment_->wake_signal(rank_).count.load(std::memory_order_seq_cst);
    const bool news = seen_.exchange(seen) != seen;
    if (news || looks < patient_looks) return std::this_thread::yield();
    segment_->sleep(rank_, seen, longest);
    check_peers();
  }

 private:
  /// Some hundred nanoseconds.
  static void pause() {
#if defined(__x86_64__)
    for (int i = 0; i < 8; ++i)
      __builtin_ia32_pause();
#endif
  }

  void meet(Request& request) {
    SwapHandshake& handshake = *request.handshake;
    if (!handshake.size_sent) handshake.size_sent = done(handshake.send_ticket);
    if (!handshake.size_received && done(handshake.receive_ticket)) {
      handshake.size_received = true;
      expect_size(handshake.others, request, request.peer);
      handshake.swap.live = true;
    }
    if (swaps_[static_cast<size_t>(request.peer)].advance()) {
      idle_looks_ = 0;
      segment_->wake(request.peer);
    }
    request.done = handshake.size_sent && handshake.size_received && handshake.swap.is_over();
  }

  Ticket await(Request& request) {
    Incoming& incoming = incoming_[static_cast<size_t>(request.peer)];
    Incoming::Channel& line = incoming.channels[request.channel];
    if (line.early.empty() || !line.requests.empty())
      line.requests.push_back(&request);
    else
      take_early(incoming, line, request);
    return newest_;
  }

  Request& make(int peer, int channel, size_t size) {
    if (segment_->aborted()) throw CommError(segment_->reason());
    if (free_.empty()) {
      free_.push_back(requests_.size());
      requests_.push_back(std::make_unique<Request>());
    }
    newest_ = free_.back();
    free_.pop_back();
    *requests_[newest_] = {.peer = peer, .channel = channel, .size = size};
    return *requests_[newest_];
  }

  /// As much as there is room for.
  void write(int to) {
    std::deque<Request*>& queue = outgoing_[static_cast<size_t>(to)];
    if (queue.empty()) return;
    Ring& ring = segment_->ring(rank_, to);
    uint64_t written = ring.written.load(std::memory_order_relaxed);
    bool moved = false;
    while (!queue.empty()) {
      const uint64_t room = ring_bytes - (written - ring.read.load(std::memory_order_acquire));
      const size_t step = write_some(*queue.front(), ring, written, room);
      if (step == 0 && !queue.front()->done) break;
      written += step;
      ring.written.store(written, std::memory_order_release);
      moved = true;
      if (queue.front()->done) queue.pop_front();
    }
    if (moved) idle_looks_ = 0, segment_->wake(to);
  }

  static size_t write_some(Request& request, Ring& ring, uint64_t at, uint64_t room) {
    size_t used = 0;
    if (!request.headed) {
      if (room < sizeof(FrameHead)) return 0;
      const FrameHead head{request.channel, 0, request.size};
      copy_in(ring, at, reinterpret_cast<const std::byte*>(&head), sizeof head);
      request.headed = true;
      used = sizeof head;
    }
    // Rooms are multiples of eight, like everything that is written: only the last piece is padded.
    const size_t count =
        std::min({request.size - request.moved, piece, static_cast<size_t>(room) - used});
    copy_in(ring, at + used, request.source + request.moved, count);
    request.moved += count;
    request.done = request.moved == request.size;
    return used + padded(count);
  }

  void read(int from) {
    Incoming& incoming = incoming_[static_cast<size_t>(from)];
    Ring& ring = segment_->ring(from, rank_);
    uint64_t position = ring.read.load(std::memory_order_relaxed);
    bool moved = false;
    for (;;) {
      const uint64_t there = ring.written.load(std::memory_order_acquire) - position;
      if (there == 0) break;
      position += read_some(incoming, from, ring, position, there);
      ring.read.store(position, std::memory_order_release);
      moved = true;
    }
    if (moved) idle_looks_ = 0, segment_->wake(from);
  }

  size_t read_some(Incoming& incoming, int from, Ring& ring, uint64_t at, uint64_t there) {
    size_t used = 0;
    if (!incoming.headed) {
      auto* head = reinterpret_cast<std::byte*>(&incoming.head);
      take_out(ring, at, sizeof(FrameHead), [&head](const std::byte* bytes, size_t part) {
        std::memcpy(head, bytes, part);
        head += part;
      });
      incoming.headed = true;
      incoming.moved = 0;
      used = sizeof(FrameHead);
      find_place(incoming, from);
    }
    const size_t left = incoming.head.size - incoming.moved;
    const size_t count = std::min({left, piece, static_cast<size_t>(there) - used});
    take_out(ring, at + used, count, [&incoming](const std::byte* bytes, size_t part) {
      if (part > 0) incoming.take(bytes, part);
    });
    if (incoming.moved == incoming.head.size) {
      if (incoming.request != nullptr) incoming.request->done = true;
      if (incoming.early != nullptr) incoming.early->whole = true;
      incoming.headed = false;
      incoming.request = nullptr, incoming.early = nullptr;
    }
    return used + padded(count);
  }

  void find_place(Incoming& incoming, int from) {
    Incoming::Channel& line = incoming.channels[incoming.head.channel];
    if (!line.requests.empty()) {
      incoming.request = line.requests.front();
      line.requests.pop_front();
      expect_size(incoming.head.size, *incoming.request, from);
      return;
    }
    incoming.early = line.early.emplace_back(std::make_unique<UnexpectedMessage>()).get();
    incoming.early->bytes.resize(incoming.head.size);
  }

  /// What has come early is copied; what is just coming goes on coming into the request's buffer.
  void take_early(Incoming& incoming, Incoming::Channel& line, Request& request) {
    UnexpectedMessage& early = *line.early.front();
    expect_size(early.bytes.size(), request, request.peer);
    const size_t there = early.whole ? early.bytes.size() : incoming.moved;
    request.take(early.bytes.data(), 0, there);
    request.done = early.whole;
    if (!early.whole) incoming.request = &request, incoming.early = nullptr;
    line.early.pop_front();
  }

  void expect_size(size_t size, const Request& request, int from) {
    if (size == request.size) return;
    const std::string why = fmt::format(
        "rank {} sent {} bytes on channel {} where rank {} expects {}; all members of a group must "
        "start the same collectives in the same order",
        from, size, request.channel, rank_, request.size);
    segment_->abort(why);
    throw CommError(why);
  }

  /// If a process dies, every other rank gets an error message.
  void check_peers() {
    const int64_t now = triplepoint_now();
    int64_t checked = checked_ns_.load();
    if (now - checked < 1'000'000'000 || !checked_ns_.compare_exchange_strong(checked, now)) return;
    for (int peer = 0; peer < size(); ++peer) {
      const int32_t process = segment_->wake_signal(peer).process.load();
      if (process > 0 && kill(process, 0) != 0 && errno == ESRCH)
        segment_->abort(
            fmt::format("rank {} (process {}) has died; see its last output", peer, process));
    }
  }

  std::shared_ptr<SharedSegment> segment_;
  int rank_;
  std::vector<std::deque<Request*>> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<Swaps> swaps_;  // by peer
  int spins_;
  std::atomic<int> idle_looks_{0};
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<size_t> free_;
  size_t newest_ = 0;
  std::atomic<uint32_t> seen_{0};
  std::atomic<int64_t> checked_ns_{0};
};

}  // namespace

std::unique_ptr<Transport> shared_transport(std::shared_ptr<SharedSegment> segment, int rank) {
  TPT_EXPECT(rank >= 0 && rank < segment->ranks());
  return std::make_unique<SharedTransport>(std::move(segment), rank);
}

std::vector<std::unique_ptr<Transport>> shared_transports(int ranks) {
  const auto segment = SharedSegment::create(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; segment && rank < ranks; ++rank)
    transports.push_back(shared_transport(*segment, rank));
  return transports;
}

}  // namespace triplepoint::trainer
