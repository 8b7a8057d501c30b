// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "triplepoint/run/timeline.h"

namespace triplepoint::trace {

/// What a device kernel is, by its name as a profiler spells it (mangled or not).
///
/// communication: the name begins with nccl or rccl, or contains ncclKernel or ncclDevKernel.
/// Every other kernel computes; inside that, `compute` is matrix products, convolutions and
/// attention, `memory` all the rest that is known, `other` what is not.
struct KernelKind {
  run::SpanKind kind = run::SpanKind::other;
  spec::OpClass op_class = spec::OpClass::elementwise;
  std::optional<spec::Collective> collective;  // absent for a send-receive: see its launch
};
KernelKind kernel_kind(std::string_view name);
/// The same as the type of a span, on the stream of its kind.
run::SpanType kernel_type(std::string_view name);

/// "allreduce", "all_reduce", "AllReduce", "nccl:all_reduce", "_allgather_base", "alltoallv" ...;
/// nothing if unknown (barrier, gather, scatter, ...).
std::optional<spec::Collective> collective_of(std::string_view name);

/// Whether a mark's name is of a training step: "ProfilerStep#4", "iteration 5", "step: 12".
bool names_step(std::string_view name);

/// Bytes of one element: "Float", "BFloat16", "c10::Half", "float32", "Int", "ncclFloat32" ...; 0
/// if unknown.
int element_size(std::string_view dtype);

}  // namespace triplepoint::trace
