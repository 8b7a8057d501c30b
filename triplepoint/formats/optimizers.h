// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/plan.h"

#include "triplepoint/formats/library_cache.h"

namespace triplepoint::formats {

/// What decides how many bytes an optimizer keeps of a parameter, besides its name.
struct OptimizerContext {
  spec::Precision precision = spec::Precision::bf16;
  bool half_precision_weights = true;         // NeMo megatron_amp_O2; false: fp32 weights
  bool sharded_parameters = false;            // FSDP
  std::optional<double> gradient_sync_bytes;  // grad_sync_dtype, fsdp_grad_reduce_dtype
};

/// The optimizer of the library that stands for one which NeMo or Megatron knows by `name`; nothing
/// for other names.
///
/// Differences from the library's bytes: fp32 weights are their own master copy (4 + 4 + 8 bytes);
/// the distributed optimizers reduce gradients in the buffer they accumulate in, so that its type
/// is that of the wire; 16-bit remainders exist for bf16 only; sgd keeps one moment.
std::optional<Result<spec::OptimizerState>> find_optimizer(LibraryCache& cache,
                                                           std::string_view name,
                                                           const OptimizerContext& context);

}  // namespace triplepoint::formats
