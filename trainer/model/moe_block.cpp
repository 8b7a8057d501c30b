// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/moe_block.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/model/context.h"

namespace triplepoint::trainer {
namespace {

LinearPlan router_plan(const ModelContext& context, int64_t layer) {
  LinearPlan plan{.names = {"router", "router_dgrad", "router_wgrad"},
                  .name = layer_name(layer) + "router",
                  .rows = all_rows(context.model().moe->num_experts)};
  plan.whole_rows = context.model().moe->num_experts;
  plan.whole_columns = plan.columns = context.hidden();
  plan.has_bias = false;
  plan.replicated = true;
  return plan;
}

}  // namespace

void MoeKept::release() {
  for (Buffer* buffer : {&trunk, &normed, &statistics, &scores, &weights, &returned})
    buffer->release();
  experts.release();
  shared = MlpCoreKept();
}

MoeBlock::MoeBlock(ModelContext& context, int64_t layer, Unit& unit)
    : context_(context),
      norm_(context, "mlp_norm", layer_name(layer) + "mlp_norm", unit.dense),
      router_(context, router_plan(context, layer), unit.dense),
      experts_(context, layer, unit.experts) {
  const int64_t ffn = context.model().moe->shared_expert_ffn_hidden_size;
  if (ffn > 0) shared_.emplace(context, layer_name(layer) + "shared_expert", ffn, unit.dense);
}

bool MoeBlock::gathers_rows() const {
  return context_.groups.expert_tensor->size() > 1 && context_.share.sequence_parallel;
}

bool MoeBlock::reduces_rows() const {
  return context_.groups.expert_tensor->size() > 1 && !context_.share.sequence_parallel;
}

/// Do all ranks send alike?
bool MoeBlock::is_padded() const {
  return context_.model().moe->pad_to_capacity && context_.model().moe->capacity_factor;
}

void MoeBlock::route(MoeKept& kept) {
  const spec::MixtureOfExperts& moe = *context_.model().moe;
  const int64_t copies = tokens() * moe.router_topk;
  kept.scores = context_.kept(tokens() * moe.num_experts);
  kept.weights = context_.kept(copies);
  kept.chosen.resize(static_cast<size_t>(copies));
  router_.forward(tokens(), kept.normed.data(), kept.scores.data());
  const ScopedSpan span(op_text(context_, "top_k", 4 * tokens() * moe.num_experts));
  context_.math.top_k(tokens(), moe.num_experts, moe.router_topk, kept.scores.data(),
                      kept.chosen.data(), kept.weights.data());
  plan_dispatch(moe, tokens(), kept.chosen.data(), kept.dispatch);
}

/// Numbers of every rank of a group, rank after rank, from each one's own.
std::vector<int64_t> MoeBlock::counts_of_all(Communicator& group,
                                             const std::vector<int64_t>& mine) {
  const size_t each = mine.size(), all = static_cast<size_t>(group.size()) * each;
  std::vector<float> numbers(all);
  float* own = numbers.data() + static_cast<size_t>(group.index()) * each;
  std::transform(mine.begin(), mine.end(), own,
                 [](int64_t rows) { return static_cast<float>(rows); });
  group.all_gather({own, each}, {numbers.data(), all}).wait();
  std::vector<int64_t> counts(all);
  std::transform(numbers.begin(), numbers.end(), counts.begin(),
                 [](float rows) { return static_cast<int64_t>(rows); });
  return counts;
}

/// Rows that come from each rank of the expert group for each expert here. With padding all ranks
/// send alike; otherwise they must be asked.
std::vector<int64_t> MoeBlock::received_rows(const MoeKept& kept) {
  Communicator& expert = *context_.groups.expert;
  const auto size = static_cast<size_t>(expert.size()),
             here = static_cast<size_t>(experts_.count());
  const std::vector<int64_t>& mine = kept.dispatch.rows_of;
  const size_t first = static_cast<size_t>(expert.index()) * here;
  std::vector<int64_t> all;
  if (!is_padded() && size > 1) all = counts_of_all(expert, mine);
  std::vector<int64_t> counts;
  for (size_t source = 0; source < size; ++source)
    for (size_t e = first; e < first + here; ++e)
      counts.push_back(all.empty() ? mine[e] : all[source * mine.size() + e]);
  return counts;
}

/// Those of every rank that shares the experts here, rank after rank, from this one's.
std::vector<int64_t> MoeBlock::gathered_rows(std::vector<int64_t> counts) {
  if (!gathers_rows()) return counts;
  Communicator& cut = *context_.groups.expert_tensor;
  if (!is_padded()) return counts_of_all(cut, counts);
  std::vector<int64_t> all;
  for (int rank = 0; rank < cut.size(); ++rank)
    all.insert(all.end(), counts.begin(), counts.end());
  return all;
}

/// All that the rows' ways depend on, from what the router chose.
void MoeBlock::plan_rows(MoeKept& kept) {
  const auto size = static_cast<size_t>(context_.groups.expert->size());
  const auto here = static_cast<size_t>(experts_.count());
  const int64_t hidden = context_.hidden();
  const std::vector<int64_t> own = received_rows(kept);
  kept.sent_counts.assign(size, 0);
  kept.received_counts.assign(size, 0);
  for (size_t i = 0; i < size * here; ++i) {
    kept.sent_counts[i / here] += kept.dispatch.rows_of[i] * hidden;
    kept.received_counts[i / here] += own[i] * hidden;
  }
  kept.received = std::accumulate(own.begin(), own.end(), int64_t{0});
  const std::vector<int64_t> counts = gathered_rows(own);
  std::vector<int64_t> first_row;
  kept.gathered_counts.assign(counts.size() / own.size(), 0);
  kept.gathered = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i % here == 0) first_row.push_back(kept.gathered);
    kept.gathered += counts[i];
    kept.gathered_counts[i / own.size()] += counts[i] * hidden;
  }
  sort_by_expert(counts, first_row, kept.gathered, kept.experts.here);
}

/// First element of this rank's rows among those gathered.
int64_t MoeBlock::own_begin(const MoeKept& kept) const {
  if (!gathers_rows()) return 0;
  return std::accumulate(kept.gathered_counts.begin(),
                         kept.gathered_counts.begin() + context_.groups.expert_tensor->index(),
                         int64_t{0});
}

Buffer MoeBlock::to_experts(MoeKept& kept, const float* sent) {
  Communicator& expert = *context_.groups.expert;
  Communicator& cut = *context_.groups.expert_tensor;
  const int64_t hidden = context_.hidden();
  const auto count = [hidden](int64_t rows) { return static_cast<size_t>(rows * hidden); };
  Buffer rows = context_.buffer(kept.gathered * hidden);
  float* own = rows.data() + own_begin(kept);
  if (expert.size() > 1)
    expert
        .all_to_all({sent, count(kept.dispatch.sent())}, kept.sent_counts,
                    {own, count(kept.received)}, kept.received_counts)
        .wait();
  else
    context_.math.copy(kept.received * hidden, sent, own);
  if (gathers_rows())
    cut.all_gather_uneven({own, count(kept.received)}, {rows.data(), count(kept.gathered)},
                          kept.gathered_counts)
        .wait();
  return rows;
}

void MoeBlock::from_experts(MoeKept& kept, Buffer rows, float* sent) {
  Communicator& expert = *context_.groups.expert;
  Communicator& cut = *context_.groups.expert_tensor;
  const int64_t hidden = context_.hidden();
  const auto count = [hidden](int64_t number) { return static_cast<size_t>(number * hidden); };
  const float* own = rows.data();
  Buffer block;
  if (gathers_rows()) {
    block = context_.buffer(kept.received * hidden);
    cut.reduce_scatter_uneven({rows.data(), count(kept.gathered)},
                              {block.data(), count(kept.received)}, kept.gathered_counts)
        .wait();
    own = block.data();
  } else if (reduces_rows()) {
    cut.all_reduce({rows.data(), count(kept.gathered)}).wait();
  }
  if (expert.size() > 1)
    expert
        .all_to_all({own, count(kept.received)}, kept.received_counts,
                    {sent, count(kept.dispatch.sent())}, kept.sent_counts)
        .wait();
  else
    context_.math.copy(kept.received * hidden, own, sent);
}

Buffer MoeBlock::sorted(MoeKept& kept, Buffer received, bool is_kept) {
  const ExpertRowsHere& here = kept.experts.here;
  const int64_t size = here.sorted() * context_.hidden();
  Buffer rows = is_kept ? context_.kept(size) : context_.workspace(size);
  const ScopedSpan span(op_text(context_, "sort_rows", 2 * size));
  if (here.in_order)
    context_.math.copy(size, received.data(), rows.data());
  else
    context_.math.gather_rows(here.sorted(), context_.hidden(), here.received_row.data(),
                              received.data(), rows.data());
  return rows;
}

Buffer MoeBlock::unsorted(MoeKept& kept, Buffer sorted) {
  const ExpertRowsHere& here = kept.experts.here;
  if (here.in_order) return sorted;
  Buffer rows = context_.workspace(here.received() * context_.hidden());
  const ScopedSpan span(op_text(context_, "sort_rows", 2 * rows.count()));
  context_.math.gather_rows(here.received(), context_.hidden(), here.sorted_row.data(),
                            sorted.data(), rows.data());
  return rows;
}

Buffer MoeBlock::forward(Buffer trunk, MoeKept& kept) {
  const int64_t hidden = context_.hidden(), topk = context_.model().moe->router_topk;
  kept.trunk = std::move(trunk);
  kept.normed = context_.kept(context_.shard_size());
  kept.statistics = context_.kept(2 * tokens());
  norm_.forward(kept.trunk.data(), kept.normed.data(), kept.statistics.data());
  route(kept);
  plan_rows(kept);
  const int64_t sent = kept.dispatch.sent();
  Buffer rows = context_.buffer(sent * hidden);
  {
    const ScopedSpan span(op_text(context_, "permute", 2 * sent * hidden));
    context_.math.gather_rows(sent, hidden, kept.dispatch.row_of.data(), kept.normed.data(),
                              rows.data());
  }
  kept.experts.input = sorted(kept, to_experts(kept, rows.data()), true);
  Buffer out = context_.workspace(kept.experts.here.sorted() * hidden);
  experts_.forward(kept.experts, out.data());
  kept.returned = context_.kept(sent * hidden);
  from_experts(kept, unsorted(kept, std::move(out)), kept.returned.data());
  Buffer next = context_.kept(context_.shard_size());
  {
    const ScopedSpan span(op_text(context_, "unpermute", 2 * sent * hidden + tokens() * hidden));
    context_.math.combine_rows(tokens(), hidden, topk, kept.dispatch.place.data(),
                               kept.weights.data(), kept.returned.data(), next.data());
  }
  if (shared_) {
    Buffer beside = context_.workspace(context_.shard_size());
    shared_->forward(kept.normed.data(), beside.data(), kept.shared);
    context_.math.add(context_.shard_size(), beside.data(), next.data());
  }
  const ScopedSpan span(op_text(context_, "mlp_residual", 3 * context_.shard_size()));
  context_.math.add(next.count(), kept.trunk.data(), next.data());
  return next;
}

/// Through combine, experts and dispatch. The returned rows become their gradients.
void MoeBlock::backward_rows(Half half, MoeKept& kept, const float* branch_gradient,
                             float* weight_gradient) {
  const int64_t hidden = context_.hidden(), sent = kept.dispatch.sent();
  {
    const ScopedSpan span(op_text(context_, "unpermute", 2 * sent * hidden + tokens() * hidden));
    context_.math.combine_backward(tokens(), hidden, context_.model().moe->router_topk,
                                   kept.dispatch.place.data(), kept.weights.data(), branch_gradient,
                                   kept.returned.data(), weight_gradient);
  }
  for (int64_t row = 0; row < sent; ++row)
    if (kept.dispatch.row_of[static_cast<size_t>(row)] < 0)
      context_.math.zero(hidden, kept.returned.data() + row * hidden);
  // The rows' gradients go the way of the rows: where those were reduced, gradients are gathered.
  kept.experts.output_gradient =
      sorted(kept, to_experts(kept, kept.returned.data()), half == Half::input);
}

void MoeBlock::backward_router(MoeKept& kept, const float* weight_gradient,
                               float* normed_gradient) {
  const spec::MixtureOfExperts& moe = *context_.model().moe;
  Buffer gradient = context_.workspace(tokens() * moe.num_experts);
  {
    const ScopedSpan span(op_text(context_, "top_k_backward", 3 * tokens() * moe.num_experts));
    context_.math.top_k_backward(tokens(), moe.num_experts, moe.router_topk, kept.scores.data(),
                                 kept.chosen.data(), kept.weights.data(), weight_gradient,
                                 gradient.data());
  }
  context_.math.copy(gradient.count(), gradient.data(), kept.scores.data());
  router_.backward_input(tokens(), kept.scores.data(), normed_gradient);
}

void MoeBlock::backward(Half half, MoeKept& kept, float* gradient) {
  const int64_t hidden = context_.hidden();
  Buffer branch, normed_gradient, weight_gradient, row_gradient, shared_gradient;
  if (has_input(half)) {
    branch = context_.workspace(context_.shard_size());
    {
      const ScopedSpan span(op_text(context_, "mlp_residual", 2 * context_.shard_size()));
      context_.math.copy(context_.shard_size(), gradient, branch.data());
    }
    normed_gradient = context_.workspace(context_.shard_size());
    weight_gradient = context_.workspace(kept.weights.count());
    backward_rows(half, kept, branch.data(), weight_gradient.data());
    backward_router(kept, weight_gradient.data(), normed_gradient.data());
    row_gradient = context_.workspace(kept.experts.here.sorted() * hidden);
    if (shared_) shared_gradient = context_.workspace(context_.shard_size());
  }
  experts_.backward(half, kept.experts, row_gradient.data());
  if (has_weight(half)) router_.backward_weight(tokens(), kept.normed.data(), kept.scores.data());
  if (has_input(half)) {
    from_experts(kept, unsorted(kept, std::move(row_gradient)), kept.returned.data());
    const ScopedSpan span(op_text(context_, "permute", 2 * kept.returned.count()));
    context_.math.scatter_rows(kept.dispatch.sent(), hidden, kept.dispatch.row_of.data(),
                               kept.returned.data(), normed_gradient.data());
  }
  if (shared_) {
    shared_->backward(half, kept.normed.data(), branch.data(), shared_gradient.data(), kept.shared);
    if (has_input(half))
      context_.math.add(context_.shard_size(), shared_gradient.data(), normed_gradient.data());
  }
  if (has_input(half)) {
    norm_.backward(kept.trunk.data(), kept.statistics.data(), normed_gradient.data(), gradient);
    for (Buffer* read : {&kept.trunk, &kept.statistics, &kept.returned})
      read->release();
  }
  if (has_weight(half)) kept.release();
}

}  // namespace triplepoint::trainer
