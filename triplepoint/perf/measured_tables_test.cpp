// SPDX-License-Identifier: Apache-2.0
// The shipped coefficients of links against the public tables they were fitted to (errors:
// validation/nccl/errors.csv; kernels: calibrate/kernel_tables_test.cpp). The tables are not part
// of the repository; without them these tests say so.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/perf/collective_time.h"

namespace triplepoint::perf {
namespace {

std::optional<CsvTable> table(const std::string& name) {
  const auto text = read_file(Path(TPT_SHARED_DIR) / "data" / name);
  if (!text) {
    MESSAGE("skipped: no ../shared/data/" << name);
    return std::nullopt;
  }
  return CsvTable::parse(*text, name).value();
}

/// The cells of one row by column title.
struct Row {
  const CsvTable& table;
  size_t row;
  std::string text(const char* column) const {
    return std::string(table.at(row, *table.column(column)));
  }
  double number(const char* column) const {
    return table.number(row, *table.column(column)).value().value_or(0);
  }
  int64_t count(const char* column) const { return static_cast<int64_t>(number(column)); }
};

double median_error(const CsvTable& measured, const std::function<bool(const Row&)>& belongs,
                    const std::function<Seconds(const Row&)>& predict) {
  std::vector<double> errors;
  for (size_t r = 0; r < measured.rows(); ++r) {
    const Row row{measured, r};
    if (!belongs(row)) continue;
    errors.push_back(std::abs(predict(row) / (row.number("latency_ms") * unit::ms) - 1));
  }
  REQUIRE(errors.size() > 20);
  return upper_median(errors);
}

spec::Collective collective_of(const std::string& name) {
  if (name == "all_gather") return spec::Collective::all_gather;
  if (name == "reduce_scatter") return spec::Collective::reduce_scatter;
  return name == "alltoall" ? spec::Collective::all_to_all : spec::Collective::all_reduce;
}

struct NcclTable {
  const char *cluster, *system, *version;
  bool nvls;
};

TEST_CASE("NCCL tables are met: 6 % median above 16 MiB, 20 % below 1 MiB") {
  const auto measured = table("nccl.csv");
  if (!measured) return;
  for (const NcclTable& t : {NcclTable{"dgx-a100", "a100_sxm", "2.27.3", false},
                             NcclTable{"hgx-h100", "h100_sxm", "2.29.2", true},
                             NcclTable{"dgx-b200", "b200_sxm", "2.29.2", false},
                             NcclTable{"dgx-b300", "b300_sxm", "2.29.2", false}}) {
    CAPTURE(t.cluster);
    spec::Cluster cluster = spec::load_cluster(spec::default_library(), t.cluster).value();
    cluster.scale_up.nvls = t.nvls;
    const auto bytes = [](const Row& row) { return 2 * row.number("message_size_elements"); };
    const auto belongs = [&](const Row& row) {
      return row.text("system") == t.system && row.text("nccl_version") == t.version &&
             row.text("dtype") == "half";
    };
    const auto predict = [&](const Row& row) {
      const GroupPlacement group{
          .ranks = row.count("num_gpus"), .nodes = 1, .ranks_per_node = row.count("num_gpus")};
      return collective_time(cluster, collective_of(row.text("op")), bytes(row) * unit::B, group)
          .total();
    };
    const auto large = [&](const Row& r) { return belongs(r) && bytes(r) >= 16777216; };
    const auto small = [&](const Row& r) { return belongs(r) && bytes(r) < 1048576; };
    CHECK(median_error(*measured, large, predict) < 0.06);
    CHECK(median_error(*measured, small, predict) < 0.20);
  }
}

TEST_CASE("H200 rings move large arrays at the published 361 to 367 GB/s") {
  const spec::Cluster cluster = spec::load_cluster(spec::default_library(), "hgx-h200").value();
  const GroupPlacement node{.ranks = 8, .nodes = 1, .ranks_per_node = 8};
  for (const auto collective : {spec::Collective::all_reduce, spec::Collective::all_gather,
                                spec::Collective::reduce_scatter}) {
    const Seconds t = collective_time(cluster, collective, 16 * unit::GiB, node).total();
    const BytesPerSecond bus = 16 * unit::GiB / t * bus_bandwidth_factor(collective, 8);
    CHECK(bus / (unit::GB / unit::s) == doctest::Approx(364).epsilon(0.05));
  }
}

}  // namespace
}  // namespace triplepoint::perf
