// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/machine/this_machine.h"

#include <filesystem>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

namespace triplepoint::calibrate {
namespace {

/// Rows of a machine that does exactly what the formulas say.
Json ideal_rows() {
  Json rows = {{"processor", "An \"ideal\" processor"},
               {"cores", 2},
               {"memory_bytes", 8e9},
               {"call_seconds", 1e-8},
               {"gemm", Json::array()},
               {"attention", Json::array()},
               {"links", Json::array()},
               {"training", Json::array()}};
  for (const int64_t n : {64, 128, 256, 1024})
    for (const int64_t k : {64, 256, 1024}) {
      const double flops = 2.0 * as_real(n * n * k);
      rows["gemm"].push_back(
          {{"m", n}, {"n", n}, {"k", k}, {"seconds", flops / 100e9 * (1 + 20.0 / as_real(k))}});
    }
  for (const int64_t length : {64, 256})
    for (const bool backward : {false, true}) {
      const double keys = as_real(length);
      const double flops = (backward ? 5 : 2) * 8.0 * keys * keys * 32;
      rows["attention"].push_back({{"batch", 2},
                                   {"heads", 4},
                                   {"length", length},
                                   {"head_dim", 32},
                                   {"backward", backward},
                                   {"flops", flops},
                                   // Half of a block of 64 is masked and computed all the same.
                                   {"seconds", flops / 30e9 * (1 + 64 / keys)}});
    }
  for (const int64_t ranks : {2, 4})
    for (const double bytes : {256.0, 65536.0, 4194304.0}) {
      const double p = as_real(ranks);
      rows["links"].push_back(
          {{"collective", "all_reduce"},
           {"ranks", ranks},
           {"bytes", bytes},
           {"core_seconds", 1e-6 * 2 * (p - 1) + 2 * (p - 1) / p * bytes / 5e9}});
    }
  for (const int64_t size : {1, 4})
    rows["training"].push_back({{"model", "tiny-llama"},
                                {"micro_batch_size", size},
                                {"global_batch_size", 8},
                                {"core_seconds", 0.25 + 0.02 / as_real(size)}});
  return rows;
}

}  // namespace

TEST_CASE("a machine that follows the formulas is found again") {
  const auto fit = fit_machine(ideal_rows(), 8, spec::default_library());
  REQUIRE_MESSAGE(fit, fit.error().what);
  CHECK(fit->cluster.shared_cores == 2);
  CHECK(fit->cluster.num_gpus() == 8);
  const auto core_each = fit_machine(ideal_rows(), 2, spec::default_library());
  REQUIRE(core_each);
  CHECK(*core_each->cluster.gpu.peak_fp32 / *fit->cluster.gpu.peak_fp32 == doctest::Approx(4));
  CHECK(core_each->cluster.scale_up.bandwidth / fit->cluster.scale_up.bandwidth ==
        doctest::Approx(4));
  REQUIRE(fit->errors.size() == 4);
  for (const MachineError& each : fit->errors) {
    CAPTURE(each.rows_of);
    CHECK(each.rows > 0);
    CHECK(each.median_pct < 6);
  }
}

TEST_CASE("what is written describes the same machine, and every number has a source") {
  const auto fit = fit_machine(ideal_rows(), 2, spec::default_library());
  REQUIRE(fit);
  const auto there = std::filesystem::temp_directory_path() / "triplepoint_this_machine_test";
  std::filesystem::create_directories(there);
  REQUIRE(write_file_atomically(there / "cluster.toml", cluster_toml(*fit)));
  REQUIRE(write_file_atomically(there / "stack.toml", stack_toml(*fit)));
  const auto cluster =
      spec::load_cluster(spec::default_library(), (there / "cluster.toml").string());
  REQUIRE_MESSAGE(cluster, cluster.error().what);
  const auto stack = spec::load_stack(spec::default_library(), (there / "stack.toml").string());
  REQUIRE_MESSAGE(stack, stack.error().what);
  CHECK(cluster->num_gpus() == 2);
  CHECK(cluster->scale_up.bandwidth / fit->cluster.scale_up.bandwidth ==
        doctest::Approx(1).epsilon(1e-3));
  CHECK(cluster->gpu.kernels.gemm_peak_share ==
        doctest::Approx(fit->cluster.gpu.kernels.gemm_peak_share).epsilon(1e-3));
  CHECK(cluster->gpu.kernels.in_context_slowdown ==
        doctest::Approx(fit->cluster.gpu.kernels.in_context_slowdown).epsilon(1e-3));
  std::filesystem::remove_all(there);
}

TEST_CASE("rows that are missing are named") {
  Json rows = ideal_rows();
  rows["links"] = Json::array();
  const auto fit = fit_machine(rows, 8, spec::default_library());
  REQUIRE_FALSE(fit);
  CHECK(fit.error().what.find("links") != std::string::npos);
}

}  // namespace triplepoint::calibrate
