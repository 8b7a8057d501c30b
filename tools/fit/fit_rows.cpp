// SPDX-License-Identifier: Apache-2.0
#include "fit_rows.h"

#include <map>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

namespace triplepoint::fit {
namespace {

using spec::OpClass;
using spec::Precision;

/// A table whose columns are asked for by name.
class Table {
 public:
  static Result<Table> read(const std::string& path) {
    std::string text = TPT_TRY(read_file(path));
    return Table(TPT_TRY(CsvTable::parse(std::move(text), path)));
  }
  std::size_t rows() const { return csv_.rows(); }
  std::string text(std::size_t row, const char* column) const {
    return std::string(csv_.at(row, csv_.column(column).value()));
  }
  double number(std::size_t row, const char* column) const {
    return csv_.number(row, csv_.column(column).value()).value().value_or(0);
  }
  int64_t count(std::size_t row, const char* column) const {
    return static_cast<int64_t>(number(row, column));
  }

 private:
  explicit Table(CsvTable csv) : csv_(std::move(csv)) {}
  CsvTable csv_;
};

uint64_t mix(uint64_t seed, int64_t value) {
  seed ^= static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15U + (seed << 6U) + (seed >> 2U);
  return seed * 0xff51afd7ed558ccdU;
}

double power_share(const Table& table, std::size_t row) {
  const double limit = table.number(row, "power_limit_w");
  return limit > 0 ? table.number(row, "power_w") / limit : 0;
}

Row gemm_row(const Table& table, std::size_t r) {
  Row row;
  spec::GemmShape& g = row.op.gemm;
  g = {.m = table.count(r, "m"), .n = table.count(r, "n"), .k = table.count(r, "k"), .count = 1};
  const bool fp8 = table.text(r, "dtype") != "bfloat16";
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n),
               k = static_cast<double>(g.k);
  row.op.op_class = OpClass::gemm;
  row.op.precision = fp8 ? Precision::fp8 : Precision::bf16;
  row.op.flops = 2 * m * n * k * unit::FLOP;
  row.op.hbm_bytes = ((fp8 ? 1 : 2) * (m * k + k * n) + 2 * m * n) * unit::B;
  row.measured = table.number(r, "latency_ms") * unit::ms;
  row.power_share = power_share(table, r);
  row.shape = mix(mix(mix(1, g.m), g.n), g.k);
  return row;
}

Row attention_row(const Table& table, std::size_t r) {
  Row row;
  spec::AttentionShape& a = row.op.attention;
  const int64_t length = table.count(r, "seq");
  a = {.batch = table.count(r, "batch"),
       .heads = table.count(r, "heads"),
       .query_groups = table.count(r, "kv_heads"),
       .query_length = length,
       .key_length = length,
       .head_dim = table.count(r, "head_dim"),
       .causal = true};
  const double tokens = static_cast<double>(a.batch * length), l = static_cast<double>(length),
               d = static_cast<double>(a.head_dim), heads = static_cast<double>(a.heads);
  row.op.op_class = OpClass::attention;
  row.op.flops = 2 * tokens * l * heads * d * unit::FLOP;  // half of the square
  row.op.hbm_bytes =
      2 * tokens * d * (2 * heads + 2 * static_cast<double>(a.query_groups)) * unit::B;
  row.measured = table.number(r, "latency_ms") * unit::ms;
  row.power_share = power_share(table, r);
  row.shape = mix(mix(mix(mix(mix(2, a.batch), length), a.heads), a.query_groups), a.head_dim);
  return row;
}

Row collective_row(const Table& table, std::size_t r) {
  static const std::map<std::string, spec::Collective> names = {
      {"all_reduce", spec::Collective::all_reduce},
      {"all_gather", spec::Collective::all_gather},
      {"reduce_scatter", spec::Collective::reduce_scatter},
      {"alltoall", spec::Collective::all_to_all}};
  Row row;
  row.op.op_class = OpClass::communication;
  row.op.collective = names.at(table.text(r, "op"));
  row.op.payload = 2 * table.number(r, "message_size_elements") * unit::B;
  row.ranks = table.count(r, "num_gpus");
  row.measured = table.number(r, "latency_ms") * unit::ms;
  row.shape = mix(3, static_cast<int64_t>(row.op.payload / unit::B));
  return row;
}

}  // namespace

Result<std::vector<Row>> read_gemms(const std::string& path, const std::string& system,
                                    const std::string& dtype) {
  const Table table = TPT_TRY(Table::read(path));
  std::vector<Row> rows;
  for (std::size_t r = 0; r < table.rows(); ++r)
    if (table.text(r, "system") == system && table.text(r, "dtype") == dtype)
      rows.push_back(gemm_row(table, r));
  return rows;
}

Result<std::vector<Row>> read_attentions(const std::string& path, const std::string& system) {
  const Table table = TPT_TRY(Table::read(path));
  std::vector<Row> rows;
  for (std::size_t r = 0; r < table.rows(); ++r)
    if (table.text(r, "system") == system) rows.push_back(attention_row(table, r));
  return rows;
}

Result<std::vector<Row>> read_collectives(const std::string& path, const std::string& system,
                                          const std::string& version) {
  const Table table = TPT_TRY(Table::read(path));
  std::vector<Row> rows;
  for (std::size_t r = 0; r < table.rows(); ++r)
    // Switches do not reduce 8-bit integers, and nobody trains on them.
    if (table.text(r, "system") == system && table.text(r, "nccl_version") == version &&
        table.text(r, "dtype") == "half")
      rows.push_back(collective_row(table, r));
  return rows;
}

}  // namespace triplepoint::fit
