// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/plausible.h"
#include "triplepoint/trace/readers.h"
#include "triplepoint/trace/sql_tables.h"

namespace triplepoint::trace {
namespace {

class RocpdReader {
 public:
  RocpdReader(const Tables& tables, const ReadOptions& options)
      : tables_(tables), options_(options) {}

  Result<Trace> read() {
    TPT_TRY(read_names());
    TPT_TRY(find_ranks());
    builder_.numbers().warp_size = 64;
    TPT_TRY(read_kernels());
    TPT_TRY(read_copies());
    TPT_TRY(read_operations());
    if (builder_.size() == 0)
      return error(
          "no kernel and no copy is in it (rocpd: its tables of dispatches and copies are empty); "
          "trace with rocprofv3 --kernel-trace --hip-trace --memory-copy-trace");
    TPT_TRY(read_calls());
    return std::move(builder_).finish(std::nullopt);
  }

 private:
  Result<void> read_names() {
    TPT_TRY(tables_.for_each("rocpd_info_kernel_symbol", {"id", "display_name", "kernel_name"}, 1,
                             [&](const Row& row) {
                               std::string name = row.text(1);
                               if (name.empty()) name = row.text(2);
                               kernels_.try_emplace(row.integer_or(0, -1), std::move(name));
                             }));
    TPT_TRY(tables_.for_each("rocpd_info_agent", {"id", "type_index"}, 2, [&](const Row& row) {
      devices_.try_emplace(row.integer_or(0, -1), row.integer_or(1, 0));
    }));
    JsonRecord record;
    return tables_.for_each("rocpd_event", {"id", "stack_id", "extdata"}, 2, [&](const Row& row) {
      calls_of_events_.try_emplace(row.integer_or(0, -1), row.integer_or(1, -1));
      // A mark's region is named after the call of roctx: its text is in the event.
      const std::string said = row.text(2);
      if (said.find("message") == std::string::npos) return;
      const auto json = record.parse(said);
      if (json && !json->at("message").text().empty())
        marks_.try_emplace(row.integer_or(0, -1), json->at("message").text());
    });
  }

  /// Processes that have something on a device; where none has, all.
  Result<void> find_ranks() {
    std::set<int64_t> processes;
    std::map<int64_t, int64_t> records;
    for (const char* table : {"rocpd_kernel_dispatch", "rocpd_memory_copy"})
      TPT_TRY(tables_.for_each(table, {"pid"}, 1, [&](const Row& row) {
        processes.insert(row.integer_or(0, 0));
        ++records[row.integer_or(0, 0)];
      }));
    drop_strays(processes, records);
    for (const int64_t process : processes)
      rank_of_.emplace(process, static_cast<int32_t>(rank_of_.size()));
    const auto given = options_.rank ? options_.rank : options_.rank_if_unknown;
    if (rank_of_.size() < 2) only_rank_ = given.value_or(0);
    return {};
  }
  int32_t rank_of(int64_t process) const {
    return only_rank_ ? *only_rank_ : value_at(rank_of_, process).value_or(-1);
  }

  /// Columns 0 to 2: begin, end, process. What has no such interval is counted; of a device it is
  /// a span without length.
  std::optional<run::Span> span_of(const Row& row, bool on_device) {
    const auto begin = row.integer(0), end = row.integer(1);
    const int32_t rank = rank_of(row.integer_or(2, 0));
    if (rank < 0) return std::nullopt;
    if (!begin || !end || *end < *begin || (*begin == 0 && *end == 0)) {
      builder_.skip("an event has no begin, no end, or ends before it begins");
      if (!on_device) return std::nullopt;
      return span_without_length(end ? std::nullopt : begin, rank);
    }
    run::Span span{Instant(*begin), Instant(*end)};
    span.rank = rank;
    return span;
  }

  int64_t call_of(const Row& row, size_t column) const {
    return value_at(calls_of_events_, row.integer_or(column, -1)).value_or(-1);
  }

  int32_t device_lane(const run::Span& span, int64_t device, int64_t stream) {
    return builder_.lane({span.rank, run::Stream::compute, stream,
                          fmt::format("device {} stream {}", device, stream)});
  }
  int64_t device_of(int64_t agent) const { return value_at(devices_, agent).value_or(agent); }

  Result<void> read_kernels() {
    return tables_.for_each(
        "rocpd_kernel_dispatch",
        {"start", "end", "pid", "agent_id", "kernel_id", "stream_id", "queue_id", "event_id",
         "workgroup_size_x", "workgroup_size_y", "workgroup_size_z", "grid_size_x", "grid_size_y",
         "grid_size_z"},
        2, [&](const Row& row) {
          auto span = span_of(row, true);
          if (!span) return;
          const auto name = kernels_.find(row.integer_or(4, -1));
          span->type = builder_.kernel(name == kernels_.end() ? "" : name->second);
          run::SpanDetail detail;
          detail.lane = device_lane(*span, device_of(row.integer_or(3, 0)),
                                    row.integer_or(5, row.integer_or(6, 0)));
          detail.correlation = call_of(row, 7);
          int64_t blocks = 1, threads = 1;
          for (size_t axis = 0; axis < 3; ++axis) {
            const int64_t size = row.integer_or(8 + axis, -1),
                          items = row.integer_or(11 + axis, -1);
            const bool known = size > 0 && items > 0 && items <= INT32_MAX && blocks <= INT32_MAX &&
                               blocks > 0 && size <= 65536 && threads <= 65536;
            blocks = known ? blocks * ((items + size - 1) / size) : -1;
            threads = known ? threads * size : threads;
          }
          detail.blocks = blocks;
          if (blocks > 0 && threads <= 65536)
            detail.threads_per_block = static_cast<int32_t>(threads);
          builder_.add(*span, detail);
        });
  }

  Result<void> read_copies() {
    return tables_.for_each(
        "rocpd_memory_copy",
        {"start", "end", "pid", "dst_agent_id", "name_id", "stream_id", "queue_id", "event_id",
         "size"},
        2, [&](const Row& row) {
          auto span = span_of(row, true);
          if (!span) return;
          const std::string name = tables_.string(row, 4);
          span->type =
              builder_.type({.name = name.empty() ? "Memcpy" : name, .kind = run::SpanKind::copy});
          span->bytes = as_real(std::max<int64_t>(0, row.integer_or(8, 0))) * unit::B;
          builder_.add(*span, {.lane = device_lane(*span, device_of(row.integer_or(3, 0)),
                                                   row.integer_or(5, row.integer_or(6, 0))),
                               .correlation = call_of(row, 7)});
        });
  }

  /// RPD keeps kernels and copies in one table; a kernel's description is its name.
  Result<void> read_operations() {
    return tables_.for_each(
        "rocpd_op", {"start", "end", "pid", "gpuId", "queueId", "description_id", "opType_id"}, 2,
        [&](const Row& row) {
          auto span = span_of(row, true);
          if (!span) return;
          const std::string what = tables_.string(row, 6);
          const bool copies =
              what.find("Copy") != std::string::npos || what.find("Fill") != std::string::npos;
          span->type = copies ? builder_.type({.name = what, .kind = run::SpanKind::copy})
                              : builder_.kernel(tables_.string(row, 5));
          builder_.add(*span,
                       {.lane = device_lane(*span, row.integer_or(3, 0), row.integer_or(4, 0))});
        });
  }

  Result<void> read_calls() {
    for (const char* table : {"rocpd_region", "rocpd_api"})
      TPT_TRY(tables_.for_each(
          table, {"start", "end", "pid", "tid", "name_id", "apiName_id", "event_id"}, 2,
          [&](const Row& row) {
            std::string name =
                value_at(marks_, row.integer_or(6, -1)).value_or(tables_.string(row, 4));
            if (name.empty()) name = tables_.string(row, 5);
            const bool step = names_step(name);
            const HostSpans level = step                      ? HostSpans::none
                                    : name.starts_with("hip") ? HostSpans::launches
                                                              : HostSpans::ops;
            auto span = options_.host < level ? std::nullopt : span_of(row, false);
            if (!span) return;
            span->type = builder_.type({.name = name.empty() ? "call" : name,
                                        .kind = step ? run::SpanKind::step : run::SpanKind::host,
                                        .stream = run::Stream::host});
            const int64_t thread = row.integer_or(3, 0);
            builder_.add(*span, {.lane = builder_.lane({span->rank, run::Stream::host, thread,
                                                        fmt::format("thread {}", thread)}),
                                 .correlation = step ? -1 : call_of(row, 6)});
          }));
    return {};
  }

  const Tables& tables_;
  const ReadOptions& options_;
  TraceBuilder builder_{"rocpd"};
  std::map<int64_t, std::string> kernels_, marks_;
  std::map<int64_t, int64_t> devices_, calls_of_events_;
  std::map<int64_t, int32_t> rank_of_;  // process -> rank
  std::optional<int32_t> only_rank_;
};

}  // namespace

Result<Trace> read_rocpd(run::Database database, const std::string& name,
                         const ReadOptions& options) {
  Tables tables = TPT_TRY(Tables::open(std::move(database), "rocpd_string", "string"));
  std::vector<std::string> processes = tables.processes("rocpd_string");
  if (processes.empty()) processes.emplace_back();
  // Ids count from 1 in the tables of each process.
  std::vector<NamedTrace> all;
  const int32_t first = options.rank.value_or(options.rank_if_unknown.value_or(0));
  for (const std::string& process : processes) {
    ReadOptions each = options;
    if (processes.size() > 1) each.rank = first + static_cast<int32_t>(all.size());
    if (!process.empty()) TPT_TRY(tables.choose(process));
    Result<Trace> trace = RocpdReader(tables, each).read();
    if (!trace && processes.size() == 1) return error("{}: {}", name, trace.error().what);
    if (trace && processes.size() > 1) trace->rank = each.rank;
    if (trace) all.push_back({fmt::format("{}, process {}", name, all.size()), *std::move(trace)});
  }
  if (all.empty())
    return error("{}: no kernel and no copy is in it, of none of {} processes", name,
                 processes.size());
  if (processes.size() == 1) return std::move(all[0].trace);
  const size_t ranks = all.size();
  Trace trace = TPT_TRY(merge(std::move(all)));
  if (ranks > 1)
    note_reason(trace.skipped,
                fmt::format("the tables of {0} processes are those of {0} ranks", ranks));
  return trace;
}

}  // namespace triplepoint::trace
