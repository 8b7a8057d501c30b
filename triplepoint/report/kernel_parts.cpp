// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/kernel_parts.h"

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

namespace triplepoint::report {

std::vector<NamedPart> kernel_parts(const metrics::KernelSeconds& kernels) {
  return {{"compute", "k-compute", kernels.compute / unit::s},
          {"norms, elementwise, optimizer", "k-memory", kernels.memory / unit::s},
          {"send/recv", "k-sendrecv", kernels.send_recv / unit::s},
          {"all-reduce", "k-allreduce", kernels.all_reduce / unit::s},
          {"all-gather", "k-allgather", kernels.all_gather / unit::s},
          {"reduce-scatter", "k-reducescatter", kernels.reduce_scatter / unit::s},
          {"all-to-all", "k-alltoall", kernels.all_to_all / unit::s},
          {"other", "k-other", kernels.other / unit::s}};
}

std::vector<NamedPart> memory_parts(const run::MemoryUse& memory) {
  return {{"weights", "m-weights", memory.weights / unit::GiB},
          {"gradients", "m-gradients", memory.gradients / unit::GiB},
          {"optimizer", "m-optimizer", memory.optimizer / unit::GiB},
          {"activations", "m-activations", memory.activations / unit::GiB},
          {"logits", "m-logits", memory.logits / unit::GiB},
          {"buffers", "m-buffers", memory.buffers / unit::GiB},
          {"reserve", "m-reserve", memory.reserve / unit::GiB}};
}

std::vector<BarPart> bar_parts_of(const std::vector<NamedPart>& parts, const std::string& unit) {
  std::vector<BarPart> pieces;
  pieces.reserve(parts.size());
  for (const NamedPart& part : parts) {
    pieces.push_back({part.value, part.style,
                      fmt::format("{}: {} {}", part.name, significant(part.value), unit)});
  }
  return pieces;
}

std::vector<LegendEntry> legend_of(const std::vector<NamedPart>& parts) {
  std::vector<LegendEntry> legend;
  legend.reserve(parts.size());
  for (const NamedPart& part : parts)
    legend.push_back({part.style, part.name});
  return legend;
}

}  // namespace triplepoint::report
