// SPDX-License-Identifier: Apache-2.0
// The timeline of one rank per stage, in the form of a profiler trace.
//
// All repetitions of a phase are equal, so the spans of one are stored once (a pattern) and an
// action is an instance of it with a begin: only instances grow with the number of microbatches.
// Spans within a pattern count from its begin; the two streams advance separately.
//
// Approximation: where heat holds a device between two clocks, a pattern shows the upper one, and
// the difference to the phase's mean lies in the waits of its exposed collectives, if it has any.
#include <algorithm>

#include "triplepoint/sim/record.h"
#include "triplepoint/sim/step_profile.h"

namespace triplepoint::sim {
namespace {

using spec::OpClass;

run::SpanKind kind_of(const spec::Op& op) {
  switch (op.op_class) {
    case OpClass::gemm:
    case OpClass::grouped_gemm:
    case OpClass::attention:
      return run::SpanKind::compute;
    case OpClass::communication:
      return op.is_host_copy() ? run::SpanKind::copy : run::SpanKind::communication;
    default:
      return run::SpanKind::memory;
  }
}

/// A transfer between ranks, and not between a device and its host.
bool is_collective(const OpEstimate& estimate) {
  return estimate.op->is_communication() && !estimate.op->is_host_copy();
}

/// Forward collectives hidden by userbuffers are copies in registered memory, not NCCL kernels.
bool by_userbuffers(const OpEstimate& estimate) {
  return estimate.hidden && estimate.op->overlap == spec::Overlap::tensor && !estimate.op->backward;
}

bool is_of_tensor_group(const OpEstimate& estimate) {
  return is_collective(estimate) && estimate.op->group == spec::GroupKind::tensor;
}

/// What a rank waits in one tensor-parallel collective of a repetition for peers whose parameters
/// come later:
///
///   wait = (t - 1)/t (hidden - compute - exposed) / collectives,   t: ranks of the tensor group
///
/// Gathers that outlast the kernels pace the group. Each rank gathers in another data-parallel
/// group, and nothing evens out a lead that one of them has: it gathers ahead until the prefetch
/// limit. So each rank but the last has its parameters early and waits in the next collective, the
/// last one waits for its gather. The mean over the group is written for each rank.
Seconds wait_for_gathers(const spec::Job& job, const GroupEstimate& group, const GroupPoint& point,
                         double clock_ratio) {
  if (job.plan.sharding != spec::Sharding::parameters) return {};
  Seconds exposed;
  double collectives = 0;
  for (const OpEstimate& estimate : group.ops) {
    if (estimate.op->is_communication() && !estimate.hidden) exposed += estimate.at(clock_ratio);
    if (is_of_tensor_group(estimate)) ++collectives;
  }
  const Seconds late = point.hidden - point.compute - exposed;
  if (collectives == 0 || late <= Seconds()) return {};
  const double ranks = as_real(job.plan.tensor_parallel_size);
  return (ranks - 1) / ranks * late / collectives;
}

run::SpanType type_of(const OpEstimate& estimate, bool hidden) {
  const spec::Op& op = *estimate.op;
  run::SpanType type{.name = std::string(op.name),
                     .kind = kind_of(op),
                     .stream = hidden ? run::Stream::communication : run::Stream::compute,
                     .op_class = op.op_class};
  if (by_userbuffers(estimate)) type.name = "userbuffers_" + type.name;
  if (is_collective(estimate)) {
    type.collective = op.collective;
    type.group = op.group;
  }
  return type;
}

run::SpanType pipeline_type(std::string_view name) {
  return {.name = std::string(name),
          .kind = run::SpanKind::communication,
          .stream = run::Stream::compute,
          .op_class = OpClass::communication,
          .collective = spec::Collective::send_recv,
          .group = spec::GroupKind::pipeline};
}

/// Writes the timeline of one rank.
class RankWriter {
 public:
  RankWriter(run::Timeline& timeline, StepModel& model, const CoupledStep& step, size_t pipeline,
             const LockstepGroup& group, size_t member, Instant begin)
      : out_(timeline),
        model_(model),
        step_(step),
        stage_(as_size(group.stage)),
        group_(group),
        device_(as_size(group.devices[member])),
        rank_(static_cast<int32_t>(group.ranks[member])),
        begin_(begin),
        timeline_(step.timeline.pipelines[pipeline][stage_]),
        end_(step.timeline.epilogues[pipeline][stage_]),
        group_durations_(step.timeline.phase_durations[pipeline][stage_]) {}

  void write() {
    write_patterns();
    write_actions();
    write_end();
  }

 private:
  static constexpr int64_t rounding = 2;  // ns

  /// Sums of durations in other orders differ by a nanosecond or two once they are rounded. What
  /// runs one after the other must not seem to overlap: nothing would seem to wait for it.
  Instant not_before_last(Instant planned) const {
    const bool is_same =
        last_end_ > planned && last_end_.nanoseconds() - planned.nanoseconds() <= rounding;
    return is_same ? last_end_ : planned;
  }

  run::Span span(Seconds from, Seconds to, const run::SpanType& type) {
    run::Span span;
    span.begin = not_before_last(begin_ + from);
    span.end = std::max(span.begin, begin_ + to);
    last_end_ = span.end;
    span.type = out_.intern(type);
    span.rank = rank_;
    span.stage = static_cast<int32_t>(stage_);
    return span;
  }

  /// Chunks of equal work share an estimate, but not their layer numbers: a pattern per chunk and
  /// use.
  void write_patterns() {
    const size_t uses = model_.uses[stage_].size();
    for (size_t chunk = 0; chunk < as_size(model_.graph.virtual_stages); ++chunk)
      for (size_t u = 0; u < uses; ++u) {
        pattern_of_.push_back(static_cast<int32_t>(out_.patterns.size()));
        const auto work = as_size(model_.graph.chunk_work[stage_][chunk]);
        if (model_.uses[stage_][u].work == work) out_.patterns.push_back(pattern_of(chunk, u));
      }
  }

  /// Wait for slower peers in one collective of a phase, or, if all hide behind computing, in the
  /// last one of each repetition.
  struct Late {
    Seconds exposed, hidden;
  };

  static bool hides_collective(const GroupEstimate& group) {
    return std::ranges::any_of(group.ops,
                               [](const OpEstimate& op) { return is_collective(op) && op.hidden; });
  }

  /// What this rank waits inside a phase for slower peers lies in its exposed collectives, in equal
  /// parts; without any, at the ends of those that hide, where the next layer needs their result.
  run::Pattern pattern_of(size_t chunk, size_t u) {
    const PhaseUse& use = model_.uses[stage_][u];
    PhaseTable& table = model_.table(group_, use);
    const DevicePhase& phase = step_.clocks.devices[device_][u];
    double collectives = 0, layers = 0;
    for (const GroupEstimate& group : table.groups()) {
      for (const OpEstimate& op : group.ops)
        if (op.op->is_communication() && !op.hidden) collectives += as_real(group.repeat);
      if (hides_collective(group)) layers += as_real(group.repeat);
    }
    const Seconds alone = table.at(phase.clock_index, group_.host_factor).duration;
    const Seconds waited = group_durations_[u] - alone;
    Late late;
    if (collectives > 0)
      late.exposed = waited / collectives;
    else if (layers > 0)
      late.hidden = waited / layers;
    static constexpr std::string_view names[] = {"forward", "backward", "backward_input",
                                                 "backward_weight"};
    run::Pattern pattern{.name = std::string(names[as_size(use.kind)])};
    for (size_t g = 0; g < table.groups().size(); ++g)
      pattern.pieces.push_back(
          piece_of(table, g, phase.clock_index, late, model_.graph.first_layer[stage_][chunk]));
    return pattern;
  }

  run::PatternPiece piece_of(PhaseTable& table, size_t g, int64_t clock_index, const Late& late,
                             int64_t first_layer) {
    const GroupEstimate& group = table.groups()[g];
    const GroupPoint& point = table.groups_at(clock_index)[g];
    run::PatternPiece piece{.repeat = static_cast<int32_t>(group.repeat),
                            .first_layer = group.is_layer ? static_cast<int32_t>(first_layer) : -1};
    Seconds compute, hidden, copied, waited;
    const bool waits_hidden = late.hidden > Seconds() && hides_collective(group);
    if (waits_hidden) waited = late.hidden;
    const OpEstimate *last = nullptr, *copy = nullptr;
    for (const OpEstimate& estimate : group.ops)
      if (is_collective(estimate) && estimate.hidden) last = &estimate;
    const double ratio = table.ratio(clock_index);
    const Seconds gathers = wait_for_gathers(model_.job, group, point, ratio);
    for (const OpEstimate& estimate : group.ops) {
      const bool matrix = kind_of(*estimate.op) == run::SpanKind::compute;
      Seconds time = estimate.at(ratio);
      if (matrix) time *= point.compute_stretch;
      if (estimate.op->is_host_copy()) {
        copied += time;
        copy = &estimate;
        continue;
      }
      if (estimate.hidden) time *= point.hidden_stretch;
      // A collective in which peers wait holds the kernels behind it.
      const bool waits_for_gathers = gathers > Seconds() && is_of_tensor_group(estimate);
      const bool is_hidden = estimate.hidden && !waits_for_gathers;
      if (waits_hidden && &estimate == last) {
        const Seconds end = group.length(point, group_.host_factor) + waited;
        add_span(piece, estimate, true, std::max(hidden, end - waited - time), time + waited,
                 waited);
        continue;
      }
      Seconds wait = estimate.op->is_communication() && !estimate.hidden ? late.exposed : Seconds();
      waited += wait;
      if (waits_for_gathers) wait += gathers;
      Seconds& stream = is_hidden ? hidden : compute;
      add_span(piece, estimate, is_hidden, stream, time + wait, wait);
      stream += time + wait;
    }
    if (const Seconds busy = std::max(compute, hidden); copied > busy)
      add_copy(piece, *copy, busy, copied - busy);
    // Whole nanoseconds, rounded down: repetitions never take longer than the pass.
    const Instant end = Instant(
        static_cast<int64_t>((group.length(point, group_.host_factor) + waited) / unit::ns));
    for (run::Span& one : piece.spans)
      if (one.end > end && one.end.nanoseconds() - end.nanoseconds() <= rounding) one.end = end;
    piece.length = end - Instant();
    return piece;
  }

  /// What of the copies to the host outlasts the kernels; what hides behind them is not recorded,
  /// as it neither computes nor covers communication.
  void add_copy(run::PatternPiece& piece, const OpEstimate& copy, Seconds from, Seconds length) {
    add_span(piece, copy, true, from, length, Seconds());
    if (!piece.spans.empty()) piece.spans.back().bytes = copy.op->payload * (length / copy.at(1));
  }

  void add_span(run::PatternPiece& piece, const OpEstimate& estimate, bool hidden, Seconds from,
                Seconds length, Seconds wait) {
    if (length <= Seconds()) return;
    run::Span span;
    span.begin = instant_at(from);
    span.end = instant_at(from + length);
    span.type = out_.intern(type_of(estimate, hidden));
    span.wait = wait;
    span.bytes = estimate.op->is_communication() ? estimate.op->payload : estimate.op->hbm_bytes;
    span.flops = estimate.op->flops;
    piece.spans.push_back(span);
  }

  void write_actions() {
    static const run::SpanType receive = pipeline_type("pipeline_receive"),
                               send = pipeline_type("pipeline_send");
    for (const ActionTimes& action : timeline_.actions) {
      const Seconds until = action.begin + receive_gap(model_, stage_, action.action);
      if (until > action.ready) {
        run::Span waiting = span(action.ready, until, receive);
        waiting.wait = until - action.ready;
        waiting.microbatch = action.action.microbatch;
        out_.spans.push_back(waiting);
      }
      const size_t use = model_.use_of(stage_, action.action);
      const int32_t pattern =
          pattern_of_[as_size(action.action.chunk) * model_.uses[stage_].size() + use];
      const Instant pass = not_before_last(begin_ + (action.end - group_durations_[use]));
      last_end_ = pass + out_.patterns[as_size(pattern)].length();
      out_.instances.push_back({.begin = pass,
                                .pattern = pattern,
                                .rank = rank_,
                                .stage = static_cast<int32_t>(stage_),
                                .microbatch = action.action.microbatch});
      if (action.sent > Seconds()) {
        const Seconds from = action.end + action.queued;
        run::Span sending = span(from, from + action.sent, send);
        sending.bytes = send_size(model_.job, model_.graph);
        sending.microbatch = action.action.microbatch;
        out_.spans.push_back(sending);
      }
    }
  }

  /// The first collective of a group of ops holds the wait for the last peer.
  void write_ops(const std::vector<OpEstimate>& ops, Seconds ready, Seconds begin, Seconds end) {
    Seconds at = ready, wait = begin - ready;
    for (const OpEstimate& estimate : ops) {
      const Seconds length =
          std::min(estimate.at(1), std::max(Seconds(), end - std::max(at, begin)));
      const Seconds in_wait = estimate.op->is_communication() ? wait : Seconds();
      if (estimate.op->is_communication()) wait = Seconds();
      if (length + in_wait <= Seconds()) continue;
      const run::SpanType type = type_of(estimate, false);
      run::Span written = span(at, at + length + in_wait, type);
      written.wait = in_wait;
      written.bytes =
          estimate.op->is_communication() ? estimate.op->payload : estimate.op->hbm_bytes;
      out_.spans.push_back(written);
      at += length + in_wait;
    }
  }

  void write_end() {
    const EpilogueEstimate& end = model_.epilogue_of(stage_);
    write_ops(end.gradient_sync, end_.finish, end_.sync_begin, end_.sync_end);
    write_ops(end.gradient_norm, end_.sync_end, end_.norm_begin, end_.norm_end);
    write_ops(end.optimizer, end_.norm_end, end_.norm_end, end_.optimizer_end);
    write_ops(end.parameter_sync, end_.optimizer_end, end_.optimizer_end, end_.end);
  }

  run::Timeline& out_;
  StepModel& model_;
  const CoupledStep& step_;
  size_t stage_;
  const LockstepGroup& group_;
  size_t device_;
  int32_t rank_;
  Instant begin_;
  const StageTimeline& timeline_;
  const StepEpilogue& end_;
  const std::vector<Seconds>& group_durations_;
  std::vector<int32_t> pattern_of_;  // [chunk * uses + use]
  Instant last_end_;                 // of what was written last, passes and spans
};

}  // namespace

void record_timeline(run::Timeline& timeline, StepModel& model, const CoupledStep& step,
                     Instant begin) {
  timeline.num_ranks = static_cast<int32_t>(model.job.world_size());
  for (const LockstepGroup& group : model.pipelines.front().groups)
    RankWriter(timeline, model, step, 0, group, 0, begin).write();
  run::sort(timeline);
}

}  // namespace triplepoint::sim
