// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/model.h"

#include "triplepoint/flags/arguments.h"

namespace triplepoint::flags {

/// Megatron's flags for the sizes of a model: on top of a model that is named otherwise, or alone.
class ModelFlags {
 public:
  Arguments arguments();
  bool given() const;
  /// Keys of launch files that they replace.
  std::set<std::string, std::less<>> keys() const;

  /// A Llama of these sizes: SwiGLU, RMSNorm, rotary positions, no biases, untied embeddings.
  /// `sequence_length` is that of --seq-length. Fails if a size is missing.
  Result<spec::Model> model(std::optional<int64_t> sequence_length) const;

  /// Sets the sizes that were given; a changed model is named "BASE-custom". What follows from a
  /// size where nothing else was said follows again: heads of keys and values from heads, where
  /// each head has its own, and the width of a head from hidden size and heads.
  Result<void> change(spec::Model&) const;

 private:
  std::optional<int64_t> layers_, hidden_, ffn_, heads_, groups_, kv_channels_, vocabulary_;
};

}  // namespace triplepoint::flags
