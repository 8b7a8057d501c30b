// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/op.h"

#include "triplepoint/metrics/trace/trace_steps.h"
#include "triplepoint/trace/trace.h"
#include "triplepoint/trace_report/analyses.h"

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

/// Calls of one operator that are alike, of a rank's step.
struct OperatorUse {
  std::string module, name, direction, type, shapes;
  double calls = 0, time = 0;   // ns
  double flops = 0, timed = 0;  // and the ns of the calls whose work is known
};
/// Means over ranks and, where steps are given, over these, in the order of the first launch; last
/// what runs in no operator, without a name. Kernels outside of the steps are left out.
///
/// They add up to the kernel time. Defined in operator_table.cpp.
std::vector<OperatorUse> operator_uses(const TraceInput&, const metrics::TraceSteps&);

/// What is said of a file without any.
std::string without_operators(const std::string& file);

/// One operator in two traces; absent: does not occur.
struct OperatorChange {
  std::optional<OperatorUse> before, after;
  double difference() const {  // ns
    return (after ? after->time : 0) - (before ? before->time : 0);
  }
};
/// Aligned by module, operator and direction: first those of equal shapes, then the others of a
/// module in their order, so that another batch size is a change and no new operator. Largest
/// difference first.
std::vector<OperatorChange> changes_of(std::vector<OperatorUse> before,
                                       std::vector<OperatorUse> after);

}  // namespace triplepoint::trace_report
