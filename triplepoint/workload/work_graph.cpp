// SPDX-License-Identifier: Apache-2.0
// The job as work: the other files of this folder, put together.
//
// Equal chunks and equal stages are made once and referred to by index, so the cost of a graph goes
// with the number of distinct ones, not with stages times chunks. Programs, memory and totals come
// last and apart, because a search over plans does without them (build_work_without_programs).
#include "triplepoint/workload/work_graph.h"

#include <algorithm>

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/model_flops.h"
#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {
namespace {

using Layout = std::vector<std::vector<ChunkLayers>>;

/// Index of an equal entry in `seen`, appended if there is none.
template <class T, class Same>
int64_t index_of(std::vector<T>& seen, const T& value, const Same& same) {
  const auto found = std::ranges::find_if(seen, [&](const T& other) { return same(other, value); });
  if (found != seen.end()) return found - seen.begin();
  seen.push_back(value);
  return static_cast<int64_t>(seen.size()) - 1;
}

void add_chunks(const LayerContext& context, const Layout& layout, WorkGraph& graph) {
  std::vector<ChunkLayers> distinct;
  for (const auto& stage : layout) {
    graph.chunk_work.emplace_back();
    graph.first_layer.emplace_back();
    for (const ChunkLayers& chunk : stage) {
      graph.chunk_work.back().push_back(
          index_of(distinct, chunk,
                   [](const ChunkLayers& a, const ChunkLayers& b) { return a.same_work(b); }));
      graph.first_layer.back().push_back(chunk.first_layer);
    }
  }
  const ModelParts parts = make_parts(context);
  for (const ChunkLayers& chunk : distinct)
    graph.works.push_back(make_chunk(context, parts, chunk));
}

/// What decides the once-a-step work of a stage.
struct StageStep {
  LayerCounts count;
  int64_t predictions = 0;
  bool has_embedding = false, has_head = false, tied = false;
  friend bool operator==(const StageStep&, const StageStep&) = default;
};

StageStep step_of_stage(const std::vector<ChunkLayers>& chunks, bool ties_stages) {
  StageStep step;
  for (const ChunkLayers& chunk : chunks) {
    for (const LayerKind kind : all_layer_kinds)
      step.count[kind] += chunk.count[kind];
    step.predictions += chunk.predictions;
    step.has_embedding |= chunk.has_embedding;
    step.has_head |= chunk.has_head;
  }
  step.tied = ties_stages && (step.has_embedding || step.has_head);
  return step;
}

void add_steps(const LayerContext& context, const Layout& layout, WorkGraph& graph) {
  // Tied, or looked up again by a last stage that predicts further tokens.
  const bool looks_up_twice = context.share.training && context.model().prediction_depths() > 0;
  const bool ties_stages = (context.model().tied_embeddings || looks_up_twice) && graph.stages > 1;
  std::vector<StageStep> distinct;
  for (const auto& chunks : layout)
    graph.step_work.push_back(
        index_of(distinct, step_of_stage(chunks, ties_stages), std::equal_to<StageStep>()));
  for (const StageStep& step : distinct) {
    const ChunkLayers all{0, step.count, step.predictions, step.has_embedding, step.has_head};
    graph.step_works.push_back(
        build_step_work(context, chunk_parameters(context.job, context.share, all), step.tied));
  }
}

void add_totals(const spec::Job& job, WorkGraph& graph) {
  const StepFlops flops = count_step_flops(job);
  graph.model_flops = flops.model;
  graph.hardware_flops = flops.hardware;
  graph.parameters = spec::count_parameters(job.model).total();
  graph.tokens_per_step = tokens_per_step(job);
  graph.records_per_step = records_per_step(job);
}

}  // namespace

WorkGraph build_work_without_programs(const spec::Job& job) {
  const LayerContext context{job, share_of_rank(job)};
  const Layout layout = lay_out_layers(job);
  WorkGraph graph{.grid = RankGrid(job)};
  graph.stages = job.plan.pipeline_parallel_size;
  graph.virtual_stages = job.plan.virtual_pipeline_size;
  graph.microbatches = job.num_microbatches();
  graph.boundary_bytes =
      context.share.residual * real(context.share.sharded_tokens * context.share.hidden) * unit::B;
  add_chunks(context, layout, graph);
  add_steps(context, layout, graph);
  return graph;
}

WorkGraph build_work_graph(const spec::Job& job) {
  WorkGraph graph = build_work_without_programs(job);
  graph.programs = build_programs(job);
  add_totals(job, graph);
  graph.memory = estimate_memory(job, graph.programs);
  return graph;
}

}  // namespace triplepoint::workload
