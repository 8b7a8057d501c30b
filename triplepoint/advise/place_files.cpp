// SPDX-License-Identifier: Apache-2.0
// Placements as files that launchers read.
#include <algorithm>

#include "triplepoint/advise/place.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/formats/pipeline_layout.h"

namespace triplepoint::advise {
namespace {

int64_t node_of_block(const spec::Job& job, int64_t block) {
  const auto& order = job.plan.node_order;
  return order.empty() ? block : order[as_size(block)];
}

std::string host_name(int64_t node, const std::vector<std::string>& hosts) {
  const auto n = as_size(node);
  return n < hosts.size() && !hosts[n].empty() ? hosts[n] : fmt::format("node{}", node);
}

std::string file_stem(const Placement& placement) {
  std::string stem = placement_name(placement);
  std::erase(stem, ' ');
  std::ranges::replace(stem, '+', '-');
  return stem;
}

bool nodes_differ(const spec::Job& job) {
  return static_cast<int64_t>(job.plan.device_order.size()) > job.cluster.gpus_per_node;
}

}  // namespace

std::string placement_name(const Placement& placement) {
  if (placement.kind != PlacementKind::asymmetric) return name_of(placement.kind);
  return fmt::format("{} +{}", name_of(placement.kind), placement.shift);
}

std::string visible_devices(const spec::Job& job, int64_t node) {
  const auto& order = job.plan.device_order;
  const int64_t per_node = job.cluster.gpus_per_node;
  std::vector<int64_t> devices;
  for (int64_t local = 0; local < per_node; ++local) {
    const int64_t at = nodes_differ(job) ? node * per_node + local : local;
    devices.push_back(order.empty() ? local : order[as_size(at)]);
  }
  return fmt::format("{}", fmt::join(devices, ","));
}

std::vector<std::string> launch_lines(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  std::vector<std::string> lines = {
      fmt::format("layers per stage: {}", fmt::join(layers_of(job), " "))};
  if (nodes_differ(job))
    for (int64_t block = 0; block < job.cluster.num_nodes; ++block) {
      const int64_t node = node_of_block(job, block);
      lines.push_back(
          fmt::format("node {}: CUDA_VISIBLE_DEVICES={}", node, visible_devices(job, node)));
    }
  else
    lines.push_back(fmt::format("every node: CUDA_VISIBLE_DEVICES={}", visible_devices(job, 0)));
  if (!plan.layers_per_stage.empty())
    lines.push_back(
        fmt::format("Megatron-Core: --pipeline-model-parallel-layout '{}'; the NeMo launcher sets "
                    "only the layers of the first and last stage",
                    formats::write_pipeline_layout(plan.layers_per_stage)));
  if (!plan.node_order.empty())
    lines.push_back(fmt::format("order of nodes (host file): {}", fmt::join(plan.node_order, " ")));
  if (plan.rank_order == spec::RankOrder::tp_pp_dp)
    lines.emplace_back(
        "rank order tp-pp-dp: --use-tp-pp-dp-mapping (Megatron), model.use_tp_pp_dp_mapping "
        "(NeMo)");
  return lines;
}

std::string devices_script(const spec::Job& job) {
  std::string text =
      "# Source this on every node before the training starts: ranks then fill the GPUs in this "
      "order.\n"
      "# NODE_RANK: place of the node in the host file.\n"
      "case \"${SLURM_NODEID:-${NODE_RANK:?place of this node in the host file}}\" in\n";
  for (int64_t block = 0; block < job.cluster.num_nodes; ++block)
    text += fmt::format("  {}) export CUDA_VISIBLE_DEVICES={} ;;\n", block,
                        visible_devices(job, node_of_block(job, block)));
  return text + "esac\n";
}

std::string host_file(const spec::Job& job, const std::vector<std::string>& hosts) {
  std::string text;
  for (int64_t block = 0; block < job.cluster.num_nodes; ++block)
    text += fmt::format("{} slots={}\n", host_name(node_of_block(job, block), hosts),
                        job.cluster.gpus_per_node);
  return text;
}

Result<std::string> write_placements(const Path& folder, const spec::Library& library,
                                     const PlaceResult& result, const spec::Job& original,
                                     const std::vector<std::string>& hosts) {
  TPT_TRY(make_folder(folder));
  std::string remarks;
  for (const Placement& placement : result.placements) {
    // The machine is the user's own; what it was made to look like is no part of his job.
    spec::Job job = original;
    job.plan = placement.job.plan;
    const std::string stem = file_stem(placement);
    job.name = fmt::format("{}-{}", original.name, stem);
    remarks += TPT_TRY(formats::write_job_files(library, job, folder / stem));
    TPT_TRY(write_file_atomically(folder / (stem + "-devices.sh"), devices_script(job)));
    TPT_TRY(write_file_atomically(folder / (stem + "-hostfile"), host_file(job, hosts)));
  }
  return remarks;
}

}  // namespace triplepoint::advise
