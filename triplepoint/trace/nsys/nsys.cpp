// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"

#include "triplepoint/store/store_database.h"
#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/plausible.h"
#include "triplepoint/trace/readers.h"
#include "triplepoint/trace/sql_tables.h"

namespace triplepoint::trace {

namespace {

constexpr size_t most_export_bytes = size_t{2}
                                     << 30U;  // of a compressed export, which is unpacked here
// Of NVTX events: from categories on.
constexpr int64_t first_event_type = 33, push_pop_range = 59, start_end_range = 60,
                  last_event_type = 255;

// Ids of processes and threads: hardware, machine, process and thread, 24 bits for each of the
// last.
constexpr int64_t no_process = -1;
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
  return kind > 0 && kind < static_cast<int64_t>(names.size()) ? names[as_size(kind)] : names[0];
}

class NsysReader {
 public:
  NsysReader(const Tables& tables, const ReadOptions& options)
      : tables_(tables), options_(options) {}

  Result<Trace> read() {
    TPT_TRY(find_ranks());
    if (rank_of_.empty())
      return error(
          "nothing of a process is known in it (its tables of kernels and calls are empty, or of "
          "names that are not known: {}); trace with nsys profile --trace cuda,nvtx",
          fmt::join(tables_.all(), ", "));
    TPT_TRY(read_threads());
    TPT_TRY(read_kernels());
    TPT_TRY(read_copies());
    TPT_TRY(read_graphs());
    TPT_TRY(read_calls());
    TPT_TRY(read_ranges());
    link_collectives();
    if (of_no_rank_ > 0)
      builder_.note(
          fmt::format("{} records are of processes without kernels, or of none, and are left out",
                      of_no_rank_));
    for (const std::string& sentence : tables_.unread())
      builder_.note(sentence);
    const std::optional<int64_t> epoch = TPT_TRY(session_start());
    TPT_TRY(read_facts());
    return std::move(builder_).finish(epoch);
  }

 private:
  /// Processes by their first device and number; those without a device only if none has one.
  Result<void> find_ranks() {
    std::map<int64_t, int64_t> device_of, records;
    for (const char* table : {kernels, copies, fills, graphs})
      TPT_TRY(tables_.for_each(table, {"deviceId", "globalPid"}, 1, [&](const Row& row) {
        const int64_t device = row.integer_or(0, 0);
        const int64_t process = row.integer(1) ? process_of(*row.integer(1)) : no_process;
        ++records[process];
        const auto [known, is_new] = device_of.try_emplace(process, device);
        known->second = std::min(known->second, device);
      }));
    drop_strays(device_of, records);
    auto unnamed = device_of.extract(no_process);
    if (device_of.empty())
      for (const char* table : {calls, "NVTX_EVENTS"})
        TPT_TRY(tables_.for_each(table, {"globalTid"}, 1, [&](const Row& row) {
          device_of.try_emplace(process_of(row.integer_or(0, 0)), 0);
        }));
    if (unnamed && device_of.empty()) device_of.emplace(0, unnamed.mapped());
    if (device_of.size() == 1) only_process_ = device_of.begin()->first;
    std::vector<std::pair<int64_t, int64_t>> order;  // device, process
    order.reserve(device_of.size());
    for (const auto& [process, device] : device_of)
      order.emplace_back(device, process);
    std::ranges::sort(order);
    for (size_t i = 0; i < order.size(); ++i)
      rank_of_[order[i].second] = static_cast<int32_t>(i);
    const auto given = options_.rank ? options_.rank : options_.rank_if_unknown;
    if (order.size() == 1 && given) rank_of_[order[0].second] = *given;
    return {};
  }

  /// Exports of one process may lack the column.
  int64_t process_in(const Row& row, size_t column) const {
    return row.integer(column) ? process_of(*row.integer(column)) : only_process_;
  }

  std::optional<int32_t> rank_of(int64_t process) {
    const auto found = rank_of_.find(process);
    if (found != rank_of_.end()) return found->second;
    ++of_no_rank_;
    return std::nullopt;
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

  /// The span between two columns; if there is no such interval, it is counted, and none for the
  /// host, one without length for a device.
  std::optional<run::Span> span_of(const Row& row, int32_t rank, bool on_device = false) {
    const auto begin = row.integer(0), end = row.integer(1);
    const bool is_zero = begin == 0 && end == 0;
    if (!begin || !end || *end < *begin || is_zero) {
      builder_.skip(is_zero ? "an event has no time (0 to 0)"
                            : "an event has no begin, no end, or ends before it begins");
      if (!on_device) return std::nullopt;
      return span_without_length(end || is_zero ? std::nullopt : begin, rank);
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
          const auto rank = rank_of(process_in(row, 2));
          auto span = rank ? span_of(row, *rank, true) : std::nullopt;
          if (!span) return;
          std::string name = tables_.string(row, 6);
          if (name.empty()) name = tables_.string(row, 7);
          span->type = builder_.kernel(name);
          run::SpanDetail detail = detail_of(row, *rank);
          detail.blocks = product(row, 8);
          const int64_t threads = product(row, 11);
          detail.threads_per_block =
              threads > 0 && threads < 65536 ? static_cast<int32_t>(threads) : -1;
          if (detail.correlation >= 0)
            kernels_of_calls_.insert({process_in(row, 2), detail.correlation});
          if (builder_.type_at(span->type).kind == run::SpanKind::communication)
            collectives_.push_back({builder_.size(), process_in(row, 2), detail.correlation});
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

  Result<void> read_copies() {
    const auto add = [&](const Row& row, const std::string& name) {
      const auto rank = rank_of(process_in(row, 2));
      auto span = rank ? span_of(row, *rank, true) : std::nullopt;
      if (!span) return;
      span->type = builder_.type({.name = name, .kind = run::SpanKind::copy});
      span->bytes = as_real(std::max<int64_t>(0, row.integer_or(6, 0))) * unit::B;
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

  /// Kernels inside of a graph are not traced one by one, unless asked for; then the graph is left
  /// out. What runs in one is not known.
  Result<void> read_graphs() {
    int64_t count = 0;
    TPT_TRY(tables_.for_each(
        graphs, {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "graphId"},
        2, [&](const Row& row) {
          const auto rank = rank_of(process_in(row, 2));
          const std::pair call(process_in(row, 2), row.integer_or(5, -1));
          if (kernels_of_calls_.contains(call)) return;
          auto span = rank ? span_of(row, *rank) : std::nullopt;
          if (!span) return;
          ++count;
          span->type = builder_.type({.name = fmt::format("CUDA graph {}", row.integer_or(6, 0)),
                                      .kind = run::SpanKind::other});
          builder_.add(*span, detail_of(row, *rank));
        }));
    if (count > 0)
      builder_.note(
          fmt::format("{} CUDA graphs are traced as a whole: which kernels and collectives run "
                      "inside is not in the export (nsys profile --cuda-graph-trace node tells)",
                      count));
    return {};
  }

  /// Of the calls that launched collectives the place is kept, whatever is left out of the host.
  Result<void> read_calls() {
    std::set<std::pair<int64_t, int64_t>> wanted;
    for (const CollectiveKernel& kernel : collectives_)
      wanted.insert({kernel.process, kernel.correlation});
    return tables_.for_each(
        calls, {"start", "end", "globalTid", "correlationId", "nameId"}, 3, [&](const Row& row) {
          const auto rank = rank_of(process_in(row, 2));
          const std::pair call(process_in(row, 2), row.integer_or(3, -1));
          if (wanted.contains(call) && row.integer(0))
            launch_of_.try_emplace(call, row.integer_or(2, 0), row.integer_or(0, 0));
          if (options_.host < HostSpans::launches) return;
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
        "NVTX_EVENTS",
        {"start", "end", "globalTid", "eventType", "text", "textId", "jsonText", "jsonTextId"}, 3,
        [&](const Row& row) {
          const int64_t type = row.integer_or(3, push_pop_range);
          const auto rank = rank_of(process_in(row, 2));
          if (type < first_event_type || type > last_event_type)
            return builder_.skip("a range is of no known type");
          if (!rank || !row.integer(1) || (type != push_pop_range && type != start_end_range))
            return;
          auto span = span_of(row, *rank);
          if (!span) return;
          std::string name = row.text(4);
          if (name.empty()) name = tables_.string(row, 5);
          if (name.empty()) name = "range";
          if (name.starts_with("nccl")) {
            std::string said = row.text(6);
            if (said.empty()) said = tables_.string(row, 7);
            ranges_[row.integer_or(2, 0)].push_back(range_of(*span, name, said));
          }
          const bool step = names_step(name);
          if (!step && options_.host < HostSpans::ops) return;
          span->type = host_type(name, step ? run::SpanKind::step : run::SpanKind::host);
          builder_.add(*span, {.lane = host_lane(*rank, row.integer_or(2, 0))});
        });
  }

  /// A range of NCCL or PyTorch around a collective's launch, and what its payload says.
  struct NcclRange {
    int64_t begin = 0, end = 0;
    std::optional<spec::Collective> collective;
    std::string communicator;
    double bytes = 0;
    int32_t size = 0;
  };
  struct CollectiveKernel {
    size_t span = 0;
    int64_t process = 0, correlation = -1;
  };

  /// NCCL words its payload as {"NCCL unique ID": 5, "Message size [bytes]": 4096, "No. of ranks":
  /// 8}.
  static NcclRange range_of(const run::Span& span, std::string_view name, const std::string& said) {
    NcclRange range{span.begin.nanoseconds(), span.end.nanoseconds(),
                    collective_of(name.substr(0, name.find('(')))};
    JsonRecord record;
    const auto json = said.empty() ? std::nullopt : record.parse(said);
    if (!json) return range;
    json->for_each_member([&](std::string_view key, JsonView value) {
      const std::string small = lower_case(key);
      const auto has = [&](std::string_view part) { return contains(small, part); };
      if (has("size") && has("byte"))
        range.bytes = std::max(0., value.real_or(0));
      else if (has("ranks") && value.integer_or(-1) > 0 && value.integer_or(-1) < 1 << 20)
        range.size = static_cast<int32_t>(value.integer_or(0));
      else if (has("unique id") || has("communicator") || small == "comm")
        range.communicator = value.text().empty() ? fmt::format("{:x}", value.integer_or(0))
                                                  : std::string(value.text());
    });
    return range;
  }

  /// What the innermost ranges around its launch say of each collective's kernel, the inner first.
  void link_collectives() {
    for (auto& [thread, ranges] : ranges_)
      std::ranges::stable_sort(ranges, {}, &NcclRange::begin);
    for (const CollectiveKernel& kernel : collectives_) {
      const auto launch = launch_of_.find({kernel.process, kernel.correlation});
      if (launch == launch_of_.end()) continue;
      const auto& [thread, begin] = launch->second;
      const std::vector<NcclRange>& ranges = ranges_[thread];
      auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                    [](int64_t t, const NcclRange& r) { return t < r.begin; });
      for (int looked = 0; looked < 16 && after != ranges.begin(); ++looked)
        if (--after; after->end >= begin) complete(kernel.span, *after);
    }
  }

  void complete(size_t place, const NcclRange& range) {
    run::Span& span = builder_.span_at(place);
    run::SpanDetail& detail = builder_.detail_at(place);
    run::SpanType type = builder_.type_at(span.type);
    if (range.collective && !type.collective) {
      type.collective = range.collective;
      span.type = builder_.type(type);
    }
    if (span.bytes <= Bytes()) span.bytes = range.bytes * unit::B;
    if (range.communicator.empty() || detail.communicator >= 0) return;
    detail.communicator = builder_.communicator({.name = range.communicator, .size = range.size});
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
  int64_t only_process_ = no_process;
  int64_t of_no_rank_ = 0;  // records
  std::set<std::pair<int64_t, int64_t>> kernels_of_calls_;
  std::vector<CollectiveKernel> collectives_;
  std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>> launch_of_;  // thread, begin
  std::map<int64_t, std::vector<NcclRange>> ranges_;                              // by thread
  std::map<int64_t, std::string> thread_names_;
  std::map<int64_t, int32_t> host_lanes_;
  std::map<std::array<int64_t, 3>, int32_t> device_lanes_;
  std::map<std::pair<std::string, run::SpanKind>, int32_t> host_types_;
};

Result<run::Database> open(Input& input) {
  if (input.plain_file()) return run::Database::open(input.plain_file()->string());
  const std::string bytes = TPT_TRY(input.rest(most_export_bytes));
  return run::Database::from_bytes(bytes, input.name());
}

}  // namespace

bool looks_like_nsys(std::string_view head) {
  // Which tables there are is not in the first page; but no other database is a trace.
  return head.starts_with("SQLite format 3");
}

Result<Trace> read_nsys(Input& input, const ReadOptions& options) {
  run::Database database = TPT_TRY(open(input));
  const int64_t rocpd = TPT_TRY(
      database.ask("SELECT count(*) FROM sqlite_master WHERE name LIKE 'rocpd\\_%' ESCAPE '\\'"));
  if (rocpd > 0) return read_rocpd(std::move(database), input.name(), options);
  const Tables tables = TPT_TRY(Tables::open(std::move(database), "StringIds", "value"));
  if (tables.has("manifest") && tables.has("span_type"))
    return error(
        "{} is a run of triplepoint, which is read alone; leave it out, or give it without traces",
        input.name());
  if (!tables.has("StringIds"))
    return error(
        "{} is a database, but of no known profiler (it has the tables {}); known are exports of "
        "Nsight Systems (nsys export --type sqlite) and rocprofv3's (rocpd)",
        input.name(), fmt::join(tables.all(), ", "));
  Result<Trace> trace = NsysReader(tables, options).read();
  if (!trace) return error("{}: {}", input.name(), trace.error().what);
  return trace;
}

}  // namespace triplepoint::trace
