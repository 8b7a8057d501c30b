// SPDX-License-Identifier: Apache-2.0
// The shipped coefficients against the public tables they were fitted to (held-out figures:
// docs/models/). The tables are not part of the repository; without them these tests say so.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/perf/kernel_time.h"

namespace triplepoint::perf {
namespace {

using spec::Op;

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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double median_error(const CsvTable& measured, const std::function<bool(const Row&)>& belongs,
                    const std::function<Seconds(const Row&)>& predict) {
  std::vector<double> errors;
  for (size_t r = 0; r < measured.rows(); ++r) {
    const Row row{measured, r};
    if (!belongs(row)) continue;
    errors.push_back(std::abs(predict(row) / (row.number("latency_ms") * unit::ms) - 1));
  }
  REQUIRE(errors.size() > 20);
  return median(errors);
}

Op gemm(const Row& row) {
  Op op;
  op.op_class = spec::OpClass::gemm;
  op.gemm = {.m = row.count("m"), .n = row.count("n"), .k = row.count("k")};
  const double m = row.number("m"), n = row.number("n"), k = row.number("k");
  op.flops = 2 * m * n * k * unit::FLOP;
  op.hbm_bytes = 2 * (m * k + k * n + m * n) * unit::B;
  return op;
}

struct GemmTable {
  const char *gpu, *system;
  double most_power;  // share of the limit: rows at the cap ran at a lower clock
};

TEST_CASE("GEMM tables are met: 6 % median for large ones, 15 % for small") {
  const auto measured = table("gemm_power.csv");
  if (!measured) return;
  for (const GemmTable& t :
       {GemmTable{"a100-80gb", "a100_sxm", 1}, GemmTable{"h100", "h100_sxm", 1},
        GemmTable{"b200", "b200_sxm", 0.97}}) {
    CAPTURE(t.gpu);
    const spec::Gpu gpu = spec::load_gpu(spec::default_library(), t.gpu).value();
    const auto belongs = [&](const Row& row, bool large) {
      const double limit = row.number("power_limit_w");
      return row.text("system") == t.system && row.text("dtype") == "bfloat16" &&
             (limit == 0 || row.number("power_w") < t.most_power * limit) &&
             (row.number("latency_ms") >= 0.1) == large;
    };
    const auto predict = [&](const Row& row) { return kernel_time(gpu, gemm(row)).at(1); };
    CHECK(median_error(
              *measured, [&](const Row& r) { return belongs(r, true); }, predict) < 0.06);
    CHECK(median_error(
              *measured, [&](const Row& r) { return belongs(r, false); }, predict) < 0.15);
  }
}

TEST_CASE("a capped H200 runs large GEMMs slower than the clock it could have, by 5 to 20 %") {
  const auto measured = table("gemm_power.csv");
  if (!measured) return;
  const spec::Gpu gpu = spec::load_gpu(spec::default_library(), "h200").value();
  std::vector<double> ratios;
  for (size_t r = 0; r < measured->rows(); ++r) {
    const Row row{*measured, r};
    if (row.text("system") != "h200_sxm" || row.text("dtype") != "bfloat16") continue;
    if (row.number("power_w") < 0.98 * row.number("power_limit_w")) continue;
    if (row.number("latency_ms") < 0.1) continue;
    ratios.push_back(row.number("latency_ms") * unit::ms / kernel_time(gpu, gemm(row)).at(1));
  }
  REQUIRE(ratios.size() > 1000);
  CHECK(median(ratios) > 1.05);
  CHECK(median(ratios) < 1.20);
}

TEST_CASE("the B200 attention table is met: 6 % median for kernels of 100 us and more") {
  const auto measured = table("attention_power.csv");
  if (!measured) return;
  const spec::Gpu gpu = spec::load_gpu(spec::default_library(), "b200").value();
  const auto predict = [&](const Row& row) {
    Op op;
    op.op_class = spec::OpClass::attention;
    op.attention = {.batch = row.count("batch"),
                    .heads = row.count("heads"),
                    .query_groups = row.count("kv_heads"),
                    .query_length = row.count("seq"),
                    .key_length = row.count("seq"),
                    .head_dim = row.count("head_dim")};
    const double tokens = row.number("batch") * row.number("seq"), d = row.number("head_dim");
    op.flops = 2 * tokens * row.number("seq") * row.number("heads") * d * unit::FLOP;
    op.hbm_bytes = 4 * tokens * d * (row.number("heads") + row.number("kv_heads")) * unit::B;
    return kernel_time(gpu, op).at(1);
  };
  const auto belongs = [](const Row& row) {
    return row.number("latency_ms") >= 0.1 && row.number("head_dim") <= 256 &&
           row.number("power_w") < 0.9 * row.number("power_limit_w");
  };
  CHECK(median_error(*measured, belongs, predict) < 0.06);
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
