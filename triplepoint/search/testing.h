// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/search/space.h"

/// Small jobs on real machines, for the tests of this module.
namespace triplepoint::search::test {

struct Sizes {
  int64_t nodes = 1, batch = 32, layers = 0;  // 0: the model's own
};

inline spec::Job job_on(const std::string& model, const std::string& cluster, Sizes sizes) {
  const spec::Library library = spec::default_library();
  spec::Job job;
  job.name = model;
  job.model = must(spec::load_model(library, model));
  if (sizes.layers > 0) job.model.num_layers = sizes.layers;
  job.cluster = must(spec::load_cluster(library, cluster));
  job.cluster.num_nodes = sizes.nodes;
  job.stack = must(spec::load_stack(library, "megatron-core"));
  job.plan.global_batch_size = sizes.batch;
  return job;
}

/// Dense, experts, grouped queries; NICs that replicas share and NICs that they do not.
inline std::vector<spec::Job> few_jobs() {
  return {job_on("gpt3-5b", "dgx-a100", {.nodes = 2, .batch = 48}),
          job_on("llama3-70b", "hgx-h200", {.nodes = 2, .batch = 16, .layers = 20}),
          job_on("mixtral-8x7b", "dgx-h100", {.nodes = 1, .batch = 16, .layers = 12}),
          job_on("deepseek-v2-lite", "mi300x", {.nodes = 1, .batch = 16, .layers = 9})};
}

}  // namespace triplepoint::search::test
