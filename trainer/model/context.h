// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/model.h"

#include "triplepoint/workload/rank_grid.h"

#include "trainer/comm/communicator.h"
#include "trainer/math/math.h"
#include "trainer/memory_ledger.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {

/// How a parameter begins.
struct Initial {
  double mean = 0;
  double standard_deviation = 0;  // 0: all equal to the mean
};

/// A matrix (or a vector: one row) of the model, of which this rank holds a part.
///
/// Element (i, j) of the part is element (row(i), column(j)) of the whole, whatever the layout:
/// what the generator and gradients of other layouts are keyed by.
struct Parameter {
  std::string name;  // "layers.3.attention.qkv.weight", alike in every layout
  int64_t whole_rows = 1, whole_columns = 0;
  std::vector<int64_t> rows;  // of the whole, held here, ascending runs welcome
  int64_t first_column = 0, columns = 0;
  Initial initial;
  bool decays = true;                 // weight decay (not for norms and biases)
  bool on_every_tensor_rank = false;  // norms, row-parallel biases: counted once in norms
  bool tied = false;                 // shared with another stage: gradients add up over `embedding`
  std::span<float> value, gradient;  // set by the store that keeps them

  int64_t count() const { return static_cast<int64_t>(rows.size()) * columns; }
};

/// What is gathered, reduced and kept together: the embedding, one layer, or final norm and head.
struct Unit {
  std::string name;
  int64_t layer = -1;
  std::vector<Parameter> parameters;
};

/// One microbatch: its sequences, one after the other.
struct Tokens {
  int64_t microbatch = 0;            // of this step, key of what is kept for the backward pass
  std::span<const int32_t> inputs;   // [sequences x length]
  std::span<const int32_t> targets;  // the same, one token on
};

/// What all parts of a chunk work with.
struct ModelContext {
  ModelContext(const spec::Job& job, Communicator& tensor, Math& math, MemoryLedger& ledger);

  spec::Job job;
  workload::RankShare share;
  Communicator& tensor;  // the group that the model's own collectives run on
  Math& math;
  MemoryLedger& ledger;
  int64_t microbatch = -1;  // at work, for spans

  const spec::Model& model() const { return job.model; }
  int64_t hidden() const { return share.hidden; }
  int64_t tokens() const { return share.tokens; }
  int64_t shard_tokens() const { return share.sharded_tokens; }
  int64_t shard_size() const { return share.sharded_tokens * share.hidden; }
  Norm norm_of(int64_t rows) const;
  /// The first row of this rank's shard of the trunk.
  int64_t first_row() const {
    return share.sequence_parallel ? tensor.index() * shard_tokens() : 0;
  }
  Buffer workspace(int64_t count) { return {ledger, std::nullopt, count}; }
  Buffer kept(int64_t count) { return {ledger, MemoryTerm::activations, count}; }
  Buffer buffer(int64_t count) { return {ledger, MemoryTerm::buffers, count}; }
};

/// Span of an operation that streams `bytes` through memory, or multiplies.
inline SpanText op_text(const ModelContext& context, const char* name, int64_t elements,
                        double flops = -1) {
  return {.name = name,
          .bytes = 4.0 * as_real(elements),
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
  float* gradient() const { return list_ != nullptr ? (*this)->gradient.data() : nullptr; }

 private:
  std::vector<Parameter>* list_ = nullptr;
  size_t index_ = 0;
};

inline std::string layer_name(int64_t layer) {
  return "layers." + std::to_string(layer) + ".";
}

inline std::vector<int64_t> all_rows(int64_t count) {
  std::vector<int64_t> rows(as_size(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Of weights that write into the trunk: 0.02 / sqrt(2 layers), so that its variance does not grow
/// with depth (Radford et al. 2019, GPT-2, section 2.3).
inline double exit_deviation(const spec::Model& model) {
  return 0.02 / std::sqrt(2.0 * as_real(model.num_layers));
}

}  // namespace triplepoint::trainer
