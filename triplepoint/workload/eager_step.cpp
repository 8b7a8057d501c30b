// SPDX-License-Identifier: Apache-2.0
// One rank's training step, tensor by tensor, through PyTorch's caching allocator.
//
// Why a simulation: where tensors are allocated one by one, what decides is not the sum of bytes
// but the order in which blocks come and go. A freed block that is slightly too small serves
// nothing, and the driver is asked for more. No formula gives that, so the passes below take and
// drop tensors in the order of the code that they follow (nanotron's Llama; sources in
// eager_step.h). Each function is one pass of one part, and its order of lines is the model: a drop
// that comes one take earlier changes the peak.
//
// Cost: tensors of a layer times layers times microbatches simulated, each O(log blocks).
// Microbatches beyond those in flight repeat what came before, so only a few more are simulated.
//
// Names: whole and own are an activation of all tokens and of this rank's under sequence
// parallelism, kept is what autograd saves, late is what another stream still uses.
#include "triplepoint/workload/eager_step.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "triplepoint/workload/caching_allocator.h"
#include "triplepoint/workload/host_lead.h"
#include "triplepoint/workload/op_makers.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::workload {
namespace {

/// Bytes of the tensors of one microbatch and layer on one rank.
struct EagerSizes {
  double whole = 0, own = 0;  // activations of all tokens, and of this rank's under SP
  double query = 0, key_value = 0, sums = 0;
  double units = 0;   // hidden units of an MLP
  double logits = 0;  // 16 bits
  double qkv_weight = 0, projection_weight = 0, up_weight = 0, down_weight = 0;
  double vocabulary_weight = 0;
  bool stacks_qkv = true;  // as many keys as queries: all three in one tensor, which the core keeps
  bool several_rows = false;          // sequences are turned around by a copy
  bool scatters = false;              // inputs are gathered, outputs reduced and scattered
  bool keeps_logit_gradient = false;  // until the next microbatch has had its forward pass
  int64_t gates = 1;
};

using Tensor = CachingAllocator::Tensor;

// CUDA's launch queue holds 1024 kernels, over 21 a product: the host is ahead by no more inputs of
// reduce-scatters than these.
constexpr std::size_t most_late_inputs = 48;

/// What a layer keeps until its backward pass.
struct KeptLayer {
  Tensor input = 0, norm1 = 0, query = 0, key_value = 0, core = 0, sums = 0;
  Tensor trunk = 0, norm2 = 0, merged = 0, activated = 0, product = 0;
};

struct KeptHead {
  Tensor input = 0, norm = 0, softmax = 0;
};

/// Forward and backward passes of layers and ends as they take and drop tensors.
class EagerLayers {
 public:
  EagerLayers(const EagerSizes& sizes, const PassTimes& times, CachingAllocator& memory)
      : sizes_(sizes), times_(times), memory_(memory) {}

  Tensor embed();    // the trunk that enters the first layer
  Tensor receive();  // the same, from the stage before
  KeptLayer forward(Tensor& trunk);
  KeptHead forward_head(Tensor trunk);

  /// Gradients of weights stay in `gradients`.
  Tensor backward_head(const KeptHead&, std::vector<Tensor>& gradients);  // the trunk's gradient
  Tensor backward_end(Tensor trunk);  // of a stage without head: its gradient comes in
  void backward(const KeptLayer&, Tensor& gradient, std::vector<Tensor>& gradients);
  void backward_embedding(Tensor gradient, std::vector<Tensor>& gradients);

  void drop_logit_gradient();  // of the microbatch before
  void wait_for_transfers();   // what was pending is free
  void stall_gpu() { lead_.stall_gpu(); }
  double buffers() const { return gathered_bytes_[0] + gathered_bytes_[1]; }

 private:
  Tensor take(double bytes);
  void drop(Tensor tensor) { memory_.drop(tensor); }
  void gather(std::size_t buffer);
  Tensor scatter(Tensor whole);
  void drop_late(Tensor whole);
  Tensor project();
  Tensor forward_attention(KeptLayer&);
  void backward_mlp(const KeptLayer&, Tensor& gradient, std::vector<Tensor>& gradients);
  void backward_attention(const KeptLayer&, Tensor& gradient, std::vector<Tensor>& gradients);
  Tensor backward_core(const KeptLayer&, Tensor core);
  Tensor backward_input(Tensor output, double weight, Tensor kept, std::vector<Tensor>& gradients);
  void add_branch(Tensor branch, Tensor kept, Tensor& gradient);

  EagerSizes sizes_;
  PassTimes times_;
  CachingAllocator& memory_;
  HostLead lead_;
  std::deque<std::pair<Tensor, Seconds>> pending_;  // and when the GPU will have passed them
  Tensor gathered_[2] = {0, 0};                     // for inputs, and for gradients of outputs
  double gathered_bytes_[2] = {0, 0};
  std::vector<Tensor> logit_gradient_;
};

EagerSizes eager_sizes(const LayerContext& context) {
  const RankShare& share = context.share;
  const double e = share.element, tokens = real(share.tokens), hidden = real(share.hidden);
  const double query = real(share.heads * share.head_dim);
  const double keys = real(share.query_groups * share.head_dim);
  const double ffn = real(share.ffn);
  EagerSizes sizes;
  sizes.whole = e * tokens * hidden;
  sizes.own = e * real(share.sharded_tokens) * hidden;
  sizes.query = e * tokens * query;
  sizes.key_value = 2 * e * tokens * keys;
  sizes.sums = 4 * tokens * real(share.heads);
  sizes.units = e * tokens * ffn;
  sizes.logits = e * tokens * real(share.vocabulary);
  sizes.qkv_weight = e * hidden * (query + 2 * keys);
  sizes.projection_weight = e * hidden * query;
  sizes.up_weight = e * hidden * real(share.gates) * ffn;
  sizes.down_weight = e * hidden * ffn;
  sizes.vocabulary_weight = e * hidden * real(share.vocabulary);
  sizes.stacks_qkv = share.heads == share.query_groups;
  sizes.several_rows = share.sequences > 1;
  sizes.scatters = share.sequence_parallel;
  sizes.keeps_logit_gradient = context.job.num_microbatches() > 1;
  sizes.gates = share.gates;
  return sizes;
}

/// Where nothing is left the allocator waits for the GPU before it gives anything back.
Tensor EagerLayers::take(double bytes) {
  while (!pending_.empty() && lead_.has_completed(pending_.front().second)) {
    drop(pending_.front().first);
    pending_.pop_front();
  }
  if (memory_.is_exhausted_by(bytes)) wait_for_transfers();
  return memory_.take(bytes);
}

/// The buffer that every gather of its kind writes to; it stays.
void EagerLayers::gather(std::size_t buffer) {
  // Taken once, in the first layer, and reused; where it lies among other blocks is part of the
  // result.
  if (!sizes_.scatters || gathered_bytes_[buffer] >= sizes_.whole) return;
  gathered_[buffer] = take(sizes_.whole);
  gathered_bytes_[buffer] = sizes_.whole;
}

/// The host lets go of what is being transferred long before the GPU is there.
void EagerLayers::drop_late(Tensor whole) {
  // A tensor that another stream uses comes back only when that stream has passed it.
  pending_.emplace_back(whole, lead_.end());
  if (pending_.size() <= most_late_inputs) return;
  // The launch queue is full: the host waits for the oldest transfer, if the GPU is not held.
  lead_.wait_until(pending_.front().second);
  drop(pending_.front().first);
  pending_.pop_front();
}

/// Reduced and scattered.
Tensor EagerLayers::scatter(Tensor whole) {
  if (!sizes_.scatters) return whole;
  const Tensor own = take(sizes_.own);
  drop_late(whole);
  return own;
}

void EagerLayers::wait_for_transfers() {
  for (const auto& [tensor, end] : pending_)
    drop(tensor);
  pending_.clear();
  lead_.synchronize();
}

void EagerLayers::drop_logit_gradient() {
  for (const Tensor tensor : logit_gradient_)
    drop(tensor);
  logit_gradient_.clear();
}

Tensor EagerLayers::embed() {
  return scatter(take(sizes_.whole));
}

Tensor EagerLayers::receive() {
  return take(sizes_.own);
}

/// Product of all three, turned around, keys and values side by side, and the fused core. What it
/// returns lies there until the layer's end, where the caller lets go of it.
Tensor EagerLayers::forward_attention(KeptLayer& kept) {
  gather(0);
  const Tensor qkv = take(sizes_.query + sizes_.key_value);
  Tensor keys = 0, values = 0;
  if (sizes_.stacks_qkv) {
    kept.query = take(sizes_.query + sizes_.key_value);
  } else {
    kept.query = take(sizes_.query);
    keys = take(sizes_.key_value / 2);
    values = take(sizes_.key_value / 2);
  }
  // The core wants keys and values in another order of dimensions: a copy, and the joined one goes.
  const Tensor joined = take(sizes_.key_value);
  kept.key_value = take(sizes_.key_value);
  drop(joined);
  kept.core = take(sizes_.query);
  kept.sums = take(sizes_.sums);
  if (!sizes_.stacks_qkv) {
    drop(keys);
    drop(values);
  }
  const Tensor branch = scatter(project());
  drop(qkv);
  kept.trunk = take(sizes_.own);
  return branch;
}

/// The projection; what it reads is turned around by a copy where there are several sequences.
Tensor EagerLayers::project() {
  if (!sizes_.several_rows) return take(sizes_.whole);
  const Tensor turned = take(sizes_.query);
  const Tensor branch = take(sizes_.whole);
  drop(turned);
  return branch;
}

KeptLayer EagerLayers::forward(Tensor& trunk) {
  KeptLayer kept;
  lead_.launch(times_.layer_forward);
  kept.input = trunk;
  kept.norm1 = take(sizes_.own);
  const Tensor attention = forward_attention(kept);
  kept.norm2 = take(sizes_.own);
  gather(0);
  kept.merged = take(static_cast<double>(sizes_.gates) * sizes_.units);
  if (sizes_.gates == 2) kept.activated = take(sizes_.units);
  kept.product = take(sizes_.units);
  const Tensor branch = scatter(take(sizes_.whole));
  // The sum of trunk and branch is a new tensor; both branches stay until it is there.
  trunk = take(sizes_.own);
  drop(branch);
  drop(attention);
  return kept;
}

/// Logits, the same in floats, and a softmax beside them.
KeptHead EagerLayers::forward_head(Tensor trunk) {
  KeptHead kept;
  lead_.launch(times_.head_forward);
  kept.input = trunk;
  kept.norm = take(sizes_.own);
  gather(0);
  const Tensor logits = take(sizes_.logits);
  // The loss works in floats: the logits' cast and the softmax are both twice their bytes.
  const Tensor floats = take(2 * sizes_.logits);
  drop(logits);
  kept.softmax = take(2 * sizes_.logits);
  drop(floats);
  return kept;
}

/// Gradient of a linear layer's input, then of its weight; what was kept for them goes.
Tensor EagerLayers::backward_input(Tensor output, double weight, Tensor kept,
                                   std::vector<Tensor>& gradients) {
  gather(0);
  const Tensor whole = take(sizes_.whole);
  Tensor own = whole;
  if (sizes_.scatters) own = take(sizes_.own);
  gradients.push_back(take(weight));
  drop(output);
  drop(kept);
  if (sizes_.scatters) drop_late(whole);
  return own;
}

Tensor EagerLayers::backward_head(const KeptHead& kept, std::vector<Tensor>& gradients) {
  lead_.launch(times_.head_backward);
  const Tensor logits = take(sizes_.logits);
  drop(kept.softmax);
  gather(0);
  const Tensor whole = take(sizes_.whole);
  Tensor own = whole;
  if (sizes_.scatters) own = take(sizes_.own);
  gradients.push_back(take(sizes_.vocabulary_weight));
  if (sizes_.scatters) drop(whole);
  if (sizes_.keeps_logit_gradient)
    logit_gradient_.push_back(logits);
  else
    drop(logits);
  drop(kept.norm);
  const Tensor gradient = take(sizes_.own);
  drop(own);
  drop(kept.input);
  return gradient;
}

Tensor EagerLayers::backward_end(Tensor trunk) {
  const Tensor gradient = take(sizes_.own);
  drop(trunk);
  return gradient;
}

/// Through a norm, and added to the trunk's gradient.
void EagerLayers::add_branch(Tensor branch, Tensor kept, Tensor& gradient) {
  const Tensor normed = take(sizes_.own);
  drop(branch);
  drop(kept);
  const Tensor sum = take(sizes_.own);
  drop(normed);
  drop(gradient);
  gradient = sum;
}

void EagerLayers::backward_mlp(const KeptLayer& kept, Tensor& gradient,
                               std::vector<Tensor>& gradients) {
  gather(1);
  const Tensor product = take(sizes_.units);
  gradients.push_back(take(sizes_.down_weight));
  drop(kept.product);
  Tensor merged = 0;
  // A gate written op by op: gradients of both halves are made apart and then joined.
  if (sizes_.gates == 2) {
    const Tensor activated = take(sizes_.units), up = take(sizes_.units);
    drop(product);
    drop(kept.activated);
    const Tensor gate = take(sizes_.units);
    drop(activated);
    merged = take(2 * sizes_.units);
    drop(gate);
    drop(up);
  } else {
    merged = take(sizes_.units);
    drop(product);
  }
  drop(kept.merged);
  const Tensor branch = backward_input(merged, sizes_.up_weight, kept.norm2, gradients);
  add_branch(branch, kept.trunk, gradient);
}

/// From the gradient of the core's output to that of the product of all three.
Tensor EagerLayers::backward_core(const KeptLayer& kept, Tensor core) {
  const Tensor query = take(sizes_.query);
  const Tensor keys = take(sizes_.key_value / 2), values = take(sizes_.key_value / 2);
  drop(core);
  drop(kept.core);
  drop(kept.sums);
  const Tensor joined = take(sizes_.key_value);
  drop(keys);
  drop(values);
  drop(kept.key_value);
  const Tensor turned = take(sizes_.key_value);
  drop(joined);
  const Tensor stacked = take(sizes_.query + sizes_.key_value);
  drop(query);
  drop(turned);
  drop(kept.query);
  const Tensor qkv = take(sizes_.query + sizes_.key_value);
  drop(stacked);
  return qkv;
}

void EagerLayers::backward_attention(const KeptLayer& kept, Tensor& gradient,
                                     std::vector<Tensor>& gradients) {
  gather(1);
  Tensor core = take(sizes_.query);
  gradients.push_back(take(sizes_.projection_weight));
  if (sizes_.several_rows) {
    const Tensor turned = take(sizes_.query);
    drop(core);
    core = turned;
  }
  const Tensor qkv = backward_core(kept, core);
  const Tensor branch = backward_input(qkv, sizes_.qkv_weight, kept.norm1, gradients);
  add_branch(branch, kept.input, gradient);
}

void EagerLayers::backward(const KeptLayer& kept, Tensor& gradient,
                           std::vector<Tensor>& gradients) {
  lead_.launch(times_.layer_backward);
  backward_mlp(kept, gradient, gradients);
  backward_attention(kept, gradient, gradients);
}

void EagerLayers::backward_embedding(Tensor gradient, std::vector<Tensor>& gradients) {
  if (sizes_.scatters) {
    const Tensor whole = take(sizes_.whole);
    drop(gradient);
    gradient = whole;
  }
  gradients.push_back(take(sizes_.vocabulary_weight));
  drop(gradient);
}

using Chunks = std::vector<ChunkLayers>;

constexpr double wide = 4;  // sums of gradients, master weights and each moment are floats
constexpr double ddp_bucket = 25 * 1048576.;  // PyTorch's default (bucket_cap_mb)
// cuBLAS's workspace as PyTorch takes it on Hopper, of the forward's thread and of autograd's
// (aten/src/ATen/cuda/CublasHandlePool.cpp).
constexpr double product_workspace = 32 * 1048576.;
constexpr int64_t steps_simulated = 2;  // moments appear in the first; the second meets them
constexpr int64_t steady_microbatches = 3;

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
  void take_states();
  void take_buckets();
  void run_passes();
  bool waits_for_warm_up(const Action&) const;
  void run_epilogue(bool first);
  void gather_parameters();
  void forward(const Action&);
  void defer_weight_gradients(const Action&);
  void backward(const Action&, const LiveChunk&);
  void run_backwards(std::size_t but);

  const LayerContext& context_;
  const Chunks& chunks_;
  const StageProgram& program_;
  std::vector<double> parameters_;
  double count_ = 0;  // of all parameters
  int64_t microbatches_run_ = 0;
  int64_t limit_ = 0;
  bool turned_back_ = false;  // the first step's first backward pass has begun
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
      layers_(eager_sizes(context), make_pass_times(context), memory_) {
  for (const double each : parameters_)
    count_ += each;
}

bool EagerStep::replicates() const {
  return context_.plan().sharding == spec::Sharding::none && context_.share.data > 1;
}

double EagerStep::ranks_of_states() const {
  return context_.plan().sharding == spec::Sharding::none ? 1 : real(context_.share.shard);
}

void EagerStep::take_states() {
  for (const double each : parameters_)
    memory_.take(context_.share.element * each);
  // A flat buffer of float gradients, then this rank's master weights; both lie there for good.
  memory_.take(wide * count_);
  memory_.take(wide * count_ / ranks_of_states());
  take_buckets();
  for (int thread = 0; thread < 2; ++thread)
    memory_.take(product_workspace);
  // DDP keeps 16-bit gradients in its buckets beside the floats that are accumulated.
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
  // What arrives is announced by its shape, which the host reads.
  if (!chunk.has_embedding) layers_.wait_for_transfers();
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

void EagerStep::defer_weight_gradients(const Action& action) {
  const auto found = live_.find({action.chunk, action.microbatch});
  if (found == live_.end()) return;
  due_.emplace_back(action, std::move(found->second));
  live_.erase(found);
}

void EagerStep::backward(const Action& action, const LiveChunk& live) {
  const ChunkLayers& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  std::vector<Tensor> gradients;
  if (!chunk.has_head) layers_.wait_for_transfers();
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

/// In the first step each stage takes seconds for its first forward pass: kernels are compiled and
/// communicators made. The first stage's second message waits for that, and the GPU with it, while
/// the host launches the forward passes that are left until it asks for a gradient.
bool EagerStep::waits_for_warm_up(const Action& action) const {
  return !turned_back_ && action.microbatch >= 2 && chunks_.front().has_embedding &&
         !chunks_.back().has_head;
}

void EagerStep::run_passes() {
  const bool stages = context_.plan().pipeline_parallel_size > 1;
  // Some pipelines hold microbatches beyond their schedule: their backward passes run that much
  // later.
  const auto late = static_cast<std::size_t>(stages ? context_.stack().extra_in_flight : 0);
  for (const Action& action : program_) {
    if (action.microbatch >= microbatches_run_) continue;
    if (action.kind == ActionKind::forward) {
      if (waits_for_warm_up(action)) layers_.stall_gpu();
      forward(action);
    } else if (action.kind != ActionKind::backward_weight) {
      turned_back_ = true;
      defer_weight_gradients(action);
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
  // Moments appear in the first step, between the blocks that its passes left free: the second step
  // finds another set of holes than the first, which is why two steps are simulated.
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
