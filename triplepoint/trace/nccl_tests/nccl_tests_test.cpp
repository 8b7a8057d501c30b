// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/nccl_tests/nccl_tests.h"

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

namespace triplepoint::trace {

namespace {

NcclTests parsed(std::string text) {
  Input input = Input::of_text(std::move(text), "out.txt");
  auto tests = parse_nccl_tests(input);
  REQUIRE_MESSAGE(tests, tests.error().what);
  return *tests;
}

/// What all_reduce_perf on `ranks` devices prints; before 2022 with errors in place of counts of
/// wrong elements, and without `root`.
std::string output(int ranks, bool old) {
  std::string text =
      "$ mpirun -np 8 ./build/all_reduce_perf -b 8M -e 32M -f 2\n# nThread 1 nGpus 1\n#\n# Using "
      "devices\n";
  for (int rank = 0; rank < ranks; ++rank)
    text += fmt::format("#   Rank {:2} Pid {} on node0 device {:2} [0x07] NVIDIA H100 80GB HBM3\n",
                        rank, 1000 + rank, rank);
  text += "#\n#                              out-of-place                       in-place\n";
  text += old ? "#       size         count      type   redop     time   algbw   busbw  error     "
                "time   algbw   busbw  error\n"
              : "#       size         count      type   redop    root     time   algbw   busbw "
                "#wrong     time   algbw   busbw #wrong\n";
  text +=
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
      "(us)\n";
  for (double size = 8 << 20; size <= 32 << 20; size *= 2) {
    const auto half = [&](double us) {
      const double algbw = size / us / 1e3;
      return fmt::format(" {:8.2f} {:7.2f} {:7.2f} {:>6}", us, algbw,
                         algbw * 2 * (ranks - 1) / ranks, old ? "4e-07" : "0");
    };
    text += fmt::format("{:12.0f} {:12.0f}     float     sum{}{}{}\n", size, size / 4,
                        old ? "" : "      -1", half(size / 2e5), half(size / 2.1e5));
    text += "node0:1000:1000 [0] NCCL INFO comm 0x7f rank 0 nranks 8\n";
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 350.123\n#\n";
}

}  // namespace

TEST_CASE("tables of nccl-tests of both vintages give one row per measurement") {
  for (const bool old : {false, true}) {
    const NcclTests tests = parsed(output(8, old));
    CHECK(tests.ranks == 8);
    CHECK(tests.skipped == 0);
    REQUIRE(tests.rows.size() == 6);
    for (const NcclTestRow& row : tests.rows) {
      CHECK(collective_of(row) == spec::Collective::all_reduce);
      CHECK(row.type == "float");
      CHECK(row.reduction == "sum");
      CHECK(row.count * 4. * unit::B == row.size);
      CHECK(row.wrong == (old ? std::nullopt : std::optional<int64_t>(0)));
      CHECK(row.error == (old ? std::optional(4e-7) : std::nullopt));
      // What nccl-tests itself says of these columns.
      CHECK(row.algorithm_bandwidth / (row.size / row.time) == doctest::Approx(1).epsilon(1e-3));
      CHECK(row.bus_bandwidth / row.algorithm_bandwidth == doctest::Approx(1.75).epsilon(1e-3));
    }
    CHECK_FALSE(tests.rows[0].in_place);
    CHECK(tests.rows[1].in_place);
  }
}

TEST_CASE("prefixed lines, other titles and JSON give the same rows") {
  const NcclTests plain = parsed(output(8, false));
  std::string tagged, stamped;
  for (const std::string& line : split(output(8, false), '\n')) {
    tagged += "[1,0]<stdout>:" + line + "\n";
    stamped += "0: launcher-x1 | " + line +
               (contains(line, "algbw")   ? "    i_min  timestamp"
                : contains(line, "float") ? "    1.5 2026-07-09 10:11:12"
                                          : "") +
               "\n";
  }
  for (size_t at = stamped.find(" time "); at != std::string::npos; at = stamped.find(" time ", at))
    stamped.replace(at, 6, " cputime ");
  CHECK(parsed(tagged).rows == plain.rows);
  CHECK(parsed(stamped).rows == plain.rows);
  const NcclTests lines = parsed(
      R"({"#wrong":"0","algBw":0.5,"busBw":0.75,"gpus":4,"inPlace":0,"name":"ReduceScatter","redop":"sum","size":1024,"time":19.5,"type":"float"})"
      "\n"
      R"({"#wrong":"0","algBw":0.5,"busBw":null,"gpus":4,"inPlace":1,"name":"ReduceScatter","size":1024,"time":19.5})");
  REQUIRE(lines.rows.size() == 1);
  CHECK(collective_of(lines.rows[0]) == spec::Collective::reduce_scatter);
  CHECK(lines.ranks == 4);
  CHECK(lines.skipped == 1);
  const std::string whole =
      R"({"devices": [{"rank": 0}, {"rank": 1}],
          "results": [{"size": 64, "count": 16, "type": "float", "redop": "none",
          "out_of_place": {"time": 2, "alg_bw": 3, "bus_bw": 4, "nwrong": 0.0}, "in_place": null}]})";
  REQUIRE(parsed(whole).rows.size() == 1);
  CHECK(parsed(whole).ranks == 2);
  CHECK(looks_like_nccl_tests(whole));
}

TEST_CASE("several programs in one output keep their operations apart") {
  std::string gather = output(4, false);
  gather.replace(gather.find("all_reduce_perf"), 15, "all_gather_perf");
  const NcclTests tests = parsed(output(8, false) + gather);
  REQUIRE(tests.rows.size() == 12);
  CHECK(tests.rows[5].operation == "all_reduce");
  CHECK(tests.rows[6].operation == "all_gather");
  CHECK(tests.ranks == 4);
}

TEST_CASE("operations without reduction and checks that are off are read, broken rows counted") {
  const NcclTests tests = parsed(
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n"
      "     1048576        262144     float    none      -1    25.20   41.61   36.41    N/A    "
      "25.0   41.94   36.70    N/A\n"
      "     2097152        524288     float    none      -1    25.20\n"
      "     2097152        524288     float    none      -1    -1.0   41.61   36.41    N/A    "
      "25.0   41.94   36.70    N/A\n");
  REQUIRE(tests.rows.size() == 2);
  CHECK(tests.rows[0].reduction.empty());
  CHECK_FALSE(tests.rows[0].wrong);
  CHECK_FALSE(collective_of(tests.rows[0]));
  CHECK(tests.skipped == 2);  // cut, and negative
}

TEST_CASE("an output without a table is an error") {
  Input input = Input::of_text("# nThread 1\n 1 2 3\n", "x");
  CHECK_FALSE(parse_nccl_tests(input));
}

}  // namespace triplepoint::trace
