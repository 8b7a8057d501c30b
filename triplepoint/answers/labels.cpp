// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/labels.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint::answers {
namespace {

bool has_uneven_layers(const spec::Plan& plan) {
  const auto& layers = plan.layers_per_stage;
  return std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) != layers.end();
}

const char* records_label(spec::RecordLayout layout) {
  return word_for<spec::RecordLayout::packed>(
      {"padded records", "records padded to the longest", "packed records"}, layout);
}

/// "sends of 1 MB over 4 NICs"; "default sends" where nothing is asked.
std::string sends_label(const spec::PipelineSends& sends) {
  std::string label = sends.scatter_gather ? "scatter-gather sends" : "sends";
  if (sends.chunk) label += " of " + to_text(*sends.chunk);
  if (sends.microbatches > 1) label += fmt::format(" of {} microbatches", sends.microbatches);
  if (sends.nics > 1) label += fmt::format(" over {} NICs", sends.nics);
  return label == "sends" ? "default sends" : label;
}

}  // namespace

std::string configuration_label(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  std::string label;
  if (plan.expert_parallel_size > 1) label = fmt::format("EP{}-", plan.expert_parallel_size);
  label += fmt::format("TP{}", plan.tensor_parallel_size);
  const bool fsdp = plan.sharding == spec::Sharding::parameters;
  if (!fsdp || plan.pipeline_parallel_size > 1)
    label += fmt::format("-PP{}", plan.pipeline_parallel_size);
  if (plan.virtual_pipeline_size > 1) label += fmt::format("-VPP{}", plan.virtual_pipeline_size);
  if (plan.context_parallel_size > 1) label += fmt::format("-CP{}", plan.context_parallel_size);
  if (fsdp) label += "-FSDP";
  return label;
}

std::string variant_label(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  std::vector<std::string> parts;
  if (job.task != spec::Task::pretrain) parts.emplace_back(spec::name_of(job.task));
  if (plan.recompute == spec::Recompute::full) parts.emplace_back("recompute");
  if (plan.recompute == spec::Recompute::selective) parts.emplace_back("selective");
  if (plan.overlap_tensor || plan.overlap_gradient || plan.overlap_parameter ||
      plan.overlap_pipeline || plan.overlap_expert) {
    parts.emplace_back("overlap");
  }
  if (plan.sends) parts.push_back(sends_label(*plan.sends));
  if (job.records) parts.emplace_back(records_label(plan.record_layout));
  if (!plan.device_order.empty() || !plan.node_order.empty()) parts.emplace_back("placed");
  if (has_uneven_layers(plan)) parts.emplace_back("uneven");
  return parts.empty() ? "base" : fmt::format("{}", fmt::join(parts, "+"));
}

std::string group_label(const spec::Job& job) {
  const std::string gpu = upper_case(job.cluster.gpu.name);
  const char* what = job.cluster.gpu.dies_per_package > 1 ? " dies" : "";
  return fmt::format("{} on {} x {}{}", job.model.name, job.world_size(), gpu, what);
}

std::string task_label(const spec::Job& job) {
  return job.task == spec::Task::pretrain ? "" : fmt::format(" ({})", spec::name_of(job.task));
}

std::string network_label(const spec::Job& job) {
  const spec::ScaleOut& network = job.cluster.scale_out;
  if (job.cluster.num_nodes < 2) return "";
  return fmt::format("; {} x {} Gb/s a node", network.nics_per_node,
                     significant(8e-9 * (network.nic_bandwidth / (unit::B / unit::s))));
}

std::string throttle_reason_text(const std::string& reason) {
  if (reason == "software_power_cap") return "the power cap";
  if (reason == "software_thermal") return "the temperature limit";
  if (reason == "hardware_thermal") return "the hardware's temperature limit";
  if (reason == "hardware_slowdown") return "a hardware slowdown";
  if (reason == "hardware_power_brake") return "the power brake";
  std::string words = reason;
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string default_name(const spec::Job& job) {
  std::string variant = variant_label(job);
  std::ranges::replace(variant, ' ', '-');
  return fmt::format("{}-{}{}-mbs{}", job.model.name, configuration_label(job),
                     variant == "base" ? "" : "-" + variant, job.plan.micro_batch_size);
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace triplepoint::answers
