// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernels/kernel_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/spec/names.h"

namespace triplepoint::calibrate {
namespace {

using spec::OpClass;

void set_gemm(spec::Op& op, const Cells& cells) {
  op.op_class = OpClass::gemm;
  op.gemm = {.m = cells.count("m"),
             .n = cells.count("n"),
             .k = cells.count("k"),
             .count = std::max<int64_t>(1, cells.count("batch"))};
  const auto m = static_cast<double>(op.gemm.m), n = static_cast<double>(op.gemm.n),
             k = static_cast<double>(op.gemm.k), count = static_cast<double>(op.gemm.count);
  op.flops = 2 * m * n * k * count * unit::FLOP;
  op.hbm_bytes =
      (cells.number_or("operand_bytes", 2) * (m * k + k * n) + 2 * m * n) * count * unit::B;
}

void set_attention(spec::Op& op, const Cells& cells) {
  op.op_class = OpClass::attention;
  op.backward = cells.text("pass") == "backward";
  op.attention = {.batch = cells.count("batch"),
                  .heads = cells.count("heads"),
                  .query_groups = cells.count("kv_heads"),
                  .query_length = cells.count("seq"),
                  .key_length = cells.count("seq"),
                  .head_dim = cells.count("head_dim"),
                  .causal = cells.text("causal") != "false"};
  const spec::AttentionShape& shape = op.attention;
  const double tokens = static_cast<double>(shape.batch * shape.query_length),
               keys = static_cast<double>(shape.key_length),
               d = static_cast<double>(shape.head_dim), heads = static_cast<double>(shape.heads),
               groups = static_cast<double>(shape.query_groups);
  op.flops = (op.backward ? 2.5 : 1) * 4 * (shape.causal ? 0.5 : 1) * tokens * keys * heads * d *
             unit::FLOP;
  op.hbm_bytes = (op.backward ? 2 : 1) * 2 * tokens * d * (2 * heads + 2 * groups) * unit::B;
}

void set_power(KernelRow& row, const Cells& cells) {
  const auto power = cells.number("power_w"), limit = cells.number("power_limit_w");
  if (power) row.repetition = Repetition::looped;
  if (power && limit && *limit > 0) row.power_share = *power / *limit;
}

Seconds measured_time(const Cells& cells, const spec::Op& op) {
  if (const auto us = cells.number("latency_us")) return *us * unit::us;
  const double rate = cells.number_or("tflops", 0);
  return rate > 0 ? op.flops / (rate * (unit::TFLOP / unit::s)) : Seconds();
}

}  // namespace

Result<KernelRow> read_kernel_row(const Cells& cells) {
  KernelRow row{.row_id = cells.id(),
                .family = cells.text("family"),
                .gpu = cells.text("gpu"),
                .dtype = cells.text("dtype"),
                .source = cells.text("kernel_source"),
                .best_of_many = cells.text("best_shape") == "true"};
  const auto precision = spec::enum_from_name<spec::Precision>(cells.text("precision"));
  if (!precision)
    return error(fmt::format("precision '{}' is not known (it decides which units multiply)",
                             cells.text("precision")));
  row.op.precision = *precision;
  cells.text("kind") == "attention" ? set_attention(row.op, cells) : set_gemm(row.op, cells);
  if (row.op.flops <= Flops()) return error("the sizes of the kernel are not stated");
  row.measured = measured_time(cells, row.op);
  if (row.measured <= Seconds()) return error("no latency or rate is stated");
  set_power(row, cells);
  return row;
}

}  // namespace triplepoint::calibrate
