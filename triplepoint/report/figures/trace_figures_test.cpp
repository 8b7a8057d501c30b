// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/trace_figures.h"

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

/// Ranks that compute for 2 ms (and `late` ns per rank more), wait for the last one in an
/// all-reduce that ends at 9 ms, and have nothing to do for half a millisecond after it.
run::Run ring(int32_t ranks, int64_t late = 1000) {
  run::Run run;
  run.manifest.origin = run::Origin::imported;
  run::Timeline& timeline = run.timeline;
  timeline.num_ranks = ranks;
  timeline.names = run::NameKind::kernels;
  timeline.communicators.push_back({.name = "world"});
  const int32_t gemm = timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
  const int32_t norm = timeline.intern({.name = "norm", .kind = run::SpanKind::memory});
  const int32_t all_reduce = timeline.intern({.name = "ncclDevKernel_AllReduce_Sum_bf16",
                                              .kind = run::SpanKind::communication,
                                              .stream = run::Stream::communication,
                                              .collective = spec::Collective::all_reduce});
  const auto add = [&](int32_t rank, int32_t type, int64_t begin, int64_t end) {
    timeline.spans.push_back({Instant(begin), Instant(end), type, rank});
    timeline.details.push_back({});
  };
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const int64_t computed = 2'000'000 + rank * late;
    add(rank, gemm, 0, computed);
    add(rank, all_reduce, computed, 9'000'000);
    timeline.details.back().communicator = 0;
    timeline.details.back().sequence = 1;
    add(rank, norm, 9'500'000, 9'600'000);
  }
  run::sort(timeline);
  return run;
}

TEST_CASE("the parts of a rank's bar add up to its span, and shares in the title are theirs") {
  const auto ranks = metrics::breakdown_of_ranks(ring(4).timeline);
  REQUIRE(ranks.size() == 4);
  int64_t spans = 0, exposed = 0;
  for (const metrics::RankBreakdown& rank : ranks) {
    spans += rank.span();
    exposed += rank.exposed_communication;
    CHECK(rank.compute + rank.exposed_communication + rank.exposed_copy + rank.idle() ==
          rank.span());
  }
  const Drawing figure = breakdown_figure(ranks);
  const double share = as_real(exposed) / as_real(spans);
  CHECK(contains(figure.title, percent(share) + " is exposed communication"));
  REQUIRE(figure.table.rows.size() == 4 + 6);  // and smallest, median, largest with their ranks
  CHECK(std::get<std::string>(figure.table.rows[2][1]) ==
        in_unit(as_real(ranks[2].compute), {"us", 1e3}));
  CHECK(std::get<std::string>(figure.table.rows[5][1]) == "0");  // least compute
  CHECK(std::get<std::string>(figure.table.rows[9][1]) == "3");  // most compute
}

TEST_CASE("of many ranks the worst, the middle and the best are drawn, and the table has all") {
  std::vector<double> amounts(200);
  std::iota(amounts.begin(), amounts.end(), 0.0);
  const std::vector<std::size_t> drawn = drawn_of(amounts);
  CHECK(drawn.size() == 24);
  CHECK(drawn.front() == 0);
  CHECK(drawn.back() == 199);
  CHECK(std::ranges::is_sorted(drawn));
  CHECK(drawn_of(std::vector<double>(64)).size() == 64);
  const Drawing figure = breakdown_figure(metrics::breakdown_of_ranks(ring(80).timeline));
  CHECK(contains(figure.note, "24 of 80 ranks"));
  CHECK(figure.table.rows.size() == 80 + 6);
}

TEST_CASE("the page names who was waited for and whom a naive reading blames") {
  const run::Run run = ring(4, 100'000);
  const metrics::SpanList spans(run.timeline);
  const metrics::CollectiveMatch match = metrics::match_collectives(spans);
  const metrics::LateRanks late = metrics::find_late_ranks(spans, match);
  REQUIRE(late.straggler == 3);
  REQUIRE(late.naive_straggler == 0);
  const metrics::Metrics m = metrics::measure(run);
  const std::vector<std::string> said = metrics::lateness_sentences(run, late, m.bottlenecks, {});
  const std::string page = with_plain_blanks(run_page(run, m));
  for (const std::string& sentence : said)
    CHECK(contains(page, escape(sentence)));
  // Rank 3 is 200 us later than the median; rank 2 would have had to wait for 100 us of that only.
  CHECK(contains(said[0], "cost all others together 500.0 us"));
  // Its first collective counts for no rank: what it waited is not known to be lateness.
  CHECK(lateness_figure(late).title == "The others wait for delays of rank 3");
}

TEST_CASE("a page names no straggler where ranks differ by microseconds only") {
  const run::Run run = ring(4);
  const metrics::LateRanks late =
      metrics::find_late_ranks(run.timeline, metrics::match_collectives(run.timeline));
  CHECK(!late.straggler);
  CHECK(contains(run_page(run, {}), "lateness is unknown"));
  CHECK(lateness_figure(late).title ==
        "Ranks wait in their first collectives only, which tell no lateness");
}

TEST_CASE("a collective's wait and transfer add up to its mean kernel") {
  const run::Run run = ring(4);
  const metrics::SpanList spans(run.timeline);
  const auto row = collectives_figure(metrics::match_collectives(spans), spans).table.rows.at(0);
  CHECK(std::get<std::string>(row[5]) == "6,997.0");  // from the last begin, at 2.003 ms, to 9 ms
  CHECK(std::get<std::string>(row[11]) == "1.5");     // mean of 3, 2, 1, 0
  CHECK(std::get<std::string>(row[8]) == "6,998.5");
}

TEST_CASE("the title of the path says its largest class and what it would save") {
  const metrics::CriticalPath path = metrics::critical_path(ring(2).timeline);
  REQUIRE(!path.shares.empty());
  const Drawing figure = path_figure(path, true);
  const TimeUnit unit = time_unit(path.length());
  CHECK(contains(figure.title, in_unit(as_real(path.shares[0].saved_if_free), unit)));
  CHECK(figure.table.rows.size() == path.shares.size());
  CHECK(!contains(path_figure(path, false).title, "sooner"));
}

TEST_CASE("every chart of a trace has its numbers as a table, and a run without work has none") {
  const std::string html = trace_section(ring(3), {});
  for (const char* id : {"time-by-rank", "collectives", "critical-path", "late-ranks"})
    CHECK(contains(html, "<figure id=\"" + std::string(id) + "\""));
  CHECK(trace_section({}, {}).empty());
}

TEST_CASE("a critical path that loses itself is left out, and the page says so") {
  run::Run run = ring(1);
  CHECK(contains(trace_section(run, {}), "<figure id=\"critical-path\""));
  // The last kernel on its own lane, half a millisecond after all others; the first was launched.
  run.timeline.lanes = {{.rank = 0, .number = 7}, {.rank = 0, .number = 8}};
  for (std::size_t i = 0; i < run.timeline.spans.size(); ++i)
    run.timeline.details[i].lane = i + 1 == run.timeline.spans.size() ? 1 : 0;
  run.timeline.details.front().correlation = 5;
  const int32_t call = run.timeline.intern(
      {.name = "cudaLaunchKernel", .kind = run::SpanKind::host, .stream = run::Stream::host});
  run.timeline.spans.push_back({Instant(-2000), Instant(-1000), call, 0});
  run.timeline.details.push_back({.correlation = 5});
  run::sort(run.timeline);
  const std::string html = trace_section(run, {});
  CHECK(contains(html, "The critical path is left out"));
  CHECK(!contains(html, "<figure id=\"critical-path\""));
}

TEST_CASE("times keep tenths of microseconds") {
  CHECK(in_unit(18'749'000, time_unit(18'853'000)) == "18,749.0");
  CHECK(in_unit(132'041'200, time_unit(132'041'200)) == "132.041");
}

}  // namespace
}  // namespace triplepoint::report
