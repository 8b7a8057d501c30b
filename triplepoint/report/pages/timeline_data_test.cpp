// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/random.h"

#include "triplepoint/report/pages/run_page.h"

namespace triplepoint::report {
namespace {

/// The decoder of web/src/timeline_data.ts, in C++.
std::vector<int64_t> decoded(const Json& column, std::size_t count) {
  if (column.is_number()) return std::vector<int64_t>(count, column.get<int64_t>());
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t group = 0;
  int bits = 0;
  for (const char c : column.get<std::string>()) {
    if (c == '=') break;
    group = group << 6U | static_cast<uint32_t>(letters.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(group >> static_cast<unsigned>(bits) & 0xFFU);
  }
  std::vector<int64_t> values;
  int64_t value = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    uint64_t zigzag = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      zigzag |= static_cast<uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80U) break;
    }
    const auto half = static_cast<int64_t>(zigzag / 2);
    value += zigzag % 2 == 0 ? half : -half - 1;
    values.push_back(value);
  }
  return values;
}

run::Span span(int32_t rank, int64_t begin, int64_t end, int32_t type = 0) {
  run::Span made;
  made.begin = Instant(begin);
  made.end = Instant(end);
  made.rank = rank;
  made.type = type;
  return made;
}

run::Run run_of(std::vector<run::Span> spans, int32_t ranks) {
  run::Run run;
  run.timeline.types = {{.name = "gemm", .kind = run::SpanKind::compute},
                        {.name = "call", .kind = run::SpanKind::host, .stream = run::Stream::host}};
  run.timeline.spans = std::move(spans);
  run.timeline.num_ranks = ranks;
  run::sort(run.timeline);
  return run;
}

TEST_CASE("timeline data: a column comes back as it was") {
  for (const std::vector<int64_t>& values :
       {std::vector<int64_t>{5, 5, 5}, {0}, {-1, 7, -300, 1LL << 51U, 0}, {1, 2, 3, 4}}) {
    CHECK(decoded(encoded_column(values), values.size()) == values);
  }
  CHECK(encoded_column({7, 7}).is_number());
  CHECK(encoded_column({}) == 0);
}

TEST_CASE("timeline data: a run without a timeline has none") {
  CHECK(timeline_data(run::Run()).is_null());
}

TEST_CASE("timeline data: spans keep their times, counted from the first") {
  const Json data = timeline_data(run_of({span(0, 100, 150), span(1, 130, 170)}, 2));
  CHECK(data["begin"] == 100);
  CHECK(data["length"] == 70);
  CHECK(decoded(data["spans"]["begin"], 2) == std::vector<int64_t>{0, 30});
  CHECK(decoded(data["spans"]["length"], 2) == std::vector<int64_t>{50, 40});
  CHECK(decoded(data["spans"]["rank"], 2) == std::vector<int64_t>{0, 1});
}

TEST_CASE("timeline data: ranks that do the same are one row") {
  const Json data =
      timeline_data(run_of({span(0, 0, 9), span(1, 0, 9), span(2, 0, 8), span(3, 0, 9)}, 4));
  REQUIRE(data["ranks"].size() == 2);
  CHECK(data["ranks"][0]["like"] == Json({1, 3}));
  CHECK(data["ranks"][1]["rank"] == 2);
  CHECK(data["note"].get<std::string>().find("4 ranks in 2 rows") != std::string::npos);
}

TEST_CASE("timeline data: spans that overlap in a lane get their own lanes") {
  const Json data = timeline_data(run_of({span(0, 0, 9), span(0, 2, 5), span(0, 9, 12)}, 1));
  const auto lanes = decoded(data["spans"]["lane"], 3);
  CHECK(lanes[0] != lanes[1]);
  CHECK(lanes[0] == lanes[2]);
  CHECK(data["ranks"][0]["lanes"] == Json({"compute", "compute (2)"}));
}

TEST_CASE(
    "timeline data: beyond the limit host spans go first, then the shortest, and it is said") {
  const std::vector<run::Span> spans = numbered(
      100, [](int64_t i) { return span(0, 100 * i, 100 * i + i + 1, i % 2 == 0 ? 0 : 1); });
  const run::Run run = run_of(spans, 1);
  const Json some = timeline_data(run, 60);
  CHECK(some["spans"]["count"] == 50);
  CHECK(some["note"].get<std::string>().find("50 host spans are left out") != std::string::npos);
  const Json few = timeline_data(run, 10);
  CHECK(few["spans"]["count"].get<int>() <= 10);
  CHECK(few["note"].get<std::string>().find("shorter than") != std::string::npos);
  for (const int64_t length : decoded(few["spans"]["length"], 10))
    CHECK(length > 80);
}

TEST_CASE("timeline data: patterns are sent once, however often they repeat") {
  run::Run run = run_of({}, 4);
  run::PatternPiece piece{{span(0, 0, 10), span(0, 10, 30)}, 12, 30 * unit::ns, 0};
  run.timeline.patterns = {{"forward", {piece}}};
  for (int32_t rank = 0; rank < 4; ++rank)
    for (int32_t i = 0; i < 50; ++i)
      run.timeline.instances.push_back({Instant(1000 * i + rank), 0, rank, rank, i});
  const Json data = timeline_data(run);
  CHECK(data["piece_spans"]["count"] == 2);
  CHECK(data["patterns"][0]["pieces"][0]["repeat"] == 12);
  CHECK(data["instances"]["count"] == 200);
  CHECK(decoded(data["instances"]["microbatch"], 200)[51] == 1);
  CHECK(data["ranks"][2]["stage"] == 2);
  CHECK(json_text(data, -1).size() < 3000);
}

}  // namespace
}  // namespace triplepoint::report
