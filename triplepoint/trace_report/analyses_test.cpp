// SPDX-License-Identifier: Apache-2.0
// Figures of real traces (../shared/data/traces), to the last digit: the published ones, and those
// of the other samples, recorded after a brute-force reference in Python agreed.
#include "triplepoint/trace_report/analyses.h"

#include <array>
#include <filesystem>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/critical_path.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/trace/read.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

/// The sample, or nothing (said in a message) where the folder of samples is not there.
std::optional<run::Timeline> sample(const std::string& name) {
  const std::filesystem::path file = std::filesystem::path(TPT_SHARED_DIR) / "data/traces" / name;
  if (!std::filesystem::exists(file)) {
    MESSAGE("skipped: " << file.string() << " is not there");
    return std::nullopt;
  }
  auto read = must(trace::read_trace(file, {.host = trace::HostSpans::ops}));
  return std::move(read.timeline);
}

struct Golden {
  const char* file;
  std::array<int64_t, 7> ns;  // span, busy, compute, communication, copy, overlapped, exposed copy
};

TEST_CASE("breakdowns of the samples are exact to the nanosecond") {
  for (const Golden& golden :
       {Golden{
            "a100_nccl_data.json.gz",
            {660'551'005, 157'500'014, 115'655'847, 46'876'493, 2'653'498, 7'317'025, 2'284'699}},
        Golden{"mi300_resnet_act_checkpoint.json.gz",
               {86'567'708, 84'002'056, 25'739'303, 71'516'523, 2'974'246, 15'891'299, 2'637'529}},
        Golden{"mi250_minitoy_kineto.json.gz", {8'911'887, 149'042, 110'881, 0, 38'161, 0, 38'161}},
        Golden{"mi300_qwen_0.5b.json.gz", {47'085'800, 43'062'802, 43'062'042, 0, 760, 0, 760}},
        Golden{"sampled_rank1_ws128.json.gz",
               {1'231'186'000, 580'050'000, 271'973'000, 379'053'000, 16'504'000, 75'530'000,
                4'554'000}}}) {
    const auto timeline = sample(golden.file);
    if (!timeline) return;
    CAPTURE(golden.file);
    const auto ranks = metrics::breakdown_of_ranks(*timeline);
    REQUIRE(ranks.size() == 1);
    const metrics::RankBreakdown& r = ranks[0];
    CHECK(std::array<int64_t, 7>{r.span(), r.busy, r.compute, r.communication, r.copy, r.overlapped,
                                 r.exposed_copy} == golden.ns);
  }
}

TEST_CASE("DLRM: breakdown of eight ranks, as published") {
  const auto timeline = sample("dlrm_8rank_kineto.tar.gz");
  if (!timeline) return;
  struct Row {
    int64_t span, compute, communication, overlap_hundredths;
  };
  constexpr std::array<Row, 8> rows = {{{13009, 1034, 5798, 450},
                                        {18749, 1246, 11336, 247},
                                        {11350, 1068, 3492, 788},
                                        {18853, 1240, 9774, 331},
                                        {16589, 1126, 6587, 56},
                                        {16392, 1041, 6251, 64},
                                        {11410, 1051, 3558, 756},
                                        {10967, 1059, 1746, 951}}};
  const auto ranks = metrics::breakdown_of_ranks(*timeline);
  REQUIRE(ranks.size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(ranks[i].rank == static_cast<int32_t>(i));
    CHECK(ranks[i].span() == rows[i].span * 1000);
    CHECK(ranks[i].compute == rows[i].compute * 1000);
    CHECK(ranks[i].communication == rows[i].communication * 1000);
    CHECK(std::llround(*ranks[i].overlap() * 1e4) == rows[i].overlap_hundredths);
  }
}

TEST_CASE("DLRM: most waiting is before rank 7's first collective, which cannot tell lateness") {
  const auto timeline = sample("dlrm_8rank_kineto.tar.gz");
  if (!timeline) return;
  const auto match = metrics::match_collectives(*timeline);
  REQUIRE(match.collectives.size() == 8);
  const metrics::LateRanks late = metrics::find_late_ranks(*timeline, match);
  CHECK(late.straggler.value_or(7) == 7);  // if any rank is named, then this one
  CHECK(late.starts[0].is_first);
  CHECK(late.naive_straggler == 1);
  constexpr std::array<int32_t, 8> last_starters = {7, 7, 7, 7, 7, 5, 5, 4};
  int64_t widest_start = 0, widest_end = 0, narrowest_end = INT64_MAX;
  for (size_t i = 0; i < last_starters.size(); ++i) {
    const metrics::LateStart& start = late.starts[i];
    CHECK(start.rank == last_starters[i]);
    widest_start = std::max(widest_start, start.start_spread);
    widest_end = std::max(widest_end, start.end_spread);
    narrowest_end = std::min(narrowest_end, start.end_spread);
    CHECK(start.shortest >= 7'000);
    CHECK(start.shortest <= 86'000);
    CHECK(start.longest >= 133'000);
    CHECK(start.longest <= 7'635'000);
  }
  CHECK(widest_start == 7'624'000);
  CHECK(narrowest_end == 1'000);
  CHECK(widest_end == 7'000);
  CHECK(late.ranks[7].caused == 9'117'000);
  const metrics::ClockFit clocks = metrics::fit_clocks(match.collectives);
  CHECK(clocks.anchors == 8);
  CHECK(clocks.residual <= 10'000);
  CHECK(!clocks.clocks_differ());
}

TEST_CASE("critical paths of the samples have no holes, and replay to the nanosecond") {
  for (const char* file : {"a100_nccl_data.json.gz", "mi300_resnet_act_checkpoint.json.gz",
                           "mi300_qwen_0.5b.json.gz", "dlrm_8rank_kineto.tar.gz"}) {
    const auto timeline = sample(file);
    if (!timeline) return;
    CAPTURE(file);
    const metrics::CriticalPath path = metrics::critical_path(*timeline);
    for (size_t i = 1; i < path.pieces.size(); ++i)
      REQUIRE(path.pieces[i].begin == path.pieces[i - 1].end);
    CHECK(metrics::critical_path_without(*timeline, metrics::build_dependency_graph(*timeline),
                                         "") == path.end);
    for (const metrics::PathShare& share : path.shares)
      CHECK(share.saved_if_free <= share.on_path);
  }
}

TEST_CASE("the headline of a path that loses itself says how much of the time it covers") {
  const ScratchFolder scratch;
  const std::string file = scratch.file("rank0.json", R"({"traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1000, "dur": 100, "pid": 0, "tid": 7,
     "args": {"device": 0, "stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "ts": 50000, "dur": 1000,
     "pid": 0, "tid": 20, "args": {"device": 0, "stream": 20}}]})");
  const auto report = must(trace_critical_path({.files = {file}}));
  REQUIRE(report.headlines.size() == 1);
  CHECK(report.headlines[0] ==
        "The longest chain of dependencies covers only the last 1000.000 of 50000.000 us (2.0 %), "
        "in 1 pieces: what its first piece waited for is not in the timeline.");
}

}  // namespace
}  // namespace triplepoint::trace_report
