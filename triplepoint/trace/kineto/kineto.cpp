// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/kineto.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/trace/kineto/collector.h"
#include "triplepoint/trace/kineto/event.h"
#include "triplepoint/trace/kineto/json_scan.h"

namespace triplepoint::trace::kineto {

/// Where reading may go on behind text that cannot be read: at `offset`, which is the brace of an
/// event or the bracket that closes the list of events. Not found: nothing before `offset` is one,
/// and what is behind it needs more text to tell, unless it is the last.
struct Place {
  size_t offset = 0;
  bool found = false;
};

constexpr std::string_view spaces = " \n\r\t";
// What begins an event, and what may follow the list of events.
constexpr std::array<std::string_view, 8> event_keys = {"ph",  "cat", "name", "pid",
                                                        "tid", "ts",  "dur",  "args"};
constexpr std::array<std::string_view, 8> file_keys = {
    "traceName",     "displayTimeUnit", "baseTimeNanoseconds",
    "schemaVersion", "distributedInfo", "deviceProperties",
    "INFO",          "metadata"};
/// Longer than any key and the spaces around it.
constexpr size_t lookahead = 128;

std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  return text;
}

template <size_t n>
bool begins_with_key(std::string_view text, const std::array<std::string_view, n>& keys) {
  if (!text.starts_with('"')) return false;
  const size_t end = text.find('"', 1);
  if (end == std::string_view::npos) return false;
  return holds(keys, text.substr(1, end - 1));
}

/// Whether an event or the end of the list begins here, where a brace or bracket stands.
bool is_place(std::string_view before, std::string_view text) {
  const std::string_view rest = without_spaces(text.substr(1));
  if (text[0] == ']')
    return rest.starts_with(',') && begins_with_key(without_spaces(rest.substr(1)), file_keys);
  const size_t last = before.find_last_not_of(spaces);
  return last != std::string_view::npos && before[last] == ',' && begins_with_key(rest, event_keys);
}

Place find_resume(std::string_view text, bool is_last) {
  size_t at = 0;
  for (;;) {
    at = text.find_first_of("{]", at);
    if (at == std::string_view::npos)
      return {text.size() - std::min(text.size(), lookahead), false};
    const size_t from = at - std::min(at, lookahead);
    if (is_place(text.substr(from, at - from), text.substr(at, lookahead))) return {at, true};
    if (!is_last && text.size() - at < lookahead) return {from, false};
    ++at;
  }
}

/// Whether a file that ends so was written to its end.
bool ends_like_a_trace(std::string_view text) {
  const auto drop = [&](char last) {
    const size_t end = text.find_last_not_of(spaces);
    if (end == std::string_view::npos || text[end] != last) return false;
    text = text.substr(0, end);
    return true;
  };
  return drop('}') && drop(']');
}

}  // namespace triplepoint::trace::kineto

namespace triplepoint::trace {

namespace {

using namespace kineto;     // NOLINT(google-build-using-namespace): of this reader
using namespace json_scan;  // NOLINT(google-build-using-namespace)

constexpr size_t longest_event = 16 << 20;

/// Properties of the trace outside its events.
struct TraceProperties {
  std::optional<int64_t> base_ns;
  std::optional<int32_t> rank;
  bool amd = false;
  run::ProducerNumbers numbers;
  std::map<std::string, std::string> facts;
};

std::string text_of(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json_text(json, -1);
}

std::optional<int64_t> count_of(const Json& json) {
  const auto count = parse_count(text_of(json));
  return count ? std::optional(*count) : std::nullopt;
}

void note_devices(const Json& devices, TraceProperties& about) {
  if (!devices.is_array() || devices.empty() || !devices[0].is_object()) return;
  const Json& first = devices[0];
  if (first.contains("name")) about.facts["device"] = text_of(first["name"]);
  if (first.contains("totalGlobalMem") && first["totalGlobalMem"].is_number())
    about.numbers.gpu_memory_b = first["totalGlobalMem"].get<double>();
  about.facts["devices"] = std::to_string(devices.size());
  if (first.contains("numSms")) about.facts["multiprocessors"] = text_of(first["numSms"]);
  if (first.contains("warpSize")) {
    about.numbers.warp_size = count_of(first["warpSize"]);
    about.amd = first["warpSize"] == 64;
  }
}

void note_distribution(const Json& said, TraceProperties& about) {
  if (!said.is_object()) return;
  for (const char* const key : {"backend", "nccl_version", "pg_count"})
    if (said.contains(key)) about.facts[key] = text_of(said[key]);
  if (said.contains("world_size")) about.numbers.world_size = count_of(said["world_size"]);
  constexpr int64_t most_ranks = 1 << 20;
  if (said.contains("rank") && said["rank"].is_number_integer() && said["rank"] >= 0 &&
      said["rank"] < most_ranks)
    about.rank = said["rank"].get<int32_t>();
}

void note(std::string_view key, std::string_view value, TraceProperties& about) {
  if (key == "baseTimeNanoseconds") {
    int64_t base = 0;
    const char* at = value.data();
    if (read_integer(at, base)) about.base_ns = base;
    return;
  }
  const bool wanted = key == "deviceProperties" || key == "distributedInfo" ||
                      key == "schemaVersion" || key == "traceName" || key == "hostname";
  if (!wanted) return;
  const auto json = parse_json(value, "trace");
  if (!json) return;
  if (key == "deviceProperties")
    note_devices(*json, about);
  else if (key == "distributedInfo")
    note_distribution(*json, about);
  else
    about.facts[std::string(key)] = text_of(*json);
}

/// One pass over a file.
class Reading {
 public:
  Reading(Input& input, const ReadOptions& options)
      : input_(input), options_(options), collector_(options, trace_.skipped) {
    trace_.format = "kineto";
  }

  Result<Trace> run() {
    TPT_TRY(read_top());
    look_behind();
    if (!saw_events_)
      return error("{} has no trace events ({}); give the profiler's JSON", input_.name(),
                   failure_.empty() ? "it is empty" : failure_);
    if (collector_.size() == 0 && collector_.unknown() > 0)
      return error(
          "{} has no spans (its {} events are of no category that the PyTorch "
          "profiler writes for devices and hosts; those of JAX, Ascend and browsers "
          "have others); give a trace of torch.profiler, of its active steps",
          input_.name(), collector_.unknown());
    if (collector_.size() == 0 && !failure_.empty()) return error(failure_);
    return finish();
  }

  /// Whether another document follows, which begins where the input now is.
  bool has_another() const { return another_; }

 private:
  // Outcome::more where the text ends; the callers read on.
  using Step = Outcome;

  /// More text behind `at`, which moves with it. False at the end, also at one that is an error.
  bool more() {
    input_.skip(as_size(at_ - input_.ahead().data()));
    auto got = input_.fill();
    if (!got && failure_.empty()) failure_ = got.error().what;
    at_ = input_.ahead().data();
    end_ = at_ + input_.ahead().size();
    return got && *got;
  }

  /// The next thing that is no space; zero at the end.
  char next() {
    for (;;) {
      at_ = after_space(at_);
      if (at_ < end_ || !more()) return *at_;
    }
  }

  void cut_off(const char* where) {
    trace_.skipped.truncated = true;
    note_reason(trace_.skipped,
                failure_.empty() ? fmt::format("the file ends {}", where) : failure_);
  }

  /// What stands behind the JSON: another one, which the next reading is given; else what a longer
  /// file left there, or that a packed file is damaged, which its check sum shows at its end.
  void look_behind() {
    if (!failure_.empty() || trace_.skipped.truncated) return;
    const char next_char = next();
    another_ = next_char == '{' || next_char == '[';
    if (another_) return input_.skip(as_size(at_ - input_.ahead().data()));
    if (at_ < end_ && next_char != '\0')
      note_reason(trace_.skipped,
                  "text behind the end of the trace is not read (what wrote the file wrote it "
                  "twice, or over a longer one)");
    at_ = end_;
    while (more())
      at_ = end_;
    if (!failure_.empty()) cut_off("in the middle");
  }

  Result<bool> read_top() {
    at_ = input_.ahead().data();
    end_ = at_ + input_.ahead().size();
    const char first = next();
    if (first == '[') return read_events();
    if (first != '{') return error("{} is no JSON object; give the profiler's JSON", input_.name());
    ++at_;
    for (;;) {
      const char c = next();
      if (c == ',') {
        ++at_;
        continue;
      }
      if (c != '"') {
        if (c != '}') return cut_off("in the middle"), true;
        return ++at_, true;
      }
      if (!TPT_TRY(read_member())) return true;
    }
  }

  /// A key and its value; false at the end of what can be read.
  Result<bool> read_member() {
    std::string_view key;
    if (!whole([&](const char*& at) { return skip_string(at, key); }))
      return cut_off("in the middle"), false;
    const std::string name(key);
    if (next() != ':') return cut_off("in the middle"), false;
    ++at_;
    if (next() == '[' && name == "traceEvents") return read_events();
    std::string_view value;
    const bool read = whole([&](const char*& at) {
      const char* const begin = at;
      if (!skip_value(at)) return false;
      value = {begin, as_size(at - begin)};
      return at < end_;
    });
    if (!read) return cut_off("in the middle"), false;
    note(name, value, about_);
    return true;
  }

  /// Tries until there is enough text; false if it is wrong or there is no more.
  bool whole(const auto& attempt) {
    for (;;) {
      const char* at = at_;
      if (attempt(at)) return at_ = at, true;
      if (at < end_ || as_size(end_ - at_) > 4 * longest_event || !more()) return false;
    }
  }

  /// From the opening bracket to behind the closing one; false at the end of the file.
  Result<bool> read_events() {
    saw_events_ = true;
    ++at_;
    for (;;) {
      switch (read_some()) {
        case Step::event:
          return true;
        case Step::more:
          if (full_) return out_of_memory();
          expect();
          if (as_size(end_ - at_) > longest_event) {
            note_skipped(trace_.skipped, "an event is longer than 16 MiB");
            if (!resume()) return false;
          } else if (!more()) {
            cut_off("before its last event");
            return false;
          }
          break;
        case Step::bad:
          note_skipped(trace_.skipped, fmt::format("an event cannot be read: {}", why_));
          if (!resume()) return false;
      }
    }
  }

  /// Events until the text ends (more), the list ends (event), or one is wrong (bad).
  Step read_some() {
    Event event;
    const char* at = at_;
    for (;;) {
      at = after_space(at);
      if (*at == ',') at = after_space(at + 1);
      at_ = at;
      if (*at != '{') break;
      const Step step = read_event(at, end_, event, why_, options_.shapes);
      if (step != Step::event) return step;
      full_ = !collector_.add(event);
      if (full_) return Step::more;
    }
    if (at >= end_) return Step::more;
    if (*at == ']') return ++at_, Step::event;
    why_ = "something else stands in its place";
    return Step::bad;
  }

  /// To the next place that looks like the beginning of an event, or like the end of the list.
  bool resume() {
    ++at_;
    for (bool is_last = false;;) {
      const std::string_view text(at_, as_size(end_ - at_));
      const Place place = find_resume(text, is_last);
      if (place.found) return at_ += place.offset, true;
      if (is_last) {
        if (!ends_like_a_trace(text)) cut_off("before its last event");
        return false;
      }
      at_ += place.offset;
      is_last = !more();
    }
  }

  /// Makes room for all spans, once enough events tell how many there will be.
  void expect() {
    constexpr size_t enough = 256;
    const auto whole = input_.expected_size();
    if (expected_ || !whole || collector_.size() < enough) return;
    expected_ = true;
    const double share =
        as_real(collector_.size()) / as_real(std::max<uint64_t>(input_.position(), 1 << 16));
    // A size that a file claims may be any number.
    constexpr double most_spans = 1e9;
    collector_.expect(as_size(std::min(1.3 * share * as_real(*whole), most_spans)));
  }

  tl::unexpected<Error> out_of_memory() const {
    return error(
        "{} does not fit into the memory limit of {:.0f} MB (its device spans alone need more); "
        "raise the limit or trace fewer steps",
        input_.name(), options_.memory_limit / unit::MB);
  }

  Trace finish() {
    trace_.timeline = collector_.take();
    trace_.facts = std::move(about_.facts);
    trace_.numbers = about_.numbers;
    if (const size_t processes = collector_.ranks_of_processes().size(); processes > 1)
      note_reason(trace_.skipped, fmt::format("the events of {} processes are those of {} ranks",
                                              processes, processes));
    else
      set_rank();
    const auto& types = trace_.timeline.types;
    about_.amd = about_.amd || std::ranges::any_of(types, [](const run::SpanType& type) {
                   return type.stream == run::Stream::host && type.name.starts_with("hip");
                 });
    settle(trace_, unix_ns_of_zero(), about_.amd);
    trace_.operators = collector_.take_operators();
    for (OperatorCall& call : trace_.operators)
      call.begin -= trace_.epoch_in_file_ns;
    return std::move(trace_);
  }

  void set_rank() {
    trace_.rank = options_.rank ? options_.rank : about_.rank;
    const int32_t rank = trace_.rank.value_or(options_.rank_if_unknown.value_or(0));
    for (run::Span& span : trace_.timeline.spans)
      span.rank = rank;
    for (run::Lane& lane : trace_.timeline.lanes)
      lane.rank = rank;
  }

  /// Without a base, times are since 1970 or since the machine's start.
  std::optional<int64_t> unix_ns_of_zero() const {
    constexpr int64_t year_2001_ns = 1'000'000'000'000'000'000;
    if (about_.base_ns) return about_.base_ns;
    const auto& spans = trace_.timeline.spans;
    const auto since_1970 = std::ranges::count_if(
        spans, [](const run::Span& span) { return span.begin.nanoseconds() > year_2001_ns; });
    if (2 * as_size(since_1970) <= spans.size()) return std::nullopt;
    return 0;
  }

  Input& input_;
  const ReadOptions& options_;
  Trace trace_;
  TraceProperties about_;
  Collector collector_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  const char* why_ = "";
  std::string failure_;  // of the input
  bool saw_events_ = false, expected_ = false, full_ = false, another_ = false;
};

}  // namespace

bool looks_like_kineto(std::string_view head) {
  const size_t first = head.find_first_not_of(" \n\r\t");
  if (first == std::string_view::npos) return false;
  const auto has = [&](std::string_view part) { return contains(head, part); };
  if (head[first] == '[') return has("\"ph\"") && has("\"ts\"");
  return head[first] == '{' &&
         (has("\"traceEvents\"") || has("\"deviceProperties\"") || has("\"baseTimeNanoseconds\""));
}

Result<Trace> read_kineto(Input& input, const ReadOptions& options) {
  std::vector<NamedTrace> documents;
  std::set<int32_t> ranks;
  std::vector<std::string> left_out;
  for (bool more = true; more;) {
    Reading reading(input, options);
    Result<Trace> trace = reading.run();
    if (!trace && documents.empty()) return trace;
    more = trace && reading.has_another();
    const std::string name =
        fmt::format("{}, document {}", input.name(), documents.size() + left_out.size() + 1);
    if (!trace)
      left_out.push_back(fmt::format("{} is not read: {}", name, trace.error().what));
    else if (trace->rank && !ranks.insert(*trace->rank).second)
      left_out.push_back(fmt::format("{} is not read: it is of rank {} too, or of another capture",
                                     name, *trace->rank));
    else
      documents.push_back({name, *std::move(trace)});
  }
  const size_t count = documents.size();
  Trace trace = count == 1 ? std::move(documents[0].trace) : TPT_TRY(merge(std::move(documents)));
  for (std::string& why : left_out)
    note_reason(trace.skipped, std::move(why));
  if (count > 1)
    note_reason(trace.skipped, fmt::format("{} documents in one file are {} ranks", count, count));
  return trace;
}

}  // namespace triplepoint::trace
