// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/collectives.h"

#include <doctest/doctest.h>

#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/late_ranks.h"
#include "triplepoint/metrics/trace/random_trace_testing.h"

namespace triplepoint::metrics {
namespace {

using namespace testing;

/// Ranks that meet in collectives: begins[c][r]; each transfer takes 10. Every rank computes until
/// it begins.
run::Timeline collective_timeline(const std::vector<std::vector<int64_t>>& begins,
                                  bool numbered = true) {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = static_cast<int32_t>(begins.front().size());
  timeline.communicators = {{.name = "tensor", .size = timeline.num_ranks}};
  for (size_t c = 0; c < begins.size(); ++c) {
    const int64_t end = *std::ranges::max_element(begins[c]) + 10;
    for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
      const Instant begin(begins[c][as_size(rank)]);
      timeline.spans.push_back({.begin = begin,
                                .end = Instant(end),
                                .type = all_reduce,
                                .rank = rank,
                                .bytes = 4096 * unit::B});
      timeline.details.push_back({.communicator = numbered ? 0 : -1,
                                  .sequence = numbered ? static_cast<int64_t>(c) : -1,
                                  .in_elements = 1024});
    }
  }
  run::sort(timeline);
  return timeline;
}

TEST_CASE("waiting and transfer make up a collective's span on every rank") {
  for (bool numbered : {true, false}) {
    const auto match =
        match_collectives(collective_timeline({{0, 70, 30}, {200, 210, 290}}, numbered));
    REQUIRE(match.collectives.size() == 2);
    CHECK(match.unmatched == 0);
    CHECK(match.collectives[0].last_starter() == 1);
    CHECK(match.collectives[1].last_starter() == 2);
    for (const Collective& collective : match.collectives) {
      CHECK(collective.transfer() == 10);
      for (const CollectivePart& part : collective.parts)
        CHECK(collective.wait_of(part) + *collective.transfer() == part.duration());
    }
  }
}

TEST_CASE("ranks with different numbers of kernels are not matched by counting, and it is said") {
  run::Timeline timeline = collective_timeline({{0, 70}, {200, 210}}, false);
  timeline.spans.pop_back();
  timeline.details.pop_back();
  const auto match = match_collectives(timeline);
  CHECK(match.unmatched == 3);
  REQUIRE(match.remarks.size() == 1);
  CHECK(match.remarks[0].find("1 to 2") != std::string::npos);
}

TEST_CASE("a simulated collective is found by its end and the arrival of the last peer") {
  run::Timeline timeline = collective_timeline({{0, 70, 30}, {200, 210, 290}});
  timeline.details.clear();
  for (run::Span& span : timeline.spans)
    span.wait = span.end - span.begin - 10 * unit::ns;
  const auto match = match_collectives(timeline);
  REQUIRE(match.collectives.size() == 2);
  CHECK(match.collectives[1].parts.size() == 3);
  CHECK(match.collectives[1].transfer() == 10);
  // One rank of it is enough, as it knows how long it waited.
  std::erase_if(timeline.spans, [](const run::Span& span) { return span.rank != 0; });
  const auto alone = match_collectives(timeline);
  REQUIRE(alone.collectives.size() == 2);
  CHECK(alone.collectives[1].transfer() == 10);
  CHECK(alone.collectives[1].wait_of(alone.collectives[1].parts[0]) == 90);
}

TEST_CASE("busbw is algbw times the factor of nccl-tests, by the transfer alone") {
  const auto rows =
      tabulate(match_collectives(collective_timeline({{0, 70, 30}, {200, 210, 290}})).collectives);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].occurrences == 2);
  CHECK(rows[0].count == 1024);
  CHECK(rows[0].transfer == 20);
  CHECK(rows[0].wait == 70 + 40 + 90 + 80);
  CHECK(rows[0].total == rows[0].wait + 6 * 10);
  CHECK(*rows[0].algbw_gb_s == doctest::Approx(4096.0 / 10));
  CHECK(*rows[0].busbw_gb_s == doctest::Approx(*rows[0].algbw_gb_s * 2 * 2 / 3));
  CHECK(!bus_factor("communication", 8));
}

TEST_CASE("one rank alone knows no waiting, and no transfer") {
  const auto match = match_collectives(collective_timeline({{0}, {200}}));
  CHECK(match.unmatched == 2);
  const auto rows = tabulate(match.collectives);
  CHECK(!rows.at(0).mean_wait());
  CHECK(!rows.at(0).mean_transfer());
}

TEST_CASE("matches of different sizes are refused, and it is said") {
  run::Timeline timeline = collective_timeline({{0, 70}, {200, 210}, {400, 401}});
  timeline.details[1].in_elements = 2048;  // rank 0's second
  const auto match = match_collectives(timeline);
  CHECK(match.unmatched == 2);
  CHECK(match.mismatch.starts_with(
      "1 collectives (all_reduce) are called with different sizes: rank 0: 2,048, the others "
      "1,024 elements"));
  const LateRanks late = find_late_ranks(timeline, match);
  CHECK(lateness_sentences({}, late, {}, {}).at(0) == match.mismatch);
  // They may be of two groups where the trace tells none: no rank is out of step.
  timeline.communicators = {{.name = "unnamed 0"}};
  const auto untold = match_collectives(timeline);
  CHECK(untold.mismatch.empty());
  CHECK(untold.remarks.front().starts_with("1 matches of collectives are refused: their sizes"));
}

/// Eight steps of 4 ranks, all-reduces of 200 us every 1.3 ms, of which rank 2 begins 100 us late.
run::Timeline steps_of_four(const std::vector<std::pair<int32_t, int64_t>>& lost,
                            const std::vector<int64_t>& clocks = {0, 0, 0, 0}) {
  const std::vector<std::vector<int64_t>> begins = numbered(8, [](int64_t step) {
    return std::vector{step * 1'300'000, step * 1'300'000, step * 1'300'000 + 100'000,
                       step * 1'300'000};
  });
  run::Timeline timeline = collective_timeline(begins);
  std::vector<int64_t> seen(4), numbers(4);
  size_t kept = 0;
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    run::Span span = timeline.spans[i];
    const auto rank = as_size(span.rank);
    if (holds(lost, std::pair(span.rank, seen[rank]++))) continue;
    span.begin = Instant(span.begin.nanoseconds() + clocks[rank]);
    span.end = Instant(span.end.nanoseconds() + 200'000 + clocks[rank]);
    timeline.spans[kept] = span;
    timeline.details[kept] = timeline.details[i];
    timeline.details[kept++].sequence = numbers[rank]++;  // counted, as readers do
  }
  timeline.spans.resize(kept);
  timeline.details.resize(kept);
  return timeline;
}

TEST_CASE("a lost record of a collective moves no clock and no other match") {
  const std::vector<std::vector<std::pair<int32_t, int64_t>>> losses = {
      {{1, 2}},        {{1, 0}}, {{1, 7}}, {{1, 4}, {3, 1}}, {{0, 1}, {1, 3}, {2, 5}, {3, 6}},
      {{0, 2}, {0, 3}}};
  for (const auto& lost : losses)
    for (const std::vector<int64_t>& clocks :
         {std::vector<int64_t>{0, 0, 0, 0}, {0, 5'000'000, -300'000, 40'000}}) {
      const bool at_rim = lost.size() == 1 && lost[0].second % 7 == 0;
      if (at_rim && clocks[1] != 0) continue;  // see the next test
      const run::Timeline timeline = steps_of_four(lost, clocks);
      CAPTURE(lost.size());
      CAPTURE(lost[0].second);
      const CollectiveMatch match = match_collectives(timeline);
      CHECK(match.unmatched == 0);
      CHECK(match.collectives.size() == 8);
      CHECK(match.has_all_ranks);
      const ClockFit fit = fit_clocks(match.collectives);
      for (size_t rank = 0; rank < 4; ++rank)
        CHECK(fit.ranks[rank].offset - fit.ranks[0].offset == clocks[rank] - clocks[0]);
      // A transfer counts from the last begin that is recorded; rank 2's is the last.
      if (clocks[1] != 0 || lost.size() == 4) continue;
      const auto rows = tabulate(match.collectives);
      CHECK(*rows.at(0).mean_transfer() == doctest::Approx(200'010).epsilon(0.001));
    }
}

TEST_CASE("where equal steps leave a lost record open, the clock's offset is doubted") {
  const CollectiveMatch match = match_collectives(steps_of_four({{1, 0}}, {0, 5'000'000, 0, 0}));
  REQUIRE(!match.remarks.empty());
  CHECK(match.remarks[0].starts_with("which records of group tensor rank 1 lacks is not known"));
}

TEST_CASE("a collective that is not matched is not timed, and lengthens and shortens none") {
  run::Timeline timeline = collective_timeline({{0, 70, 30}, {200, 210, 290}});
  for (int64_t n = 0; n < 5; ++n) {  // of a group of one rank, as large
    timeline.spans.push_back({.begin = Instant(1000 + 100 * n),
                              .end = Instant(1010 + 100 * n),
                              .type = all_reduce,
                              .bytes = 4096 * unit::B});
    timeline.details.push_back({.communicator = 0, .sequence = 10 + n, .in_elements = 1024});
  }
  run::sort(timeline);
  const CollectiveRow row = tabulate(match_collectives(timeline).collectives).at(0);
  CHECK(row.occurrences == 7);
  CHECK(row.timed == 2);
  CHECK(*row.mean_transfer() == 10);
  CHECK(*row.mean_wait() == doctest::Approx((70 + 40 + 90 + 80) / 6.0));
}

TEST_CASE("ranks that take turns at being late are told as that, and what it costs") {
  std::vector<std::vector<int64_t>> begins;
  for (int64_t step = 0; step < 9; ++step)
    for (begins.emplace_back(4, 1'400 * step * 1000); begins.back()[step % 4] % 1'400'000 == 0;)
      begins.back()[as_size(step % 4)] += 200'000;
  const run::Timeline timeline = collective_timeline(begins);
  run::Run run;
  run.timeline = timeline;
  run.manifest.origin = run::Origin::measured;
  const LateRanks late = find_late_ranks(timeline, match_collectives(timeline));
  const std::string said = lateness_sentences(run, late, {}, {}).at(0);
  CHECK(said.starts_with("No single rank is late beyond the noise"));
  CHECK(said.find("4 ranks take turns") != std::string::npos);
}

TEST_CASE(
    "who is late again and again is named though all once paused, and who was late once not") {
  const auto straggler = [](int64_t each, int64_t once) {
    std::vector<std::vector<int64_t>> begins;
    for (int64_t step = 0; step < 24; ++step) {
      const int64_t begin = 1'400'000 * step + (step > 5 ? 30'000'000 : 0);
      begins.push_back({begin, begin + each + 10'000 * (step % 3) + (step == 9 ? once : 0)});
    }
    const run::Timeline timeline = collective_timeline(begins);
    return find_late_ranks(timeline, match_collectives(timeline)).straggler;
  };
  CHECK(straggler(200'000, 0) == 1);
  CHECK_FALSE(straggler(0, 3'000'000));
}

TEST_CASE("each half of a refused match keeps its own size, count and group") {
  run::Timeline timeline = collective_timeline({{0, 70}});
  timeline.details[1].in_elements = 2048;
  timeline.spans[1].bytes = 8192 * unit::B;
  const auto rows = tabulate(match_collectives(timeline).collectives);
  REQUIRE(rows.size() == 2);
  for (const auto& [row, elements] : {std::pair(0, 1024), std::pair(1, 2048)}) {
    CHECK(rows[as_size(row)].count == elements);
    CHECK(rows[as_size(row)].size / unit::B == 4.0 * elements);
    CHECK(rows[as_size(row)].group_size == 2);
    CHECK(rows[as_size(row)].occurrences == 1);
  }
}

TEST_CASE("the size of a group is not guessed from the ranks given, where the job has more") {
  const run::Timeline timeline = collective_timeline({{0, 70}, {200, 210}}, false);
  for (const auto& [job_ranks, group_size] : {std::pair(0, 2), {2, 2}, {128, 0}}) {
    const CollectiveMatch match = match_collectives(timeline, job_ranks);
    CHECK(match.has_all_ranks == (job_ranks <= 2));
    const CollectiveRow row = tabulate(match.collectives).at(0);
    CHECK(row.group_size == group_size);
    CHECK(row.busbw_gb_s.has_value() == (group_size > 0));
  }
}

TEST_CASE("lateness among a part of the ranks is said to be of those given") {
  const run::Timeline timeline = collective_timeline({{0, 7000}, {8000, 15'010}, {16'000, 23'000}});
  const SpanList spans(timeline);
  const auto said = [&](int32_t job_ranks) {
    const CollectiveMatch match = match_collectives(spans, job_ranks);
    const LateRanks late = find_late_ranks(spans, match);
    return bottleneck_sentence(late_bottlenecks(spans, match, late).at(0), {});
  };
  CHECK(said(2).starts_with("Rank 1 slows the others: "));
  CHECK(said(8).starts_with("Rank 1 slows the others of the ranks given: "));
}

TEST_CASE("matches whose kernels do not overlap are refused, and it is said") {
  // Ranks of which one has lost a collective, so numbers are shifted by one.
  std::vector<std::vector<int64_t>> begins;
  for (int64_t c = 0; c < 40; ++c)
    begins.push_back({c * 10'000'000 + c * c * 100'000, c * 10'000'000 + c * c * 100'000 + 500});
  run::Timeline timeline = collective_timeline(begins);
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    if (timeline.spans[i].rank == 1) --timeline.details[i].sequence;
  const auto match = match_collectives(timeline);
  CHECK(match.unmatched == static_cast<int64_t>(match.collectives.size()));
  REQUIRE(!match.remarks.empty());
  CHECK(match.remarks[0].find("do not overlap") != std::string::npos);
}

TEST_CASE("a group of which ranks are missing is said") {
  run::Timeline timeline = collective_timeline({{0, 70}, {200, 210}});
  timeline.communicators[0].size = 8;
  const auto match = match_collectives(timeline);
  REQUIRE(match.remarks.size() == 1);
  CHECK(match.remarks[0].starts_with("2 of 8 ranks of group tensor are given"));
  CHECK(match.collectives[0].group_size == 8);
}

TEST_CASE("a wait is within its kernel") {
  run::Timeline timeline = collective_timeline({{0, 70}});
  timeline.spans[0].end = Instant(60);  // done before the other begins: clocks differ a little
  const auto match = match_collectives(timeline);
  REQUIRE(match.collectives[0].parts.size() == 2);
  CHECK(match.collectives[0].wait_of(match.collectives[0].parts[0]) == 60);
}

TEST_CASE("clocks that are apart are found from the ends of collectives, to the nanosecond") {
  Rng rng(3);
  const std::vector<std::vector<int64_t>> begins = numbered(40, [&](int64_t c) {
    return std::vector{c * 1000 + rng.upto(500), c * 1000 + rng.upto(500),
                       c * 1000 + rng.upto(500)};
  });
  const run::Timeline truth = collective_timeline(begins);
  ClockFit wrong{.ranks = {{.rank = 0, .offset = 0},
                           {.rank = 1, .offset = -70'000},
                           {.rank = 2, .offset = 40'000}}};
  const run::Timeline apart = align_clocks(truth, wrong);
  const ClockFit fit = fit_clocks(match_collectives(apart).collectives);
  REQUIRE(fit.ranks.size() == 3);
  CHECK(fit.anchors == 40);
  CHECK(fit.residual == 0);
  CHECK(fit.clocks_differ());
  CHECK(fit.ranks[1].offset - fit.ranks[0].offset == 70'000);
  CHECK(fit.ranks[2].offset - fit.ranks[0].offset == -40'000);
  const run::Timeline aligned = align_clocks(apart, fit);
  CHECK(match_collectives(aligned).collectives[5].last_starter() ==
        match_collectives(truth).collectives[5].last_starter());
  CHECK(!fit_clocks(match_collectives(truth).collectives).clocks_differ());
}

TEST_CASE("a single collective between two ranks moves no clock, and it is said") {
  // Two of them show a residual: the clocks are moved by what both agree on.
  for (const int64_t collectives : {1, 2}) {
    std::vector<std::vector<int64_t>> begins;
    for (int64_t c = 0; c < collectives; ++c)
      begins.push_back({c * 1000, c * 1000 + 10});
    run::Timeline timeline = collective_timeline(begins);
    for (run::Span& span : timeline.spans)
      if (span.rank == 1) {
        span.begin = Instant(span.begin.nanoseconds() + 200'000'000);
        span.end = Instant(span.end.nanoseconds() + 200'000'000);
      }
    const CollectiveMatch match = match_collectives(timeline);
    const ClockFit fit = fit_clocks(match.collectives);
    CHECK(fit.clocks_differ() == (collectives == 2));
    CHECK(match.collectives.size() == 2);  // one alone cannot be: its kernels do not overlap
    CHECK(match.unmatched == (collectives == 2 ? 0 : 2));
  }
  const ClockFit overlapping =
      fit_clocks(match_collectives(collective_timeline({{0, 70}})).collectives);
  CHECK(overlapping.anchors == 0);
  CHECK(overlapping.islands == 2);
  CHECK(overlapping.unchecked == 2);
  CHECK(clock_sentence(overlapping, false).find("not brought into line") != std::string::npos);
}

TEST_CASE("clocks are compared within what no single collective holds together") {
  // Ranks 0, 1 and 2, 3 meet twice; 1 and 2 once.
  std::vector<std::vector<int32_t>> met = {{0, 1}, {0, 1}, {2, 3}, {2, 3}, {1, 2}};
  const auto fit = [&] {
    std::vector<Collective> all;
    for (const auto& ranks : met) {
      all.emplace_back();
      for (const int32_t rank : ranks)
        all.back().parts.push_back({.rank = rank, .begin = 0, .end = 10 + 1'000'000 * rank});
    }
    return fit_clocks(all);
  };
  using Sets = std::map<int32_t, int32_t>;
  CHECK(clock_sets(met) == Sets{{0, 0}, {1, 0}, {2, 2}, {3, 2}});
  CHECK(fit().islands == 2);
  met.push_back({0, 3});  // closes the circle
  CHECK(clock_sets(met) == Sets{{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  CHECK(fit().ranks[3].offset - fit().ranks[0].offset == 3'000'000);
}

TEST_CASE("ends that scatter are reported as residuals, not as offsets") {
  run::Timeline timeline =
      collective_timeline({{0, 7, 3}, {100, 120, 110}, {300, 350, 310}, {400, 410, 405}});
  Rng rng(9);
  for (run::Span& span : timeline.spans)
    span.end = Instant(span.end.nanoseconds() + rng.upto(6));
  const ClockFit fit = fit_clocks(match_collectives(timeline).collectives);
  CHECK(fit.worst_residual > 0);
  CHECK(fit.worst_residual <= 6);
  CHECK(!fit.clocks_differ());
}

TEST_CASE("the last starter is the straggler, although it spends least time in communication") {
  const run::Timeline timeline =
      collective_timeline({{0, 5000, 10}, {6000, 11'000, 6010}, {12'000, 12'000, 12'500}});
  const LateRanks late = find_late_ranks(timeline, match_collectives(timeline));
  CHECK(late.straggler == 1);
  CHECK(late.naive_straggler == 0);
  // Its first collective tells nothing: a profiler may have begun later on it.
  CHECK(late.starts[0].is_first);
  CHECK(late.ranks[1].times_last == 1);
  CHECK(late.ranks[1].caused == 5000 + 4990);
  CHECK(late.ranks[1].alone == 4990);
  CHECK(late.ranks[2].caused == 500 + 500);
  int64_t caused = 0, waited = 0;
  for (const RankLateness& rank : late.ranks)
    caused += rank.caused, waited += rank.waited;
  CHECK(caused + 5000 + 4990 == waited);
}

TEST_CASE("no rank is late if all begin together") {
  const run::Timeline timeline = collective_timeline({{0, 0, 0}, {50, 50, 50}});
  CHECK(!find_late_ranks(timeline, match_collectives(timeline)).straggler);
}

/// Of a rank whose kernel takes longer at 1200 MHz, with these throttle reasons and temperature;
/// the others' dies are at 70 °C.
run::Bottleneck slow_rank(double reasons, double die_c) {
  run::Timeline timeline = collective_timeline({{0, 0, 0}, {2000, 2000, 9000}});
  for (int32_t rank : {0, 1, 2}) {
    timeline.spans.push_back({Instant(20), Instant(rank == 2 ? 8990 : 1990), gemm, rank});
    timeline.details.push_back({});
  }
  run::sort(timeline);
  run::Run telemetry;
  for (int32_t rank : {0, 1, 2}) {
    telemetry.devices.push_back({.index = rank, .rank = rank});
    const double clock = rank == 2 ? 1200 : 1755;
    telemetry.series.push_back({"sm_clock_mhz", rank, false, {Instant(0)}, {clock}});
    telemetry.series.push_back(
        {"throttle_reasons", rank, false, {Instant(0)}, {rank == 2 ? reasons : 0.0}});
    telemetry.series.push_back({"die_c", rank, false, {Instant(0)}, {rank == 2 ? die_c : 70.0}});
  }
  const SpanList spans(timeline);
  const CollectiveMatch match = match_collectives(spans);
  return late_bottlenecks(spans, match, find_late_ranks(spans, match), &telemetry).at(0);
}

TEST_CASE("a slow rank's kernel is named, its clock, and why it was low") {
  CHECK(bottleneck_sentence(slow_rank(32, 91), {}) ==
        "Rank 2 slows the others: last into 1 of 2 collectives; its delays cost all others "
        "together 14.0 us. Where it was latest, kernels took 7.0 us longer than the same ones "
        "elsewhere, most of it in ampere_gemm; 1,200 MHz against 1,755 MHz (heat, die at 91 °C "
        "against 70 °C).");
}

TEST_CASE(
    "heat is a late rank's cause only where it throttles, and usual temperatures are not told") {
  CHECK(bottleneck_sentence(slow_rank(4, 77.9), {}).ends_with(" 1,755 MHz (power cap)."));
  CHECK(bottleneck_sentence(slow_rank(4, 91), {})
            .ends_with(" (power cap, die at 91 °C against 70 °C)."));
}

TEST_CASE("of a late launch is told what the host thread did before it") {
  run::Timeline timeline = collective_timeline({{0, 0, 0}, {2000, 2000, 9000}});
  const int32_t loader = timeline.intern(
      {.name = "DataLoader.__next__", .kind = run::SpanKind::host, .stream = run::Stream::host});
  for (int32_t rank : {0, 1, 2})
    timeline.lanes.push_back({.rank = rank, .stream = run::Stream::host, .number = rank});
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    timeline.details[i].correlation = static_cast<int64_t>(i);
  const auto spans = timeline.spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    const int64_t begin = spans[i].begin.nanoseconds();
    timeline.spans.push_back({Instant(begin - 5), Instant(begin - 1), launch, spans[i].rank});
    timeline.details.push_back({.lane = spans[i].rank, .correlation = static_cast<int64_t>(i)});
  }
  timeline.spans.push_back({Instant(15), Instant(8000), loader, 2});
  timeline.details.push_back({.lane = 2});
  run::sort(timeline);
  const SpanList list(timeline);
  const CollectiveMatch match = match_collectives(list);
  const auto late = late_bottlenecks(list, match, find_late_ranks(list, match)).at(0);
  CHECK(late.cause == run::Cause::data_loader);
  const std::string said = bottleneck_sentence(late, {});
  for (const char* part : {"its device had no work for ", "its launch was called 7.0 us later",
                           "data loader: +", "its host thread was in DataLoader.__next__ (+"})
    CHECK_MESSAGE(said.find(part) != std::string::npos, said);
}

}  // namespace
}  // namespace triplepoint::metrics
