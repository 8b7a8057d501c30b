// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/json.h"

#include "triplepoint/app/recording.h"
#include "triplepoint/store/store.h"
#include "triplepoint/workload/model_flops.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::app {
namespace {

using OpsByName = std::map<std::string_view, const spec::Op*>;

void collect_ops(const std::vector<spec::Op>& ops, OpsByName& all) {
  for (const spec::Op& op : ops)
    all.emplace(op.name, &op);
}

OpsByName ops_of(const workload::WorkGraph& graph) {
  OpsByName all;
  for (const workload::ChunkWork& work : graph.works)
    for (const auto* groups :
         {&work.forward, &work.recompute, &work.backward_input, &work.backward_weight})
      for (const workload::OpGroup& group : *groups)
        collect_ops(group.ops, all);
  for (const workload::StepWork& work : graph.step_works)
    for (const auto* ops :
         {&work.gradient_sync, &work.gradient_norm, &work.optimizer, &work.parameter_sync})
      collect_ops(*ops, all);
  return all;
}

/// A span named as an operation of the job is that operation; what the program said of its group
/// stands where it said something.
void name_types(run::Timeline& timeline, const OpsByName& ops) {
  for (run::SpanType& type : timeline.types) {
    const auto found = ops.find(type.name);
    const bool is_work =
        type.kind == run::SpanKind::compute || type.kind == run::SpanKind::communication;
    if (found == ops.end() || !is_work) continue;
    const spec::Op& op = *found->second;
    type.op_class = op.op_class;
    type.kind = op.is_communication() ? run::SpanKind::communication : run::SpanKind::compute;
    type.stream = op.is_communication() ? run::Stream::communication : run::Stream::compute;
    if (!op.is_communication()) continue;
    if (!type.collective) type.collective = op.collective;
    if (!type.group) type.group = op.group;
  }
}

/// GEMM and attention are compute; everything else that runs on a device is memory work.
void sort_kinds(run::Timeline& timeline) {
  for (run::SpanType& type : timeline.types) {
    if (type.kind != run::SpanKind::compute) continue;
    const bool multiplies = type.op_class == spec::OpClass::gemm ||
                            type.op_class == spec::OpClass::grouped_gemm ||
                            type.op_class == spec::OpClass::attention;
    if (!multiplies) type.kind = run::SpanKind::memory;
  }
}

void set_stages(run::Timeline& timeline, const workload::RankGrid& grid) {
  std::vector<int32_t> stages;
  for (int64_t rank = 0; rank < grid.world_size(); ++rank)
    stages.push_back(static_cast<int32_t>(grid.coordinates(rank).pipeline));
  for (run::Span& span : timeline.spans)
    if (span.rank >= 0 && as_size(span.rank) < stages.size() && span.stage < 0)
      span.stage = stages[as_size(span.rank)];
}

// ---- which spans are one collective

/// The collectives of one group of ranks, in the order in which each member ran them.
struct GroupPlays {
  std::vector<int64_t> members;
  std::map<int32_t, std::vector<size_t>> spans;  // of each rank, indexes into the timeline's
};
using Groups = std::map<std::pair<spec::GroupKind, int64_t>, GroupPlays>;  // by kind, first member

Groups groups_of(run::Timeline& timeline, const workload::RankGrid& grid) {
  Groups groups;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    const run::SpanType& type = timeline.types[as_size(span.type)];
    const bool meets = type.group && type.collective &&
                       type.collective != spec::Collective::send_recv && span.rank >= 0 &&
                       span.rank < grid.world_size();
    if (!meets) continue;
    std::vector<int64_t> members = grid.members(*type.group, span.rank);
    GroupPlays& group = groups[{*type.group, members.front()}];
    group.members = std::move(members);
    group.spans[span.rank].push_back(i);
  }
  return groups;
}

/// Members run a group's collectives in one order, so that the n-th of each is one collective;
/// unless marks were lost.
bool is_whole(const GroupPlays& group, const run::Timeline& timeline) {
  const std::vector<size_t>& first = group.spans.begin()->second;
  if (group.spans.size() != group.members.size()) return false;
  return std::ranges::all_of(group.spans, [&](const auto& of_rank) {
    const std::vector<size_t>& own = of_rank.second;
    if (own.size() != first.size()) return false;
    for (size_t n = 0; n < own.size(); ++n)
      if (timeline.spans[own[n]].type != timeline.spans[first[n]].type) return false;
    return true;
  });
}

/// Numbers a group's collectives, and says of each member how long it waited for the last one.
void join_collectives(run::Timeline& timeline, const GroupPlays& group, int32_t communicator) {
  const size_t count = group.spans.begin()->second.size();
  for (size_t n = 0; n < count; ++n) {
    Instant last = timeline.spans[group.spans.begin()->second[n]].begin;
    for (const auto& [rank, spans] : group.spans)
      last = std::max(last, timeline.spans[spans[n]].begin);
    for (const auto& [rank, spans] : group.spans) {
      run::Span& span = timeline.spans[spans[n]];
      span.wait = std::min(last, span.end) - span.begin;
      run::SpanDetail& detail = timeline.details[spans[n]];
      detail.communicator = communicator;
      detail.sequence = static_cast<int64_t>(n);
    }
  }
}

/// A rank does not say with whom it exchanges a message; so each rank's transfers stand alone, and
/// are not taken for one that all ranks share.
void keep_transfers_apart(run::Timeline& timeline) {
  std::map<int32_t, std::pair<int32_t, int64_t>> of_rank;  // communicator, transfers so far
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    const run::SpanType& type = timeline.types[as_size(span.type)];
    if (type.collective != spec::Collective::send_recv) continue;
    const auto [own, is_new] = of_rank.try_emplace(span.rank);
    if (is_new) {
      own->second.first = static_cast<int32_t>(timeline.communicators.size());
      timeline.communicators.push_back({.name = fmt::format("transfers of rank {}", span.rank),
                                        .ranks = {span.rank},
                                        .size = 1});
    }
    timeline.details[i].communicator = own->second.first;
    timeline.details[i].sequence = own->second.second++;
  }
}

void match_collectives(run::Timeline& timeline, const workload::RankGrid& grid) {
  if (!timeline.details.empty()) return;  // a profiler knows better
  Groups groups = groups_of(timeline, grid);
  std::erase_if(groups, [&](const auto& group) { return !is_whole(group.second, timeline); });
  timeline.details.resize(timeline.spans.size());
  keep_transfers_apart(timeline);
  for (const auto& [key, group] : groups) {
    const auto index = static_cast<int32_t>(timeline.communicators.size());
    timeline.communicators.push_back(
        {.name = fmt::format("{} of rank {}", spec::name_of(key.first), key.second),
         .ranks = {group.members.begin(), group.members.end()},
         .size = static_cast<int32_t>(group.members.size())});
    join_collectives(timeline, group, index);
  }
}

/// One device per rank that was heard of here.
void make_devices(run::Run& recording, const spec::Cluster& cluster) {
  std::vector<int32_t> ranks;
  for (const run::Span& span : recording.timeline.spans)
    if (ranks.empty() || ranks.back() != span.rank) ranks.push_back(span.rank);
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  for (const int32_t rank : ranks) {
    const auto index = static_cast<int32_t>(recording.devices.size());
    recording.devices.push_back(
        {.index = index, .local = index, .slot = index, .name = cluster.gpu.title, .rank = rank});
    recording.summaries.emplace_back();
  }
}

// ---- what the trainer says at its end

run::MemoryUse memory_of(const Json& terms) {
  const auto bytes = [&](const char* term) {
    return terms.at(term).at("bytes").get<double>() * unit::B;
  };
  return {.weights = bytes("weights"),
          .gradients = bytes("gradients"),
          .optimizer = bytes("optimizer"),
          .activations = bytes("activations"),
          .logits = bytes("logits"),
          .buffers = bytes("buffers"),
          .reserve = Bytes()};
}

std::vector<run::MemoryUse> memory_of_stages(const Json& stages) {
  return mapped(stages, [](const Json& stage) { return memory_of(stage.at("terms")); });
}

}  // namespace

Result<void> add_trainer_report(run::Run& recording, const std::string& report) {
  const Json json = TPT_TRY(parse_json(report, "the trainer's report"));
  try {
    std::vector<run::MemoryUse> memory = memory_of_stages(json.at("memory"));
    const double ranks = json.at("ranks").get<double>(), peak = json.at("peak_flops").get<double>();
    if (const Json& steps = json.at("steps"); !steps.empty()) {
      recording.numbers.loss_first = steps.front().at("loss").get<double>();
      recording.numbers.loss_last = steps.back().at("loss").get<double>();
    }
    double moved = 0, predicted = 0;
    for (const Json& row : json.at("traffic")) {
      moved += row.at("bytes").get<double>();
      predicted += row.at("workload_bytes").get<double>();
    }
    recording.numbers.collective_bytes = moved;
    recording.numbers.collective_bytes_of_job = predicted;
    recording.memory = std::move(memory);
    if (peak > 0 && ranks > 0) recording.peak_flops = peak / ranks * unit::FLOP / unit::s;
  } catch (const Json::exception& wrong) {
    return error(
        "the trainer's report lacks something ({}); triplepoint-train may be of another version",
        wrong.what());
  }
  return {};
}

void describe_with_job(run::Run& recording, const spec::Job& job) {
  recording.manifest.job = job;
  if (spec::has_errors(spec::diagnose(job))) return;
  const workload::WorkGraph graph = workload::build_work_graph(job);
  recording.model_flops = graph.model_flops;
  recording.hardware_flops = graph.hardware_flops;
  recording.peak_flops = job.cluster.gpu.peak(job.plan.precision);
  for (run::StepRecord& step : recording.steps) {
    if (step.tokens == 0) step.tokens = graph.tokens_per_step;
    if (step.samples == 0) step.samples = graph.records_per_step;
  }
  name_types(recording.timeline, ops_of(graph));
  sort_kinds(recording.timeline);
  set_stages(recording.timeline, graph.grid);
  match_collectives(recording.timeline, graph.grid);
  if (recording.devices.empty() && job.cluster.shared_cores > 0)
    make_devices(recording, job.cluster);
}

Result<void> describe_recording(const Path& file, const spec::Job& job) {
  run::Run recording = TPT_TRY(run::load(file.string()));
  describe_with_job(recording, job);
  TPT_TRY(run::save(recording, file.string()));
  return {};
}

}  // namespace triplepoint::app
