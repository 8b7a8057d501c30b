// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/model_flops.h"
#include "triplepoint/workload/test_jobs.h"
#include "triplepoint/workload/test_sums.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;

/// Llama-like layers that look back `window` tokens, every `full_every`-th at all.
spec::Job windowed(int64_t window, int64_t full_every) {
  spec::Job job = test::on_nodes(test::llama3_70b(), 8);
  job.plan.tensor_parallel_size = 8;
  job.model.sliding_window = spec::SlidingWindow{.size = window, .full_every = full_every};
  return job;
}

double core_flops(const spec::Job& job) {
  return test::flops(test::ops_of_layers(job), test::is_attention);
}

/// Keys of all queries of one sequence, counted one by one.
double counted_keys(int64_t length, int64_t window) {
  double sum = 0;
  for (int64_t position = 1; position <= length; ++position)
    sum += real(std::min(position, window));
  return sum;
}

TEST_CASE("the mean window is what counting every query gives") {
  for (const int64_t window : {1, 7, 128, 511})
    CHECK(512 * mean_keys(512, window) == Approx(counted_keys(512, window)).epsilon(1e-12));
}

TEST_CASE("a window as long as the sequence changes no op") {
  spec::Job plain = windowed(8192, 0);
  plain.model.sliding_window.reset();
  const auto before = test::ops_of_layers(plain), after = test::ops_of_layers(windowed(8192, 0));
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].op.flops == after[i].op.flops);
    CHECK(before[i].op.hbm_bytes == after[i].op.hbm_bytes);
    CHECK(before[i].op.attention == after[i].op.attention);
  }
  CHECK(count_step_flops(plain).model == count_step_flops(windowed(8192, 0)).model);
}

TEST_CASE("attention in a window does the share of work that its keys are of half the square") {
  const double whole = core_flops(windowed(8192, 0));
  const double share = mean_keys(8192, 1024) / 4096;
  CHECK(core_flops(windowed(1024, 0)) == Approx(share * whole));
  CHECK(core_flops(windowed(1024, 2)) == Approx((0.5 + 0.5 * share) * whole));
}

TEST_CASE("model flops count a window by its keys, all else as without") {
  const auto model_flops = [](const spec::Job& job) {
    return count_step_flops(job).model / unit::FLOP;
  };
  spec::Job plain = windowed(1024, 0);
  plain.model.sliding_window.reset();
  const double tokens = real(tokens_per_step(plain)), width = 64 * 128, layers = 80;
  const double core = 3 * layers * tokens * 4 * width;
  const double saved = model_flops(plain) - model_flops(windowed(1024, 0));
  CHECK(saved == Approx(core * (8192 - 2 * mean_keys(8192, 1024))));
}

TEST_CASE("serving keeps and reads only the window of layers that look back one") {
  spec::Job job = windowed(1024, 2);
  job.task = spec::Task::decode;
  const LayerContext context{job, share_of_rank(job)};
  const double all = layer_cache_bytes(context, LayerKind::dense, 4);
  CHECK(layer_cache_bytes(context, LayerKind::window_dense, 4) * 8 == Approx(all));
  Passes passes;
  add_attention_core(context.of_kind(LayerKind::window_dense), passes);
  Passes whole;
  add_attention_core(context, whole);
  CHECK(passes.forward.back().flops * 8 == whole.forward.back().flops);
  CHECK(passes.forward.back().hbm_bytes < whole.forward.back().hbm_bytes);
}

TEST_CASE("a chunk runs as many windowed layers as it holds") {
  const spec::Job job = windowed(1024, 4);
  int64_t full = 0, seen = 0;
  const WorkGraph graph = build_work_graph(job);
  for (const OpGroup& group : graph.works.front().forward) {
    if (group.name == name_of_layer(LayerKind::dense)) full = group.repeat;
    if (group.name == name_of_layer(LayerKind::window_dense)) seen = group.repeat;
  }
  CHECK(full == 20);
  CHECK(seen == 60);
}

}  // namespace
}  // namespace triplepoint::workload
