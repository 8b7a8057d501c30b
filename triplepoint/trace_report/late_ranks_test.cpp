// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/late_ranks.h"

#include <array>

#include <doctest/doctest.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/random_training_testing.h"
#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/kineto/kineto.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace)
namespace {

using namespace testing;

/// As `trace stragglers` does it: match, fit and align clocks, find who is late.
struct Verdict {
  run::Timeline timeline;
  CollectiveMatch match;
  ClockFit clocks;
  LateRanks late;
};
Verdict verdict_on(const Training& training) {
  Verdict verdict;
  verdict.clocks = fit_clocks(match_collectives(training.timeline).collectives);
  verdict.timeline = align_clocks(training.timeline, verdict.clocks);
  verdict.match = match_collectives(verdict.timeline);
  verdict.late = find_late_ranks(verdict.timeline, verdict.match);
  return verdict;
}

std::string text_of(const Training& t) {
  return fmt::format("tp {} pp {} dp {} ep {}, cause {}, culprit {}", t.tp, t.pp, t.dp, t.ep,
                     static_cast<int>(t.cause), t.culprit);
}

/// Largest distance of the offsets found from the true ones, both to their median.
int64_t clock_error(const Training& training, const ClockFit& fit) {
  std::vector<int64_t> differences;
  for (const RankClock& clock : fit.ranks)
    differences.push_back(clock.offset - training.clock[as_size(clock.rank)]);
  const int64_t middle = lower_median(differences);
  return most_of(differences,
                 [&](const int64_t difference) { return std::abs(difference - middle); });
}

/// Where the rank's worst delay went.
std::optional<run::Evidence::Kind> part_of(const Verdict& verdict) {
  const SpanList spans(verdict.timeline);
  const auto found = late_bottlenecks(spans, verdict.match, verdict.late);
  if (found.empty() || found[0].evidence.size() < 2) return std::nullopt;
  return found[0].evidence[1].kind;
}

TEST_CASE("a planted straggler of a random training is found, with its cause") {
  int found = 0, causes = 0;
  std::string misses;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    constexpr std::array kinds = {Cause::slow_kernels, Cause::late_host, Cause::stall};
    const Training training = random_training(seed, kinds[seed % 3]);
    const Verdict verdict = verdict_on(training);
    const bool is_right = verdict.late.straggler == training.culprit;
    found += is_right;
    if (!is_right)
      misses += fmt::format("{}: {}, said {}\n", seed, text_of(training),
                            verdict.late.straggler.value_or(-1));
    const auto expected = training.cause == Cause::slow_kernels ? run::Evidence::Kind::kernels
                                                                : run::Evidence::Kind::gaps;
    const bool is_cause = is_right && part_of(verdict) == expected;
    causes += is_cause;
    if (is_right && !is_cause) misses += fmt::format("{}: {}, cause\n", seed, text_of(training));
  }
  CAPTURE(misses);
  CHECK(found >= 95);
  CHECK(causes >= 95);
}

TEST_CASE("no rank is blamed in a random training whose ranks are alike") {
  int blamed = 0;
  std::string misses;
  for (uint64_t seed = 1001; seed <= 1100; ++seed) {
    const Training training = random_training(seed, Cause::none);
    const Verdict verdict = verdict_on(training);
    if (!verdict.late.straggler) continue;
    ++blamed;
    misses += fmt::format("{}: {}, said {}\n", seed, text_of(training), *verdict.late.straggler);
  }
  CAPTURE(misses);
  CHECK(blamed <= 5);
}

/// Replaces stamps of kernels: each by nothing, 0, NaN or 2^63.
void break_stamps(std::string& file, int64_t count, Rng& rng) {
  std::vector<size_t> kernels;
  for (size_t at = 0; (at = file.find(R"("cat":"kernel")", at)) != std::string::npos; ++at)
    kernels.push_back(at);
  constexpr std::array values = {"", "0", "NaN", "9223372036854775808"};
  for (; count > 0; --count) {
    const auto which = as_size(rng.upto(static_cast<int64_t>(kernels.size()) - 1));
    const std::string key = rng.upto(1) == 0 ? R"("ts":)" : R"("dur":)";
    size_t begin = file.find(key, kernels[which]);
    size_t end = file.find(',', begin);
    const std::string value = values[as_size(rng.upto(3))];
    if (value.empty()) ++end;
    if (!value.empty()) begin += key.size();
    if (begin >= file.find('\n', kernels[which])) continue;  // absent already
    file.replace(begin, end - begin, value);
    for (size_t& at : kernels)
      if (at > begin) at = at + value.size() - (end - begin);
  }
}

/// The timeline as the ranks' PyTorch profilers write it, and as it is read again; with up to
/// `broken` broken stamps in each file.
run::Timeline through_kineto(const run::Timeline& timeline, int64_t broken = 0, uint64_t seed = 0) {
  std::vector<trace::NamedTrace> files;
  Rng rng(seed);
  for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
    const std::string name = fmt::format("rank{}.json", rank);
    std::string text = trace::write_kineto(timeline, rank, 1);
    if (broken > 0) break_stamps(text, 1 + rng.upto(broken - 1), rng);
    trace::Input file = trace::Input::of_text(std::move(text), name);
    files.push_back({name, trace::read_kineto(file, {.rank = rank}).value()});
  }
  return trace::merge(std::move(files)).value().timeline;
}

TEST_CASE("broken stamps make no straggler and hide none") {
  int blamed = 0, found = 0, planted = 0;
  std::string misses;
  for (uint64_t seed = 2001; seed <= 2200; ++seed)
    for (const bool fair : {true, false}) {
      constexpr std::array kinds = {Cause::slow_kernels, Cause::late_host, Cause::stall};
      Training training = random_training(seed, fair ? Cause::none : kinds[seed % 3]);
      const auto whole = verdict_on(training).late.straggler;
      for (run::Span& span : training.timeline.spans) {  // 0 is no time of theirs
        span.begin = span.begin + 1 * unit::s;
        span.end = span.end + 1 * unit::s;
      }
      training.timeline = through_kineto(training.timeline, 10, seed);
      const auto said = verdict_on(training).late.straggler;
      const bool counts = !fair && whole == training.culprit;
      blamed += fair && said && !whole;
      planted += counts;
      found += counts && said == whole;
      if ((fair && said && !whole) || (counts && said != whole))
        misses += fmt::format("{}: {}, said {}\n", seed, text_of(training), said.value_or(-1));
    }
  MESSAGE(found, " of ", planted, " found, ", blamed, " of 200 blamed");
  CAPTURE(misses);
  CHECK(blamed == 0);
  CHECK(found >= 0.97 * planted);
}

TEST_CASE("clocks of a random training are found to within the scatter of ends") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Training training = random_training(seed, Cause::none);
    CAPTURE(seed);
    CAPTURE(text_of(training));
    const CollectiveMatch match = match_collectives(training.timeline);
    CHECK(match.unmatched == 0);
    CHECK(match.remarks.empty());
    const ClockFit fit = fit_clocks(match.collectives);
    CHECK(fit.islands == 1);
    CHECK(clock_error(training, fit) <= most_jitter);
    CHECK(fit.worst_residual <= 4 * most_jitter);
  }
}

TEST_CASE("a pipeline's messages are matched by their ranks, not by number") {
  int pipelines = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Training training = random_training(seed, Cause::none);
    if (training.pp < 4 || training.ranks() > 16) continue;
    ++pipelines;
    const CollectiveMatch match = match_collectives(through_kineto(training.timeline));
    CHECK(match.unmatched == 0);
    int64_t messages = 0;
    for (const metrics::Collective& collective : match.collectives) {
      if (!collective.is_message) continue;
      ++messages;
      REQUIRE(collective.parts.size() == 2);
      // Neighbouring stages.
      CHECK(collective.parts[1].rank - collective.parts[0].rank == training.tp * training.dp);
    }
    CHECK(messages > 0);
    const ClockFit fit = fit_clocks(match.collectives);
    CHECK(clock_error(training, fit) <= most_jitter);
  }
  CHECK(pipelines >= 3);
}

TEST_CASE("exposed communication divides into transfer, the pipeline and late peers") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Training training = random_training(seed, Cause::none);
    CAPTURE(text_of(training));
    const run::Timeline aligned = align_clocks(
        training.timeline, fit_clocks(match_collectives(training.timeline).collectives));
    const auto waits = exposed_waits(aligned, match_collectives(aligned));
    int64_t pipeline = 0, late_peers = 0;
    for (const RankBreakdown& rank : breakdown_of_ranks(aligned)) {
      const ExposedWaits& wait = waits.at(as_size(rank.rank));
      CHECK(wait.pipeline + wait.late_peers <= rank.exposed_communication);
      pipeline += wait.pipeline;
      late_peers += wait.late_peers;
    }
    // All ranks meet once a step, so some wait there; for the pipeline where there is one.
    CHECK(late_peers > 0);
    CHECK((pipeline > 0) == (training.pp > 1));
    run::Timeline ring = aligned;  // the same messages between context ranks
    for (run::SpanType& type : ring.types)
      if (type.collective == spec::Collective::send_recv) type.group = spec::GroupKind::context;
    for (const ExposedWaits& wait : exposed_waits(ring, match_collectives(ring)))
      CHECK(wait.pipeline == 0);
  }
}

TEST_CASE("messages without peers are matched in groups of two only, and it is said") {
  for (const int32_t stages : {2, 4}) {
    Training training;
    for (uint64_t seed = 1; training.pp != stages || training.ranks() > 16; ++seed)
      training = random_training(seed, Cause::none);
    for (run::Communicator& group : training.timeline.communicators)
      group.peer = -1;
    const CollectiveMatch match = match_collectives(training.timeline);
    CHECK((match.unmatched == 0) == (stages == 2));
    REQUIRE(match.remarks.size() == (stages == 2 ? 0 : 1));
    if (stages == 4) CHECK(match.remarks[0].find("names no peer") != std::string::npos);
  }
}

TEST_CASE("clocks of hosts are found where most collectives stay inside a host") {
  Training training;
  for (uint64_t seed = 1; training.tp != 4 || training.dp < 2 || training.pp != 1; ++seed)
    training = random_training(seed, Cause::none);
  // Host 0 has the first half of the ranks; the other is 5 ms ahead.
  ClockFit as_set;
  for (int32_t rank = 0; rank < training.ranks(); ++rank) {
    const int64_t wanted = rank < training.ranks() / 2 ? 0 : 5'000'000;
    int64_t& clock = training.clock[as_size(rank)];
    as_set.ranks.push_back({.rank = rank, .offset = clock - wanted});
    clock = wanted;
  }
  const run::Timeline timeline = align_clocks(training.timeline, as_set);
  const ClockFit fit = fit_clocks(match_collectives(timeline).collectives);
  CHECK(fit.clocks_differ());
  CHECK(clock_error(training, fit) <= most_jitter);
  CHECK(clock_sentence(fit, true).find("worst") != std::string::npos);
}

TEST_CASE("no more is blamed on ranks than was waited") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Verdict verdict = verdict_on(random_training(seed, Cause::late_host));
    int64_t blamed = 0;
    for (const metrics::RankLateness& rank : verdict.late.ranks)
      blamed += rank.blamed;
    CAPTURE(seed);
    CHECK(blamed <= verdict.late.waits());
  }
}

TEST_CASE("what follows a late rank is said to come from its delays") {
  Training training;
  for (uint64_t seed = 1; training.tp < 2 || training.dp < 2 || training.pp > 1; ++seed)
    training = random_training(seed, Cause::late_host);
  const Verdict verdict = verdict_on(training);
  REQUIRE(verdict.late.straggler == training.culprit);
  const SpanList spans(verdict.timeline);
  int inherited = 0;
  for (const LateStart& start : verdict.late.starts)
    if (start.rank != training.culprit)
      inherited +=
          cause_text(start, spans) == fmt::format("delays of rank {} before it", training.culprit);
  CHECK(inherited > 0);
}

}  // namespace
}  // namespace triplepoint::trace_report
