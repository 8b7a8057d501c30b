// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/rocprofiler/rocprofiler.h"

namespace triplepoint::trace {

namespace {

constexpr size_t most_bytes = size_t{512} << 20U;

/// Titles of the same column in rocprofv3 and in rocprof.
struct Columns {
  std::optional<size_t> name, begin, end, device, queue, correlation;

  explicit Columns(const CsvTable& table) {
    const auto first = [&](std::initializer_list<const char*> titles) {
      for (const char* title : titles)
        if (const auto found = table.column(title)) return found;
      return std::optional<size_t>();
    };
    name = first({"Kernel_Name", "KernelName"});
    begin = first({"Start_Timestamp", "BeginNs"});
    end = first({"End_Timestamp", "EndNs"});
    device = first({"Agent_Id", "gpu-id"});
    queue = first({"Stream_Id", "Queue_Id", "queue-id"});
    correlation = first({"Correlation_Id"});
  }
};

/// Whole numbers, of which nanoseconds have more digits than a double; "Agent 4" is 4.
std::optional<int64_t> whole(const CsvTable& table, size_t row, std::optional<size_t> column) {
  if (!column) return std::nullopt;
  std::string_view text = table.at(row, *column);
  const size_t digit = text.find_first_of("0123456789");
  if (digit == std::string_view::npos) return std::nullopt;
  text.remove_prefix(digit);
  int64_t value = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

bool looks_like_rocprof_csv(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\n'));
  const auto has = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  return (has("Kernel_Name") && has("Start_Timestamp")) || (has("KernelName") && has("BeginNs"));
}

Result<Trace> read_rocprof_csv(Input& input, const ReadOptions& options) {
  std::string text = TPT_TRY(input.rest(most_bytes));
  const CsvTable table = TPT_TRY(CsvTable::parse(std::move(text), input.name()));
  const Columns columns(table);
  if (!columns.name || !columns.begin || !columns.end)
    return error(
        fmt::format("{}: no table of kernels (it needs columns for name, begin and end); "
                    "give *_kernel_trace.csv",
                    input.name()));
  TraceBuilder builder("rocprof_csv");
  const int32_t rank = options.rank.value_or(options.rank_if_unknown.value_or(0));
  for (size_t row = 0; row < table.rows(); ++row) {
    const auto begin = whole(table, row, columns.begin), end = whole(table, row, columns.end);
    if (!begin || !end || *end < *begin) {
      builder.skip("a row has no times, or ends before it begins");
      continue;
    }
    const std::string name(table.at(row, *columns.name));
    const KernelKind kind = kernel_kind(name);
    const bool talks = kind.kind == run::SpanKind::communication;
    run::Span span{Instant(*begin), Instant(*end)};
    span.rank = rank;
    span.type = builder.type({.name = name,
                              .kind = kind.kind,
                              .stream = talks ? run::Stream::communication : run::Stream::compute,
                              .op_class = kind.op_class,
                              .collective = kind.collective});
    const int64_t queue = whole(table, row, columns.queue).value_or(0);
    const int64_t device = whole(table, row, columns.device).value_or(0);
    const int32_t lane = builder.lane(
        {rank, run::Stream::compute, queue, fmt::format("device {} stream {}", device, queue)});
    builder.add(span,
                {.lane = lane, .correlation = whole(table, row, columns.correlation).value_or(-1)});
  }
  return std::move(builder).finish(std::nullopt);
}

}  // namespace triplepoint::trace
