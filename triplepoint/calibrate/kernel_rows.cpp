// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernel_rows.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "triplepoint/spec/machine_names.h"

#include "triplepoint/calibrate/table_cells.h"

namespace triplepoint::calibrate {
namespace {

using spec::OpClass;
using spec::Precision;

bool has_columns(const Header& header, std::initializer_list<std::string_view> titles) {
  return std::all_of(titles.begin(), titles.end(), [&](std::string_view title) {
    return std::find(header.begin(), header.end(), title) != header.end();
  });
}

std::string letters_and_digits(std::string_view text) {
  std::string kept;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return kept;
}

struct Operands {
  Precision precision;
  double bytes;  // of one operand element, its block scales included
};

/// What the tables' names for number formats stand for: the first whose word is in the spelling, as
/// in "fp8_e4m3 (block scaled)". Nothing stated: 16 bits.
std::optional<Operands> operands_of(const std::string& dtype) {
  struct Named {
    std::string_view word;
    Operands operands;
  };
  static constexpr std::array<Named, 11> known{{{"nvfp4", {Precision::nvfp4, 0.5625}},
                                                {"mxfp4", {Precision::nvfp4, 0.53}},
                                                {"fp4", {Precision::nvfp4, 0.5625}},
                                                {"mxfp8", {Precision::mxfp8, 1.03}},
                                                {"fp8", {Precision::fp8, 1}},
                                                {"e4m3", {Precision::fp8, 1}},
                                                {"bf16", {Precision::bf16, 2}},
                                                {"bfloat16", {Precision::bf16, 2}},
                                                {"fp16", {Precision::bf16, 2}},
                                                {"float16", {Precision::bf16, 2}},
                                                {"half", {Precision::bf16, 2}}}};
  const std::string plain = letters_and_digits(dtype);
  if (plain.empty()) return Operands{Precision::bf16, 2};
  for (const Named& entry : known)
    if (plain.find(entry.word) != std::string::npos) return entry.operands;
  return std::nullopt;
}

void set_gemm(KernelRow& row, spec::GemmShape shape, const Operands& operands) {
  const double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n),
               k = static_cast<double>(shape.k), count = static_cast<double>(shape.count);
  row.op.op_class = OpClass::gemm;
  row.op.precision = operands.precision;
  row.op.gemm = shape;
  row.op.flops = 2 * m * n * k * count * unit::FLOP;
  row.op.hbm_bytes = (operands.bytes * (m * k + k * n) + 2 * m * n) * count * unit::B;
}

/// Forward: two products. Backward: five, of which one is the first again.
void set_attention(KernelRow& row, const spec::AttentionShape& shape, bool backward) {
  const double tokens = static_cast<double>(shape.batch * shape.query_length),
               keys = static_cast<double>(shape.key_length),
               d = static_cast<double>(shape.head_dim), heads = static_cast<double>(shape.heads),
               groups = static_cast<double>(shape.query_groups);
  row.op.op_class = OpClass::attention;
  row.op.attention = shape;
  row.op.backward = backward;
  row.op.flops =
      (backward ? 2.5 : 1) * 4 * (shape.causal ? 0.5 : 1) * tokens * keys * heads * d * unit::FLOP;
  row.op.hbm_bytes = (backward ? 2 : 1) * 2 * tokens * d * (2 * heads + 2 * groups) * unit::B;
}

void set_power(KernelRow& row, const Cells& cells) {
  const auto power = cells.number("power_w"), limit = cells.number("power_limit_w");
  if (power) row.repetition = Repetition::looped;
  if (power && limit && *limit > 0) row.power_share = *power / *limit;
}

spec::AttentionShape attention_shape(const Cells& cells) {
  const int64_t heads = cells.count("heads"), groups = cells.count("kv_heads");
  return {.batch = cells.count("batch"),
          .heads = heads,
          .query_groups = groups > 0 ? groups : heads,
          .query_length = cells.count("seq"),
          .key_length = cells.count("seq"),
          .head_dim = cells.count("head_dim"),
          .causal = cells.text("causal") != "no"};
}

/// What makes a row of any of the tables impossible to predict, or nothing.
std::string complete(KernelRow& row, const Cells& cells, bool attention) {
  const auto operands = operands_of(row.dtype);
  if (!operands) return fmt::format("the number format '{}' is not known", row.dtype);
  set_power(row, cells);
  if (attention) {
    const spec::AttentionShape shape = attention_shape(cells);
    if (shape.batch * shape.heads * shape.query_length * shape.head_dim <= 0)
      return "batch, heads, seq or head_dim is not stated";
    set_attention(row, shape, cells.text("pass").starts_with("bwd"));
    row.op.precision = operands->precision;
    return {};
  }
  const spec::GemmShape shape{.m = cells.count("m"),
                              .n = cells.count("n"),
                              .k = cells.count("k"),
                              .count = std::max<int64_t>(1, cells.count("batch"))};
  if (shape.m * shape.n * shape.k <= 0) return "m, n or k is not stated";
  set_gemm(row, shape, *operands);
  return {};
}

std::string source_in(const std::string& notes) {
  constexpr std::string_view key = "kernel_source=";
  const size_t at = notes.find(key);
  if (at == std::string::npos) return {};
  const size_t from = at + key.size();
  return notes.substr(from, notes.find_first_of("; ", from) - from);
}

Seconds measured_time(const Cells& cells, const spec::Op& op) {
  if (const auto ms = cells.number("latency_ms")) return *ms * unit::ms;
  if (const auto us = cells.number("latency_us")) return *us * unit::us;
  const auto rate = cells.number("tflops");
  return rate && *rate > 0 ? op.flops / (*rate * (unit::TFLOP / unit::s)) : Seconds();
}

KernelRow named_row(const Cells& cells, std::string family, bool attention) {
  KernelRow row;
  row.row_id = cells.id();
  row.family = std::move(family);
  row.dtype = cells.text("dtype");
  row.source =
      cells.has("kernel_source") ? cells.text("kernel_source") : source_in(cells.text("notes"));
  row.best_of_many = !attention && cells.text("op").starts_with("best-shape");
  return row;
}

struct Kinds {
  bool attention;
  std::string family;
};

/// Reads one row into `out`, or says why it cannot be.
void read_row(const Cells& cells, const Kinds& kinds, KernelRows& out) {
  KernelRow row = named_row(cells, kinds.family, kinds.attention);
  const std::string spelled = cells.has("gpu") ? cells.text("gpu") : cells.text("system");
  const auto gpu = spec::gpu_named(spelled);
  std::string reason = gpu ? complete(row, cells, kinds.attention)
                           : fmt::format("no GPU of the library is named in '{}'", spelled);
  row.measured = measured_time(cells, row.op);
  if (reason.empty() && row.measured <= Seconds()) reason = "no latency or rate is stated";
  if (!reason.empty()) {
    out.skipped.push_back({row.row_id, reason});
    return;
  }
  row.gpu = *gpu;
  out.rows.push_back(std::move(row));
}

std::optional<Kinds> kinds_of(const CsvTable& table, const Cells& cells) {
  const Header& header = table.header();
  if (is_kernels_table(header)) {
    const std::string kind = cells.text("kind");
    if (kind == "collective") return std::nullopt;
    return Kinds{kind == "attention", cells.text("family")};
  }
  const bool attention = is_attention_table(header);
  return Kinds{attention, fmt::format("{} {} {}", attention ? "attention" : "gemm",
                                      spec::gpu_named(cells.text("system")).value_or("other"),
                                      cells.text("dtype"))};
}

}  // namespace

bool is_gemm_table(const Header& header) {
  return has_columns(header, {"system", "dtype", "m", "n", "k", "latency_ms"});
}

bool is_attention_table(const Header& header) {
  return has_columns(header, {"system", "batch", "seq", "heads", "head_dim", "latency_ms"});
}

bool is_kernels_table(const Header& header) {
  return has_columns(header,
                     {"row_id", "kind", "gpu", "m", "n", "k", "heads", "msg_bytes", "latency_us"});
}

Result<KernelRows> read_kernel_rows(const CsvTable& table) {
  if (!is_gemm_table(table.header()) && !is_attention_table(table.header()) &&
      !is_kernels_table(table.header()))
    return error(
        fmt::format("{}: no table of kernels (its columns are those of no kernel table); "
                    "columns it may have: docs/formats.md",
                    table.name()));
  KernelRows out;
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (const auto kinds = kinds_of(table, cells)) read_row(cells, *kinds, out);
  }
  return out;
}

}  // namespace triplepoint::calibrate
