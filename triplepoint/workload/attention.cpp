// SPDX-License-Identifier: Apache-2.0
// Ops of attention: projections, the core, and the exchange of keys and values (formulas:
// attention.h).
//
// The core is the only part whose flops are not a product of token counts. Flops count the keys
// that a query sees; what a kernel computes beyond them (masked halves of blocks) is the kernel
// model's part (perf/kernel_time.cpp), except for the unfused core, which is made of plain products
// over the square. Documents packed into one sequence attend only to themselves: more, shorter
// sequences. Of records that are padded to different lengths the core has the mean of their
// squares.
#include "triplepoint/workload/attention.h"

#include <cmath>

namespace triplepoint::workload {
namespace {

using spec::Collective;
using spec::GroupKind;
using spec::Op;
using spec::OpClass;
using spec::Overlap;
using spec::RecomputeModule;
using spec::RecordLayout;

double query_width(const LayerContext& context) {
  return real(context.share.heads * core_head_dim(context.model()));
}

/// What attends to each other: whole sequences, or the documents packed into them.
struct Documents {
  int64_t count, query_length, key_length;
};

/// As many of the mean length as the row holds.
Documents packed_records(const LayerContext& context) {
  const RankShare& share = context.share;
  const double row = real(share.key_length);
  const int64_t length = std::max<int64_t>(1, std::llround(share.squares / row));
  const double count = real(share.sequences) * row / real(length);
  return {std::max<int64_t>(1, std::llround(count)), divide_up(length, share.context), length};
}

Documents documents_of(const LayerContext& context) {
  const RankShare& share = context.share;
  const bool packs = context.job.records && context.plan().record_layout == RecordLayout::packed;
  if (packs) return packed_records(context);
  const int64_t length = context.plan().packed_length.value_or(share.key_length);
  if (length >= share.key_length) return {share.sequences, share.query_length, share.key_length};
  return {share.sequences * divide_up(share.key_length, length), divide_up(length, share.context),
          length};
}

/// Elements of all score matrices over all heads of the rank.
double scores(const LayerContext& context) {
  const RankShare& share = context.share;
  if (context.job.records)
    return real(share.sequences * share.heads) * share.squares / real(share.context);
  const Documents documents = documents_of(context);
  return real(documents.count * context.share.heads) * real(documents.query_length) *
         real(documents.key_length);
}

/// Keys that a query sees at most; 0: all before it.
int64_t window_of(const LayerContext& context) {
  const int64_t keys = documents_of(context).key_length, topk = indexer_topk(context.model());
  const int64_t window = context.windowed ? context.model().sliding_window->size
                         : topk > 0       ? topk
                                          : keys;
  // A window as long as the document hides nothing: then it is plain causal attention.
  return window < keys ? window : 0;
}

bool is_causal(const LayerContext& context) {
  return context.share.query_length > 1;
}

bool is_decoding(const LayerContext& context) {
  return context.job.task == spec::Task::decode;
}

/// Latent attention decodes against the cache as it is kept, keys and values of one latent head:
/// the products that would expand it are applied to the query and the output instead.
bool reads_latent_cache(const LayerContext& context) {
  return is_decoding(context) && context.model().latent_attention.has_value();
}

/// Width of a score's two products: q k and p v.
double score_width(const LayerContext& context) {
  if (!reads_latent_cache(context)) return real(core_head_dim(context.model()));
  const spec::LatentAttention& latent = *context.model().latent_attention;
  // The score's product has rank + rope elements, the value's rank alone: their mean.
  return real(latent.key_value_rank) + real(latent.rope_head_dim) / 2;
}

/// Elements of keys and values of one token that the core reads.
double cached_width(const LayerContext& context) {
  if (!reads_latent_cache(context)) return key_value_width(context);
  const spec::LatentAttention& latent = *context.model().latent_attention;
  return real(latent.key_value_rank + latent.rope_head_dim);
}

Op core_op(const LayerContext& context, std::string_view name, double flops_per_score,
           double bytes) {
  const RankShare& share = context.share;
  Op op = streaming(context, name, OpClass::attention, bytes);
  if (context.plan().attends_in_fp8()) op.precision = spec::Precision::fp8;
  const Documents documents = documents_of(context);
  const int64_t window = window_of(context);
  double seen_share = is_causal(context) ? 0.5 : 1.0;
  if (window > 0)
    seen_share = (is_causal(context) ? mean_keys(documents.key_length, window) : real(window)) /
                 real(documents.key_length);
  op.flops = flops_per_score * score_width(context) * scores(context) * seen_share * unit::FLOP;
  op.attention = {.batch = documents.count,
                  .heads = share.heads,
                  .query_groups = reads_latent_cache(context) ? 1 : share.query_groups,
                  .query_length = documents.query_length,
                  .key_length = documents.key_length,
                  .head_dim = core_head_dim(context.model()),
                  .causal = is_causal(context),
                  .window = window};
  return op;
}

/// Query, key, value in, output and log-sum-exp out; decoding reads the whole cache.
void add_flash_core(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  // A lone query reads its window of the cache; many read all keys between them.
  const int64_t window = window_of(context);
  const int64_t read = window > 0 && !is_causal(context) ? window : share.key_length;
  const double keys = real(share.sequences * read) * cached_width(context);
  const double queries = real(share.tokens) * query_width(context);
  const double sums = 4 * real(share.tokens * share.heads);
  Op forward = core_op(context, "attention", 4, share.element * (2 * queries + keys) + sums);
  // Under context parallelism the core runs block by block, a launch for each part of the keys.
  forward.kernels = static_cast<int>(share.context);
  passes.forward.push_back(forward);
  if (!share.training) return;
  // In: query, output, its gradient, keys, values. Out: their gradients; the query's in fp32 first.
  const double bytes = share.element * (4 * queries + 2 * keys) + 8 * queries + 2 * sums;
  Op backward = core_op(context, "attention_backward", 10, bytes);
  backward.backward = true;
  // The core and its two companions, which frame it (perf::kernel_time).
  backward.kernels = static_cast<int>(3 * share.context);
  passes.backward_input.push_back(backward);
}

Op batched_product(const LayerContext& context, std::string_view name,
                   const spec::GemmShape& shape) {
  const double m = real(shape.m), n = real(shape.n), k = real(shape.k), count = real(shape.count);
  Op op = streaming(context, name, OpClass::gemm,
                    context.share.element * count * (m * k + k * n + m * n));
  op.flops = 2 * m * n * k * count * unit::FLOP;
  op.gemm = shape;
  return op;
}

/// Scores written out: product, masked softmax, dropout, product. The masked half is computed too.
void add_unfused_core(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const Documents documents = documents_of(context);
  const int64_t batches = documents.count * share.heads, d = core_head_dim(context.model());
  const spec::GemmShape outer{documents.query_length, documents.key_length, d, batches};
  const spec::GemmShape inner{documents.query_length, d, documents.key_length, batches};
  const bool dropout = share.training && context.model().dropout > 0;
  const double element = share.element;
  passes.forward.push_back(batched_product(context, "attention_scores", outer));
  passes.forward.push_back(
      streaming(context, "softmax", OpClass::elementwise, 2 * element * scores(context)));
  if (dropout)
    passes.forward.push_back(streaming(context, "attention_dropout", OpClass::elementwise,
                                       (2 * element + 1) * scores(context)));
  passes.forward.push_back(batched_product(context, "attention_values", inner));
  if (!share.training) return;
  passes.backward_input.push_back(batched_product(context, "attention_query_dgrad", inner));
  passes.backward_input.push_back(batched_product(context, "attention_key_dgrad", inner));
  passes.backward_input.push_back(
      streaming(context, "softmax_backward", OpClass::elementwise, 3 * element * scores(context)));
  if (dropout)
    passes.backward_input.push_back(streaming(context, "attention_dropout_backward",
                                              OpClass::elementwise,
                                              (2 * element + 1) * scores(context)));
  passes.backward_input.push_back(batched_product(context, "attention_scores_dgrad", outer));
  passes.backward_input.push_back(batched_product(context, "attention_value_dgrad", inner));
}

/// Keys and values travel round the ring, CP - 1 times; backward they travel again with their
/// gradients. The next block comes while one is computed (Overlap::tensor).
void exchange_on_ring(const LayerContext& context, double block, Passes& passes) {
  const Op send =
      collective("cp_send_recv", Collective::send_recv, GroupKind::context, block, Overlap::tensor);
  Op send_back = collective("cp_send_recv", Collective::send_recv, GroupKind::context, 2 * block,
                            Overlap::tensor);
  send_back.backward = true;
  for (int64_t i = 1; i < context.share.context; ++i) {
    passes.forward.push_back(send);
    if (context.share.training) passes.backward_input.push_back(send_back);
  }
}

/// Gathered keys and values are not kept: backward they are gathered again, and their gradients
/// scattered. Source: Transformer Engine, attention/dot_product_attention/context_parallel.py
/// (AttnFuncWithCPAndKVAllGather).
void exchange_by_gather(const LayerContext& context, double whole, Passes& passes) {
  const auto gather = [&](Collective kind, std::string_view name) {
    return collective(name, kind, GroupKind::context, whole);
  };
  passes.forward.push_back(gather(Collective::all_gather, "cp_all_gather"));
  if (!context.share.training) return;
  passes.backward_input.push_back(gather(Collective::all_gather, "cp_all_gather"));
  passes.backward_input.push_back(gather(Collective::reduce_scatter, "cp_reduce_scatter"));
}

/// Each rotation is waited for; gradients of a block go all the way round to its owner, in floats.
void exchange_merged_blocks(const LayerContext& context, double elements, Passes& passes) {
  const RankShare& share = context.share;
  const double block = share.element * elements;
  const bool gathers = context.plan().context_exchange == spec::ContextExchange::all_gather;
  const Op send = collective("cp_send_recv", Collective::send_recv, GroupKind::context, block);
  const Op gather = collective("cp_all_gather", Collective::all_gather, GroupKind::context,
                               block * real(share.context));
  const auto rotate = [&](std::vector<Op>& ops) {
    if (gathers) return ops.push_back(gather);
    ops.insert(ops.end(), as_size(share.context - 1), send);
  };
  rotate(passes.forward);
  if (!share.training) return;
  rotate(passes.backward_input);
  Op gradients =
      collective("cp_send_recv", Collective::send_recv, GroupKind::context, 4 * elements);
  gradients.backward = true;
  passes.backward_input.insert(passes.backward_input.end(), as_size(share.context), gradients);
}

/// Outputs are added up in floats, backward all three gradients (bytes: attention.h).
void merge_blocks(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const double added = (share.element + 8) * real(share.tokens) * query_width(context);
  const auto launches = static_cast<int>(share.context);
  passes.forward.push_back(streaming(context, "attention_merge", OpClass::elementwise,
                                     real(share.context - 1) * added, launches));
  if (!share.training) return;
  passes.backward_input.push_back(streaming(context, "attention_merge_backward",
                                            OpClass::elementwise, 3 * real(share.context) * added,
                                            3 * launches));
}

bool exchanges_keys_and_values(const LayerContext& context) {
  // Decoding would exchange what belongs to one token, which is not counted.
  return context.share.context > 1 && context.share.query_length > 1;
}

bool merges_blocks(const LayerContext& context) {
  return exchanges_keys_and_values(context) &&
         context.stack().context_attention == spec::ContextAttention::merged_blocks;
}

void exchange_keys_and_values(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  if (!exchanges_keys_and_values(context)) return;
  if (merges_blocks(context))
    return exchange_merged_blocks(context, 2 * real(share.tokens) * query_width(context), passes);
  const double block = share.element * real(share.tokens) * key_value_width(context);
  if (context.plan().context_exchange == spec::ContextExchange::ring)
    exchange_on_ring(context, block, passes);
  else
    exchange_by_gather(context, block * real(share.context), passes);
}

void add_rotary(const LayerContext& context, Passes& passes) {
  const spec::Model& model = context.model();
  if (model.position_embedding != spec::PositionEmbedding::rope) return;
  const RankShare& share = context.share;
  const int64_t turned = model.latent_attention
                             ? share.heads * model.latent_attention->rope_head_dim
                             : (share.heads + share.query_groups) * share.head_dim;
  add_rotary_embedding(context, real(share.tokens * turned), passes);
}

void add_grouped_query_projection(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  add_linear(context,
             {.name = "qkv",
              .input_gradient = "qkv_dgrad",
              .weight_gradient = "qkv_wgrad",
              .tokens = share.tokens,
              .in = share.hidden,
              .out = (share.heads + 2 * share.query_groups) * share.head_dim,
              .cast_fused = context.stack().fused_norms,
              .bias_rows = share.tokens,
              .lora_target = "attention_qkv"},
             passes);
  add_rotary(context, passes);
}

/// One product of d for each score is, to a kernel, two of d/2. Every rank scores with all heads.
/// `keys`: a query sees at most; 0: all before it.
Op indexer_op(const LayerContext& context, std::string_view name, double flops_per_score,
              int64_t keys) {
  const RankShare& share = context.share;
  const spec::LatentAttention& latent = *context.model().latent_attention;
  const double query = real(share.tokens * latent.indexer_heads * latent.indexer_head_dim);
  const double key = real(share.sequences * share.key_length * latent.indexer_head_dim);
  const double chosen = 4 * real(share.tokens * latent.indexer_topk);
  Op op = streaming(context, name, OpClass::attention, share.element * (query + key) + chosen);
  const Documents documents = documents_of(context);
  op.attention = {.batch = documents.count,
                  .heads = latent.indexer_heads,
                  .query_groups = 1,
                  .query_length = documents.query_length,
                  .key_length = documents.key_length,
                  .head_dim = latent.indexer_head_dim / 2,
                  .causal = is_causal(context),
                  .window = keys < documents.key_length ? keys : 0};
  const double seen =
      is_causal(context) ? mean_keys(documents.key_length, keys) : real(documents.key_length);
  op.flops = flops_per_score * real(share.tokens * latent.indexer_heads) * seen * unit::FLOP;
  return op;
}

/// Backward over the keys that attention read: the indexer learns its weights on them, and its
/// inputs have no gradient of it.
void add_indexer_scores(const LayerContext& context, Passes& passes) {
  const spec::LatentAttention& latent = *context.model().latent_attention;
  const double products = 2 * real(latent.indexer_head_dim);
  passes.forward.push_back(indexer_op(context, "indexer", products, 0));
  if (!context.share.training) return;
  Op backward = indexer_op(context, "indexer_backward", 2 * products, latent.indexer_topk);
  backward.backward = true;
  passes.backward_input.push_back(backward);
}

void add_latent_projection(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const spec::LatentAttention& latent = *context.model().latent_attention;
  const int64_t query = share.head_dim + latent.rope_head_dim;
  const int64_t key_value = share.head_dim + latent.value_head_dim;
  const int64_t down = latent.query_rank + latent.key_value_rank + latent.rope_head_dim;
  const auto linear = [&](std::string_view name, std::string_view dgrad, std::string_view wgrad,
                          int64_t in, int64_t out) {
    add_linear(context,
               {.name = name,
                .input_gradient = dgrad,
                .weight_gradient = wgrad,
                .tokens = share.tokens,
                .in = in,
                .out = out},
               passes);
  };
  linear("qkv_down", "qkv_down_dgrad", "qkv_down_wgrad", share.hidden, down);
  if (latent.indexer_topk > 0) {
    linear("indexer_key", "indexer_key_dgrad", "indexer_key_wgrad", share.hidden,
           latent.indexer_head_dim + latent.indexer_heads);
    linear("indexer_query", "indexer_query_dgrad", "indexer_query_wgrad", latent.query_rank,
           latent.indexer_heads * latent.indexer_head_dim);
    add_indexer_scores(context, passes);
  }
  add_module(context, RecomputeModule::mla_up_proj, passes, [&] {
    add_norm(context, "latent_norm",
             real(share.tokens * (latent.query_rank + latent.key_value_rank)), passes);
    linear("q_up", "q_up_dgrad", "q_up_wgrad", latent.query_rank, share.heads * query);
    linear("kv_up", "kv_up_dgrad", "kv_up_wgrad", latent.key_value_rank, share.heads * key_value);
    add_rotary(context, passes);
  });
}

}  // namespace

double mean_keys(int64_t key_length, int64_t window) {
  const double all = real(key_length), seen = real(window);
  if (window <= 0 || window >= key_length) return all / 2;
  return seen - seen * (seen - 1) / (2 * all);
}

int64_t indexer_topk(const spec::Model& model) {
  return model.latent_attention ? model.latent_attention->indexer_topk : 0;
}

int64_t core_head_dim(const spec::Model& model) {
  if (!model.latent_attention) return model.kv_channels;
  const spec::LatentAttention& latent = *model.latent_attention;
  return (model.kv_channels + latent.rope_head_dim + latent.value_head_dim) / 2;
}

double key_value_width(const LayerContext& context) {
  const int64_t groups =
      context.model().latent_attention ? context.share.heads : context.share.query_groups;
  return 2 * real(groups * core_head_dim(context.model()));
}

void add_attention_core(const LayerContext& context, Passes& passes) {
  exchange_keys_and_values(context, passes);
  // A query of one token has no scores worth writing: its kernel streams the cache on any stack.
  if (context.stack().has_flash_attention() || is_decoding(context))
    add_flash_core(context, passes);
  else
    add_unfused_core(context, passes);
  if (merges_blocks(context)) merge_blocks(context, passes);
}

void add_attention(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const int64_t value_width = context.model().latent_attention
                                  ? context.model().latent_attention->value_head_dim
                                  : share.head_dim;
  add_residual_norm(context, "input_norm", passes);
  enter_tensor_region(context, passes);
  if (context.model().latent_attention)
    add_latent_projection(context, passes);
  else
    add_grouped_query_projection(context, passes);
  gather_for_weight_gradient(context, passes);
  add_module(context, RecomputeModule::core_attn, passes,
             [&] { add_attention_core(context, passes); });
  add_linear(context,
             {.name = "projection",
              .input_gradient = "projection_dgrad",
              .weight_gradient = "projection_wgrad",
              .tokens = share.tokens,
              .in = share.heads * value_width,
              .out = share.hidden,
              .row_parallel = true,
              .bias_rows = share.sharded_tokens,
              .lora_target = context.model().latent_attention ? "" : "attention_dense"},
             passes);
  leave_tensor_region(context, passes);
  add_residual(context, "attention_residual", passes);
}

}  // namespace triplepoint::workload
