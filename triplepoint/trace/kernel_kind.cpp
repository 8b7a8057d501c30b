// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kernel_kind.h"

#include <algorithm>
#include <array>
#include <string>

#include "triplepoint/base/text.h"

namespace triplepoint::trace {

namespace {

using spec::Collective;
using spec::OpClass;

/// Lower case without punctuation: "all_gather_into_tensor" is "allgatherintotensor".
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    const char small = lower_case(c);
    if ((small >= 'a' && small <= 'z') || (small >= '0' && small <= '9')) letters.push_back(small);
  }
  return letters;
}

bool communicates(std::string_view name) {
  return name.starts_with("nccl") || name.starts_with("rccl") || contains(name, "ncclKernel") ||
         contains(name, "ncclDevKernel");
}

struct NameParts {
  OpClass op_class;
  std::string_view parts;  // of the name in lower case, apart by blanks
};
// The first that the name contains decides. Names of the libraries of both vendors: cuBLAS, cuDNN,
// CUTLASS, Tensile ("Cijk_"), composable kernel, MIOpen ("igemm_", "gtcx"), flash attention,
// Triton.
constexpr std::array classes = {
    NameParts{OpClass::gemm, "splitkreduce"},
    NameParts{OpClass::attention, "flash fmha attention attn sdpa sage_fwd sage_bwd"},
    NameParts{OpClass::optimizer, "multi_tensor_apply adam"},
    NameParts{OpClass::embedding, "embedding"},
    NameParts{OpClass::grouped_gemm, "gmm grouped_gemm groupedgemm"},
    NameParts{OpClass::elementwise, "elementwise"},
    NameParts{OpClass::loss, "softmax nll_loss cross_entropy"},
    NameParts{OpClass::norm, "batch_norm ln_fwd ln_bwd ::bn_ norm"},
    NameParts{OpClass::router, "topk permute"},
    NameParts{OpClass::elementwise, "nchwtonhwc nhwctonchw transpose"},
    NameParts{OpClass::gemm,
              "gemm gemv bmm cijk_ matmul cutlass xmma nvjet cublas xdl conv_fwd conv_bwd convolve "
              "wgrad dgrad"},
    // These only move or map memory.
    NameParts{OpClass::elementwise,
              "reduce copy scan sort scatter gather index fill cat rand triton dropout "
              "distribution op_tensor optensor pool subtensorop"}};

bool has_any(std::string_view name, std::string_view parts) {
  while (!parts.empty()) {
    const size_t end = std::min(parts.find(' '), parts.size());
    if (contains(name, parts.substr(0, end))) return true;
    parts.remove_prefix(std::min(end + 1, parts.size()));
  }
  return false;
}

}  // namespace

std::optional<Collective> collective_of(std::string_view name) {
  const std::string letters = letters_of(name);
  const auto has = [&](std::string_view part) { return contains(letters, part); };
  if (has("allreduce")) return Collective::all_reduce;
  if (has("reducescatter")) return Collective::reduce_scatter;
  if (has("allgather")) return Collective::all_gather;
  if (has("alltoall") || has("all2all")) return Collective::all_to_all;
  if (has("broadcast")) return Collective::broadcast;
  if (has("sendrecv") || letters == "send" || letters == "recv" || has("ncclsend") ||
      has("ncclrecv") || has("isend") || has("irecv") || has("coalesced"))
    return Collective::send_recv;
  return std::nullopt;
}

KernelKind kernel_kind(std::string_view name) {
  if (communicates(name)) {
    std::optional<Collective> collective = collective_of(name.substr(0, name.find('(')));
    // An all-to-all is made of sends and receives: only its launch knows.
    if (collective == Collective::send_recv) collective.reset();
    return {run::SpanKind::communication, OpClass::communication, collective};
  }
  std::string low = lower_case(name);
  // The namespace of embedding kernels is no product.
  for (size_t at = low.find("fbgemm"); at != std::string::npos; at = low.find("fbgemm"))
    low.erase(at, std::string_view("fbgemm").size());
  if (low.starts_with("fc-")) return {run::SpanKind::compute, OpClass::gemm, std::nullopt};  // MTIA
  const auto found =
      std::ranges::find_if(classes, [&](const NameParts& of) { return has_any(low, of.parts); });
  if (found == classes.end()) return {};
  const OpClass of = found->op_class;
  const bool computes =
      of == OpClass::gemm || of == OpClass::grouped_gemm || of == OpClass::attention;
  return {computes ? run::SpanKind::compute : run::SpanKind::memory, of, std::nullopt};
}

run::SpanType kernel_type(std::string_view name) {
  const KernelKind kind = kernel_kind(name);
  const bool talks = kind.kind == run::SpanKind::communication;
  return {.name = name.empty() ? "kernel" : std::string(name),
          .kind = kind.kind,
          .stream = talks ? run::Stream::communication : run::Stream::compute,
          .op_class = kind.op_class,
          .collective = kind.collective};
}

bool names_step(std::string_view name) {
  if (name.starts_with("ProfilerStep#")) return true;
  for (const std::string_view word : {"iteration", "Iteration", "step", "Step"}) {
    if (!name.starts_with(word)) continue;
    const std::string_view rest = name.substr(word.size());
    const size_t digit = rest.find_first_of("0123456789");
    return digit != std::string_view::npos &&
           rest.find_first_not_of(" _:#=0123456789") == std::string_view::npos;
  }
  return false;
}

int element_size(std::string_view dtype) {
  const std::string letters = letters_of(dtype);
  const auto has = [&](std::string_view part) { return contains(letters, part); };
  if (has("complexdouble")) return 16;
  if (has("float8") || has("uint8") || has("int8") || has("byte") || has("char") || has("bool") ||
      has("fp8"))
    return 1;
  if (has("bfloat16") || has("float16") || has("half") || has("int16") || has("short") ||
      has("bf16") || has("fp16"))
    return 2;
  if (has("float64") || has("double") || has("int64") || has("long") || has("complex")) return 8;
  if (has("float") || has("int")) return 4;
  return 0;
}

}  // namespace triplepoint::trace
