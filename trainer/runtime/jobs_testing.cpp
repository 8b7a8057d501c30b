// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/jobs_testing.h"

#include <bitset>
#include <cmath>

#include "triplepoint/base/random.h"

#include "trainer/runtime/check_job.h"

namespace triplepoint::trainer::test {
namespace {

using spec::Recompute;
using spec::Schedule;
using spec::Sharding;

enum Feature {
  model,
  tied,
  tensor,
  sequence,
  pipeline,
  data,
  sharding,
  recompute,
  overlap,
  shape  // rank order, uneven stages, microbatches of two
};

struct Values {
  const char* name;
  std::vector<const char*> texts;
};
const std::array<Values, feature_count> features = {{
    {"model", {"gpt", "llama"}},
    {"tied", {"", "tied"}},
    {"tensor", {"tp1", "tp2", "tp4"}},
    {"sequence", {"", "sp"}},
    {"pipeline", {"pp1", "pp2-gpipe", "pp2-1f1b", "pp4-1f1b", "pp2-vpp2", "pp2-zb", "pp4-zb"}},
    {"data", {"dp1", "dp2", "dp4"}},
    {"sharding", {"zero0", "zero1", "zero2", "zero2-each", "zero3", "zero3-kept", "hybrid"}},
    {"recompute", {"", "selective", "full", "full-1"}},
    {"overlap", {"", "overlap-dp", "overlap-pp", "overlap-all", "bucket"}},
    {"shape", {"", "tp-pp-dp", "uneven", "mbs2"}},
}};

void set_pipeline(int value, spec::Plan& plan) {
  constexpr std::array<int64_t, 7> stages = {1, 2, 2, 4, 2, 2, 4};
  constexpr std::array schedules = {
      Schedule::one_f_one_b, Schedule::gpipe,       Schedule::one_f_one_b, Schedule::one_f_one_b,
      Schedule::interleaved, Schedule::zero_bubble, Schedule::zero_bubble};
  plan.pipeline_parallel_size = stages[as_size(value)];
  plan.schedule = schedules[as_size(value)];
  plan.virtual_pipeline_size = value == 4 ? 2 : 1;
}

void set_sharding(int value, spec::Job& job) {
  constexpr std::array kinds = {Sharding::none,      Sharding::optimizer,  Sharding::gradients,
                                Sharding::gradients, Sharding::parameters, Sharding::parameters,
                                Sharding::parameters};
  job.plan.sharding = kinds[as_size(value)];
  job.stack.gradient_sync_accumulates = value == 3;
  job.plan.reshard_after_forward = value != 5;
  job.plan.sharding_group_size = value == 6 ? 2 : 0;
}

void set_overlap(int value, spec::Plan& plan) {
  plan.overlap_gradient = plan.overlap_parameter = value == 1 || value == 3;
  plan.overlap_pipeline = value == 2 || value == 3;
  if (value == 4) plan.gradient_bucket = 4000 * unit::B;
}

void set_recompute(int value, spec::Plan& plan) {
  plan.recompute = value == 0   ? Recompute::none
                   : value == 1 ? Recompute::selective
                                : Recompute::full;
  if (value == 3) plan.recompute_layers = 1;
}

void set_shape(int value, spec::Plan& plan) {
  if (value == 1) plan.rank_order = spec::RankOrder::tp_pp_dp;
  if (value == 3) plan.micro_batch_size = 2;
  if (value != 2) return;
  const int64_t parts = plan.pipeline_parallel_size * plan.virtual_pipeline_size;
  if (parts == 2) plan.layers_per_stage = {1, 3};
  if (parts == 4) plan.layers_per_stage = {2, 1, 2, 1};
}

/// Uneven stages have to have layers to share.
bool has_more_layers(const Choice& choice) {
  const bool four_parts = choice[pipeline] == 3 || choice[pipeline] == 4 || choice[pipeline] == 6;
  return four_parts && choice[shape] == 2;
}

/// What is trained: model, tied words.
spec::Job training(const Choice& choice, int64_t ranks) {
  spec::Job job = tiny_job(choice[model] == 0 ? tiny_gpt() : tiny_llama(), ranks);
  job.model.tied_embeddings = choice[tied] == 1;
  if (has_more_layers(choice)) job.model.num_layers = 6;
  return job;
}

bool is_valid(const Choice& choice, int64_t largest) {
  const bool hybrid_fits = choice[sharding] != 6 || choice[data] == 2;
  const bool uneven_fits = choice[shape] != 2 || choice[pipeline] != 0;
  const bool sequence_fits = choice[sequence] == 0 || choice[tensor] > 0;
  if (!hybrid_fits || !uneven_fits || !sequence_fits) return false;
  const spec::Job job = job_of(choice);
  return job.world_size() > 1 && job.world_size() <= largest && check_job(job).has_value();
}

constexpr int most_values = 64;  // of all features
using Pairs = std::bitset<most_values * most_values>;

/// A number for each value of each feature.
int value_index(const Choice& choice, int feature) {
  int first = 0;
  for (int i = 0; i < feature; ++i)
    first += static_cast<int>(features[as_size(i)].texts.size());
  return first + choice[as_size(feature)];
}

Pairs pairs_of(const Choice& choice) {
  Pairs pairs;
  for (int a = 0; a < static_cast<int>(feature_count); ++a)
    for (int b = a + 1; b < static_cast<int>(feature_count); ++b)
      pairs.set(as_size(value_index(choice, a) * most_values + value_index(choice, b)));
  return pairs;
}

std::vector<Choice> valid_choices(int64_t largest, uint64_t draws) {
  std::vector<Choice> valid;
  for (uint64_t draw = 0; draw < draws; ++draw) {
    Choice choice{};
    for (size_t i = 0; i < feature_count; ++i)
      choice[i] = static_cast<int>(random_bits({25, i}, draw) % features[i].texts.size());
    if (is_valid(choice, largest)) valid.push_back(choice);
  }
  return valid;
}

}  // namespace

spec::Job job_of(const Choice& choice) {
  const int64_t tp = int64_t{1} << choice[tensor], dp = int64_t{1} << choice[data];
  spec::Plan plan;
  set_pipeline(choice[pipeline], plan);
  spec::Job job = training(choice, tp * dp * plan.model_parallel_size());
  set_pipeline(choice[pipeline], job.plan);
  set_sharding(choice[sharding], job);
  set_overlap(choice[overlap], job.plan);
  set_recompute(choice[recompute], job.plan);
  set_shape(choice[shape], job.plan);
  job.plan.tensor_parallel_size = tp;
  job.plan.sequence_parallel = choice[sequence] == 1;
  return job;
}

spec::Job alone(const Choice& choice) {
  return training(choice, 1);
}

int training_of(const Choice& choice) {
  const int layers = has_more_layers(choice) ? 1 : 0;
  return (choice[model] * 2 + choice[tied]) * 2 + layers;
}

std::string describe(const Choice& choice) {
  std::string text;
  for (size_t i = 0; i < feature_count; ++i) {
    const std::string value = features[i].texts[as_size(choice[i])];
    if (!value.empty()) text += (text.empty() ? "" : " ") + value;
  }
  return text;
}

std::vector<Choice> pairwise_layouts(int64_t largest) {
  const std::vector<Choice> valid = valid_choices(largest, 20000);
  std::vector<Pairs> pairs;
  std::vector<double> costs;
  Pairs uncovered;
  for (const Choice& choice : valid) {
    pairs.push_back(pairs_of(choice));
    costs.push_back(std::sqrt(as_real(job_of(choice).world_size())));
    uncovered |= pairs.back();
  }
  std::vector<Choice> chosen;
  while (uncovered.any()) {
    size_t best = 0;
    double most = 0;
    for (size_t i = 0; i < valid.size(); ++i) {
      const double gain = as_real((pairs[i] & uncovered).count()) / costs[i];
      if (gain > most) best = i, most = gain;
    }
    uncovered &= ~pairs[best];
    chosen.push_back(valid[best]);
  }
  return chosen;
}

std::vector<Choice> layouts_of_size(int64_t ranks, size_t count) {
  std::vector<Choice> chosen;
  for (const Choice& choice : valid_choices(ranks, 20000))
    if (job_of(choice).world_size() == ranks && chosen.size() < count) chosen.push_back(choice);
  return chosen;
}

}  // namespace triplepoint::trainer::test
