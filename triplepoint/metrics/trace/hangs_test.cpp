// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/hangs.h"

#include <doctest/doctest.h>

namespace triplepoint::metrics {
namespace {

using run::IssueState;
using Ranks = std::vector<int32_t>;

/// Dumps of ranks: what each issued in a group of all of them, from number 1 on.
class Dumps {
 public:
  explicit Dumps(int32_t ranks) {
    timeline_.num_ranks = ranks;
    run::Communicator all{.name = "0 default_pg", .size = ranks};
    for (int32_t rank = 0; rank < ranks; ++rank) {
      all.ranks.push_back(rank);
      timeline_.lanes.push_back({rank, run::Stream::host, 0, "process group 0 default_pg"});
    }
    timeline_.communicators.push_back(all);
  }
  void issue(int32_t rank, int64_t number, IssueState state, const char* call = "nccl:all_reduce",
             int64_t elements = 64) {
    run::SpanType type{.name = run::issued_name(call, state),
                       .kind = run::SpanKind::host,
                       .stream = run::Stream::host,
                       .op_class = spec::OpClass::communication,
                       .collective = std::string(call) == "nccl:all_reduce"
                                         ? spec::Collective::all_reduce
                                         : spec::Collective::all_gather};
    const Instant at(1000 * number + rank);
    timeline_.spans.push_back({at, at, timeline_.intern(type), rank});
    timeline_.details.push_back(
        {.lane = rank, .communicator = 0, .sequence = number, .in_elements = elements});
  }
  HangReport report() {
    run::sort(timeline_);
    const auto report = find_hang(timeline_);
    REQUIRE(report);
    return *report;
  }
  run::Timeline& timeline() { return timeline_; }

 private:
  run::Timeline timeline_;
};

TEST_CASE("who never issued what the others wait in is missing, also if its dump is empty") {
  for (const bool empty : {false, true}) {
    Dumps dumps(4);
    for (int32_t rank = 0; rank < 4; ++rank)
      for (int64_t number = 1; number <= 3; ++number)
        if (rank != 2 || (!empty && number < 3))
          dumps.issue(rank, number, number < 3 ? IssueState::completed : IssueState::scheduled);
    const HangReport report = dumps.report();
    CHECK(report.missing == Ranks{2});
    CHECK(report.differing.empty());
    CHECK(report.waiting == 1);  // of three ranks
    REQUIRE(report.pending.size() == 1);
    CHECK(report.pending[0].sequence == 3);
    CHECK(report.pending[0].never == Ranks{2});
    CHECK(hang_sentences(dumps.timeline(), report)[0].starts_with(
        "Rank 2 never issued number 3 of group 0 default_pg"));
  }
}

TEST_CASE("a rank that was not given, or is ahead, is not missing") {
  Dumps dumps(4);
  dumps.timeline().lanes.pop_back();  // nothing is known of rank 3
  for (const int32_t rank : {0, 1})
    dumps.issue(rank, 5, IssueState::started);
  dumps.issue(2, 6, IssueState::scheduled);  // it has finished number 5
  dumps.issue(0, 6, IssueState::scheduled);
  dumps.issue(1, 6, IssueState::scheduled);
  const HangReport report = dumps.report();
  CHECK(report.missing.empty());
  CHECK(report.pending[0].unknown == Ranks{3});
}

TEST_CASE("who issued another collective, or another size, than most is named") {
  for (const bool kind : {true, false}) {
    Dumps dumps(3);
    for (int32_t rank = 0; rank < 3; ++rank)
      dumps.issue(rank, 1, IssueState::started,
                  kind && rank == 1 ? "nccl:all_gather" : "nccl:all_reduce",
                  !kind && rank == 1 ? 65 : 64);
    const HangReport report = dumps.report();
    CHECK(report.differing == Ranks{1});
    CHECK(report.pending[0].kinds_differ == kind);
    CHECK(report.pending[0].sizes_differ == !kind);
    CHECK(report.missing.empty());
  }
}

TEST_CASE("a size that is not known differs from none, and of two ranks neither is the odd one") {
  Dumps dumps(2);
  dumps.issue(0, 1, IssueState::started, "nccl:all_reduce", 64);
  dumps.issue(1, 1, IssueState::started, "nccl:all_reduce", -1);
  CHECK_FALSE(dumps.report().pending[0].sizes_differ);
  Dumps two(2);
  two.issue(0, 1, IssueState::started);
  two.issue(1, 1, IssueState::started, "nccl:all_gather");
  const HangReport report = two.report();
  CHECK(hang_sentences(two.timeline(), report)[0].starts_with(
      "Ranks 0 and 1 issued different collectives as number 1"));
}

TEST_CASE("parts of an operation that was not closed are one issue of their rank") {
  Dumps dumps(2);
  for (int part = 0; part < 3; ++part)
    dumps.issue(0, 1, IssueState::scheduled);
  CHECK(dumps.report().pending[0].parts.size() == 1);
  CHECK(dumps.report().pending[0].spread() == 0);
}

TEST_CASE("where all ranks issued everything, who came last is told, and no rank is missing") {
  Dumps dumps(2);
  dumps.issue(0, 1, IssueState::scheduled);
  dumps.issue(1, 1, IssueState::scheduled);
  dumps.timeline().spans.back().begin = dumps.timeline().spans.back().end = Instant(6'000'000);
  const HangReport report = dumps.report();
  CHECK(report.missing.empty());
  REQUIRE(report.latest);
  CHECK(report.latest->last_issued().rank == 1);
  CHECK(report.latest->spread() == 6'000'000 - 1000);
  CHECK_FALSE(find_hang(run::Timeline{}));
}

}  // namespace
}  // namespace triplepoint::metrics
