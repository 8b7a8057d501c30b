// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/kernel_class.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "triplepoint/base/text.h"

namespace triplepoint::metrics {

namespace {

KernelClass class_of(spec::Collective collective) {
  switch (collective) {
    case spec::Collective::all_reduce:
      return KernelClass::all_reduce;
    case spec::Collective::all_gather:
      return KernelClass::all_gather;
    case spec::Collective::reduce_scatter:
      return KernelClass::reduce_scatter;
    case spec::Collective::all_to_all:
      return KernelClass::all_to_all;
    case spec::Collective::broadcast:
    case spec::Collective::send_recv:
      return KernelClass::send_recv;
  }
  return KernelClass::other;
}

KernelClass class_by_kind(const run::SpanType& type) {
  switch (type.kind) {
    case run::SpanKind::compute:
      return KernelClass::compute;
    case run::SpanKind::memory:
    case run::SpanKind::copy:
      return KernelClass::memory;
    case run::SpanKind::communication:
      return type.collective ? class_of(*type.collective) : KernelClass::other;
    case run::SpanKind::other:
      return KernelClass::other;
    case run::SpanKind::host:
    case run::SpanKind::pass:
    case run::SpanKind::step:
      return KernelClass::none;
  }
  return KernelClass::none;
}

/// A kernel's name, asked as the artifact asks.
class Name {
 public:
  explicit Name(std::string_view name) : lower_(lower_case(name)) {}
  bool has(std::initializer_list<std::string_view> any) const {
    return std::any_of(any.begin(), any.end(), [&](std::string_view part) {
      return lower_.find(part) != std::string::npos;
    });
  }

 private:
  std::string lower_;
};

KernelClass class_by_artifact(const Name& name) {
  if (name.has({"nccl", "communication"})) {
    if (name.has({"allreduce"})) return KernelClass::all_reduce;
    if (name.has({"reducescatter"})) return KernelClass::reduce_scatter;
    if (name.has({"allgather"})) return KernelClass::all_gather;
    if (name.has({"sendrecv", "broadcast"})) return KernelClass::send_recv;
  }
  if (name.has({"pushsend", "pushrecv", "buffer"})) return KernelClass::memory;
  if (name.has({"triton_"}) && name.has({"sum", "add", "mul", "div"})) return KernelClass::memory;
  if (name.has({"gemm", "sdpa", "matmul"})) return KernelClass::compute;
  if (name.has({"elementwise", "kernel", "norm"})) return KernelClass::memory;
  return KernelClass::other;
}

}  // namespace

KernelClass classify(const run::SpanType& type, run::NameKind names, KernelRules rules) {
  const KernelClass by_kind = class_by_kind(type);
  if (rules == KernelRules::ours || !is_kernel(type.kind)) return by_kind;
  const Name name(type.name);
  if (names == run::NameKind::kernels) return class_by_artifact(name);
  if (by_kind == KernelClass::all_to_all) return KernelClass::send_recv;
  const bool communicates = type.kind == run::SpanKind::communication;
  return communicates && name.has({"userbuffer"}) ? KernelClass::memory : by_kind;
}

}  // namespace triplepoint::metrics
