// SPDX-License-Identifier: Apache-2.0
// Plans drawn from the search's space, written in every format, read back and estimated again.
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/search/search.h"
#include "triplepoint/search/testing.h"

namespace triplepoint {
namespace {

constexpr uint64_t plans_per_problem = 200;

struct Problem {
  const char *model, *cluster;
  int64_t nodes, batch;
  search::Reach reach;
};

/// Dense models of even and uneven layers, experts, latent attention: 1,000 plans.
constexpr Problem problems[] = {
    {"gpt3-175b", "hgx-h200", 4, 128, search::Reach::launchable},
    {"llama3-405b", "dgx-h100", 16, 256, search::Reach::launchable},
    {"mixtral-8x7b", "dgx-h100", 4, 256, search::Reach::everything},
    {"deepseek-v3", "dgx-h100", 32, 1024, search::Reach::launchable},
    {"llama3-8b", "dgx-a100", 2, 64, search::Reach::everything},
};

spec::Job job_of(const Problem& problem) {
  spec::Job job = search::test::job_on(problem.model, problem.cluster,
                                       {.nodes = problem.nodes, .batch = problem.batch});
  job.plan.optimizer =
      must(spec::load_optimizer(spec::default_library(), "distributed_fused_adam_bf16"));
  return job;
}

struct Promise {
  double time = 0, memory = 0;
  friend bool operator==(const Promise&, const Promise&) = default;
};

/// What the search says of a job.
Promise promise_of(const spec::Job& job) {
  const search::Candidate candidate = search::evaluate_plan(job, {});
  return {candidate.step.time, candidate.memory / unit::B};
}

using Import = Result<formats::Imported> (*)(const spec::Library&, const std::string& text);

/// A file that its tool starts and that says all of the job keeps the promise; how many were that.
int64_t check_launch_file(const formats::Exported& exported, const Import& import,
                          const Promise& promise) {
  if (!exported.refused_by_launcher.empty() || !exported.unsupported_settings.empty()) return 0;
  const formats::Imported again = must(import(spec::default_library(), exported.text));
  CHECK(promise_of(again.job) == promise);
  return 1;
}

Result<formats::Imported> import_nemo(const spec::Library& library, const std::string& text) {
  return formats::import_nemo_yaml(library, text, "plan.yaml", {});
}

Result<formats::Imported> import_megatron(const spec::Library& library, const std::string& text) {
  return formats::import_megatron_args(library, text, "plan.sh", {});
}

struct Kept {
  int64_t nemo = 0, megatron = 0, drawn = 0;
};

Kept check_plans(const Problem& problem, uint64_t seed) {
  const spec::Library library = spec::default_library();
  spec::Job job = job_of(problem);
  const search::Space space(job, problem.reach, {});
  Kept kept;
  for (uint64_t i = 0; i < plans_per_problem; ++i) {
    const double at = random_uniform({seed, 11}, i) * as_real(space.size());
    job.plan = space.plan(static_cast<int64_t>(at));
    CAPTURE(spec::write_job(job, library));
    const Promise promise = promise_of(job);
    const spec::Job again =
        must(spec::parse_job(library, spec::write_job(job, library), "plan.toml"));
    CHECK(again.plan == job.plan);
    CHECK(promise_of(again) == promise);
    kept.nemo += check_launch_file(formats::export_nemo_yaml(job), import_nemo, promise);
    kept.megatron +=
        check_launch_file(formats::export_megatron_args(job), import_megatron, promise);
    ++kept.drawn;
  }
  return kept;
}

TEST_CASE("1,000 random plans keep their time and memory in job files, NeMo's and Megatron's") {
  for (const Problem& problem : problems) {
    CAPTURE(std::string(problem.model));
    const Kept kept = check_plans(problem, 5);
    MESSAGE(std::string(problem.model), ": of ", kept.drawn, " plans ", kept.nemo,
            " in NeMo's format and ", kept.megatron, " in Megatron's without a remark");
    const bool latent = job_of(problem).model.latent_attention.has_value();  // NeMo 1.x has none
    CHECK((kept.nemo > 0) == !latent);
    if (problem.reach == search::Reach::launchable) CHECK(kept.megatron == kept.drawn);
  }
}

}  // namespace
}  // namespace triplepoint
