// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/chrome_trace.h"

#include <cmath>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/run/trace_tracks.h"

namespace triplepoint::run {

namespace {

std::string quoted(const std::string& text) {
  return json_text(Json(text), -1);
}

class TraceWriter {
 public:
  TraceWriter(const Run& run, TraceDetail detail) : run_(run), tracks_(run, detail) {
    for (int32_t i = 0; i < tracks_.num_slice_names(); ++i)
      names_.push_back(quoted(tracks_.slice_name(i)));
  }

  std::string write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (int32_t rank = 0; rank < run_.timeline.num_ranks; ++rank)
      write_rank(rank);
    for (const Series& series : run_.series)
      write_counter(series);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
  }

  static std::string microseconds(uint64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }

  void write_rank(int32_t rank) {
    add(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", rank,
        quoted(tracks_.rank_name(rank)));
    int32_t described = -1;
    for (const TraceSlice& slice : tracks_.slices_of(rank)) {
      if (slice.track != described)
        add(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", rank,
            slice.track, quoted(tracks_.track_name(rank, slice.track)));
      described = slice.track;
      const Span& span = slice.span;
      const auto length = static_cast<uint64_t>(span.end.nanoseconds() - span.begin.nanoseconds());
      add(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
          names_[static_cast<size_t>(span.type)], rank, slice.track,
          microseconds(tracks_.since_first(span.begin)), microseconds(length), arguments(span));
    }
  }

  static std::string arguments(const Span& span) {
    std::string list;
    const auto put = [&](const char* name, auto value) {
      fmt::format_to(std::back_inserter(list), "{}\"{}\":{}", list.empty() ? "" : ",", name, value);
    };
    if (span.stage >= 0) put("stage", span.stage);
    if (span.microbatch >= 0) put("microbatch", span.microbatch);
    if (span.layer >= 0) put("layer", span.layer);
    if (span.bytes > Bytes() && std::isfinite(span.bytes / unit::B))
      put("bytes", span.bytes / unit::B);
    if (span.flops > Flops() && std::isfinite(span.flops / unit::FLOP))
      put("flops", span.flops / unit::FLOP);
    if (span.wait > Seconds() && std::isfinite(span.wait / unit::s))
      put("wait_us", span.wait / unit::us);
    return list;
  }

  void write_counter(const Series& series) {
    const TraceCounter counter = describe_counter(run_, series);
    const int32_t process = process_of(counter);
    const std::string name = quoted(counter.name);
    const std::string key = quoted(counter.unit.empty() ? "value" : counter.unit);
    for (size_t i = 0; i < series.times.size(); ++i)
      if (std::isfinite(series.values[i]))
        add(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{{}:{}}}}})", name, process,
            microseconds(tracks_.since_first(series.times[i])), key, series.values[i]);
  }

  int32_t process_of(const TraceCounter& counter) {
    if (counter.rank) return *counter.rank;
    const auto next = run_.timeline.num_ranks + static_cast<int32_t>(owners_.size());
    const auto [found, is_new] = owners_.emplace(counter.owner, next);
    if (is_new)
      add(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", next,
          quoted(counter.owner));
    return found->second;
  }

  const Run& run_;
  TraceTracks tracks_;
  std::vector<std::string> names_;
  std::map<std::string, int32_t> owners_;  // of counters without a rank
  bool is_first_ = true;
  std::string text_;
};

}  // namespace

std::string chrome_trace(const Run& run, TraceDetail detail) {
  return TraceWriter(run, detail).write();
}

}  // namespace triplepoint::run
