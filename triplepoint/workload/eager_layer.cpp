// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/eager_layer.h"

#include "triplepoint/workload/rank_share.h"

namespace triplepoint::workload {

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
  if (memory_.is_exhausted_by(bytes)) wait_for_transfers();
  return memory_.take(bytes);
}

/// The buffer that every gather of its kind writes to; it stays.
void EagerLayers::gather(std::size_t buffer) {
  if (!sizes_.scatters || gathered_bytes_[buffer] >= sizes_.whole) return;
  gathered_[buffer] = take(sizes_.whole);
  gathered_bytes_[buffer] = sizes_.whole;
}

/// The host lets go of what is being transferred long before the GPU is there.
void EagerLayers::drop_late(Tensor whole) {
  pending_.push_back(whole);
  if (pending_.size() <= most_pending_) return;
  drop(pending_.front());
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
  for (const Tensor tensor : pending_)
    drop(tensor);
  pending_.clear();
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
  kept.input = trunk;
  kept.norm1 = take(sizes_.own);
  const Tensor attention = forward_attention(kept);
  kept.norm2 = take(sizes_.own);
  gather(0);
  kept.merged = take(static_cast<double>(sizes_.gates) * sizes_.units);
  if (sizes_.gates == 2) kept.activated = take(sizes_.units);
  kept.product = take(sizes_.units);
  const Tensor branch = scatter(take(sizes_.whole));
  trunk = take(sizes_.own);
  drop(branch);
  drop(attention);
  return kept;
}

/// Logits, the same in floats, and a softmax beside them.
KeptHead EagerLayers::forward_head(Tensor trunk) {
  KeptHead kept;
  kept.input = trunk;
  kept.norm = take(sizes_.own);
  gather(0);
  const Tensor logits = take(sizes_.logits);
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

}  // namespace triplepoint::workload
