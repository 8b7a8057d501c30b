// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/names.h"

#include "triplepoint/search/finalists.h"

namespace triplepoint::search {
namespace {

std::string fsdp_text(const spec::Plan& plan) {
  std::string text = ", FSDP";
  if (plan.sharding_group_size > 0) text += fmt::format(" over {}", plan.sharding_group_size);
  if (!plan.reshard_after_forward) text += " (kept gathered)";
  return text;
}

std::string sharding_text(const spec::Plan& plan) {
  switch (plan.sharding) {
    case spec::Sharding::none:
      return "";
    case spec::Sharding::optimizer:
      return ", ZeRO-1";
    case spec::Sharding::gradients:
      return ", ZeRO-2";
    case spec::Sharding::parameters:
      return fsdp_text(plan);
  }
  return "";
}

std::string modules_text(const spec::Plan& plan) {
  if (plan.recompute_modules.empty()) return "selective";
  std::vector<std::string_view> names;
  for (const spec::RecomputeModule module : plan.recompute_modules)
    names.push_back(spec::enum_name(module));
  return fmt::format("{}", fmt::join(names, "+"));
}

std::string recompute_text(const spec::Plan& plan) {
  if (plan.recompute == spec::Recompute::none) return "";
  if (plan.recompute == spec::Recompute::selective) return ", recompute " + modules_text(plan);
  if (!plan.recompute_layers) return ", recompute full";
  return fmt::format(", recompute full ({} a chunk)", *plan.recompute_layers);
}

}  // namespace

std::string overlap_text(const spec::Plan& plan) {
  std::string text;
  const auto add = [&](bool on, const char* word) {
    if (on) text += (text.empty() ? "" : "+") + std::string(word);
  };
  add(plan.overlap_tensor, "tp");
  add(plan.overlap_gradient && plan.overlap_parameter, "dp");
  add(plan.overlap_gradient && !plan.overlap_parameter, "dp-grad");
  add(plan.overlap_parameter && !plan.overlap_gradient, "dp-param");
  add(plan.overlap_pipeline, "pp");
  add(plan.overlap_expert, "ep");
  return text;
}

std::string plan_text(const spec::Plan& plan, const Layout& layout) {
  std::string text = fmt::format("TP{} PP{}", layout.tensor, layout.pipeline);
  if (layout.chunks > 1) text += fmt::format(" VPP{}", layout.chunks);
  if (layout.context > 1) text += fmt::format(" CP{}", layout.context);
  if (layout.expert > 1) text += fmt::format(" EP{}", layout.expert);
  if (layout.expert_tensor != layout.tensor) text += fmt::format(" ETP{}", layout.expert_tensor);
  text += fmt::format(" DP{}, mbs {}", layout.data, layout.micro);
  text += sharding_text(plan) + recompute_text(plan);
  if (plan.sequence_parallel) text += ", SP";
  if (plan.schedule == spec::Schedule::gpipe) text += ", GPipe";
  if (plan.schedule == spec::Schedule::zero_bubble) text += ", zero bubble";
  if (!plan.layers_per_stage.empty()) text += ", uneven";
  if (plan.rank_order != spec::RankOrder::tp_cp_ep_dp_pp)
    text += fmt::format(", ranks {}", spec::enum_name(plan.rank_order));
  const std::string overlap = overlap_text(plan);
  if (!overlap.empty()) text += ", overlap " + overlap;
  return text;
}

std::string plan_text(const Finalist& plan) {
  std::string text = plan_text(plan.candidate.plan, plan.candidate.layout);
  if (plan.power_limit) text += fmt::format(", {:.0f} W", *plan.power_limit / unit::W);
  return text;
}

}  // namespace triplepoint::search
