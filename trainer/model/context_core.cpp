// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/context_core.h"

#include <utility>

namespace triplepoint::trainer {
namespace {

constexpr int keys_channel = 0, gradients_channel = 1;

double core_flops(const Attention& shape, double per_score) {
  return 0.5 * per_score * static_cast<double>(shape.sequences * shape.heads) *
         static_cast<double>(shape.length) * static_cast<double>(shape.length) *
         static_cast<double>(shape.head_dim);
}

int64_t core_elements(const Attention& shape) {
  return shape.sequences * shape.length * (shape.width() + shape.heads * shape.head_dim);
}

/// A block of numbers on its way to the next rank of the ring, and one on its way here.
class Exchange {
 public:
  Exchange(ModelContext& context, int channel) : context_(context), channel_(channel) {}
  ~Exchange() { wait(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(const Buffer& block) {
    Communicator& group = *context_.groups.context;
    sending_ = group.send({block.data(), static_cast<size_t>(block.count())},
                          (group.index() + 1) % group.size(), channel_, context_.wire);
  }
  void receive(int64_t count) {
    Communicator& group = *context_.groups.context;
    coming_ = context_.workspace(count);
    receiving_ =
        group.receive({coming_.data(), static_cast<size_t>(count)},
                      (group.index() + group.size() - 1) % group.size(), channel_, context_.wire);
  }
  void wait() {
    sending_.wait();
    receiving_.wait();
  }
  /// What has come, after wait(); empty where nothing was received.
  Buffer take() { return std::move(coming_); }

 private:
  ModelContext& context_;
  int channel_;
  Buffer coming_;
  Pending sending_, receiving_;
};

}  // namespace

SpanText core_text(const ModelContext& context, const Attention& shape) {
  return op_text(context, "attention", core_elements(shape), core_flops(shape, 4));
}

SpanText core_backward_text(const ModelContext& context, const Attention& shape) {
  return op_text(context, "attention_backward", 2 * core_elements(shape), core_flops(shape, 10));
}

bool ContextCore::gathers() const {
  return context_.job.plan.context_exchange == spec::ContextExchange::all_gather;
}

int64_t ContextCore::source_of(int64_t step) const {
  return (context_.part.index + context_.part.ranks - step) % context_.part.ranks;
}

AttentionPair ContextCore::pair_with(int64_t source) const {
  AttentionPair pair{context_.part, context_.part};
  pair.keys.index = source;
  return pair;
}

void ContextCore::pack_keys(const Attention& shape, const float* qkv, float* keys) {
  context_.math.copy_matrix(context_.tokens(), shape.keys_width(),
                            qkv + shape.heads * shape.head_dim, shape.width(), keys,
                            shape.keys_width());
}

Buffer ContextCore::gather_keys(const Attention& shape, const float* qkv) {
  const int64_t size = block_size(shape);
  Buffer whole = context_.workspace(size * context_.part.ranks);
  float* mine = whole.data() + context_.part.index * size;
  pack_keys(shape, qkv, mine);
  context_.groups.context
      ->all_gather({mine, static_cast<size_t>(size)},
                   {whole.data(), static_cast<size_t>(whole.count())}, context_.wire)
      .wait();
  return whole;
}

void ContextCore::attend(const Attention& shape, int64_t source, const float* qkv,
                         const float* keys, float* out, float* sums) {
  const ScopedSpan span(core_text(context_, shape));
  context_.math.attention_part(shape, pair_with(source), qkv, keys, out, sums);
}

void ContextCore::attend_backward(const Attention& shape, int64_t source, const float* qkv,
                                  const float* keys, const AttentionGradients& to) {
  const ScopedSpan span(core_backward_text(context_, shape));
  context_.math.attention_part_backward(shape, pair_with(source), qkv, keys, to);
}

template <class Visit>
void ContextCore::for_each_block(const Attention& shape, const float* qkv, const Visit& visit) {
  const int64_t size = block_size(shape), ranks = context_.part.ranks;
  if (gathers()) {
    const Buffer whole = gather_keys(shape, qkv);
    for (int64_t step = 0; step < ranks; ++step)
      visit(source_of(step), whole.data() + source_of(step) * size);
    return;
  }
  Buffer keys = context_.workspace(size);
  pack_keys(shape, qkv, keys.data());
  for (int64_t step = 0; step < ranks; ++step) {
    Exchange next(context_, keys_channel);
    if (step + 1 < ranks) {
      next.receive(size);
      next.send(keys);
    }
    visit(source_of(step), keys.data());
    next.wait();
    keys = next.take();
  }
}

void ContextCore::forward(const Attention& shape, const float* qkv, float* out, float* sums) {
  for_each_block(shape, qkv, [&](int64_t source, const float* keys) {
    attend(shape, source, qkv, keys, out, sums);
  });
  context_.math.round(context_.tokens() * shape.heads * shape.head_dim, out);
}

void ContextCore::backward_on_ring(const Attention& shape, const float* qkv,
                                   const AttentionGradients& own) {
  const int64_t size = block_size(shape);
  Exchange gradients(context_, gradients_channel);
  Buffer block;  // of the keys at work, from here on its way
  for_each_block(shape, qkv, [&](int64_t source, const float* keys) {
    if (source == context_.part.index) return attend_backward(shape, source, qkv, keys, own);
    Buffer here = context_.workspace(size);
    context_.math.zero(size, here.data());
    if (!block.empty()) gradients.receive(size);
    AttentionGradients to = own;
    to.keys = here.data();
    attend_backward(shape, source, qkv, keys, to);
    gradients.wait();
    if (!block.empty()) context_.math.add(size, gradients.take().data(), here.data());
    block = std::move(here);
    gradients.send(block);
  });
  gradients.receive(size);
  gradients.wait();
  context_.math.add(size, gradients.take().data(), own.keys);
}

void ContextCore::backward_gathered(const Attention& shape, const float* qkv,
                                    const AttentionGradients& own) {
  const int64_t size = block_size(shape);
  Buffer whole = context_.workspace(size * context_.part.ranks);
  context_.math.zero(whole.count(), whole.data());
  for_each_block(shape, qkv, [&](int64_t source, const float* keys) {
    AttentionGradients to = own;
    to.keys = whole.data() + source * size;
    attend_backward(shape, source, qkv, keys, to);
  });
  context_.groups.context
      ->reduce_scatter({whole.data(), static_cast<size_t>(whole.count())},
                       {own.keys, static_cast<size_t>(size)}, Reduction::sum, context_.wire)
      .wait();
}

void ContextCore::backward(const Attention& shape, float* qkv, const float* out,
                           const float* out_gradient, const float* sums) {
  Math& math = context_.math;
  const int64_t rows = context_.tokens(), width = shape.heads * shape.head_dim;
  Buffer queries = context_.workspace(rows * width), keys = context_.workspace(block_size(shape));
  math.zero(queries.count(), queries.data());
  math.zero(keys.count(), keys.data());
  const AttentionGradients own{out, out_gradient, sums, queries.data(), keys.data()};
  if (gathers())
    backward_gathered(shape, qkv, own);
  else
    backward_on_ring(shape, qkv, own);
  math.copy_matrix(rows, width, queries.data(), width, qkv, shape.width());
  math.copy_matrix(rows, shape.keys_width(), keys.data(), shape.keys_width(), qkv + width,
                   shape.width());
  math.round(rows * shape.width(), qkv);
}

}  // namespace triplepoint::trainer
