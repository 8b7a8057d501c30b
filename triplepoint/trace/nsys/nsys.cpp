// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/nsys/nsys.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/result.h"

#include "triplepoint/store/store_database.h"
#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/kernel_kind.h"

namespace triplepoint::trace::nsys {

/// One row of a query; columns by their place in the list that was asked for.
class Row {
 public:
  Row(const run::Statement& statement, const std::vector<int>& places)
      : statement_(statement), places_(places) {}
  std::optional<int64_t> integer(size_t column) const {
    if (places_[column] < 0) return std::nullopt;
    return statement_.integer_or_nothing(places_[column]);
  }
  int64_t integer_or(size_t column, int64_t otherwise) const {
    return integer(column).value_or(otherwise);
  }
  std::string text(size_t column) const {
    return places_[column] < 0 ? std::string() : statement_.text(places_[column]);
  }

 private:
  const run::Statement& statement_;
  const std::vector<int>& places_;  // in the statement; -1: the table has no such column
};

/// The tables of an export, any of which may be missing.
class Tables {
 public:
  static Result<Tables> open(run::Database);

  bool has(const std::string& table) const { return columns_.contains(table); }
  bool has(const std::string& table, const std::string& column) const;
  /// Visits the rows of a table in the order they lie; nothing if there is none, or if it lacks a
  /// column of `required`.
  Result<void> for_each(const std::string& table, std::initializer_list<const char*> columns,
                        size_t required, const std::function<void(const Row&)>& visit) const;
  /// What a column refers to: an id of StringIds, or the text itself.
  std::string string(const Row&, size_t column) const;

 private:
  explicit Tables(run::Database database) : database_(std::move(database)) {}
  Result<void> list_columns();
  Result<void> load_strings();

  run::Database database_;
  std::unordered_map<std::string, std::vector<std::string>> columns_;
  std::unordered_map<int64_t, std::string> strings_;
};

/// Names come from an untrusted file.
bool is_plain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

Result<Tables> Tables::open(run::Database database) {
  Tables tables(std::move(database));
  TPT_TRY(tables.list_columns());
  TPT_TRY(tables.load_strings());
  return tables;
}

Result<void> Tables::list_columns() {
  run::Statement names =
      TPT_TRY(database_.prepare("SELECT name FROM sqlite_master WHERE type = 'table'"));
  std::vector<std::string> all;
  while (TPT_TRY(names.next()))
    if (std::string name = names.text(0); is_plain(name)) all.push_back(std::move(name));
  for (const std::string& name : all) {
    run::Statement info =
        TPT_TRY(database_.prepare(fmt::format("PRAGMA table_info({})", name).c_str()));
    while (TPT_TRY(info.next()))
      columns_[name].push_back(info.text(1));
  }
  return {};
}

Result<void> Tables::load_strings() {
  return for_each("StringIds", {"id", "value"}, 2,
                  [&](const Row& row) { strings_.emplace(row.integer_or(0, -1), row.text(1)); });
}

bool Tables::has(const std::string& table, const std::string& column) const {
  const auto found = columns_.find(table);
  return found != columns_.end() &&
         std::find(found->second.begin(), found->second.end(), column) != found->second.end();
}

Result<void> Tables::for_each(const std::string& table, std::initializer_list<const char*> columns,
                              size_t required, const std::function<void(const Row&)>& visit) const {
  std::vector<std::string> present;
  std::vector<int> places;
  for (const char* column : columns) {
    const bool known = has(table, column);
    if (!known && places.size() < required) return {};
    places.push_back(known ? static_cast<int>(present.size()) : -1);
    if (known) present.push_back(fmt::format("\"{}\"", column));
  }
  const std::string sql = fmt::format("SELECT {} FROM {}", fmt::join(present, ","), table);
  run::Statement statement = TPT_TRY(database_.prepare(sql.c_str()));
  while (TPT_TRY(statement.next()))
    visit(Row(statement, places));
  return {};
}

std::string Tables::string(const Row& row, size_t column) const {
  const auto id = row.integer(column);
  if (!id) return {};
  const auto found = strings_.find(*id);
  return found != strings_.end() ? found->second : row.text(column);
}

}  // namespace triplepoint::trace::nsys

namespace triplepoint::trace {

namespace {

using nsys::Row;
using nsys::Tables;

constexpr size_t most_bytes = size_t{2} << 30U;  // of a compressed export, which is unpacked here
constexpr int64_t push_pop_range = 59, start_end_range = 60;

// Ids of processes and threads: hardware, machine, process and thread, 24 bits for each of the
// last.
int64_t process_of(int64_t global_id) {
  return static_cast<int64_t>(static_cast<uint64_t>(global_id) / 0x1000000 % 0x1000000);
}
int64_t thread_of(int64_t global_id) {
  return static_cast<int64_t>(static_cast<uint64_t>(global_id) % 0x1000000);
}

constexpr const char* kernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* copies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr const char* fills = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* graphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr const char* calls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* waits = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";

/// CUPTI's memcpy kinds, as Kineto words them.
std::string copy_name(int64_t kind) {
  static constexpr std::array names = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA",
                                       "Memcpy AtoH", "Memcpy AtoA", "Memcpy AtoD", "Memcpy DtoA",
                                       "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
  return kind > 0 && kind < static_cast<int64_t>(names.size()) ? names[static_cast<size_t>(kind)]
                                                               : names[0];
}

bool is_step(std::string_view name) {
  if (name.starts_with("ProfilerStep#")) return true;
  for (const std::string_view word : {"iteration", "Iteration", "step", "Step"}) {
    if (!name.starts_with(word)) continue;
    const std::string_view rest = name.substr(word.size());
    const size_t digit = rest.find_first_of("0123456789");
    return digit != std::string_view::npos &&
           rest.find_first_not_of(" _:#=0123456789") == std::string_view::npos;
  }
  return false;
}

class NsysReader {
 public:
  NsysReader(const Tables& tables, const ReadOptions& options)
      : tables_(tables), options_(options) {}

  Result<Trace> read() {
    TPT_TRY(find_ranks());
    if (rank_of_.empty())
      return error(
          "no process did anything (there are neither kernels nor runtime calls); trace "
          "with nsys profile --trace cuda,nvtx");
    TPT_TRY(read_threads());
    TPT_TRY(read_kernels());
    TPT_TRY(read_copies());
    TPT_TRY(read_graphs());
    if (options_.host >= HostSpans::launches) TPT_TRY(read_calls());
    if (options_.host >= HostSpans::ops) TPT_TRY(read_ranges());
    const std::optional<int64_t> epoch = TPT_TRY(session_start());
    TPT_TRY(read_facts());
    return std::move(builder_).finish(epoch);
  }

 private:
  /// Processes by their first device and number; those without a device only if none has one.
  Result<void> find_ranks() {
    std::map<int64_t, int64_t> device_of;
    for (const char* table : {kernels, copies, fills, graphs})
      TPT_TRY(tables_.for_each(table, {"globalPid", "deviceId"}, 2, [&](const Row& row) {
        const int64_t device = row.integer_or(1, 0);
        const auto [known, is_new] =
            device_of.try_emplace(process_of(row.integer_or(0, 0)), device);
        known->second = std::min(known->second, device);
      }));
    if (device_of.empty())
      for (const char* table : {calls, "NVTX_EVENTS"})
        TPT_TRY(tables_.for_each(table, {"globalTid"}, 1, [&](const Row& row) {
          device_of.try_emplace(process_of(row.integer_or(0, 0)), 0);
        }));
    std::vector<std::pair<int64_t, int64_t>> order;  // device, process
    order.reserve(device_of.size());
    for (const auto& [process, device] : device_of)
      order.emplace_back(device, process);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i)
      rank_of_[order[i].second] = static_cast<int32_t>(i);
    const auto given = options_.rank ? options_.rank : options_.rank_if_unknown;
    if (order.size() == 1 && given) rank_of_[order[0].second] = *given;
    return {};
  }

  std::optional<int32_t> rank_of(std::optional<int64_t> global_id) const {
    if (!global_id) return std::nullopt;
    const auto found = rank_of_.find(process_of(*global_id));
    return found == rank_of_.end() ? std::nullopt : std::optional(found->second);
  }

  Result<void> read_threads() {
    return tables_.for_each("ThreadNames", {"globalTid", "nameId"}, 2, [&](const Row& row) {
      thread_names_.try_emplace(row.integer_or(0, 0), tables_.string(row, 1));
    });
  }

  int32_t host_lane(int32_t rank, int64_t global_thread) {
    const auto [known, is_new] = host_lanes_.try_emplace(global_thread, -1);
    if (!is_new) return known->second;
    std::string name = fmt::format("thread {}", thread_of(global_thread));
    if (const auto named = thread_names_.find(global_thread); named != thread_names_.end())
      name += fmt::format(" ({})", named->second);
    known->second = builder_.lane({rank, run::Stream::host, thread_of(global_thread), name});
    return known->second;
  }
  int32_t device_lane(int32_t rank, int64_t device, int64_t stream) {
    const auto [known, is_new] = device_lanes_.try_emplace({rank, device, stream}, -1);
    if (is_new)
      known->second = builder_.lane(
          {rank, run::Stream::compute, stream, fmt::format("device {} stream {}", device, stream)});
    return known->second;
  }

  /// The span between two columns; none, and counted, if there is no such interval.
  std::optional<run::Span> span_of(const Row& row, int32_t rank) {
    const auto begin = row.integer(0), end = row.integer(1);
    if (!begin || !end || *end < *begin) {
      builder_.skip("an event has no begin, no end, or ends before it begins");
      return std::nullopt;
    }
    run::Span span{Instant(*begin), Instant(*end)};
    span.rank = rank;
    return span;
  }

  Result<void> read_kernels() {
    return tables_.for_each(
        kernels,
        {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "demangledName",
         "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"},
        2, [&](const Row& row) {
          const auto rank = rank_of(row.integer(2));
          auto span = rank ? span_of(row, *rank) : std::nullopt;
          if (!span) return;
          std::string name = tables_.string(row, 6);
          if (name.empty()) name = tables_.string(row, 7);
          span->type = kernel_type(name);
          run::SpanDetail detail = detail_of(row, *rank);
          detail.blocks = product(row, 8);
          const int64_t threads = product(row, 11);
          detail.threads_per_block =
              threads > 0 && threads < 65536 ? static_cast<int32_t>(threads) : -1;
          builder_.add(*span, detail);
        });
  }

  run::SpanDetail detail_of(const Row& row, int32_t rank) {
    return {.lane = device_lane(rank, row.integer_or(3, 0), row.integer_or(4, 0)),
            .correlation = row.integer_or(5, -1)};
  }

  static int64_t product(const Row& row, size_t first) {
    int64_t all = 1;
    for (size_t i = first; i < first + 3; ++i) {
      const int64_t factor = row.integer_or(i, -1);
      if (factor < 1 || factor > INT32_MAX || all > INT32_MAX) return -1;
      all *= factor;
    }
    return all;
  }

  int32_t kernel_type(const std::string& name) {
    const auto [known, is_new] = kernel_types_.try_emplace(name, -1);
    if (!is_new) return known->second;
    const KernelKind kind = kernel_kind(name);
    const bool talks = kind.kind == run::SpanKind::communication;
    known->second =
        builder_.type({.name = name.empty() ? "kernel" : name,
                       .kind = kind.kind,
                       .stream = talks ? run::Stream::communication : run::Stream::compute,
                       .op_class = kind.op_class,
                       .collective = kind.collective});
    return known->second;
  }

  Result<void> read_copies() {
    const auto add = [&](const Row& row, const std::string& name) {
      const auto rank = rank_of(row.integer(2));
      auto span = rank ? span_of(row, *rank) : std::nullopt;
      if (!span) return;
      span->type = builder_.type({.name = name, .kind = run::SpanKind::copy});
      span->bytes = static_cast<double>(std::max<int64_t>(0, row.integer_or(6, 0))) * unit::B;
      builder_.add(*span, detail_of(row, *rank));
    };
    TPT_TRY(tables_.for_each(
        copies,
        {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "bytes", "copyKind"},
        2, [&](const Row& row) { add(row, copy_name(row.integer_or(7, 0))); }));
    return tables_.for_each(
        fills, {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "bytes"}, 2,
        [&](const Row& row) { add(row, "Memset"); });
  }

  /// Kernels inside of a graph are not traced one by one, unless asked for.
  Result<void> read_graphs() {
    return tables_.for_each(
        graphs, {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "graphId"},
        2, [&](const Row& row) {
          const auto rank = rank_of(row.integer(2));
          auto span = rank ? span_of(row, *rank) : std::nullopt;
          if (!span) return;
          span->type = builder_.type({.name = fmt::format("CUDA graph {}", row.integer_or(6, 0)),
                                      .kind = run::SpanKind::compute,
                                      .op_class = spec::OpClass::gemm});
          builder_.add(*span, detail_of(row, *rank));
        });
  }

  Result<void> read_calls() {
    return tables_.for_each(calls, {"start", "end", "globalTid", "correlationId", "nameId"}, 3,
                            [&](const Row& row) {
                              const auto rank = rank_of(row.integer(2));
                              auto span = rank ? span_of(row, *rank) : std::nullopt;
                              if (!span) return;
                              std::string name = tables_.string(row, 4);
                              name = name.substr(0, name.rfind("_v"));  // "cudaLaunchKernel_v7000"
                              span->type = host_type(name, run::SpanKind::host);
                              builder_.add(*span, {.lane = host_lane(*rank, row.integer_or(2, 0)),
                                                   .correlation = row.integer_or(3, -1)});
                            });
  }

  Result<void> read_ranges() {
    return tables_.for_each(
        "NVTX_EVENTS", {"start", "end", "globalTid", "eventType", "text", "textId"}, 3,
        [&](const Row& row) {
          const int64_t type = row.integer_or(3, push_pop_range);
          const auto rank = rank_of(row.integer(2));
          if (!rank || !row.integer(1) || (type != push_pop_range && type != start_end_range))
            return;
          auto span = span_of(row, *rank);
          if (!span) return;
          std::string name = row.text(4);
          if (name.empty()) name = tables_.string(row, 5);
          if (name.empty()) name = "range";
          span->type = host_type(name, is_step(name) ? run::SpanKind::step : run::SpanKind::host);
          builder_.add(*span, {.lane = host_lane(*rank, row.integer_or(2, 0))});
        });
  }

  int32_t host_type(const std::string& name, run::SpanKind kind) {
    const auto [known, is_new] = host_types_.try_emplace({name, kind}, -1);
    if (is_new)
      known->second = builder_.type({.name = name, .kind = kind, .stream = run::Stream::host});
    return known->second;
  }

  Result<std::optional<int64_t>> session_start() {
    std::optional<int64_t> start;
    TPT_TRY(tables_.for_each("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, 1,
                             [&](const Row& row) { start = row.integer(0); }));
    return start;
  }

  Result<void> read_facts() {
    std::set<std::string> devices;
    TPT_TRY(tables_.for_each("TARGET_INFO_GPU", {"name"}, 1, [&](const Row& row) {
      devices.insert(tables_.string(row, 0).empty() ? row.text(0) : tables_.string(row, 0));
    }));
    if (!devices.empty()) builder_.facts()["device"] = *devices.begin();
    builder_.facts()["processes"] = std::to_string(rank_of_.size());
    if (tables_.has(waits)) builder_.facts()["synchronizations"] = "not read";
    return {};
  }

  const Tables& tables_;
  const ReadOptions& options_;
  TraceBuilder builder_{"nsys"};
  std::map<int64_t, int32_t> rank_of_;  // process -> rank
  std::map<int64_t, std::string> thread_names_;
  std::map<int64_t, int32_t> host_lanes_;
  std::map<std::array<int64_t, 3>, int32_t> device_lanes_;
  std::map<std::string, int32_t> kernel_types_;
  std::map<std::pair<std::string, run::SpanKind>, int32_t> host_types_;
};

Result<run::Database> open(Input& input) {
  if (input.plain_file()) return run::Database::open(input.plain_file()->string());
  const std::string bytes = TPT_TRY(input.rest(most_bytes));
  return run::Database::from_bytes(bytes, input.name());
}

}  // namespace

bool looks_like_nsys(std::string_view head) {
  // Which tables there are is not in the first page; but no other database is a trace.
  return head.starts_with("SQLite format 3");
}

Result<Trace> read_nsys(Input& input, const ReadOptions& options) {
  run::Database database = TPT_TRY(open(input));
  const Tables tables = TPT_TRY(Tables::open(std::move(database)));
  if (!tables.has("StringIds"))
    return error(
        fmt::format("{} is a database, but no export of Nsight Systems (it has no table "
                    "StringIds); make one with nsys export --type sqlite",
                    input.name()));
  Result<Trace> trace = NsysReader(tables, options).read();
  if (!trace) return error(fmt::format("{}: {}", input.name(), trace.error().what));
  return trace;
}

}  // namespace triplepoint::trace
