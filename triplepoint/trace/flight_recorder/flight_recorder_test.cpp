// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/run/issued.h"

#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/readers.h"

namespace triplepoint::trace {

namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// Numbers below 100, texts below 256 bytes, dictionaries and lists, as PyTorch's pickler writes
/// them. `build` is for lists of integers.
struct Pickler {
  std::string bytes = "\x80\x02";
  Pickler& text(std::string_view t) {
    bytes += 'X';
    bytes += static_cast<char>(t.size());
    bytes += std::string(3, '\0');
    bytes += t;
    return *this;
  }
  Pickler& integer(int64_t value) {
    bytes += "\x8a\x08";
    for (int i = 0; i < 8; ++i)
      bytes += static_cast<char>(value >> (8 * i));
    return *this;
  }
  Pickler& op(std::string_view ops) {
    bytes += ops;
    return *this;
  }
};

std::string entry(int record, int64_t created, const char* state, const std::string& more) {
  return fmt::format(
      R"({{"frames":[],"record_id":{0},"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":)"
      R"({0},"p2p_seq_id":0,"op_id":{0},"profiling_name":"nccl:all_reduce","time_created_ns":{1},)"
      R"("input_sizes":[[3,4],[2]],"input_dtypes":["BFloat16"],"output_sizes":[[3,4],[2]],)"
      R"("output_dtypes":["BFloat16"],"state":"{2}","is_p2p":false,"retired":true,"timeout_ms":600000{3}}})",
      record, created, state, more);
}

constexpr int64_t start = 1'700'000'000'000'000'000;

std::string dump() {
  return fmt::format(
      R"({{"entries":[{},{},{},{}],"pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"[0, 1]"}}}},"version":"2.4"}})",
      entry(
          1, start, "completed",
          fmt::format(
              R"(,"duration_ms":1.5,"time_discovered_started_ns":{},"time_discovered_completed_ns":{})",
              start + 1'000'000, start + 9'000'000)),
      entry(2, start + 10'000'000, "completed",
            fmt::format(R"(,"time_discovered_started_ns":{},"time_discovered_completed_ns":{})",
                        start + 11'000'000, start + 19'000'000)),
      R"({"record_id":3,"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":0,"p2p_seq_id":4,)"
      R"("profiling_name":"nccl:recv 1<-0","time_created_ns":1700000000020000000,"is_p2p":true,)"
      R"("input_sizes":[],"input_dtypes":[],"output_sizes":[[8]],"output_dtypes":["Float"],)"
      R"("time_discovered_completed_ns":1700000000025000000,"time_discovered_started_ns":null})",
      entry(4, start + 30'000'000, "scheduled", ""));
}

Trace read(std::string text, int32_t rank = 1) {
  Input input = Input::of_text(std::move(text), "nccl_trace_rank_1");
  auto trace = read_flight_recorder(input, {.rank_if_unknown = rank});
  REQUIRE_MESSAGE(trace, trace.error().what);
  return *trace;
}

}  // namespace

TEST_CASE("a flight recorder's dump gives collectives with group, number, size and times") {
  CHECK(looks_like_flight_recorder(dump()));
  const Trace trace = read(dump());
  CHECK(trace.skipped == Skipped{});
  CHECK_FALSE(run::find_fault(trace.timeline));
  const auto& t = trace.timeline;
  REQUIRE(t.spans.size() == 4);
  CHECK(t.spans[0].rank == 1);
  // The first was timed: 1.5 ms before it was seen to end.
  CHECK(trace.epoch_unix_ns == start + 9'000'000 - 1'500'000);
  CHECK(t.spans[0].end.nanoseconds() == 1'500'000);
  // The others were not: issues without a length, at their creation.
  const std::optional<run::IssueState> states[] = {std::nullopt, run::IssueState::completed,
                                                   run::IssueState::completed,
                                                   run::IssueState::scheduled};
  for (size_t i = 0; i < 4; ++i) {
    const run::SpanType& type = t.types[as_size(t.spans[i].type)];
    CHECK(run::issue_state(type) == states[i]);
    if (i > 0) CHECK(t.spans[i].begin == t.spans[i].end);
    if (i > 0) CHECK(type.kind == run::SpanKind::host);
  }
  CHECK(t.spans[0].bytes == 14. * 2 * unit::B);
  CHECK(t.types[as_size(t.spans[0].type)].collective == spec::Collective::all_reduce);
  CHECK(t.details[1].sequence == 2);
  const auto& group = t.communicators[as_size(t.details[0].communicator)];
  CHECK(group == run::Communicator{"0 default_pg", {0, 1}, 2});
  // Both ends of a message name the same pair, sender first.
  CHECK(t.communicators[as_size(t.details[2].communicator)].name == "0 default_pg 0->1");
  CHECK(t.details[2].sequence == 4);
}

TEST_CASE(
    "the rank is what groups and messages say, else the last number of the name if they allow it") {
  const auto rank_of = [](const std::string& name, const std::string& groups,
                          const std::string& entries = "") {
    Input input = Input::of_text(
        fmt::format(R"({{"entries":[{}],"record_id":0,"pg_config":{{{}}}}})", entries, groups),
        name);
    return read_flight_recorder(input, {}).value().rank;
  };
  const std::string all = R"("0":{"desc":"default_pg","ranks":"[0, 1, 2, 3, 40]"})";
  const std::string own =
      R"(,"1":{"desc":"tp","ranks":"[2, 3]"},"2":{"desc":"pp","ranks":"[1, 3]"})";
  CHECK(rank_of("nccl_trace_rank_node02_40", all) == 40);
  CHECK(rank_of("nccl_trace_rank_worker-0_3", all) == 3);
  CHECK(rank_of("nccl_trace_rank_worker-0_77", all) == std::nullopt);
  CHECK(rank_of("nccl_trace_rank_worker-0_1", all + own) == 3);
  CHECK(rank_of("dump", all,
                R"({"profiling_name":"nccl:send 4->0","process_group":["0","default_pg"],)"
                R"("time_created_ns":1700000000000000000,"is_p2p":true,"p2p_seq_id":1})") == 40);
}

TEST_CASE("what ends as a part of a coalesced operation takes the state of the whole") {
  for (const bool done : {true, false}) {
    std::string entries;
    for (int part = 0; part < 3; ++part)
      entries += fmt::format(
          R"({}{{"record_id":{},"process_group":["0","pp"],"p2p_seq_id":1,"profiling_name":"nccl:{}",)"
          R"("time_created_ns":{},"is_p2p":true,"state":"{}","input_sizes":[[8]],"input_dtypes":["Float"]{}}})",
          part > 0 ? "," : "", part,
          part == 0   ? "send 0->1"
          : part == 1 ? "recv 0<-1"
                      : "coalesced",
          start + part,
          part < 2 ? "scheduled"
          : done   ? "completed"
                   : "started",
          part == 2 && done ? fmt::format(R"(,"duration_ms":0.5,"time_discovered_completed_ns":{})",
                                          start + 900'000)
                            : "");
    const Trace trace = read(fmt::format(
        R"({{"entries":[{}],"pg_config":{{"0":{{"desc":"pp","ranks":"[0, 1]"}}}}}})", entries));
    const auto& t = trace.timeline;
    REQUIRE(t.spans.size() == (done ? 1 : 2));
    for (const run::Span& span : t.spans) {
      const auto state = run::issue_state(t.types[as_size(span.type)]);
      CHECK(state == (done ? std::nullopt : std::optional(run::IssueState::started)));
      CHECK(span.end.nanoseconds() - span.begin.nanoseconds() == (done ? 500'000 : 0));
    }
  }
}

TEST_CASE("a size that is no list of sizes is not known, and a dump without times has no date") {
  std::string text = dump();
  for (size_t at = 0; (at = text.find("[[3,4],[2]]", at)) != std::string::npos;)
    text.replace(at, 11, "0");
  for (const run::SpanDetail& detail : read(text).timeline.details)
    if (detail.sequence != 4) CHECK(detail.in_elements == -1);  // of the message
  text = dump();
  for (const char* const key : {"\"time_created_ns\":", "\"time_discovered_completed_ns\":"})
    for (size_t at = 0; (at = text.find(key, at)) != std::string::npos; ++at)
      text.insert(at + 1, "no_");
  const Trace undated = read(text);
  CHECK_FALSE(undated.epoch_unix_ns);
  CHECK(undated.timeline.spans.size() == read(dump()).timeline.spans.size());
}

TEST_CASE("a dump cut anywhere gives the whole entries before the cut") {
  const std::string text = dump();
  for (size_t size = 12; size < text.size(); size += 13) {
    const Trace trace = read(text.substr(0, size));
    CHECK(trace.skipped.truncated);
    CHECK(trace.timeline.spans.size() <= 4);
  }
}

TEST_CASE("a pickled dump is read as its JSON is") {
  Pickler p;
  p.op("}(").text("version").text("2.4").text("entries").op("](").op("}(");
  p.text("record_id").integer(1).text("profiling_name").text("nccl:all_reduce");
  p.text("time_created_ns")
      .integer(start)
      .text("time_discovered_completed_ns")
      .integer(start + 5000);
  p.text("is_p2p").op("\x89").text("duration_ms").op("N");
  p.text("input_sizes").op("](ctorch.jit._pickle\nbuild_intlist\n](").integer(3).integer(4);
  p.op("e\x85Re").text("input_dtypes").op("](").text("Float").op("e");
  p.op("ueu.");  // ends the entry, the list of entries, the dump
  const Trace trace = read(p.bytes);
  REQUIRE(trace.timeline.spans.size() == 1);
  CHECK(trace.timeline.spans[0].bytes == 12. * 4 * unit::B);
  CHECK(trace.timeline.spans[0].end == trace.timeline.spans[0].begin);  // no length was measured
}

TEST_CASE("a dump of PyTorch 2.2 is the list of its entries") {
  Pickler p;
  p.op("](}(").text("profiling_name").text("nccl:all_reduce").text("seq_id").integer(3);
  p.op("ue.");
  CHECK(looks_like_flight_recorder(p.bytes));
  CHECK(read(p.bytes).timeline.details.at(0).sequence == 3);
}

TEST_CASE("what Python pickles in protocols 2, 3 and 4 comes out as the same JSON") {
  // {'a': [1, -2, 70000, 2**40, -2**40], 'b': (None, True, False), 'c': 1.5, 'd': {'x': 'q"'}, 3:
  // []}
  const char* expected =
      R"({"a":[1,-2,70000,1099511627776,-1099511627776],"b":[null,true,false],"c":1.5,"d":{"x":"q\""},"3":[]})";
  for (const char* hex :
       {"80027d71002858010000006171015d7102284b014afeffffff4a701101008a060000000000018a06"
        "0000000000ff6558010000006271034e88898771045801000000637105473ff80000000000005801"
        "0000006471067d71075801000000787108580200000071227109734b035d710a752e",
        "80037d71002858010000006171015d7102284b014afeffffff4a701101008a060000000000018a06"
        "0000000000ff6558010000006271034e88898771045801000000637105473ff80000000000005801"
        "0000006471067d71075801000000787108580200000071227109734b035d710a752e",
        "80049553000000000000007d94288c0161945d94284b014afeffffff4a701101008a060000000000"
        "018a060000000000ff658c0162944e888987948c016394473ff80000000000008c0164947d948c01"
        "78948c02712294734b035d94752e"})
    CHECK(pickle_to_json(from_hex(hex)) == std::string(expected));
}

TEST_CASE("pickles that would run code, repeat themselves without end or are cut are errors") {
  using namespace std::string_literals;
  const std::string cases[] = {
      "cos\nsystem\nX\x02\0\0\0ls\x85R."s,  // os.system("ls")
      "c__builtin__\neval\n(tR."s,
      "]q\0h\0a."s,  // a list inside itself
      ""s,
      "\x80"s,
      "("s,
      "e"s,
      "u"s,
      "]"s,
      "}s."s,
      "R."s,
      "h\x05."s,
      "X\xff\xff\xff\x7f"s,
      std::string(5000, ']'),
  };
  for (const std::string& body : cases) {
    CHECK_FALSE(pickle_to_json("\x80\x02" + body));
    Input input = Input::of_text("\x80\x02" + body, "x");
    CHECK_FALSE(read_flight_recorder(input, {}));
  }
  // Doubling: each list holds the one before twice.
  std::string doubling = "\x80\x02]q";
  doubling += '\0';
  for (char i = 1; i < 60; ++i)
    doubling +=
        std::string("](h") + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "eq" + i;
  CHECK_FALSE(pickle_to_json(doubling + "."));
}

TEST_CASE("the walk through JSON gives each value once, and steps over what is none") {
  Input input = Input::of_text(
      R"({"a": [1, {"b": "]}\"{"}, [2]], "c": {"d": true, "e": null}, "f": -1.5e3})", "x");
  JsonWalk walk(input, {"", ".a", ".c"});
  std::vector<std::string> seen;
  JsonItem item;
  while (*walk.next(item))
    seen.push_back(item.path + "=" + std::string(item.text));
  CHECK(seen == std::vector<std::string>{".a[]=1", R"(.a[]={"b": "]}\"{"})", ".a[]=[2]",
                                         ".c.d=true", ".c.e=null", ".f=-1.5e3"});
  CHECK_FALSE(walk.is_truncated());

  for (const char* broken : {"", "x", "{]}", "[[[[", "{\"a\" 1}", "{1:2}", "[,,}", "{\"a\":}"}) {
    Input text = Input::of_text(broken, "x");
    JsonWalk over(text, {"", ".a"});
    for (int i = 0; i < 100; ++i) {
      const auto more = over.next(item);
      if (!more || !*more) break;
      CHECK(i < 50);
    }
  }
}

TEST_CASE("a dump without entries is one, and groups without a name have their number") {
  CHECK(looks_like_flight_recorder(
      R"({"version":"2.10","nccl_version":"2.27","pg_config":{},"entries":[]})"));
  std::string first = entry(1, start, "started", "");
  const std::string_view group = R"("process_group":["0","default_pg"],)";
  first.erase(first.find(group), group.size());
  Input input = Input::of_text("{\"entries\":[" + first + "]}", "x");
  CHECK(read_flight_recorder(input, {}).value().timeline.communicators.at(0).name == "0");
}

}  // namespace triplepoint::trace
