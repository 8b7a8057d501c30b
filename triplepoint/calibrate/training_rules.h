// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "triplepoint/calibrate/training_row.h"

namespace triplepoint::calibrate {

/// How a framework trains where its row says nothing else. Found by a word in the row's framework.
struct FrameworkRule {
  std::string_view word;       // "Megatron-Bridge"
  std::string_view stack;      // data/stacks
  std::string_view optimizer;  // data/optimizers
  spec::Sharding sharding = spec::Sharding::optimizer;
  bool sequence_parallel = true;   // wherever tensors are split
  bool overlaps_tensor = false;    // userbuffers
  bool overlaps_data = false;      // gradient reduction and parameter gather
  bool overlaps_pipeline = false;  // where stages interleave
  bool balances_stages = false;    // deals out layers by their parameters, the head's included
  // Replicas reduce buckets behind the backward pass (PyTorch's DDP); sharded optimizer states are
  // reduced after it, and gathered, matrix by matrix.
  bool reduces_like_ddp = false;
  std::string_view sharded_optimizer = {};  // where optimizer states are sharded; empty: the same
  std::string_view stack_on_amd = {};       // where AMD's port of it is software of its own
  // Its selective recompute plays every other product again (torchtitan's per-op choice), not only
  // attention.
  bool selects_operations = false;
  // Before Blackwell, where what is new in the software is for Blackwell alone.
  std::string_view stack_on_hopper = {};
  // Where it scales 8-bit products by tensor and the model has experts.
  std::string_view stack_of_scaled_experts = {};
  std::string_view stack_without_te = {};   // where the row's precision does not name the engine
  std::string_view stack_of_adapters = {};  // of LoRA, where that is code of its own
  // Another release, where the row's source is called so; with adapters, theirs on Blackwell.
  std::string_view release = {}, stack_of_release = {};
  std::string_view recipes = {};    // data/recipes
  bool recomputes_modules = false;  // can play parts of layers again (Megatron-Core's choice)
};

/// The rule for this framework; a general one for frameworks that nobody has described.
const FrameworkRule& rule_of(std::string_view framework);

/// The rule's stack for this row; model, cluster and precision of the job must stand.
std::string_view stack_of(const FrameworkRule&, const TrainingRow&, const spec::Job&);

/// What the row's precision column means on this GPU ("FP8-MX" is MXFP8; unstated MLPerf recipes
/// are FP8, other unstated ones bf16).
spec::Precision precision_of(const TrainingRow&);

/// Whether a row without a precision, of the round that allowed 4 bits (its notes name FP4), was
/// trained with them: NVIDIA's and its partners' recipes that do carry "fp4" in the name of their
/// configuration file. Where no file is named, or one for another maker's GPU: as NVIDIA's own
/// recipes for one node of eight do, in 4 bits but for LoRA.
bool was_trained_in_4_bits(const TrainingRow&);

/// ZeRO by its stage and the ranks that share a copy (0: all replicas): "ZeRO-1", "zero_stage=3",
/// "ZeRO stage 0", InternEvo's "zero1=8".
struct Zero {
  int64_t stage = 0, ranks = 0;
};
std::optional<Zero> zero_of(std::string_view text);

/// The whole number after `key` in "grad_accum=4; runs=10", or nothing.
std::optional<int64_t> number_after(std::string_view text, std::string_view key);

/// The number before `unit` in "GPU TDP:1000W", or nothing.
std::optional<double> number_before(std::string_view text, std::string_view unit);

/// Does the text contain the word? Upper and lower case are alike.
bool mentions(std::string_view text, std::string_view word);

/// Does the row say these words of how it trains, in whatever column that has words?
bool says(const TrainingRow&, std::string_view words);

}  // namespace triplepoint::calibrate
