// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/trace/read.h"

namespace triplepoint::trace {
namespace {

// Real traces, read where the folder of samples is there. Their figures were computed once with
// exact interval arithmetic by another program; the sum here is the plainest there is.

using Intervals = std::vector<std::pair<int64_t, int64_t>>;

int64_t union_length(Intervals all) {
  std::ranges::sort(all);
  int64_t length = 0, reached = INT64_MIN;
  for (const auto& [begin, end] : all) {
    if (end > reached) length += end - std::max(begin, reached);
    reached = std::max(reached, end);
  }
  return length;
}

struct Breakdown {
  Intervals compute, communication, copy;
};

Breakdown breakdown(const Trace& trace, int32_t rank) {
  Breakdown parts;
  for (const run::Span& span : trace.timeline.spans) {
    if (span.rank != rank) continue;
    const std::pair interval(span.begin.nanoseconds(), span.end.nanoseconds());
    switch (trace.timeline.types[as_size(span.type)].kind) {
      case run::SpanKind::communication:
        parts.communication.push_back(interval);
        break;
      case run::SpanKind::copy:
        parts.copy.push_back(interval);
        break;
      case run::SpanKind::compute:
      case run::SpanKind::memory:
      case run::SpanKind::other:
        parts.compute.push_back(interval);
        break;
      default:
        break;
    }
  }
  return parts;
}

Intervals together(Intervals a, const Intervals& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// "span busy compute communication copy both", microseconds to one decimal.
std::string figures(const Trace& trace, int32_t rank) {
  const Breakdown parts = breakdown(trace, rank);
  const Intervals kernels = together(parts.compute, parts.communication);
  const Intervals all = together(kernels, parts.copy);
  const auto first = std::ranges::min_element(all)->first;
  int64_t last = first;
  for (const auto& [begin, end] : all)
    last = std::max(last, end);
  const int64_t compute = union_length(parts.compute);
  const int64_t communication = union_length(parts.communication);
  const auto us = [](int64_t ns) { return as_real(ns) / 1000; };
  return fmt::format("{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", us(last - first),
                     us(union_length(all)), us(compute), us(communication),
                     us(union_length(parts.copy)),
                     us(compute + communication - union_length(kernels)));
}

std::optional<Trace> sample(const char* name) {
  const std::filesystem::path path =
      std::filesystem::path(TPT_SHARED_DIR) / "data" / "traces" / name;
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: " << path.string() << " is not there");
    return std::nullopt;
  }
  const Result<Trace> trace = read_trace(path);
  REQUIRE_MESSAGE(trace, trace.error().what);
  CHECK(trace->skipped == Skipped{});
  return *trace;
}

TEST_CASE("the A100 sample breaks down to the published figures") {
  if (const auto trace = sample("a100_nccl_data.json.gz"))
    CHECK(figures(*trace, 0) == "660551.0 157500.0 115655.8 46876.5 2653.5 7317.0");
}

TEST_CASE("the MI300X sample breaks down to the published figures") {
  if (const auto trace = sample("mi300_resnet_act_checkpoint.json.gz"))
    CHECK(figures(*trace, 0) == "86567.7 84002.1 25739.3 71516.5 2974.2 15891.3");
}

TEST_CASE("the eight ranks of the DLRM sample break down to the published figures") {
  constexpr std::array<std::array<int, 3>, 8> published = {{{13009, 1034, 5798},
                                                            {18749, 1246, 11336},
                                                            {11350, 1068, 3492},
                                                            {18853, 1240, 9774},
                                                            {16589, 1126, 6587},
                                                            {16392, 1041, 6251},
                                                            {11410, 1051, 3558},
                                                            {10967, 1059, 1746}}};
  const auto trace = sample("dlrm_8rank_kineto.tar.gz");
  if (!trace) return;
  REQUIRE(trace->timeline.num_ranks == 8);
  for (int32_t rank = 0; rank < 8; ++rank) {
    const auto& [span, compute, communication] = published.at(as_size(rank));
    const std::string all = figures(*trace, rank);
    CHECK(all.starts_with(fmt::format("{}.0 ", span)));
    CHECK(all.find(fmt::format(" {}.0 {}.0 ", compute, communication)) != std::string::npos);
  }
}

TEST_CASE("the DLRM sample has eight collectives on every rank, alike in kind and size") {
  const auto trace = sample("dlrm_8rank_kineto.tar.gz");
  if (!trace) return;
  const run::Timeline& t = trace->timeline;
  std::vector<std::vector<std::string>> of_rank(8);
  for (size_t i = 0; i < t.spans.size(); ++i) {
    const run::SpanType& type = t.types[as_size(t.spans[i].type)];
    if (type.kind != run::SpanKind::communication) continue;
    REQUIRE(type.collective);
    of_rank[as_size(t.spans[i].rank)].push_back(fmt::format(
        "{} {} {}", t.details[i].communicator, t.details[i].sequence, name_of(*type.collective)));
  }
  for (const auto& collectives : of_rank) {
    CHECK(collectives.size() == 8);
    CHECK(collectives == of_rank[0]);
  }
}

}  // namespace
}  // namespace triplepoint::trace
