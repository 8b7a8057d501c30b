// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "triplepoint/base/csv.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/plausible.h"
#include "triplepoint/trace/readers.h"

namespace triplepoint::trace {
namespace {

constexpr size_t most_output_bytes = size_t{512} << 20U;

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
  std::string text = TPT_TRY(input.rest(most_output_bytes));
  const auto parse = [&] {
    return CsvTable::parse(text, input.name(), CsvTable::BadRows::leave_out);
  };
  Result<CsvTable> parsed = parse();
  const bool is_cut = !parsed && !text.ends_with('\n');  // inside of quotes
  if (is_cut) {
    text.resize(text.rfind('\n') + 1);
    parsed = parse();
  }
  const CsvTable table = TPT_TRY(std::move(parsed));
  const Columns columns(table);
  if (!columns.name || !columns.begin || !columns.end)
    return error(
        "{}: no table of kernels (it needs columns for name, begin and end); "
        "give *_kernel_trace.csv",
        input.name());
  TraceBuilder builder("rocprof_csv");
  if (is_cut) builder.skip("the last row is cut");
  for (const CsvTable::BadRow& row : table.left_out())
    builder.skip(row.what);
  const int32_t rank = options.rank.value_or(options.rank_if_unknown.value_or(0));
  for (size_t row = 0; row < table.rows(); ++row) {
    const auto begin = whole(table, row, columns.begin), end = whole(table, row, columns.end);
    run::Span span = span_without_length(end ? std::nullopt : begin, rank);
    if (!begin || !end || *end < *begin) {
      builder.skip("a row has no times, or ends before it begins");
    } else {
      span.begin = Instant(*begin);
      span.end = Instant(*end);
    }
    const std::string name(table.at(row, *columns.name));
    span.type = builder.kernel(name);
    const int64_t queue = whole(table, row, columns.queue).value_or(0);
    const int64_t device = whole(table, row, columns.device).value_or(0);
    const int32_t lane = builder.lane(
        {rank, run::Stream::compute, queue, fmt::format("device {} stream {}", device, queue)});
    builder.add(span,
                {.lane = lane, .correlation = whole(table, row, columns.correlation).value_or(-1)});
  }
  return std::move(builder).finish(std::nullopt);
}

namespace {

constexpr std::string_view tool = ".rocprofiler-sdk-tool[]";

/// Work items over items of a workgroup, in all three directions; -1 if unknown.
int64_t blocks_of(JsonView grid, JsonView workgroup) {
  int64_t blocks = 1;
  for (const char* axis : {"x", "y", "z"}) {
    const int64_t items = grid.at(axis).integer_or(-1), size = workgroup.at(axis).integer_or(-1);
    if (items < 1 || size < 1 || items > INT32_MAX || blocks > INT32_MAX) return -1;
    blocks *= (items + size - 1) / size;
  }
  return blocks;
}

int32_t threads_of(JsonView workgroup) {
  int64_t threads = 1;
  for (const char* axis : {"x", "y", "z"}) {
    const int64_t size = workgroup.at(axis).integer_or(-1);
    if (size < 1 || size > 65536 || threads > 65536) return -1;
    threads *= size;
  }
  return threads <= 65536 ? static_cast<int32_t>(threads) : -1;
}

/// A record whose name is not known before the whole process has been read.
struct Call {
  run::Span span;
  run::SpanDetail detail;
  int64_t kind = -1, operation = -1, kernel = -1;
  bool is_marker = false, is_copy = false;
};

class RocprofilerReader {
 public:
  explicit RocprofilerReader(const ReadOptions& options)
      : options_(options),
        first_rank_(options.rank.value_or(options.rank_if_unknown.value_or(0))) {}

  void take(std::string_view path, JsonView json) {
    path.remove_prefix(std::min(tool.size(), path.size()));
    if (path == ".metadata") return begin_process(json);
    if (path == ".agents[]") return take_agent(json);
    if (path == ".kernel_symbols[]") return take_symbol(json);
    if (path == ".strings") return take_strings(json);
    constexpr std::string_view records = ".buffer_records.";
    if (!path.starts_with(records) || !path.ends_with("[]")) return;
    path.remove_prefix(records.size());
    path.remove_suffix(2);
    if (path == "kernel_dispatch") return take_kernel(json);
    if (path == "memory_copy") return take_copy(json);
    if (path.ends_with("_api")) take_call(path, json);
  }

  Trace finish() && {
    end_process();
    return std::move(builder_).finish(std::nullopt);
  }
  TraceBuilder& builder() { return builder_; }

 private:
  int32_t rank() const { return first_rank_ + std::max(processes_ - 1, 0); }

  void begin_process(JsonView metadata) {
    end_process();
    ++processes_;
    builder_.facts()["processes"] = std::to_string(processes_);
    if (const auto process = metadata.at("pid").integer())
      builder_.facts()["pid"] = std::to_string(*process);
  }

  void take_agent(JsonView json) {
    if (json.at("type").integer_or(2) != 2) return;  // 1: CPU
    const auto number = static_cast<int64_t>(devices_.size());
    devices_.try_emplace(json.at("id").at("handle").integer_or(0), number);
    std::string_view name = json.at("product_name").text();
    if (name.empty()) name = json.at("name").text();
    if (number == 0 && !name.empty()) builder_.facts()["device"] = name;
  }

  void take_symbol(JsonView json) {
    std::string_view name;
    for (const char* key : {"formatted_kernel_name", "demangled_kernel_name", "kernel_name"})
      if (name.empty()) name = json.at(key).text();
    symbols_[json.at("kernel_id").integer_or(-1)] = name;
  }

  void take_strings(JsonView json) {
    json.at("buffer_records").for_each([&](JsonView kind) {
      std::vector<std::string>& operations = operations_.emplace_back();
      kind.at("operations").for_each([&](JsonView name) { operations.emplace_back(name.text()); });
    });
    json.at("marker_api").for_each([&](JsonView marker) {
      markers_[marker.at("key").integer_or(-1)] = marker.at("value").text();
    });
  }

  /// Times, correlation and what kind of record it is. What has no times is counted; of a device it
  /// is a span without length, of the host this is false.
  bool begin_call(JsonView json, Call& call, bool on_device) {
    const auto begin = json.at("start_timestamp").integer(),
               end = json.at("end_timestamp").integer();
    call.span = span_without_length(end ? std::nullopt : begin, rank());
    if (begin && end && *end >= *begin && *begin >= 0) {
      call.span.begin = Instant(*begin);
      call.span.end = Instant(*end);
    } else {
      builder_.skip("a record has no times, or ends before it begins");
      if (!on_device) return false;
    }
    call.detail.correlation = json.at("correlation_id").at("internal").integer_or(-1);
    call.kind = json.at("kind").integer_or(-1);
    call.operation = json.at("operation").integer_or(-1);
    return true;
  }

  void take_kernel(JsonView json) {
    Call call;
    begin_call(json, call, true);
    const JsonView info = json.at("dispatch_info");
    call.kernel = std::max<int64_t>(0, info.at("kernel_id").integer_or(0));
    call.detail.blocks = blocks_of(info.at("grid_size"), info.at("workgroup_size"));
    call.detail.threads_per_block = threads_of(info.at("workgroup_size"));
    const int64_t queue = json.at("stream_id")
                              .at("handle")
                              .integer_or(info.at("queue_id").at("handle").integer_or(0));
    call.detail.lane = device_lane(info.at("agent_id").at("handle").integer_or(0), queue);
    calls_.push_back(call);
  }

  void take_copy(JsonView json) {
    Call call{.is_copy = true};
    begin_call(json, call, true);
    const double bytes = json.at("bytes").real_or(0);
    call.span.bytes = std::max(bytes, 0.) * unit::B;
    const int64_t to = json.at("dst_agent_id").at("handle").integer_or(0);
    const int64_t from = json.at("src_agent_id").at("handle").integer_or(0);
    call.detail.lane = device_lane(devices_.contains(to) ? to : from, copy_queue);
    calls_.push_back(call);
  }

  void take_call(std::string_view table, JsonView json) {
    Call call{.is_marker = table.starts_with("marker")};
    const bool launches = table.starts_with("hip");
    if (options_.host < (launches ? HostSpans::launches : HostSpans::ops)) return;
    if (!begin_call(json, call, false)) return;
    const int64_t thread = json.at("thread_id").integer_or(0);
    call.detail.lane =
        builder_.lane({rank(), run::Stream::host, thread, fmt::format("thread {}", thread)});
    // Their own numbers; markers are still looked up by theirs.
    if (!launches && !call.is_marker) call.detail.correlation = -1;
    calls_.push_back(call);
  }

  int32_t device_lane(int64_t agent, int64_t queue) {
    const int64_t device = value_at(devices_, agent).value_or(0);
    std::string name = queue == copy_queue ? fmt::format("device {} copies", device)
                                           : fmt::format("device {} stream {}", device, queue);
    return builder_.lane({rank(), run::Stream::compute, queue, std::move(name)});
  }

  std::string name_of(const Call& call) const {
    if (call.kernel >= 0) {
      const auto symbol = symbols_.find(call.kernel);
      return symbol == symbols_.end() || symbol->second.empty()
                 ? fmt::format("kernel {}", call.kernel)
                 : symbol->second;
    }
    if (const auto marker = markers_.find(call.detail.correlation);
        call.is_marker && marker != markers_.end())
      return marker->second;
    const auto kind = as_size(call.kind), operation = as_size(call.operation);
    if (call.kind >= 0 && kind < operations_.size() && call.operation >= 0 &&
        operation < operations_[kind].size())
      return operations_[kind][operation];
    return call.is_copy ? "memory copy" : "call";
  }

  run::SpanType type_of(const Call& call) const {
    if (call.is_copy) return {.name = name_of(call), .kind = run::SpanKind::copy};
    if (call.kernel >= 0) return kernel_type(name_of(call));
    return {.name = name_of(call), .kind = run::SpanKind::host, .stream = run::Stream::host};
  }

  void end_process() {
    using Key = std::array<int64_t, 6>;
    std::map<Key, int32_t> types;  // so that a name is looked up once
    for (Call& call : calls_) {
      const Key key{call.kind,
                    call.operation,
                    call.kernel,
                    call.is_marker ? 1 : 0,
                    call.is_copy ? 1 : 0,
                    call.is_marker ? call.detail.correlation : -1};
      const auto [known, is_new] = types.try_emplace(key, -1);
      if (is_new) known->second = builder_.type(type_of(call));
      call.span.type = known->second;
      if (call.is_marker) call.detail.correlation = -1;
      builder_.add(call.span, call.detail);
    }
    calls_.clear();
    symbols_.clear();
    operations_.clear();
    markers_.clear();
    devices_.clear();
  }

  static constexpr int64_t copy_queue = -1;
  const ReadOptions& options_;
  TraceBuilder builder_{"rocprofiler"};
  int32_t first_rank_ = 0, processes_ = 0;
  // Of the process that is being read.
  std::vector<Call> calls_;
  std::map<int64_t, std::string> symbols_, markers_;
  std::vector<std::vector<std::string>> operations_;  // by kind
  std::map<int64_t, int64_t> devices_;                // agent -> number
};

}  // namespace

bool looks_like_rocprofiler(std::string_view head) {
  return head.find("\"rocprofiler-sdk-tool\"") != std::string_view::npos;
}

Result<Trace> read_rocprofiler(Input& input, const ReadOptions& options) {
  RocprofilerReader reader(options);
  JsonWalk walk(
      input,
      {"", ".rocprofiler-sdk-tool", ".rocprofiler-sdk-tool[]", ".rocprofiler-sdk-tool[].agents",
       ".rocprofiler-sdk-tool[].kernel_symbols", ".rocprofiler-sdk-tool[].code_objects",
       ".rocprofiler-sdk-tool[].counters", ".rocprofiler-sdk-tool[].buffer_records",
       ".rocprofiler-sdk-tool[].buffer_records.*", ".rocprofiler-sdk-tool[].callback_records",
       ".rocprofiler-sdk-tool[].callback_records.*"});
  JsonItem item;
  JsonRecord record;
  while (TPT_TRY(walk.next(item))) {
    if (item.path.find(".callback_records") != std::string::npos) continue;
    const auto json = record.parse(item.text);
    if (json)
      reader.take(item.path, *json);
    else
      reader.builder().skip("a record is not valid JSON");
  }
  for (int64_t i = 0; i < walk.broken(); ++i)
    reader.builder().skip("text between the records is no JSON");
  if (walk.is_truncated()) reader.builder().truncated("the file ends before its records do");
  return std::move(reader).finish();
}

}  // namespace triplepoint::trace
