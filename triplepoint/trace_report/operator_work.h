// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/op.h"

#include "triplepoint/trace/trace.h"

namespace triplepoint::trace_report {

/// One argument of an operator: a tensor, a list of them, or a value.
struct OperatorArgument {
  std::vector<std::vector<int64_t>> shapes;  // of its tensors
  std::string type;                          // "c10::BFloat16", "Scalar"
  std::string value;                         // "[1, 1]", "True"; empty where not recorded
};
/// Empty where the profiler recorded no shapes.
std::vector<OperatorArgument> arguments_of(const trace::OperatorCall&);

/// What one call computes and moves.
struct OperatorWork {
  enum class Kind : uint8_t { matrix, attention, convolution, memory };
  Kind kind = Kind::memory;
  Flops flops;
  Bytes bytes;  // the least: each argument and each result once
  std::optional<spec::Precision> precision;
};
std::string_view name_of(OperatorWork::Kind);

/// From the shapes of the arguments; nothing for operators of no known work, such as views, and
/// where shapes are missing.
///
///   product [m, k] x [k, n]       2 m k n; of batches, each
///   convolution                   2 (output) (input channels of a group) (size of the kernel);
///                                 backward the same for each gradient that is asked for
///   attention                     2 B H Sq Sk (Dqk + Dv), causal: of the part below the diagonal;
///                                 backward 2.5 times that
///   norms, elementwise, copies    bytes alone
///
/// Source of the conventions: those of PyTorch's flop counter (torch/utils/flop_counter.py) but for
/// the causal half.
std::optional<OperatorWork> work_of(std::string_view name, const std::vector<OperatorArgument>&);

/// The library's name for the GPU that traces name; of its boards, the one with their memory.
std::optional<std::string> gpu_of_traces(const spec::Library&, const run::Run&);

}  // namespace triplepoint::trace_report
