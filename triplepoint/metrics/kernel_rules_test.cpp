// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/kernel_rules.h"

#include <doctest/doctest.h>

#include "triplepoint/metrics/random_trace.h"

namespace triplepoint::metrics {
namespace {

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

TEST_CASE("every word of a rule file is a label") {
  for (const std::string& word : kernel_label_words()) {
    const KernelLabel label = kernel_label(word).value();
    CHECK(label_of({.kind = label.kind, .collective = label.collective}) == word);
  }
  CHECK(!kernel_label("host"));
}

}  // namespace
}  // namespace triplepoint::metrics
