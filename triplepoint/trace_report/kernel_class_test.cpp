// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/kernel_class.h"

#include <doctest/doctest.h>

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/trace/random_trace_testing.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace)
namespace {

using run::SpanKind;
using spec::Collective;

run::SpanType kernel(const char* name, SpanKind kind,
                     std::optional<Collective> collective = std::nullopt) {
  return {.name = name, .kind = kind, .collective = collective};
}

/// A layer of 60 ns GEMM and 30 ns all-reduce (10 of them waiting), 96 times; twice on each of 3
/// ranks.
run::Timeline layers() {
  run::Timeline t;
  t.num_ranks = 3;
  t.types = {kernel("qkv", SpanKind::compute),
             kernel("tp_all_reduce", SpanKind::communication, Collective::all_reduce),
             kernel("send", SpanKind::communication, Collective::send_recv),
             kernel("launch", SpanKind::host), kernel("forward", SpanKind::pass)};
  run::PatternPiece layer{.repeat = 96, .length = 100 * unit::ns};
  layer.spans = {{.begin = Instant(0), .end = Instant(60), .type = 0},
                 {.begin = Instant(60), .end = Instant(90), .type = 1, .wait = 10 * unit::ns}};
  t.patterns = {{.name = "forward", .pieces = {layer}}};
  for (int32_t rank : {0, 1, 2}) {
    for (int64_t begin : {0, 10000})
      t.instances.push_back({.begin = Instant(begin), .rank = rank});
    run::Span send{.begin = Instant(9700), .end = Instant(9700 + 100 * (rank + 1)), .type = 2};
    run::Span launch{.begin = Instant(9800), .end = Instant(9900), .type = 3};
    send.rank = launch.rank = rank;
    t.spans.push_back(send);
    t.spans.push_back(launch);
  }
  return t;
}

TEST_CASE("kernel seconds are counted once per layer, repetition and instance") {
  const KernelSeconds one = kernel_seconds_of_ranks(layers()).at(1);
  CHECK(one.compute / unit::ns == doctest::Approx(2 * 96 * 60));
  CHECK(one.all_reduce / unit::ns == doctest::Approx(2 * 96 * 30));
  CHECK(one.waiting / unit::ns == doctest::Approx(2 * 96 * 10));
  CHECK(one.send_recv / unit::ns == doctest::Approx(200));
  CHECK(one.total() / unit::ns == doctest::Approx(2 * 96 * 90 + 200));
}

TEST_CASE("summing patterns equals summing the spans they stand for") {
  const run::Timeline patterns = layers(), spans = run::expand(patterns);
  for (const size_t rank : {0, 1, 2}) {
    const KernelSeconds a = kernel_seconds_of_ranks(patterns).at(rank);
    const KernelSeconds b = kernel_seconds_of_ranks(spans).at(rank);
    CHECK(a.total() == b.total());
    CHECK(a.compute == b.compute);
    CHECK(a.waiting == b.waiting);
  }
}

TEST_CASE("host work and passes are no kernels") {
  for (SpanKind kind : {SpanKind::host, SpanKind::pass, SpanKind::step})
    CHECK(classify(kernel("gemm", kind)) == KernelClass::none);
}

TEST_CASE("the first rule that matches decides, and case does not matter") {
  KernelRuleSet set{.name = "test"};
  set.rules.push_back({.all = {"nccl", "sendrecv"}, .label = *kernel_label("send_recv")});
  set.rules.push_back({.any = {"nccl", "rccl"}, .label = *kernel_label("communication")});
  set.rules.push_back(
      {.pattern = std::regex("^fmha_.*bwd", std::regex::icase), .label = *kernel_label("compute")});
  CHECK(label_by_rules("ncclKernel_SendRecv", set) == kernel_label("send_recv"));
  CHECK(label_by_rules("RCCL_thing", set) == kernel_label("communication"));
  CHECK(label_by_rules("FMHA_x_bwd", set) == kernel_label("compute"));
  CHECK(!label_by_rules("x_fmha_bwd", set));
}

TEST_CASE("rules change kernels only, and keep a collective that the trace knows better") {
  run::Timeline timeline;
  testing::add_types(timeline);
  KernelRuleSet set{.name = "test", .otherwise = kernel_label("other")};
  set.rules.push_back({.any = {"nccl"}, .label = *kernel_label("communication")});
  set.rules.push_back({.any = {"norm"}, .label = *kernel_label("compute")});
  apply_rules(timeline, set);
  CHECK(label_of(timeline.types[testing::all_reduce]) == "all_reduce");
  CHECK(label_of(timeline.types[testing::norm]) == "compute");
  CHECK(label_of(timeline.types[testing::gemm]) == "other");
  CHECK(label_of(timeline.types[testing::memcpy_]) == "copy");
  CHECK(label_of(timeline.types[testing::launch]) == "host");
}

TEST_CASE("embeddings in fbgemm's namespace are memory, batched products are compute") {
  const auto rules = load_kernel_rules("default");
  REQUIRE(rules);
  const auto label = [&](const char* name) {
    const trace::KernelKind kernel = trace::kernel_kind(name);
    const auto by_rule = label_by_rules(name, *rules);
    return by_rule ? label_of({.kind = by_rule->kind}) : label_of({.kind = kernel.kind});
  };
  CHECK(label("void fbgemm_gpu::split_embedding_codegen_forward_kernel<float, fbgemm_gpu::x>") ==
        "memory");
  CHECK(label("void fbgemm_gpu::bounds_check_indices_kernel<long>(fbgemm_gpu::T)") == "memory");
  CHECK(label("void cutlass::device_kernel<fbgemm_gpu::f8f8bf16_rowwise>") == "compute");
  CHECK(label("bmm_MxE4m3_MxE4m3_Fp32_t128x8x512u2_s6_et64x8_m64x8x32") == "compute");
  CHECK(label("sage_fwd_kernel") == "compute");
  CHECK(label("fc-1-3") == "compute");
}

TEST_CASE("every word of a rule file is a label") {
  for (const std::string& word : kernel_label_words()) {
    const KernelLabel label = kernel_label(word).value();
    CHECK(label_of({.kind = label.kind, .collective = label.collective}) == word);
  }
  CHECK(!kernel_label("host"));
}

}  // namespace

}  // namespace triplepoint::trace_report
