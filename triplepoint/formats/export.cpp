// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/export.h"

#include <algorithm>

#include "triplepoint/base/quoting.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint::formats {

namespace {

/// What a written file leaves out of the job, as a line; empty where it is all there.
std::string remark_line(const Path& file, const Exported& exported) {
  if (exported.unsupported_settings.empty()) return {};
  return fmt::format("{} leaves out: {}\n", file.filename().string(),
                     fmt::join(exported.unsupported_settings, "; "));
}

}  // namespace

Result<std::string> write_job_files(const spec::Library& library, const spec::Job& job,
                                    const Path& stem) {
  const auto file = [&](const char* name) { return Path(stem.string() + name); };
  TPT_TRY(write_file_atomically(file("-job.toml"), spec::write_job(job, library)));
  const Exported megatron = export_megatron_args(job);
  TPT_TRY(write_file_atomically(file("-megatron.sh"), megatron.text));
  std::string remarks = remark_line(file("-megatron.sh"), megatron);
  const Path yaml = file("-nemo.yaml");
  const Exported nemo = export_nemo_yaml(job);
  if (nemo.refused_by_launcher.empty()) {
    TPT_TRY(write_file_atomically(yaml, nemo.text));
    return remarks + remark_line(yaml, nemo);
  }
  std::error_code ignored;
  std::filesystem::remove(yaml, ignored);  // of an earlier call
  return remarks + fmt::format("no {}: {}\n", yaml.filename().string(), nemo.refused_by_launcher);
}

std::vector<std::string> unsupported_by_launch_files(const spec::Job& job) {
  std::vector<std::string> unsupported;
  const spec::Environment& room = job.environment;
  if (room.ambient)
    unsupported.push_back(
        fmt::format("ambient {} (a property of the room)", to_text(*room.ambient)));
  if (room.cooling) unsupported.push_back("the cooling (a property of the room)");
  if (room.power_limit)
    unsupported.push_back(
        fmt::format("power limit {} (set it on each node: {} {:.0f})", to_text(*room.power_limit),
                    job.cluster.gpu.vendor == "amd" ? "amd-smi set --power-cap" : "nvidia-smi -pl",
                    *room.power_limit / unit::W));
  if (room.seed != spec::Environment().seed)
    unsupported.push_back(
        fmt::format("seed {} of the boards' spread (real boards have their own)", room.seed));
  const bool nodes_differ =
      static_cast<int64_t>(job.plan.device_order.size()) > job.cluster.gpus_per_node;
  if (nodes_differ)
    unsupported.emplace_back(
        "the order of devices in each node (set CUDA_VISIBLE_DEVICES node by node: triplepoint "
        "place -o writes it)");
  else if (!job.plan.device_order.empty())
    unsupported.push_back(
        fmt::format("the order of devices in a node (set CUDA_VISIBLE_DEVICES={})",
                    fmt::join(job.plan.device_order, ",")));
  if (!job.plan.node_order.empty())
    unsupported.push_back(fmt::format("the order of nodes (list them as {} in the host file)",
                                      fmt::join(job.plan.node_order, ",")));
  if (job.model.moe && job.model.moe->load_imbalance != 1)
    unsupported.push_back(fmt::format("load imbalance {} between experts (the data decide it)",
                                      job.model.moe->load_imbalance));
  if (job.plan.sends)
    unsupported.emplace_back(
        "[plan.sends], how tensors between stages are cut and joined (they are one send each)");
  if (job.records)
    unsupported.push_back(
        fmt::format("lengths of the records, {:.4g} tokens on average (they are in the data files)",
                    job.records->mean_length()));
  if (job.model.layer_pattern)
    unsupported.push_back(fmt::format("the layer pattern {} (layers are written as a decoder's)",
                                      *job.model.layer_pattern));
  if (job.model.sliding_window)
    unsupported.push_back(
        fmt::format("the sliding window of {} tokens", job.model.sliding_window->size));
  if (job.model.prediction_depths() > 0)
    unsupported.push_back("multi-token prediction (it is trained without)");
  if (job.model.moe && job.model.moe->latent_size)
    unsupported.push_back(fmt::format("the width of the experts, {} (they work in the model's)",
                                      *job.model.moe->latent_size));
  if (job.model.moe && job.model.moe->layer_period)
    unsupported.push_back(fmt::format("dense layers between those of experts (every {}th has them)",
                                      *job.model.moe->layer_period));
  if (job.plan.prefetch_depth != spec::Plan().prefetch_depth)
    unsupported.push_back(
        fmt::format("prefetch depth {} (the framework decides it)", job.plan.prefetch_depth));
  if (job.plan.activation_offload > 0)
    unsupported.push_back(fmt::format("the offload of {} of the activations to the host",
                                      job.plan.activation_offload));
  if (job.plan.schedule == spec::Schedule::gpipe)
    unsupported.push_back("the GPipe schedule (1F1B is used instead)");
  return unsupported;
}

std::string comments_of(const std::vector<std::string>& unsupported) {
  std::string text;
  for (const std::string& each : unsupported)
    text += fmt::format("# not in this file: {}\n", comment_text(each));
  return text;
}

bool has_even_inner_stages(const std::vector<int64_t>& layers) {
  if (layers.size() < 3) return true;
  return std::all_of(layers.begin() + 1, layers.end() - 1,
                     [&](int64_t each) { return each == layers[1]; });
}

std::string moe_pattern(const spec::Model& model) {
  const int64_t dense = model.moe ? model.moe->num_dense_layers : 0;
  return fmt::format("([0]*{}+[1]*{})", dense, model.num_layers - dense);
}

}  // namespace triplepoint::formats
