// SPDX-License-Identifier: Apache-2.0
// Random traces of a training with tensor, pipeline, data and expert parallelism, of which clocks,
// straggler and cause are known.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics::testing {

enum class Cause { none, slow_kernels, late_host, stall };

/// What a random training is made of, and its trace.
struct Training {
  int32_t tp = 1, pp = 1, dp = 1, ep = 1;
  Cause cause = Cause::none;
  int32_t culprit = -1;
  std::vector<int64_t>
      clock;  // ns, by rank: how far its clock is ahead, in the middle of the trace
  run::Timeline timeline;

  int32_t ranks() const { return tp * pp * dp; }
};

constexpr int64_t most_jitter = 5000;  // ns, of the ends of a collective

/// Simulates ranks that compute, wait in collectives, and exchange messages in 1F1B order.
class TrainingMaker {
 public:
  TrainingMaker(uint64_t seed, Cause cause) : rng_(seed) {
    training_.cause = cause;
    draw_shape();
    const int32_t ranks = training_.ranks();
    if (cause != Cause::none) training_.culprit = static_cast<int32_t>(rng_.upto(ranks - 1));
    slowdown_ = 0.10 + 0.01 * as_real(rng_.upto(40));
    host_delay_ = 20'000 + rng_.upto(40'000);
    programs_.resize(as_size(ranks));
    const int32_t per_host = 1 << rng_.upto(3);
    int64_t offset = 0;
    double drift = 0;
    Rng drifts(seed + 1'000'000);
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (rank % per_host == 0) {
        offset = rng_.upto(20'000'000) - 10'000'000;
        drift = as_real(drifts.upto(100) - 50) * 1e-6;
      }
      training_.clock.push_back(offset);
      drift_.push_back(drift);
    }
  }

  Training make() {
    run::Timeline& timeline = training_.timeline;
    add_types(timeline);
    timeline.num_ranks = training_.ranks();
    for (int32_t step = 0; step < steps_; ++step)
      for (int32_t rank = 0; rank < training_.ranks(); ++rank)
        write_step(rank);
    plant_stall();
    simulate();
    apply_drift();
    run::sort(timeline);
    return std::move(training_);
  }

 private:
  /// One piece of a rank's program: a kernel, or communication that begins together.
  struct Piece {
    int64_t work = 0;  // ns
    int32_t type = gemm;
    int64_t blocks = 0;
    int64_t extra_idle = 0;  // ns before it
    std::vector<int32_t> meetings;
  };
  struct Meeting {
    int32_t size = 0;  // ranks
    int64_t elements = 0;
    std::map<int32_t, int64_t> begins;         // by rank
    std::map<int32_t, int32_t> communicators;  // by rank
    std::map<int32_t, int64_t> sequences;
    std::map<int32_t, int64_t> ends;
    int32_t type = all_reduce;
  };
  struct Program {
    std::vector<Piece> pieces;
    size_t next = 0;
    bool is_posted = false;
    int64_t time = 0;
  };

  void draw_shape() {
    do {
      training_.tp = 1 << rng_.upto(2);
      training_.pp = 1 << rng_.upto(2);
      training_.dp = 1 << rng_.upto(2);
    } while (training_.ranks() < 2 || training_.ranks() > 32);
    training_.ep = training_.dp > 1 && rng_.upto(2) == 0 ? 2 : 1;
    microbatches_ = static_cast<int32_t>(training_.pp + rng_.upto(4));
    layers_ = static_cast<int32_t>(2 + rng_.upto(2));
    steps_ = static_cast<int32_t>(2 + rng_.upto(1));
  }

  int32_t tp_of(int32_t rank) const { return rank % training_.tp; }
  int32_t dp_of(int32_t rank) const { return rank / training_.tp % training_.dp; }
  int32_t pp_of(int32_t rank) const { return rank / training_.tp / training_.dp; }
  int32_t rank_at(int32_t tp, int32_t dp, int32_t pp) const {
    return tp + training_.tp * (dp + training_.dp * pp);
  }

  /// Members of the rank's group of ranks that differ in one coordinate only.
  static std::vector<int32_t> members(int32_t from, int32_t count, auto at) {
    return numbered(count, [&](int32_t i) { return at(from + i); });
  }

  int32_t communicator(const run::Communicator& wanted) {
    auto& all = training_.timeline.communicators;
    const auto found = std::ranges::find(all, wanted);
    if (found != all.end()) return static_cast<int32_t>(found - all.begin());
    all.push_back(wanted);
    return static_cast<int32_t>(all.size()) - 1;
  }

  void add_kernel(int32_t rank, int64_t work, int64_t blocks, int32_t type = gemm) {
    // Every kernel takes its own time, within 2 %.
    int64_t time = work + work * (rng_.upto(400) - 200) / 10'000;
    const bool slow = rank == training_.culprit;
    if (slow && training_.cause == Cause::slow_kernels)
      time += static_cast<int64_t>(slowdown_ * as_real(time));
    const int64_t late = slow && training_.cause == Cause::late_host ? host_delay_ : 0;
    programs_[as_size(rank)].pieces.push_back({.work = time,
                                               .type = type,
                                               .blocks = blocks,
                                               .extra_idle = late + 1000 + rng_.upto(2000)});
  }

  /// The rank's n-th collective of this group meets those of the other members.
  void add_collective(int32_t rank, const std::string& name, std::vector<int32_t> ranks,
                      int64_t elements) {
    if (ranks.size() < 2) return;
    const auto size = static_cast<int32_t>(ranks.size());
    const int32_t group = communicator({.name = name, .ranks = std::move(ranks), .size = size});
    const int64_t sequence = collectives_[{rank, group}]++;
    Meeting& meeting = meeting_at(fmt::format("{} {}", group, sequence), size, elements);
    meeting.communicators[rank] = group;
    meeting.sequences[rank] = sequence;
    programs_[as_size(rank)].pieces.push_back({.meetings = {last_meeting_}});
  }

  Meeting& meeting_at(const std::string& key, int32_t size, int64_t elements) {
    const auto [found, is_new] =
        meeting_of_.try_emplace(key, static_cast<int32_t>(meetings_.size()));
    if (is_new) meetings_.push_back({.size = size, .elements = elements});
    last_meeting_ = found->second;
    return meetings_[as_size(found->second)];
  }

  /// A message to or from a neighbouring stage; numbered on each rank as PyTorch does.
  int32_t message(int32_t rank, int32_t stage, bool sends) {
    const int32_t peer = rank_at(tp_of(rank), dp_of(rank), stage);
    std::vector<int32_t> ranks =
        members(0, training_.pp, [&](int32_t pp) { return rank_at(tp_of(rank), dp_of(rank), pp); });
    // In groups of two the peer is known without its number.
    const bool says_peer = training_.pp > 2 || rank_at(0, 0, 1) % 2 == 0;
    const int32_t group =
        communicator({.name = fmt::format("pp {} {}", tp_of(rank), dp_of(rank)),
                      .ranks = std::move(ranks),
                      .size = training_.pp,
                      .end = sends ? run::MessageEnd::sender : run::MessageEnd::receiver,
                      .peer = says_peer ? peer : -1});
    const int32_t from = sends ? rank : peer, to = sends ? peer : rank;
    const int64_t number = messages_[{rank, from, to}]++;
    Meeting& meeting = meeting_at(fmt::format("{} -> {} {}", from, to, number), 2, 1 << 20);
    meeting.type = send_recv_type();
    meeting.communicators[rank] = group;
    meeting.sequences[rank] = numbered_[rank]++;
    return last_meeting_;
  }
  int32_t send_recv_type() {
    return training_.timeline.intern({.name = "ncclDevKernel_SendRecv",
                                      .kind = run::SpanKind::communication,
                                      .stream = run::Stream::communication,
                                      .collective = spec::Collective::send_recv});
  }

  void add_messages(int32_t rank, std::vector<int32_t> meetings) {
    if (meetings.empty()) return;
    programs_[as_size(rank)].pieces.push_back({.meetings = std::move(meetings)});
  }

  void add_pass(int32_t rank, int64_t times) {
    const int32_t tp = tp_of(rank), dp = dp_of(rank), pp = pp_of(rank);
    const int32_t first = dp / training_.ep * training_.ep;
    for (int32_t layer = 0; layer < layers_; ++layer) {
      // Kernels of the backward pass have other grids.
      add_kernel(rank, times * 200'000, times * 128);
      add_kernel(rank, times * 30'000, times * 64, norm);
      add_collective(rank, fmt::format("tp {} {}", dp, pp),
                     members(0, training_.tp, [&](int32_t i) { return rank_at(i, dp, pp); }),
                     1 << 22);
      if (training_.ep > 1)
        add_collective(rank, fmt::format("ep {} {} {}", tp, first, pp),
                       members(first, training_.ep, [&](int32_t i) { return rank_at(tp, i, pp); }),
                       1 << 21);
      add_kernel(rank, times * 350'000, times * 512);
    }
  }

  void write_step(int32_t rank) {
    const int32_t stage = pp_of(rank), last = training_.pp - 1;
    const auto recv = [&](int32_t from) { return message(rank, from, false); };
    const auto send = [&](int32_t to) { return message(rank, to, true); };
    using List = std::vector<int32_t>;
    const auto receive_forward = [&] { return stage > 0 ? List{recv(stage - 1)} : List{}; };
    const auto exchange = [&](bool forward, bool also) {
      List both;
      if (forward && stage < last) both = {send(stage + 1), recv(stage + 1)};
      if (!forward && stage > 0) {
        both = {send(stage - 1)};
        if (also) both.push_back(recv(stage - 1));
      }
      return both;
    };
    const int32_t warm = std::min(last - stage, microbatches_), rest = microbatches_ - warm;
    for (int32_t i = 0; i < warm; ++i) {
      add_messages(rank, receive_forward());
      add_pass(rank, 1);
      add_messages(rank, {send(stage + 1)});
    }
    if (rest > 0) add_messages(rank, receive_forward());
    for (int32_t i = 0; i < rest; ++i) {
      add_pass(rank, 1);
      add_messages(rank, exchange(true, true));
      add_pass(rank, 2);
      add_messages(rank, exchange(false, i + 1 < rest));
    }
    for (int32_t i = 0; i < warm; ++i) {
      add_messages(rank, {recv(stage + 1)});
      add_pass(rank, 2);
      add_messages(rank, exchange(false, false));
    }
    finish_step(rank);
  }

  void finish_step(int32_t rank) {
    const int32_t tp = tp_of(rank), pp = pp_of(rank);
    add_collective(rank, fmt::format("dp {} {}", tp, pp),
                   members(0, training_.dp, [&](int32_t i) { return rank_at(tp, i, pp); }),
                   1 << 24);
    add_collective(rank, "world", members(0, training_.ranks(), [](int32_t i) { return i; }), 1);
    add_kernel(rank, 400'000, 2048, norm);
  }

  /// Clocks of hosts gain or lose up to 50 us a second, as quartzes do without NTP.
  void apply_drift() {
    const int64_t middle =
        most_of(programs_, [](const Program& program) { return program.time / 2; });
    const auto gained = [&](int32_t rank, Instant time) {
      const int64_t clock = training_.clock[as_size(rank)];
      const double since_middle = as_real(time.nanoseconds() - clock - middle);
      return static_cast<int64_t>(drift_[as_size(rank)] * since_middle);
    };
    for (run::Span& span : training_.timeline.spans) {
      const int64_t begin = gained(span.rank, span.begin), end = gained(span.rank, span.end);
      span.begin = Instant(span.begin.nanoseconds() + begin);
      span.end = Instant(span.end.nanoseconds() + end);
    }
  }

  /// One long pause before one of the culprit's kernels.
  void plant_stall() {
    if (training_.cause != Cause::stall) return;
    auto& pieces = programs_[as_size(training_.culprit)].pieces;
    size_t place = as_size(rng_.upto(static_cast<int64_t>(pieces.size()) * 3 / 4));
    while (place == 0 || !pieces[place].meetings.empty())
      ++place;
    pieces[place].extra_idle += 4'000'000 + rng_.upto(8'000'000);
  }

  void simulate() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int32_t rank = 0; rank < training_.ranks(); ++rank)
        while (advance(rank))
          moved = true;
    }
  }

  bool advance(int32_t rank) {
    Program& program = programs_[as_size(rank)];
    if (program.next == program.pieces.size()) return false;
    const Piece& piece = program.pieces[program.next];
    if (piece.meetings.empty()) {
      const int64_t begin = program.time + piece.extra_idle;
      program.time = begin + piece.work;
      write_span(rank, begin, program.time, piece.type, {.blocks = piece.blocks});
    } else if (!finish_meetings(rank, program, piece)) {
      return false;
    }
    ++program.next;
    program.is_posted = false;
    return true;
  }

  bool finish_meetings(int32_t rank, Program& program, const Piece& piece) {
    if (!program.is_posted)
      for (const int32_t index : piece.meetings)
        meetings_[as_size(index)].begins[rank] = program.time + rng_.upto(1000);
    program.is_posted = true;
    int64_t end = 0;
    for (const int32_t index : piece.meetings) {
      Meeting& meeting = meetings_[as_size(index)];
      if (static_cast<int32_t>(meeting.begins.size()) < meeting.size) return false;
    }
    for (const int32_t index : piece.meetings) {
      Meeting& meeting = meetings_[as_size(index)];
      int64_t arrival = 0;
      for (const auto& [member, begin] : meeting.begins)
        arrival = std::max(arrival, begin);
      const int64_t transfer = 10'000 + meeting.elements / 100;
      meeting.ends[rank] = arrival + transfer + rng_.upto(most_jitter);
      end = std::max(end, meeting.ends[rank]);
      write_span(rank, meeting.begins[rank], meeting.ends[rank], meeting.type,
                 {.communicator = meeting.communicators[rank],
                  .sequence = meeting.sequences[rank],
                  .correlation = correlation_++,
                  .in_elements = meeting.elements});
    }
    program.time = end;
    return true;
  }

  void write_span(int32_t rank, int64_t begin, int64_t end, int32_t type,
                  const run::SpanDetail& detail) {
    const int64_t clock = training_.clock[as_size(rank)];
    training_.timeline.spans.push_back({Instant(begin + clock), Instant(end + clock), type, rank});
    training_.timeline.details.push_back(detail);
  }

  Rng rng_;
  Training training_;
  int32_t microbatches_ = 1, layers_ = 1, steps_ = 1, last_meeting_ = 0;
  double slowdown_ = 0;
  std::vector<double> drift_;  // by rank: seconds gained a second
  int64_t host_delay_ = 0, correlation_ = 0;
  std::vector<Program> programs_;
  std::vector<Meeting> meetings_;
  std::map<std::string, int32_t> meeting_of_;
  std::map<std::pair<int32_t, int32_t>, int64_t> collectives_;  // rank, group
  std::map<std::array<int32_t, 3>, int64_t> messages_;          // rank, from, to
  std::map<int32_t, int64_t> numbered_;                         // messages of each rank
};

/// Equal seeds, equal trainings.
inline Training random_training(uint64_t seed, Cause cause) {
  return TrainingMaker(seed, cause).make();
}

}  // namespace triplepoint::metrics::testing
