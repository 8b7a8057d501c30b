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
  return name.starts_with("nccl") || name.starts_with("rccl") ||
         name.find("ncclKernel") != std::string_view::npos ||
         name.find("ncclDevKernel") != std::string_view::npos;
}

struct NamePart {
  std::string_view part;  // of the name in lower case
  OpClass op_class;
};
// The first that the name contains decides. Names of the libraries of both vendors: cuBLAS, cuDNN,
// CUTLASS, Tensile ("Cijk_"), composable kernel, MIOpen ("igemm_", "gtcx"), flash attention,
// Triton.
constexpr std::array<NamePart, 47> parts = {{
    {"splitkreduce", OpClass::gemm},
    {"flash", OpClass::attention},
    {"fmha", OpClass::attention},
    {"attention", OpClass::attention},
    {"attn", OpClass::attention},
    {"sdpa", OpClass::attention},
    {"sage_fwd", OpClass::attention},
    {"sage_bwd", OpClass::attention},
    {"multi_tensor_apply", OpClass::optimizer},
    {"adam", OpClass::optimizer},
    {"embedding", OpClass::embedding},
    {"gmm", OpClass::grouped_gemm},
    {"grouped_gemm", OpClass::grouped_gemm},
    {"groupedgemm", OpClass::grouped_gemm},
    {"elementwise", OpClass::elementwise},
    {"softmax", OpClass::loss},
    {"nll_loss", OpClass::loss},
    {"cross_entropy", OpClass::loss},
    {"batch_norm", OpClass::norm},
    {"layer_norm", OpClass::norm},
    {"layernorm", OpClass::norm},
    {"rmsnorm", OpClass::norm},
    {"rms_norm", OpClass::norm},
    {"ln_fwd", OpClass::norm},
    {"ln_bwd", OpClass::norm},
    {"::bn_", OpClass::norm},
    {"norm", OpClass::norm},
    {"topk", OpClass::router},
    {"permute", OpClass::router},
    {"nchwtonhwc", OpClass::elementwise},
    {"nhwctonchw", OpClass::elementwise},
    {"transpose", OpClass::elementwise},
    {"gemm", OpClass::gemm},
    {"gemv", OpClass::gemm},
    {"bmm", OpClass::gemm},
    {"cijk_", OpClass::gemm},
    {"matmul", OpClass::gemm},
    {"cutlass", OpClass::gemm},
    {"xmma", OpClass::gemm},
    {"nvjet", OpClass::gemm},
    {"cublas", OpClass::gemm},
    {"xdl", OpClass::gemm},
    {"conv_fwd", OpClass::gemm},
    {"conv_bwd", OpClass::gemm},
    {"convolve", OpClass::gemm},
    {"wgrad", OpClass::gemm},
    {"dgrad", OpClass::gemm},
}};
// Kernels that only move or map memory, told by a part of their name.
constexpr std::array<std::string_view, 17> mapping = {
    "reduce",       "copy",      "scan",     "sort", "scatter",    "gather",
    "index",        "fill",      "cat",      "rand", "triton",     "dropout",
    "distribution", "op_tensor", "optensor", "pool", "subtensorop"};

bool computes(OpClass op_class) {
  return op_class == OpClass::gemm || op_class == OpClass::grouped_gemm ||
         op_class == OpClass::attention;
}

}  // namespace

std::optional<Collective> collective_of(std::string_view name) {
  const std::string letters = letters_of(name);
  const auto has = [&](std::string_view part) { return letters.find(part) != std::string::npos; };
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
  const auto has = [&](std::string_view part) { return low.find(part) != std::string::npos; };
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const NamePart& p) { return has(p.part); });
  if (found != parts.end())
    return {computes(found->op_class) ? run::SpanKind::compute : run::SpanKind::memory,
            found->op_class, std::nullopt};
  if (std::any_of(mapping.begin(), mapping.end(), has))
    return {run::SpanKind::memory, OpClass::elementwise, std::nullopt};
  return {};
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
  const auto has = [&](std::string_view part) { return letters.find(part) != std::string::npos; };
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
