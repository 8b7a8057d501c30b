// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/export.h"
#include "triplepoint/run/issued.h"
#include "triplepoint/run/trace_tracks.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

namespace {

using run::SpanKind;

std::string quoted(const std::string& text) {
  return json_text(Json(text), -1);
}

/// As the profiler's own names: "allreduce", "_allgather_base", ...
const char* profiler_name(spec::Collective collective) {
  return word_for<spec::Collective::send_recv>(
      {"allreduce", "_allgather_base", "_reduce_scatter_base", "all_to_allv", "broadcast", "send"},
      collective);
}

/// A type of elements of this size.
const char* type_of_size(double bytes) {
  if (bytes == 2) return "BFloat16";
  if (bytes == 4) return "Float";
  if (bytes == 8) return "Long";
  return bytes == 1 ? "Byte" : nullptr;
}

struct Payload {
  int64_t in = -1, out = -1;
  const char* type = "Byte";
};

/// Elements and their type, so that their product is the span's bytes.
Payload payload_of(const run::Span& span, const run::SpanType& type,
                   const run::SpanDetail& detail) {
  const double bytes = span.bytes / unit::B;
  const bool by_output = type.collective == spec::Collective::all_gather;
  const int64_t elements = by_output ? detail.out_elements : detail.in_elements;
  const char* known = elements > 0 ? type_of_size(bytes / as_real(elements)) : nullptr;
  if (known) return {detail.in_elements, detail.out_elements, known};
  const int64_t whole = bytes >= 0 && bytes < 9e18 ? std::llround(bytes) : 0;
  return {whole, whole, "Byte"};
}

/// The D of "device D stream S", as the reader names its lanes.
int64_t device_of(const run::Lane& lane) {
  int64_t device = 0;
  constexpr std::string_view word = "device ";
  if (lane.name.starts_with(word))
    std::from_chars(lane.name.data() + word.size(), lane.name.data() + lane.name.size(), device);
  return device;
}

/// Everything before the first event. `rank`: what the file says of it.
std::string head_of_file(const std::string& rank, const std::string& ranks,
                         std::optional<int64_t> epoch) {
  std::string text = fmt::format(
      "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{\"backend\": \"nccl\", {}\"world_size\": "
      "{}}},\n",
      rank, ranks);
  if (epoch) text += fmt::format("\"baseTimeNanoseconds\": {},\n", *epoch);
  return text;
}

constexpr const char* begin_of_events = "\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [";

std::string microseconds(int64_t ns) {
  const int64_t magnitude = std::abs(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

class KinetoWriter {
 public:
  /// `merged`: one of several ranks in a file.
  KinetoWriter(const run::Timeline& timeline, int32_t rank, bool merged = false)
      : timeline_(timeline), rank_(rank), merged_(merged), is_first_(!merged) {}

  std::string write(std::optional<int64_t> epoch) {
    std::string text = head_of_file(fmt::format("\"rank\": {}, ", rank_),
                                    std::to_string(timeline_.num_ranks), epoch) +
                       begin_of_events;
    return text + events() + "\n]}\n";
  }

  /// As the profiler lists them; of a merged file with a comma before the first one.
  std::string events() {
    if (merged_) find_launched();
    for (const run::Lane& lane : timeline_.lanes)
      if (lane.rank == rank_ && lane.stream == run::Stream::host) write_name(lane);
    const auto [first, last] = run::detail::items_of_rank(timeline_.spans, rank_);
    const size_t begin = as_size(first - timeline_.spans.data());
    for (size_t i = 0; i < as_size(last - first); ++i)
      write_span(begin + i);
    return std::move(text_);
  }

 private:
  int64_t host_process() const { return 100'000 + int64_t{rank_}; }

  void begin_event() {
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }

  void write_name(const run::Lane& lane) {
    begin_event();
    fmt::format_to(
        std::back_inserter(text_),
        R"({{"ph":"M","name":"thread_name","ts":0.000,"pid":{},"tid":{},"args":{{"name":{}}}}})",
        host_process(), lane.number, quoted(lane.name));
  }

  static const char* category_of(const run::SpanType& type, const run::SpanDetail& detail) {
    switch (type.kind) {
      case SpanKind::host:
        if (run::is_untimed(type)) return "kernel";
        return detail.correlation >= 0 ? "cuda_runtime" : "cpu_op";
      case SpanKind::pass:
      case SpanKind::step:
        return "user_annotation";
      case SpanKind::copy:
        return type.name.starts_with("Memset") ? "gpu_memset" : "gpu_memcpy";
      default:
        return "kernel";
    }
  }

  void write_span(size_t index) {
    const run::Span& span = timeline_.spans[index];
    const run::SpanType& type = timeline_.types[as_size(span.type)];
    const run::SpanDetail detail =
        timeline_.details.empty() ? run::SpanDetail{} : timeline_.details[index];
    const bool host = type.stream == run::Stream::host;
    const run::Lane lane =
        detail.lane >= 0 ? timeline_.lanes[as_size(detail.lane)] : default_lane(type.stream);
    const int64_t process = host ? host_process() : merged_ ? rank_ : device_of(lane);
    const int64_t begin = span.begin.nanoseconds();
    arguments_.clear();
    if (!host) write_device(span, type, detail, lane);
    if (detail.correlation >= 0) put("correlation", detail.correlation);
    write_ours(span, type);
    begin_event();
    fmt::format_to(
        std::back_inserter(text_),
        R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
        category_of(type, detail), name_of_type(span.type), process, lane.number,
        microseconds(begin),
        run::is_untimed(type) ? "null" : microseconds(span.end.nanoseconds() - begin), arguments_);
    if (merged_ && launched_.contains(detail.correlation))
      write_arrow(host, detail.correlation, process, lane.number, begin);
  }

  /// Correlations that both a call of the host and something on the device have.
  void find_launched() {
    std::set<int64_t> of_host;
    const auto [first, last] = run::detail::items_of_rank(timeline_.spans, rank_);
    for (const bool host : {true, false})
      for (const run::Span* span = first; span != last && !timeline_.details.empty(); ++span) {
        const auto index = as_size(span - timeline_.spans.data());
        const int64_t correlation = timeline_.details[index].correlation;
        const auto& type = timeline_.types[as_size(span->type)];
        if (correlation < 0 || (type.stream == run::Stream::host) != host) continue;
        if (host)
          of_host.insert(correlation);
        else if (of_host.contains(correlation))
          launched_.insert(correlation);
      }
  }

  /// From the launch to the kernel, as the profiler's own "ac2g".
  void write_arrow(bool host, int64_t correlation, int64_t process, int64_t thread, int64_t begin) {
    begin_event();
    fmt::format_to(
        std::back_inserter(text_),
        R"({{"ph":"{}","cat":"ac2g","name":"ac2g","id":"{}-{}","pid":{},"tid":{},"ts":{}{}}})",
        host ? 's' : 'f', rank_, correlation, process, thread, microseconds(begin),
        host ? "" : R"(,"bp":"e")");
  }

  /// Where a simulated timeline's spans run: stream 7 computes in every PyTorch trace.
  run::Lane default_lane(run::Stream stream) const {
    const int64_t number = stream == run::Stream::compute         ? 7
                           : stream == run::Stream::communication ? 20
                                                                  : host_process();
    return {rank_, stream, number, ""};
  }

  const std::string& name_of_type(int32_t type) {
    std::string& name = names_[type];
    const run::SpanType& of = timeline_.types[as_size(type)];
    const size_t ending = run::is_untimed(of) ? run::untimed_ending.size() : 0;
    if (name.empty()) name = quoted(of.name.substr(0, of.name.size() - ending));
    return name;
  }

  void put(const char* key, const auto& value) {
    fmt::format_to(std::back_inserter(arguments_), "{}\"{}\":{}", arguments_.empty() ? "" : ",",
                   key, value);
  }

  void write_device(const run::Span& span, const run::SpanType& type, const run::SpanDetail& detail,
                    const run::Lane& lane) {
    put("device", device_of(lane));
    put("stream", lane.number);
    if (detail.blocks >= 0 && detail.blocks <= INT32_MAX)
      put("grid", fmt::format("[{}, 1, 1]", detail.blocks));
    if (detail.threads_per_block >= 0)
      put("block", fmt::format("[{}, 1, 1]", detail.threads_per_block));
    if (detail.occupancy >= 0) put("est. achieved occupancy %", detail.occupancy);
    if (type.kind == SpanKind::communication)
      write_collective(span, type, detail);
    else if (type.kind == SpanKind::copy)
      put("bytes", std::llround(std::min(span.bytes / unit::B, 9e18)));
  }

  void write_collective(const run::Span& span, const run::SpanType& type,
                        const run::SpanDetail& detail) {
    const auto* group =
        detail.communicator < 0 ? nullptr : &timeline_.communicators[as_size(detail.communicator)];
    const bool receives = group != nullptr && group->end == run::MessageEnd::receiver;
    if (type.collective)
      put("Collective name", quoted(receives ? "recv" : profiler_name(*type.collective)));
    const Payload payload = payload_of(span, type, detail);
    put("In msg nelems", payload.in);
    put("Out msg nelems", payload.out);
    put("dtype", quoted(payload.type));
    if (detail.sequence >= 0) put("Seq", detail.sequence);
    if (group == nullptr) return;
    put("Group size", group->size);
    put("Process Group Name", quoted(group->name));
    if (group->peer >= 0) put(receives ? "Src Rank" : "Dst Rank", group->peer);
    if (!group->ranks.empty())
      put("Process Group Ranks", quoted(fmt::format("[{}]", fmt::join(group->ranks, ", "))));
  }

  /// What the profiler has no word for.
  void write_ours(const run::Span& span, const run::SpanType& type) {
    if (timeline_.names == run::NameKind::ops) {
      put("kind", quoted(std::string(run::span_kind_name(type.kind))));
      put("op class", quoted(std::string(spec::name_of(type.op_class))));
    }
    if (type.group) put("group kind", quoted(std::string(spec::name_of(*type.group))));
    if (span.stage >= 0) put("stage", span.stage);
    if (span.microbatch >= 0) put("microbatch", span.microbatch);
    if (span.layer >= 0) put("layer", span.layer);
    if (const double flops = span.flops / unit::FLOP; flops > 0 && std::isfinite(flops))
      put("flops", flops);
    if (const double wait = span.wait / unit::us; wait > 0 && std::isfinite(wait))
      put("wait_us", wait);
  }

  const run::Timeline& timeline_;
  int32_t rank_;
  bool merged_ = false, is_first_ = true;
  std::set<int64_t> launched_;
  std::string text_, arguments_;
  std::map<int32_t, std::string> names_;
};

/// Events of Chrome's format, one a line.
class MergedWriter {
 public:
  explicit MergedWriter(const run::Run& run) : run_(run) {}

  std::string write(const run::Timeline& timeline) {
    text_ = head_of_file("", std::to_string(run_.numbers.world_size.value_or(timeline.num_ranks)),
                         run_.manifest.epoch_unix_ns);
    if (const auto warp = run_.numbers.warp_size)
      text_ += fmt::format("\"deviceProperties\": [{{\"id\": 0, \"warpSize\": {}}}],\n", *warp);
    text_ += begin_of_events;
    name_process(-1, "triplepoint");
    for (const run::Series& series : run_.series)
      write_counter(series);
    const run::TraceTracks tracks(run_, run::TraceDetail::passes);
    for (int32_t rank = 0; rank < timeline.num_ranks; ++rank) {
      std::string events = KinetoWriter(timeline, rank, true).events();
      if (events.empty()) continue;
      text_ += merged_rank_event(rank);
      name_process(rank, tracks.rank_name(rank));
      text_ += events;
    }
    return std::move(text_) + "\n]}\n";
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }

  void name_process(int64_t process, const std::string& name) {
    add(R"({{"ph":"M","name":"process_name","ts":0.000,"pid":{},"tid":0,"args":{{"name":{}}}}})",
        process, quoted(name));
  }

  void write_counter(const run::Series& series) {
    const run::TraceCounter counter = run::describe_counter(run_, series);
    const std::string name =
        quoted(counter.rank ? counter.name : counter.owner + " " + counter.name);
    const std::string key = quoted(counter.unit.empty() ? "value" : counter.unit);
    for (size_t i = 0; i < series.times.size(); ++i)
      if (std::isfinite(series.values[i]))
        add(R"({{"ph":"C","cat":"counter","name":{},"pid":{},"ts":{},"args":{{{}:{}}}}})", name,
            counter.rank.value_or(-1), microseconds(series.times[i].nanoseconds()), key,
            series.values[i]);
  }

  const run::Run& run_;
  bool is_first_ = true;
  std::string text_;
};

}  // namespace

std::string write_kineto(const run::Timeline& timeline, int32_t rank,
                         std::optional<int64_t> epoch_unix_ns) {
  if (timeline.instances.empty()) return KinetoWriter(timeline, rank).write(epoch_unix_ns);
  const run::Timeline expanded = run::expand(timeline);
  return KinetoWriter(expanded, rank).write(epoch_unix_ns);
}

std::string write_merged_kineto(const run::Run& run) {
  if (run.timeline.instances.empty()) return MergedWriter(run).write(run.timeline);
  return MergedWriter(run).write(run::expand(run.timeline));
}

}  // namespace triplepoint::trace
