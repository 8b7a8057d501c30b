// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

class OptionsExamination : Findings {
 public:
  explicit OptionsExamination(const Job& job) : job_(job), plan_(job.plan), model_(job.model) {}

  std::vector<Diagnosis> run() {
    options_have_effect();
    modules_without_a_part();
    training_options_in_inference();
    return all();
  }

 private:
  void options_have_effect() {
    const int64_t tp = plan_.tensor_parallel_size;
    if (plan_.overlap_tensor && tp > 1 && !plan_.sequence_parallel)
      warn(Code::tensor_overlap_without_sequence_parallel,
           "overlap_tensor without sequence_parallel (userbuffers overlap the all-gather and "
           "reduce-scatter which only sequence parallelism has); set sequence_parallel or leave it "
           "out");
    if (plan_.overlap_tensor && tp == 1)
      warn(Code::inert_option,
           "overlap_tensor with tensor_parallel_size 1 (there is no tensor communication to hide); "
           "leave "
           "it out");
    if (plan_.sequence_parallel && tp == 1)
      warn(Code::inert_option,
           "sequence_parallel with tensor_parallel_size 1 (there is no group to split the sequence "
           "in); "
           "leave it out");
    if (plan_.overlap_pipeline && plan_.pipeline_parallel_size == 1)
      warn(Code::inert_option,
           "overlap_pipeline with pipeline_parallel_size 1 (nothing is sent between stages); leave "
           "it out");
    if (plan_.recompute_layers && plan_.recompute != Recompute::full)
      warn(Code::inert_option,
           "recompute_layers with recompute {} (it counts layers of full recompute); set recompute "
           "= "
           "\"full\" or leave it out",
           enum_name(plan_.recompute));
    if (!plan_.recompute_modules.empty() && plan_.recompute != Recompute::selective)
      warn(Code::inert_option,
           "recompute_modules with recompute {} (they are modules that selective recompute "
           "recomputes); set recompute = \"selective\" or leave them out",
           enum_name(plan_.recompute));
    if (plan_.fp8_attention && !plan_.attends_in_fp8())
      warn(Code::inert_option,
           "fp8_attention with precision {} (its scales come with an 8-bit recipe of the linear "
           "layers); set precision = \"fp8\" or leave it out",
           enum_name(plan_.precision));
  }

  /// Parts to recompute that no layer of this model has.
  void modules_without_a_part() {
    for (const RecomputeModule module : plan_.recompute_modules) {
      const std::string_view needs = part_of(module);
      if (needs.empty()) continue;
      warn(Code::inert_option, "recompute_modules has {}, but model {} has no {}; leave it out",
           enum_name(module), model_.name, needs);
    }
  }

  /// What the module is a part of, where the model has no such thing; else nothing.
  std::string_view part_of(RecomputeModule module) const {
    const bool experts = model_.moe.has_value();
    switch (module) {
      case RecomputeModule::mla_up_proj:
        return model_.latent_attention ? "" : "latent attention";
      case RecomputeModule::moe_act:
      case RecomputeModule::moe:
        return experts ? "" : "experts";
      case RecomputeModule::shared_experts:
        return experts && model_.moe->shared_expert_ffn_hidden_size > 0 ? "" : "shared expert";
      default:
        return "";
    }
  }

  /// What training alone does.
  void training_options_in_inference() {
    if (!is_inference(job_.task)) return;
    std::vector<std::string_view> inert;
    if (plan_.recompute != Recompute::none) inert.push_back("recompute");
    if (plan_.overlap_gradient) inert.push_back("overlap_gradient");
    if (plan_.overlap_parameter) inert.push_back("overlap_parameter");
    if (plan_.gradient_bucket) inert.push_back("gradient_bucket");
    if (!inert.empty())
      warn(Code::inert_option,
           "{} with task {} (there is no backward pass and no gradient); leave {} out",
           fmt::join(inert, " and "), enum_name(job_.task), inert.size() > 1 ? "them" : "it");
  }

  const Job& job_;
  const Plan& plan_;
  const Model& model_;
};

}  // namespace

std::vector<Diagnosis> diagnose_options(const Job& job) {
  return OptionsExamination(job).run();
}

}  // namespace triplepoint::spec
