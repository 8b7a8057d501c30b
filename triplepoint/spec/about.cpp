// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/about.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/spec/names.h"

namespace triplepoint::spec {

std::string about_model(const spec::Model& model) {
  const spec::ParameterCount count = spec::count_parameters(model);
  std::string text = fmt::format("{:.4g} B parameters", count.total() / 1e9);
  if (model.moe)
    text +=
        fmt::format(", {:.4g} B active, {} experts", count.active() / 1e9, model.moe->num_experts);
  return text + fmt::format(", {} layers, sequence {}", model.num_layers, model.sequence_length);
}

std::string about_gpu(const spec::Gpu& gpu) {
  std::string text = gpu.title;
  if (gpu.memory) text += fmt::format(", {:.0f} GiB", *gpu.memory / unit::GiB);
  if (gpu.peak_bf16)
    text += fmt::format(", {:.0f} TFLOP/s bf16", *gpu.peak_bf16 / (unit::TFLOP / unit::s));
  if (gpu.tdp) text += fmt::format(", {:.0f} W", *gpu.tdp / unit::W);
  return text;
}

std::string about_cluster(const spec::Cluster& cluster) {
  std::string fabric(spec::enum_name(cluster.scale_out.kind));
  std::replace(fabric.begin(), fabric.end(), '_', ' ');
  return fmt::format("{}, {} x {} a node, {}", cluster.title, cluster.gpus_per_node,
                     cluster.gpu.title, fabric);
}

std::string about_stack(const spec::Stack& stack) {
  return fmt::format("{} {}{}{}{}", stack.framework, stack.version,
                     stack.cuda_graphs ? ", CUDA graphs" : "",
                     stack.profiled ? ", under a profiler" : "",
                     stack.optimizer.empty() ? "" : ", " + stack.optimizer);
}

std::string about_optimizer(const spec::OptimizerState& optimizer) {
  return fmt::format(
      "{:.4g} bytes per parameter before sharding: weight {:g}, gradient {:g}, "
      "moments {:g}, master {:g}; gradients reduced in {:g}",
      optimizer.weight_bytes + optimizer.gradient_bytes + optimizer.moment_bytes +
          optimizer.master_bytes,
      optimizer.weight_bytes, optimizer.gradient_bytes, optimizer.moment_bytes,
      optimizer.master_bytes, optimizer.gradient_sync_bytes);
}

std::string about_study(const spec::StudyPlan& study) {
  return fmt::format("{} ({} jobs)", study.title, study.jobs.size());
}

}  // namespace triplepoint::spec
