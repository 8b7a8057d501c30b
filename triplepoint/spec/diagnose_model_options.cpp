// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

constexpr std::string_view pattern_letters = "M*-E";

class ModelExamination : Findings {
 public:
  explicit ModelExamination(const Job& job) : plan_(job.plan), model_(job.model) {}

  std::vector<Diagnosis> run() {
    if (model_.layer_pattern) pattern_is_whole(*model_.layer_pattern);
    window_fits();
    indexer_fits();
    state_space_fits();
    experts_fit();
    prediction_fits();
    if (none()) adapters_fit();
    return all();
  }

 private:
  bool has_letter(char letter) const {
    return model_.layer_pattern && model_.layer_pattern->find(letter) != std::string::npos;
  }

  void letters_are_known(std::string_view key, std::string_view pattern) {
    const auto at = pattern.find_first_not_of(pattern_letters);
    if (at == std::string_view::npos) return;
    error(Code::unsupported,
          "{} has '{}' at place {} (known are M state space, * attention, - MLP, E experts); write "
          "one of these for each layer",
          key, pattern[at], at);
  }

  void pattern_is_whole(const std::string& pattern) {
    letters_are_known("layer_pattern", pattern);
    if (static_cast<int64_t>(pattern.size()) != model_.num_layers)
      error(Code::inconsistent,
            "layer_pattern has {} letters (num_layers is {}); write one for each layer",
            pattern.size(), model_.num_layers);
    if (has_letter('M') && !model_.state_space)
      error(Code::inconsistent,
            "layer_pattern has state-space layers (M), but the model has no [model.state_space] "
            "(their size is nowhere else); add it");
    if (has_letter('E') && !model_.moe)
      error(Code::inconsistent,
            "layer_pattern has layers of experts (E), but the model has no [model.moe] (their size "
            "is nowhere else); add it");
  }

  void window_fits() {
    if (!model_.sliding_window) return;
    const SlidingWindow& window = *model_.sliding_window;
    if (window.size < 1 || window.full_every < 0)
      error(Code::inconsistent,
            "sliding_window has size {} and full_every {} (a query sees itself at least); set size "
            "to 1 or more, full_every to 0 or more",
            window.size, window.full_every);
    if (model_.latent_attention || model_.layer_pattern)
      error(Code::unsupported,
            "sliding_window on {} (no published model has both, and it is not modelled); leave one "
            "of them out",
            model_.latent_attention ? "latent attention" : "a layer_pattern");
  }

  void indexer_fits() {
    if (!model_.latent_attention) return;
    const LatentAttention& latent = *model_.latent_attention;
    const auto sizes = {latent.indexer_heads, latent.indexer_head_dim, latent.indexer_topk};
    if (std::min(sizes) < 0 || (std::min(sizes) == 0 && std::max(sizes) > 0))
      error(Code::inconsistent,
            "indexer_heads {}, indexer_head_dim {} and indexer_topk {} (sparse attention has all "
            "three); set all, or none",
            latent.indexer_heads, latent.indexer_head_dim, latent.indexer_topk);
    if (latent.indexer_topk > 0 && latent.query_rank == 0)
      error(Code::unsupported,
            "an indexer without query_rank (its queries come from the low rank); set query_rank");
  }

  void state_space_fits() {
    if (!model_.state_space) return;
    const StateSpace& space = *model_.state_space;
    if (!has_letter('M'))
      error(Code::inconsistent,
            "[model.state_space] without a layer_pattern that has an M (no layer would use it); "
            "write the pattern, or leave the table out");
    for (const auto& [key, value] :
         {std::pair("state_size", space.state_size), std::pair("num_heads", space.num_heads),
          std::pair("head_dim", space.head_dim), std::pair("num_groups", space.num_groups),
          std::pair("conv_width", space.conv_width), std::pair("chunk_size", space.chunk_size)})
      if (value < 1)
        return error(Code::inconsistent,
                     "state_space.{} is {} (it counts what has to be there); set it to 1 or more",
                     key, value);
    const int64_t tensor = plan_.tensor_parallel_size, context = plan_.context_parallel_size;
    if (space.num_heads % space.num_groups != 0)
      error(Code::inconsistent,
            "state_space.num_groups {} does not divide num_heads {} (every group serves equally "
            "many heads); change one of them",
            space.num_groups, space.num_heads);
    if (space.num_groups % tensor != 0)
      error(Code::heads_not_divisible,
            "tensor_parallel_size {} does not divide state_space.num_groups {} (groups are split "
            "evenly); choose a divisor",
            tensor, space.num_groups);
    else if (space.num_heads % (tensor * context) != 0)
      error(Code::heads_not_divisible,
            "tensor_parallel_size {} x context_parallel_size {} does not divide "
            "state_space.num_heads {} (each rank scans whole sequences of some heads); choose "
            "smaller groups",
            tensor, context, space.num_heads);
  }

  void experts_fit() {
    if (!model_.moe) return;
    const MixtureOfExperts& moe = *model_.moe;
    if (moe.layer_period.value_or(1) < 1 || moe.latent_size.value_or(1) < 1)
      error(Code::inconsistent,
            "moe.layer_period {} and moe.latent_size {} (both count what has to be there); set "
            "them to 1 or more, or leave them out",
            moe.layer_period.value_or(1), moe.latent_size.value_or(1));
    if (model_.layer_pattern && (moe.layer_period || moe.num_dense_layers > 0))
      error(Code::inconsistent,
            "moe.layer_period or moe.num_dense_layers with a layer_pattern (the pattern defines "
            "the layers with experts); leave them out");
  }

  void prediction_fits() {
    if (!model_.multi_token_prediction) return;
    const MultiTokenPrediction& prediction = *model_.multi_token_prediction;
    if (prediction.depths < 0)
      error(Code::inconsistent,
            "multi_token_prediction.depths is {} (it counts); set it to 0 or more",
            prediction.depths);
    if (prediction.layer_pattern.has_value() != model_.layer_pattern.has_value())
      error(Code::inconsistent,
            "multi_token_prediction.layer_pattern and layer_pattern (a depth is made of the "
            "model's kinds of layers); write both or neither");
    if (prediction.layer_pattern)
      letters_are_known("multi_token_prediction.layer_pattern", *prediction.layer_pattern);
  }

  void adapters_fit() {
    if (plan_.lora && model_.state_space)
      error(Code::unsupported,
            "lora on state-space layers (adapters of their projections are not modelled); pretrain "
            "instead, or choose a model of attention alone");
    if (plan_.lora && model_.prediction_depths() > 0)
      error(Code::unsupported,
            "lora with multi-token prediction (no framework trains an adapter for it); set "
            "multi_token_prediction.depths = 0");
  }

  const Plan& plan_;
  const Model& model_;
};

}  // namespace

std::vector<Diagnosis> diagnose_model(const Job& job) {
  return ModelExamination(job).run();
}

namespace {

class OptionsExamination : Findings {
 public:
  explicit OptionsExamination(const Job& job) : job_(job), plan_(job.plan), model_(job.model) {}

  std::vector<Diagnosis> run() {
    options_have_effect();
    modules_without_a_part();
    training_options_in_inference();
    stack_fits_task();
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
           "leave it out");
    if (plan_.sequence_parallel && tp == 1)
      warn(Code::inert_option,
           "sequence_parallel with tensor_parallel_size 1 (there is no group to split the sequence "
           "in); leave it out");
    if (plan_.overlap_pipeline && plan_.pipeline_parallel_size == 1)
      warn(Code::inert_option,
           "overlap_pipeline with pipeline_parallel_size 1 (nothing is sent between stages); leave "
           "it out");
    if (plan_.overlap_expert && plan_.expert_parallel_size == 1)
      warn(Code::inert_option,
           "overlap_expert with expert_parallel_size 1 (no rows are exchanged between experts); "
           "leave it out");
    if (plan_.recompute_layers && plan_.recompute != Recompute::full)
      warn(Code::inert_option,
           "recompute_layers with recompute {} (it counts layers of full recompute); set recompute "
           "= \"full\" or leave it out",
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

  void stack_fits_task() {
    if (!is_inference(job_.task) && job_.stack.name == serving_stack)
      error(Code::unsupported,
            "stack {} serves models and does not train them (task {} has a backward pass); choose "
            "another stack, or task prefill or decode",
            job_.stack.name, enum_name(job_.task));
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
