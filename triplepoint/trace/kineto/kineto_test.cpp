// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/kineto.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/trace/kineto/json_scan.h"
#include "triplepoint/trace/kineto/samples_testing.h"
#include "triplepoint/trace/timeline_testing.h"

namespace triplepoint::trace::json_scan {
namespace {

/// With the zeros that a scan relies on.
std::string padded(std::string text) {
  text.append(padding, '\0');
  return text;
}

std::optional<int64_t> microseconds(const std::string& text) {
  const std::string all = padded(text);
  const char* at = all.data();
  int64_t ns = 0;
  if (!read_microseconds(at, ns)) {
    CHECK(at == all.data());
    return std::nullopt;
  }
  CHECK(at == all.data() + text.size());
  return ns;
}

/// How far a value reaches; nothing if it is none.
std::optional<size_t> value_size(const std::string& text) {
  const std::string all = padded(text);
  const char* at = all.data();
  if (!skip_value(at)) return std::nullopt;
  return as_size(at - all.data());
}

TEST_CASE("microseconds are whole nanoseconds, whatever their form") {
  CHECK(microseconds("4458677009853.422") == 4'458'677'009'853'422);
  CHECK(microseconds("1709232423187223.25") == 1'709'232'423'187'223'250);
  CHECK(microseconds("9007199254740993") == 9'007'199'254'740'993'000);  // 2^53 + 1: no float
  CHECK(microseconds("0") == 0);
  CHECK(microseconds("0.001") == 1);
  CHECK(microseconds("-1.5") == -1500);
  CHECK(microseconds("\"12.5\"") == 12'500);
  CHECK(microseconds("1.5e3") == 1'500'000);
  CHECK(microseconds("15E-1") == 1500);
  CHECK(microseconds("1.0004") == 1000);
  CHECK(microseconds("1.0005") == 1001);
  CHECK(microseconds("1.00000000000000000000000000000000001") == 1000);
}

TEST_CASE("what is no time that fits is none") {
  for (const char* const text :
       {"NaN", "Infinity", "null", "1e300", "9223372036854775807", "\"1", ".5", "-", "1e", "--1",
        "99999999999999999999999", "true", "\"\"", "1x"})
    CHECK(!microseconds(text));
}

TEST_CASE("values of every kind are passed over to their last byte") {
  for (const std::string text :
       {"1", "-1.5e3", "true", "null", "\"\"", "\"a\\\"b\\\\\"", "[]", "{}",
        "[[1, 2], {\"a\": \"]}\"}]", "{\"a\": {\"b\": [\"}\", \"\\\"]\"]}}"}) {
    CAPTURE(text);
    CHECK(value_size(text) == text.size());
    CHECK(value_size(text + ", 5") == text.size());
    CHECK(value_size(text + std::string(70, ' ')) == text.size());
  }
  const std::string text = "\"" + std::string(1000, 'x') + "\"";
  CHECK(value_size(text) == text.size());
}

TEST_CASE("values that do not end, or nest too deep, are none") {
  for (const std::string text :
       {"", "\"abc", "\"abc\\", "[1, 2", "{\"a\": ", "[\"a\"b\"]", "\"a\nb\""})
    CHECK(!value_size(text));
  CHECK(value_size(std::string(512, '[') + std::string(512, ']')) == 1024);
  CHECK(!value_size(std::string(513, '[') + std::string(513, ']')));
}

TEST_CASE("spaces are passed over however many there are") {
  for (size_t count = 0; count < 70; ++count) {
    std::string text;
    for (size_t i = 0; i < count; ++i)
      text += " \n\r\t"[i % 4];
    const std::string all = padded(text + "x");
    CHECK(after_space(all.data()) == all.data() + count);
  }
}

}  // namespace
}  // namespace triplepoint::trace::json_scan

namespace triplepoint::trace {
namespace {

Trace reread(const std::string& text) {
  Input input = Input::of_text(text, "rank0.json");
  auto trace = read_kineto(input, {});
  REQUIRE_MESSAGE(trace, trace.error().what);
  return *trace;
}

/// What the profiler's files cannot say.
run::Timeline without_groups(run::Timeline timeline) {
  for (run::SpanType& type : timeline.types)
    type.group.reset();
  return timeline;
}

}  // namespace

TEST_CASE("a timeline written as Kineto JSON is read back the same") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const run::Timeline timeline = sample_timeline(seed, 1);
    const std::string text = write_kineto(timeline, 0, 1'700'000'000'000'000'000);
    CHECK(parse_json(text, "trace"));
    const Trace trace = reread(text);
    CHECK(trace.skipped == Skipped{});
    CHECK(trace.epoch_unix_ns == 1'700'000'000'000'000'000);
    CHECK(described(trace.timeline) == described(without_groups(timeline)));
  }
}

TEST_CASE("a written rank says which one it is, and of how many") {
  const run::Timeline timeline = sample_timeline(3, 4);
  for (int32_t rank = 0; rank < 4; ++rank) {
    const Trace trace = reread(write_kineto(timeline, rank));
    CHECK(trace.rank == rank);
    CHECK(trace.numbers.world_size == 4);
    CHECK(trace.timeline.spans.size() == timeline.spans.size() / 4);
  }
}

TEST_CASE("a simulated timeline without lanes is written on the usual streams") {
  run::Timeline timeline;
  timeline.num_ranks = 1;
  timeline.types = {{.name = "qkv", .kind = run::SpanKind::compute}};
  timeline.spans = {{Instant(0), Instant(1500), 0, 0, 2, 3, 4}};
  timeline.spans[0].flops = 5e9 * unit::FLOP;
  const std::string text = write_kineto(timeline, 0);
  CHECK(text.find(R"("tid":7,"ts":0.000,"dur":1.500)") != std::string::npos);
  CHECK(text.find(R"("stage":2,"microbatch":3,"layer":4,"flops":5000000000)") != std::string::npos);
  CHECK(reread(text).timeline.spans.size() == 1);
}

}  // namespace triplepoint::trace

namespace triplepoint::trace::kineto {
namespace {

using run::SpanKind;

Trace read(std::string text, const ReadOptions& options = {}) {
  Input input = Input::of_text(std::move(text), "sample.json");
  Result<Trace> trace = read_kineto(input, options);
  REQUIRE_MESSAGE(trace, trace.error().what);
  const auto fault = run::find_fault(trace->timeline);
  REQUIRE_MESSAGE(!fault, fault.value_or(""));
  return *std::move(trace);
}

std::string event(std::string_view fields) {
  return "{\"ph\": \"X\", \"cat\": \"kernel\", \"pid\": 0, \"tid\": 7, " + std::string(fields) +
         "}";
}

std::string file_of(const std::vector<std::string>& events, std::string_view after = "") {
  std::string text = "{\"traceEvents\": [\n";
  for (size_t i = 0; i < events.size(); ++i)
    text += (i == 0 ? "" : ",\n") + events[i];
  return text + "\n]" + std::string(after) + "}";
}

/// What a span is apart from indices and the epoch.
using Plain = std::tuple<int64_t, int64_t, std::string, int64_t, int64_t>;

std::vector<Plain> plain(const Trace& trace) {
  std::vector<Plain> all;
  const run::Timeline& t = trace.timeline;
  for (size_t i = 0; i < t.spans.size(); ++i) {
    if (run::is_untimed(t.types[as_size(t.spans[i].type)])) continue;
    const auto& lane = t.lanes[as_size(t.details[i].lane)];
    all.emplace_back(t.spans[i].begin.nanoseconds(), t.spans[i].end.nanoseconds(),
                     t.types[as_size(t.spans[i].type)].name, lane.number, t.details[i].correlation);
  }
  std::ranges::sort(all);
  return all;
}

std::vector<Plain> plain(const std::vector<SampleEvent>& events) {
  int64_t first = INT64_MAX;
  for (const SampleEvent& event : events)
    first = std::min(first, event.begin_ns);
  std::vector<Plain> all;
  for (const SampleEvent& event : events)
    all.emplace_back(event.begin_ns - first, event.begin_ns + event.length_ns - first, event.name,
                     event.place, event.correlation);
  std::ranges::sort(all);
  return all;
}

SpanKind kind_of(const Trace& trace, const run::Span& span) {
  return trace.timeline.types[as_size(span.type)].kind;
}

std::vector<size_t> spans_of(const Trace& trace, SpanKind kind) {
  std::vector<size_t> all;
  for (size_t i = 0; i < trace.timeline.spans.size(); ++i)
    if (kind_of(trace, trace.timeline.spans[i]) == kind) all.push_back(i);
  return all;
}

TEST_CASE("every vintage gives back the spans it was made of, to its own granularity") {
  for (const TraceVersion vintage : all_vintages)
    for (const bool one_line : {false, true}) {
      CAPTURE(static_cast<int>(vintage));
      const auto events = sample_step({.layers = 4}, granularity_ns(vintage));
      const Trace trace =
          read(sample_text(events, {.vintage = vintage, .rank = 3, .one_line = one_line}));
      CHECK(trace.skipped == Skipped{});
      CHECK(plain(trace) == plain(events));
      CHECK(trace.rank == 3);
      CHECK(trace.timeline.num_ranks == 4);
      CHECK(trace.epoch_unix_ns == sample_epoch_unix_ns(vintage));
      CHECK(trace.numbers.world_size == 8);
      CHECK(spans_of(trace, SpanKind::step).size() == 1);
    }
}

TEST_CASE("where the text is cut into pieces does not change what is read") {
  const std::string good = sample_text(sample_step({.layers = 1, .ops_per_layer = 7}, 1), {});
  std::string bad = good;
  for (const char* const word : {"\"ts\"", "\"args\"", "\"grid\""})
    bad.replace(bad.find(word, bad.size() / 3), 1, "\"\"");
  for (const std::string& text : {good, bad}) {
    const Trace whole = read(text);
    for (const size_t step : {1, 2, 3, 17, 63, 64, 65, 1000}) {
      Input input = Input::of_text(text, "sample.json");
      input.read_in_steps_of(step);
      CHECK(read_kineto(input, {}).value() == whole);
    }
  }
}

TEST_CASE("collectives are known in every vintage, from the kernel, its launch or its context") {
  for (const TraceVersion vintage : all_vintages) {
    CAPTURE(static_cast<int>(vintage));
    const auto events = sample_step({.layers = 5}, granularity_ns(vintage));
    const Trace trace = read(sample_text(events, {.vintage = vintage}));
    const run::Timeline& t = trace.timeline;
    const auto collectives = spans_of(trace, SpanKind::communication);
    REQUIRE(collectives.size() == 5);
    for (size_t i = 0; i < collectives.size(); ++i) {
      const run::SpanDetail& detail = t.details[collectives[i]];
      const run::Span& span = t.spans[collectives[i]];
      CHECK(t.types[as_size(span.type)].collective == spec::Collective::all_reduce);
      CHECK(detail.sequence == static_cast<int64_t>(i));
      CHECK(detail.in_elements % 1024 == 0);
      CHECK(span.bytes / unit::B == 2.0 * as_real(detail.in_elements));
    }
    CHECK(t.communicators.size() == 1);
    const bool named = vintage == TraceVersion::amd || vintage == TraceVersion::current;
    CHECK(t.communicators[0].name == (named ? "3 dp group" : "unnamed 0"));
    CHECK(t.communicators[0].ranks.size() == (named ? 2 : 0));
  }
}

TEST_CASE("an all-to-all is told from a pipeline's sends by the operator around its launch") {
  for (const TraceVersion vintage : {TraceVersion::amd, TraceVersion::current}) {
    auto events = sample_step({.layers = 2}, 1);
    for (SampleEvent& event : events)
      if (event.name.starts_with("nccl"))
        event.name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
    const auto collective_with = [&](const char* said) {
      const Trace trace = read(sample_text(events, {.vintage = vintage, .collective = said}));
      const size_t first = spans_of(trace, SpanKind::communication).at(0);
      const auto type = as_size(trace.timeline.spans[first].type);
      return trace.timeline.types[type].collective;
    };
    CHECK(collective_with("all_to_allv") == spec::Collective::all_to_all);
    CHECK(collective_with("send") == spec::Collective::send_recv);
    CHECK(collective_with("_reduce_scatter_base") == spec::Collective::reduce_scatter);
    CHECK(!collective_with("something new"));
  }
}

TEST_CASE("grids come from the kernel, on AMD from its launch") {
  for (const TraceVersion vintage : {TraceVersion::current, TraceVersion::amd}) {
    const Trace trace = read(sample_text(sample_step({}, 1), {.vintage = vintage}));
    for (const size_t i : spans_of(trace, SpanKind::compute)) {
      CHECK(trace.timeline.details[i].blocks == 16);
      CHECK(trace.timeline.details[i].threads_per_block == 256);
    }
  }
}

TEST_CASE("durations that overflow into the next operation end there") {
  auto events = sample_step({.layers = 2, .python = false}, 1);
  const auto is_kernel = [](const SampleEvent& e) { return e.kind == SampleEvent::Kind::kernel; };
  const auto first = std::ranges::find_if(events, is_kernel);
  const int64_t length = first->length_ns;
  for (const int64_t more : {int64_t{1'000'000}, int64_t{3600} * 1'000'000'000}) {
    first->length_ns = length + more;
    const Trace amd = read(sample_text(events, {.vintage = TraceVersion::amd}));
    const Trace nvidia = read(sample_text(events, {.vintage = TraceVersion::current}));
    CHECK(amd.skipped.notes.size() == 1);
    // NVIDIA's kernels may begin before the one before them ends, but not hold all others.
    CHECK(nvidia.skipped.notes.size() == (more > 1'000'000 ? 1 : 0));
    CHECK(run::extent(nvidia.timeline)->end < Instant(1'000'000'000));
    CHECK(run::extent(amd.timeline)->end < Instant(1'000'000'000));
  }
}

TEST_CASE("annotations on the device are no kernels, and neither are flows and counters") {
  const Trace trace = read(file_of(
      {event("\"name\": \"a\", \"ts\": 1, \"dur\": 2"),
       R"({"ph": "X", "cat": "gpu_user_annotation", "name": "x", "pid": 0, "tid": 7, "ts": 0, "dur": 9})",
       R"({"ph": "X", "cat": "Trace", "name": "x", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 9})",
       R"({"ph": "s", "cat": "ac2g", "name": "x", "id": 1, "pid": 0, "tid": 7, "ts": 0})",
       R"({"ph": "C", "name": "[memory]", "pid": 0, "tid": 7, "ts": 0, "args": {"Bytes": 3}})"}));
  CHECK(trace.timeline.spans.size() == 1);
  CHECK(trace.skipped == Skipped{});
}

TEST_CASE("the order of an event's members does not matter") {
  const Trace trace = read(file_of({R"({"args": {"stream": 20, "correlation": 5}, "dur": 0.5,
    "ts": "10.001", "tid": 7, "pid": 0, "name": "k", "cat": "kernel", "ph": "X"})"}));
  CHECK(plain(trace) == std::vector<Plain>{{0, 500, "k", 20, 5}});
}

TEST_CASE("a list of events without anything around is read too") {
  const Trace trace = read("[" + event("\"name\": \"a\", \"ts\": 1, \"dur\": 2") + "]");
  CHECK(trace.timeline.spans.size() == 1);
  CHECK(!trace.epoch_unix_ns);
}

TEST_CASE("names lose their escapes") {
  const Trace trace =
      read(file_of({event(R"("name": "a\"b\\c\u00e9\ud83d\ude00\n", "ts": 1, "dur": 2)")}));
  CHECK(trace.timeline.types[0].name == "a\"b\\c\xc3\xa9\xf0\x9f\x98\x80\n");
}

TEST_CASE("options leave out what they name and nothing else") {
  const std::string text = sample_text(sample_step({}, 1), {});
  const Trace all = read(text);
  size_t before = all.timeline.spans.size();
  for (const HostSpans host : {HostSpans::ops, HostSpans::launches, HostSpans::none}) {
    const Trace some = read(text, {.host = host});
    CHECK(some.timeline.spans.size() < before);
    before = some.timeline.spans.size();
    for (const SpanKind kind :
         {SpanKind::compute, SpanKind::communication, SpanKind::copy, SpanKind::step})
      CHECK(spans_of(some, kind).size() == spans_of(all, kind).size());
    const size_t first = spans_of(some, SpanKind::communication).at(0);
    CHECK(some.timeline.details[first].sequence == 0);
  }
}

TEST_CASE("a memory limit gives up host spans first, and says so") {
  const std::string text = sample_text(sample_step({.layers = 40}, 1), {});
  const Trace all = read(text);
  const auto bytes = [](size_t spans) { return as_real(spans) * 192 * unit::B; };
  const Trace some = read(text, {.memory_limit = bytes(all.timeline.spans.size() / 2)});
  CHECK(some.timeline.spans.size() <= all.timeline.spans.size() / 2);
  CHECK(spans_of(some, SpanKind::compute).size() == spans_of(all, SpanKind::compute).size());
  REQUIRE(!some.skipped.notes.empty());
  CHECK(some.skipped.notes[0].find("left out") != std::string::npos);
  Input input = Input::of_text(text, "sample.json");
  const auto too_little = read_kineto(input, {.memory_limit = bytes(100)});
  REQUIRE(!too_little);
  CHECK(too_little.error().what.find("memory limit") != std::string::npos);
}

TEST_CASE("a broken event is skipped and counted, and those around it are read") {
  const std::string good = event("\"name\": \"a\", \"ts\": 1, \"dur\": 2");
  const std::vector<std::string> broken = {
      event("\"name\": \"operator\"\"\", \"ts\": 1, \"dur\": 2"),
      event("\"name\": \"say \"hello\" twice\", \"ts\": 1, \"dur\": 2"),
      event("\"name\": \"line\nbreak\", \"ts\": 1, \"dur\": 2"),
      event("\"name\": \"a\", \"ts\": 1, \"dur\": 2, \"args\": {\"Concrete Inputs\": [\"a\"b\"]}"),
      event("\"name\": \"a\", \"ts\": 1, \"dur\": 2, \"args\": {\"x\": [1, 2}"),
      event("\"name\": \"a\", \"ts\": NaN, \"dur\": 2"),
      event("\"name\": \"a\", \"ts\": 1, \"dur\": -2"),
      event("\"name\": \"a\", \"ts\": 1"),
      event("\"name\": \"a\", \"ts\": 1e300, \"dur\": 2"),
      event("\"name\": \"a\", \"ts\": 1, \"dur\": 9223372036854775807"),
      event("\"name\": \"a\" \"ts\": 1, \"dur\": 2"),
      event("\"name\": \"a\", \"ts\": 1, \"dur\": 2, \"args\": " + std::string(1000, '[')),
      std::string("{\"ph\": \"X\", \"name\": \"zero\0byte\"}", 31),
      "nonsense"};
  for (const std::string& bad : broken) {
    CAPTURE(bad.substr(0, 100));
    const Trace trace =
        read(file_of({good, bad, good, good}, ", \"baseTimeNanoseconds\": 1700000000000000000"));
    CHECK(timed_spans(trace.timeline).size() == 3);
    CHECK(trace.skipped.events == 1);
    CHECK(trace.skipped.reasons.size() == 1);
    CHECK(!trace.skipped.truncated);
    // What stands behind the list is read too, even if its last event is broken.
    const Trace last = read(file_of({good, bad}, ", \"baseTimeNanoseconds\": 1700000000000000000"));
    CHECK(timed_spans(last.timeline).size() == 1);
    CHECK(last.epoch_unix_ns == 1'700'000'000'000'001'000);
  }
}

TEST_CASE("a file cut off anywhere gives the events before the cut") {
  const std::string text = sample_text(sample_step({.layers = 2}, 1), {});
  const size_t begin = text.find("traceEvents") + 20, whole = read(text).timeline.spans.size();
  size_t before = 0;
  for (size_t size = begin; size + 200 < text.size(); size += 61) {
    const Trace part = read(text.substr(0, size));
    CHECK(part.skipped.events == 0);
    CHECK(part.skipped.truncated);
    CHECK(part.timeline.spans.size() >= before);
    CHECK(part.timeline.spans.size() <= whole);
    before = part.timeline.spans.size();
  }
  CHECK(before + 2 >= whole);
}

TEST_CASE("an endless event costs bounded memory and is skipped") {
  const std::string good = event("\"name\": \"a\", \"ts\": 1, \"dur\": 2");
  const std::string text = file_of(
      {good, event("\"name\": \"" + std::string(40 << 20, 'x') + "\", \"ts\": 1, \"dur\": 2"),
       good});
  const Trace trace = read(text);
  CHECK(trace.timeline.spans.size() == 2);
  CHECK(trace.skipped.events == 1);
}

TEST_CASE("what is no trace is a sentence") {
  for (const char* const text :
       {"", "{}", "[", "{\"traceEvents\": 5}", "{\"traceEvents", "12", "{\"a\": [[[["}) {
    Input input = Input::of_text(text, "x.json");
    const auto trace = read_kineto(input, {});
    if (!trace)
      CHECK(trace.error().what.find("x.json") != std::string::npos);
    else
      CHECK(trace->timeline.spans.empty());
  }
}

TEST_CASE("a trace of another program in the same form is a sentence, not an empty timeline") {
  Input input = Input::of_text(
      R"([{"ph": "X", "cat": "blink", "name": "a", "pid": 0, "tid": 7, "ts": 1, "dur": 2}])", "x");
  const auto trace = read_kineto(input, {});
  REQUIRE(!trace);
  CHECK(trace.error().what.find("no spans") != std::string::npos);
}

TEST_CASE("names without end stay within the memory limit") {
  std::vector<std::string> events;
  for (int i = 0; i < 20000; ++i)
    events.push_back("{\"ph\": \"X\", \"cat\": \"cpu_op\", \"pid\": 1, \"tid\": " +
                     std::to_string(i) + ", \"name\": \"" + std::string(100, 'x') +
                     std::to_string(i) + "\", \"ts\": 1, \"dur\": 2}");
  Input input = Input::of_text(file_of(events), "x");
  CHECK(!read_kineto(input, {.memory_limit = 3e6 * unit::B}));
}

TEST_CASE("files are recognized by what is in them") {
  for (const TraceVersion vintage : all_vintages)
    CHECK(looks_like_kineto(sample_text({}, {.vintage = vintage})));
  CHECK(looks_like_kineto("[{\"ph\": \"X\", \"ts\": 1}]"));
  CHECK(!looks_like_kineto("{\"schema\": \"1.1.0-chakra.0.0.4\", \"nodes\": []}"));
  CHECK(!looks_like_kineto(""));
}

/// Twelve kernels 100 us apart, each with its launch 20 us before; `broken`: the fields of one
/// kernel.
std::string launched(size_t which = SIZE_MAX, const std::string& broken = "",
                     const std::string& process = "", int64_t shift = 0) {
  std::vector<std::string> events;
  const auto pid = [&](int64_t number) {
    return process.empty() ? std::to_string(number) : fmt::format("\"{}{}\"", process, number);
  };
  for (size_t i = 0; i < 12; ++i) {
    const int64_t at = 200'000'000'000 + shift + static_cast<int64_t>(i) * 100;
    events.push_back(fmt::format(
        R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":{},"tid":1,"ts":{},"dur":5,"args":{{"correlation":{}}}}})",
        pid(500), at - 20, i));
    events.push_back(fmt::format(
        R"({{"ph":"X","cat":"kernel","name":"gemm","pid":{},"tid":7,{},"args":{{"device":0,"stream":7,"correlation":{}}}}})",
        pid(0), i == which ? broken : fmt::format(R"("ts":{},"dur":80)", at), i));
  }
  return triplepoint::joined(events, ",\n");
}

}  // namespace

TEST_CASE(
    "whatever value of a kernel is absent, none or absurd, no other number changes, and it is "
    "told") {
  const Trace sound = read(file_of({launched()}));
  CHECK(sound.skipped == Skipped{});
  for (const size_t which : {size_t{0}, size_t{5}, size_t{11}}) {
    const int64_t at = 200'000'000'000 + static_cast<int64_t>(which) * 100;
    for (const std::string value :
         {"null", "0", "NaN", "-7", "9223372036854775808", "1e300", "\"N/A\"", "100000000000"})
      for (const bool begin : {true, false}) {
        if (!begin && value == "0") continue;  // no length is a length
        const std::string broken = begin ? fmt::format(R"("ts":{},"dur":80)", value)
                                         : fmt::format(R"("ts":{},"dur":{})", at, value);
        const Trace trace = read(file_of({launched(which, broken)}));
        CAPTURE(which);
        CAPTURE(broken);
        CHECK(trace.skipped.events + static_cast<int64_t>(trace.skipped.notes.size()) == 1);
        // The calls and the other kernels, at the times they had.
        std::vector<Plain> expected = plain(sound), got = plain(trace);
        const auto same = [&](const Plain& one) {
          return std::get<2>(one) == "gemm" &&
                 std::get<0>(one) == std::get<0>(plain(sound)[2 * which + 1]);
        };
        std::erase_if(expected, same);
        std::erase_if(got, same);
        CHECK(got == expected);
      }
  }
}

TEST_CASE("events as begin and end are as whole ones") {
  std::string text;
  for (int i = 0; i < 5; ++i)
    text += fmt::format(
        R"({{"ph":"B","cat":"kernel","name":"gemm{0}","pid":0,"tid":7,"ts":{1},"args":{{"device":0,"stream":7}}}},)"
        R"({{"ph":"E","cat":"kernel","name":"gemm{0}","pid":0,"tid":7,"ts":{2}}},)",
        i, 1000 + 200 * i, 1100 + 200 * i);
  const Trace trace = read(
      file_of({text + R"({"ph":"B","cat":"kernel","name":"open","pid":0,"tid":7,"ts":9000})"}));
  REQUIRE(trace.timeline.spans.size() == 5);
  for (const run::Span& span : trace.timeline.spans)
    CHECK((span.end - span.begin) / unit::us == doctest::Approx(100));
  CHECK(trace.skipped.events == 1);
}

TEST_CASE("ranks that other tools merged into one file are ranks, and so are several documents") {
  const Trace named =
      read(file_of({launched(SIZE_MAX, "", "[TP00] "), launched(SIZE_MAX, "", "[TP03] ")}));
  CHECK(named.timeline.num_ranks == 4);
  std::string numbers = launched(SIZE_MAX, "", "", 40);
  for (const auto& [from, to] :
       {std::pair{"\"pid\":500", "\"pid\":1500"}, std::pair{"\"pid\":0", "\"pid\":1000"}})
    for (size_t at = numbers.find(from); at != std::string::npos; at = numbers.find(from, at + 1))
      numbers.replace(at, std::string_view(from).size(), to);
  const Trace numbered = read(file_of({launched(), numbers}));
  CHECK(numbered.timeline.num_ranks == 2);
  const Trace documents = read(file_of({launched()}) + "\n" + file_of({launched()}));
  CHECK(documents.timeline.num_ranks == 2);
  for (const Trace* trace : {&named, &numbered, &documents}) {
    CHECK(trace->timeline.spans.size() == 48);
    CHECK(trace->skipped.events == 0);
    CHECK(!trace->skipped.notes.empty());
  }
  const std::string ranked = file_of({launched()}, R"(,"distributedInfo":{"rank":2})");
  CHECK(read(ranked + ranked).timeline.spans.size() == 24);
  CHECK(read(ranked + ranked).skipped.notes.size() == 1);
  CHECK(read(ranked + ranked.substr(700)).skipped.notes.size() == 1);  // over a longer file
}

TEST_CASE("kernels that overlap on one stream may be those of several processes, which is told") {
  const auto notes_of = [](int apart) {
    std::string events;
    for (int i = 0; i < 20; ++i)
      events += fmt::format(
          R"({}{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{},"dur":90,)"
          R"("args":{{"device":0,"stream":7,"correlation":{}}}}})",
          i == 0 ? "" : ",\n", apart * i, i);
    return read(file_of({events})).skipped.notes;
  };
  CHECK(notes_of(100).empty());
  REQUIRE(notes_of(50).size() == 1);
  CHECK(notes_of(50)[0].starts_with("19 of 19 kernels and copies overlap"));
}

TEST_CASE("a stream that waits for another does nothing, and DMA copies (MTIA)") {
  std::string events;
  for (int i = 0; i < 4; ++i)
    for (const auto& [name, begin, length] :
         {std::tuple("event_wait", 0, 90), {"pe_exe", 90, 50}, {"dma_request", 140, 10}})
      events += fmt::format(
          R"({{"ph":"X","cat":"mtia_ccp_events","name":"{}","pid":9,"tid":4,"ts":{},"dur":{}}},)",
          name, 1000 + 200 * i + begin, length);
  events.pop_back();
  const Trace trace = read(file_of({events}));
  CHECK(trace.timeline.spans.size() == 8);
  for (const run::Span& span : trace.timeline.spans) {
    const run::SpanType& type = trace.timeline.types[as_size(span.type)];
    CHECK((type.kind == run::SpanKind::copy) == (type.name == "dma_request"));
  }
}

TEST_CASE("copies that a collective launches itself are its own, those of tensors inside are not") {
  const auto op = [](const char* name, int id, const char* more) {
    return fmt::format(
        R"({{"ph":"X","cat":"cpu_op","name":"{}","pid":1,"tid":1,"ts":{},"dur":40,"args":{{"External id":{}{}}}}})",
        name, 100 * id, id, more);
  };
  const auto copy = [](const char* name, int correlation, int id) {
    return fmt::format(
        R"({{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":{0},"dur":2,"args":{{"correlation":{1},"External id":{2}}}}},)"
        R"({{"ph":"X","cat":"gpu_memcpy","name":"{3}","pid":0,"tid":7,"ts":{4},"dur":10,"args":{{"device":0,"stream":7,"correlation":{1},"bytes":64}}}})",
        100 * id + 10, correlation, id, name, 1000 + 20 * correlation);
  };
  constexpr const char* of_two =
      R"(,"Collective name":"_allgather_base","Group size":2,"Process Group Name":"0")";
  constexpr const char* of_one =
      R"(,"Collective name":"_allgather_base","Group size":1,"Process Group Name":"1")";
  const Trace trace = read(
      file_of({op("nccl:_all_gather_base", 1, of_two), copy("Memcpy DtoD (Device -> Device)", 1, 1),
               copy("Memcpy DtoD (Device -> Device)", 2, 9), op("nccl:_all_gather_base", 3, of_one),
               copy("Memcpy DtoD (Device -> Device)", 3, 3),
               op("symm_mem::_low_contention_all_gather", 5, ""),
               copy("Memcpy PtoP (Device -> Device)", 4, 9)}));
  CHECK(spans_of(trace, SpanKind::communication).size() == 1);
  CHECK(spans_of(trace, SpanKind::copy).size() == 3);
}

}  // namespace triplepoint::trace::kineto
