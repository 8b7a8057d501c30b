// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/eager_step.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "triplepoint/workload/eager_layer.h"

namespace triplepoint::workload {
namespace {

using Chunks = std::vector<ChunkLayers>;

constexpr double wide = 4;  // sums of gradients, master weights and each moment are floats
constexpr double ddp_bucket = 25 * 1048576.;  // PyTorch's default (bucket_cap_mb)
// cuBLAS's workspace as PyTorch takes it on Hopper, of the forward's thread and of autograd's
// (aten/src/ATen/cuda/CublasHandlePool.cpp).
constexpr double product_workspace = 32 * 1048576.;
constexpr int64_t steps_simulated = 2;  // moments appear in the first; the second meets them
constexpr int64_t steady_microbatches = 3;

// Inputs of reduce-scatters that wait for their transfers, since the host runs ahead of the GPU:
// those of both passes of each layer and microbatch in flight, but no more than fit into CUDA's
// launch queue of 1024 kernels, over 21 a product. Seen in the Ultra-Scale sweep, TP 2 to 32.
constexpr int64_t late_inputs_per_layer = 4, most_late_inputs = 48;

/// Parameters of the stage, matrix by matrix.
std::vector<double> parameters_of(const LayerContext& context, const Chunks& chunks) {
  const EagerSizes sizes = eager_sizes(context);
  const double e = context.share.element, norm = real(context.share.hidden);
  std::vector<double> all;
  for (const ChunkLayers& chunk : chunks) {
    double rest = chunk_parameters(context.job, context.share, chunk).dense;
    const auto add = [&](double count) {
      all.push_back(count);
      rest -= count;
    };
    if (chunk.has_embedding) add(sizes.vocabulary_weight / e);
    for (int64_t layer = 0; layer < chunk.layers(); ++layer)
      for (const double bytes : {sizes.qkv_weight, sizes.projection_weight, sizes.up_weight,
                                 sizes.down_weight, e * norm, e * norm})
        add(bytes / e);
    if (rest > 0) all.push_back(rest);  // head, biases, positions
  }
  return all;
}

/// What the caching allocator may take of the driver, with what the simulation does not see of it.
int64_t allocatable(const LayerContext& context) {
  const std::optional<Bytes> memory = context.job.cluster.gpu.memory;
  if (!memory) return std::numeric_limits<int64_t>::max();
  const spec::Stack& stack = context.stack();
  const Bytes rest = *memory - stack.framework_reserve;
  return static_cast<int64_t>(rest / stack.memory_fragmentation / unit::B);
}

/// One microbatch in one chunk, between its passes.
struct LiveChunk {
  std::vector<KeptLayer> layers;
  KeptHead head;
  Tensor end = 0;
};

class EagerStep {
 public:
  EagerStep(const LayerContext& context, const Chunks& chunks, const StageProgram& program);
  EagerPeaks run();

 private:
  bool replicates() const;  // buckets of gradients that all replicas reduce
  double ranks_of_states() const;
  int64_t pending_transfers() const;
  void take_states();
  void take_buckets();
  void run_passes();
  void run_epilogue(bool first);
  void gather_parameters();
  void forward(const Action&);
  void put_off(const Action&);
  void backward(const Action&, const LiveChunk&);
  void run_backwards(std::size_t but);

  const LayerContext& context_;
  const Chunks& chunks_;
  const StageProgram& program_;
  std::vector<double> parameters_;
  double count_ = 0;  // of all parameters
  int64_t microbatches_run_ = 0;
  int64_t limit_ = 0;
  CachingAllocator memory_;
  EagerLayers layers_;
  std::map<std::pair<int32_t, int32_t>, LiveChunk> live_;  // by chunk and microbatch
  std::vector<std::pair<Action, LiveChunk>> due_;          // backward passes that have not run yet
  EagerPeaks peaks_;
};

EagerStep::EagerStep(const LayerContext& context, const Chunks& chunks, const StageProgram& program)
    : context_(context),
      chunks_(chunks),
      program_(program),
      parameters_(parameters_of(context, chunks)),
      microbatches_run_(peak_in_flight(program) + context.stack().extra_in_flight +
                        steady_microbatches),
      limit_(allocatable(context)),
      memory_(limit_),
      layers_(eager_sizes(context), pending_transfers(), memory_) {
  for (const double each : parameters_)
    count_ += each;
}

bool EagerStep::replicates() const {
  return context_.plan().sharding == spec::Sharding::none && context_.share.data > 1;
}

double EagerStep::ranks_of_states() const {
  return context_.plan().sharding == spec::Sharding::none ? 1 : real(context_.share.shard);
}

int64_t EagerStep::pending_transfers() const {
  if (!context_.share.sequence_parallel) return 0;
  const int64_t chunks = static_cast<int64_t>(chunks_.size());
  const int64_t in_flight = peak_in_flight(program_) / chunks;
  int64_t layers = 0;
  for (const ChunkLayers& chunk : chunks_)
    layers += chunk.layers();
  return std::min(most_late_inputs, late_inputs_per_layer * layers * in_flight);
}

void EagerStep::take_states() {
  for (const double each : parameters_)
    memory_.take(context_.share.element * each);
  memory_.take(wide * count_);
  memory_.take(wide * count_ / ranks_of_states());
  take_buckets();
  for (int thread = 0; thread < 2; ++thread)
    memory_.take(product_workspace);
  const double buckets = replicates() ? context_.share.element : 0;
  peaks_.weights = context_.share.element * count_ * unit::B;
  peaks_.gradients = (wide + buckets) * count_ * unit::B;
  peaks_.optimizer = 3 * wide * count_ / ranks_of_states() * unit::B;
}

void EagerStep::take_buckets() {
  if (!replicates()) return;
  double bucket = 0;
  for (const double each : parameters_) {
    bucket += context_.share.element * each;
    if (bucket < ddp_bucket) continue;
    memory_.take(bucket);
    bucket = 0;
  }
  if (bucket > 0) memory_.take(bucket);
}

void EagerStep::forward(const Action& action) {
  const ChunkLayers& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  LiveChunk live;
  Tensor trunk = chunk.has_embedding ? layers_.embed() : layers_.receive();
  for (int64_t layer = 0; layer < chunk.layers(); ++layer)
    live.layers.push_back(layers_.forward(trunk));
  if (chunk.has_head)
    live.head = layers_.forward_head(trunk);
  else
    live.end = trunk;
  live_.emplace(std::pair(action.chunk, action.microbatch), std::move(live));
  layers_.drop_logit_gradient();
}

void EagerStep::put_off(const Action& action) {
  const auto found = live_.find({action.chunk, action.microbatch});
  if (found == live_.end()) return;
  due_.emplace_back(action, std::move(found->second));
  live_.erase(found);
}

void EagerStep::backward(const Action& action, const LiveChunk& live) {
  const ChunkLayers& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  std::vector<Tensor> gradients;
  Tensor gradient =
      chunk.has_head ? layers_.backward_head(live.head, gradients) : layers_.backward_end(live.end);
  for (auto kept = live.layers.rbegin(); kept != live.layers.rend(); ++kept)
    layers_.backward(*kept, gradient, gradients);
  if (chunk.has_embedding)
    layers_.backward_embedding(gradient, gradients);
  else
    memory_.drop(gradient);
  for (const Tensor tensor : gradients)
    memory_.drop(tensor);
}

/// All but the last few that are due.
void EagerStep::run_backwards(std::size_t but) {
  while (due_.size() > but) {
    backward(due_.front().first, due_.front().second);
    due_.erase(due_.begin());
  }
}

void EagerStep::run_passes() {
  const bool stages = context_.plan().pipeline_parallel_size > 1;
  const auto late = static_cast<std::size_t>(stages ? context_.stack().extra_in_flight : 0);
  for (const Action& action : program_) {
    if (action.microbatch >= microbatches_run_) continue;
    if (action.kind == ActionKind::forward) {
      forward(action);
    } else if (action.kind != ActionKind::backward_weight) {
      put_off(action);
      run_backwards(late);
    }
  }
  layers_.drop_logit_gradient();
  layers_.wait_for_transfers();
}

/// A flat copy of this rank's part, one of every rank's, and one that they are gathered into.
void EagerStep::gather_parameters() {
  const auto ranks = static_cast<int64_t>(ranks_of_states());
  const double flat = context_.share.element * count_;
  std::vector<Tensor> copies = {memory_.take(flat / real(ranks))};
  for (int64_t rank = 0; rank < ranks; ++rank)
    copies.push_back(memory_.take(flat / real(ranks)));
  copies.push_back(memory_.take(flat));
  for (const Tensor tensor : copies)
    memory_.drop(tensor);
}

void EagerStep::run_epilogue(bool first) {
  if (first)
    for (const double each : parameters_)
      for (int moment = 0; moment < 2; ++moment)
        memory_.take(wide * each / ranks_of_states());
  memory_.forget_peak();
  if (ranks_of_states() > 1) gather_parameters();
  peaks_.step = std::max(peaks_.step, static_cast<double>(memory_.peak()) * unit::B);
}

EagerPeaks EagerStep::run() {
  take_states();
  int64_t reserved = 0, most_reserved = 0;
  for (int64_t step = 0; step < steps_simulated; ++step) {
    memory_.forget_peak();
    run_passes();
    peaks_.allocated = std::max(peaks_.allocated, static_cast<double>(memory_.peak()) * unit::B);
    reserved = memory_.peak_reserved();
    most_reserved = std::max(most_reserved, reserved);
    if (!live_.empty()) break;  // a program's beginning
    run_epilogue(step == 0);
    reserved = std::max(reserved, memory_.peak_reserved());
    most_reserved = std::max(most_reserved, reserved);
  }
  // What was given back once is not taken again, unless it did not suffice.
  peaks_.reserved =
      static_cast<double>(most_reserved > limit_ ? most_reserved : reserved) * unit::B;
  peaks_.buffers = layers_.buffers() * unit::B;
  return peaks_;
}

}  // namespace

bool has_eager_step(const LayerContext& context) {
  const spec::Plan& plan = context.plan();
  const spec::Model& model = context.model();
  const bool whole =
      plan.sharding == spec::Sharding::none || plan.sharding == spec::Sharding::optimizer;
  const bool plain = !model.moe && !model.latent_attention && !model.layer_pattern &&
                     !model.multi_token_prediction;
  return context.stack().eager_allocation && context.share.training && !context.share.frozen &&
         whole && plain && !spec::is_quantized(plan.precision) &&
         plan.recompute == spec::Recompute::none;
}

EagerPeaks simulate_eager_step(const LayerContext& context, const Chunks& chunks,
                               const StageProgram& program) {
  return EagerStep(context, chunks, program).run();
}

}  // namespace triplepoint::workload
