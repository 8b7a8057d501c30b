// SPDX-License-Identifier: Apache-2.0
// Jobs for the tests of the step.
#pragma once

#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::sim {

/// Llama 3 8B on two nodes of eight GPUs; another layout, and other boards, for every seed.
inline spec::Job random_training_job(uint64_t seed) {
  uint64_t drawn = 0;
  const auto below = [&](uint64_t n) { return random_bits({seed, 7}, drawn++) % n; };
  const int64_t tensor = int64_t{2} << below(3), pipeline = int64_t{1} << below(2);
  const int64_t replicas = 16 / tensor / pipeline;
  const char* recompute = below(2) == 0 ? "selective" : "full";
  const char* cluster = below(2) == 0 ? "hgx-h200" : "hgx-h100";
  const bool overlaps = pipeline > 1 && below(2) == 0;
  const auto job =
      spec::parse_job(spec::default_library(),
                      fmt::format("model = \"llama3-8b\"\ncluster = \"{}\"\nnodes = 2\n[plan]\n"
                                  "tensor_parallel_size = {}\npipeline_parallel_size = {}\n"
                                  "global_batch_size = {}\nrecompute = \"{}\"\nsharding = \"{}\"\n"
                                  "overlap_pipeline = {}\n[environment]\nseed = {}\n",
                                  cluster, tensor, pipeline, 8 * replicas, recompute,
                                  replicas > 1 ? "optimizer" : "none", overlaps, seed),
                      "job.toml");
  REQUIRE_MESSAGE(job, job.error().what);
  REQUIRE_FALSE(spec::has_errors(spec::diagnose(*job)));
  return *job;
}

}  // namespace triplepoint::sim
