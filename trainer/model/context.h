// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/rank_share.h"

#include "trainer/comm/communicator.h"
#include "trainer/math/math.h"
#include "trainer/model/buffers.h"
#include "trainer/model/microbatch.h"
#include "trainer/model/parameter.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {

/// What all parts of a chunk work with.
struct ModelContext {
  ModelContext(const spec::Job& job, const ModelGroups& groups, Math& math, MemoryLedger& ledger);

  spec::Job job;
  workload::RankShare share;
  ModelGroups groups;
  Math& math;
  BufferPool pool;
  Wire wire = Wire::fp32;
  int64_t microbatch = -1;  // at work, for spans

  const spec::Model& model() const { return job.model; }
  int64_t hidden() const { return share.hidden; }
  int64_t tokens() const { return share.tokens; }
  int64_t shard_tokens() const { return share.sharded_tokens; }
  int64_t shard_size() const { return share.sharded_tokens * share.hidden; }
  bool frozen() const { return share.frozen; }
  Norm norm_of(int64_t rows) const;
  /// Of dropout and of what else is keyed by the place of a token: a number per question.
  Dropout dropout_at(uint64_t site, const Tokens&) const;
  int64_t first_token(const Tokens&) const;  // of this rank's shard, counted over all samples

  Buffer workspace(int64_t count) { return {pool, count, std::nullopt}; }
  Buffer kept(int64_t count) { return {pool, count, MemoryTerm::activations}; }
  /// What a device must not round: statistics, sums of exponentials, logits, routing.
  Buffer exact(int64_t count) { return {pool, count, MemoryTerm::activations, Storage::exact}; }
  Buffer exact_workspace(int64_t count) { return {pool, count, std::nullopt, Storage::exact}; }
  Buffer buffer(int64_t count) { return {pool, count, MemoryTerm::buffers}; }
};

/// Span of an operation that streams `bytes` through memory, or multiplies.
inline SpanText op_text(const ModelContext& context, const char* name, int64_t elements,
                        double flops = -1) {
  return {.name = name,
          .bytes = 4.0 * static_cast<double>(elements),
          .flops = flops,
          .microbatch = context.microbatch};
}

/// The parts of a backward pass: zero-bubble schedules run them apart.
enum class Half { both, input, weight };
constexpr bool has_input(Half half) {
  return half != Half::weight;
}
constexpr bool has_weight(Half half) {
  return half != Half::input;
}

/// A parameter of a unit, wherever the unit's list has moved to.
class ParameterRef {
 public:
  ParameterRef() = default;
  ParameterRef(std::vector<Parameter>& list, size_t index) : list_(&list), index_(index) {}
  explicit operator bool() const { return list_ != nullptr; }
  Parameter& operator*() const { return (*list_)[index_]; }
  Parameter* operator->() const { return &(*list_)[index_]; }
  const float* value() const { return list_ != nullptr ? (*this)->value.data() : nullptr; }
  float* gradient() const {
    return list_ != nullptr && (*this)->trained ? (*this)->gradient.data() : nullptr;
  }

 private:
  std::vector<Parameter>* list_ = nullptr;
  size_t index_ = 0;
};

/// Block `index` of n numbers over `parts`, as communicator.h deals them.
struct Block {
  int64_t first, count;
};
constexpr Block block_of(int64_t n, int64_t index, int64_t parts) {
  return {n * index / parts, n * (index + 1) / parts - n * index / parts};
}

}  // namespace triplepoint::trainer
