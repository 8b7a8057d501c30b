// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/flight_recorder/flight_recorder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/trace/flight_recorder/pickle.h"

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
  // The second was not: from where it was seen to start.
  CHECK((t.spans[1].end - t.spans[1].begin) / unit::ms == 8);
  CHECK(t.spans[0].bytes == 14. * 2 * unit::B);
  CHECK(t.types[static_cast<size_t>(t.spans[0].type)].collective == spec::Collective::all_reduce);
  CHECK(t.details[1].sequence == 2);
  const auto& group = t.communicators[static_cast<size_t>(t.details[0].communicator)];
  CHECK(group == run::Communicator{"default_pg", {0, 1}, 2});
  // Both ends of a message name the same pair, sender first.
  CHECK(t.communicators[static_cast<size_t>(t.details[2].communicator)].name == "default_pg 0->1");
  CHECK(t.details[2].sequence == 4);
  CHECK(trace.facts.at("unfinished") == "1");
  CHECK(trace.facts.at("first_unfinished") == "nccl:all_reduce number 4 of default_pg (scheduled)");
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
  CHECK((trace.timeline.spans[0].end - trace.timeline.spans[0].begin) / unit::us ==
        doctest::Approx(5));
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

}  // namespace triplepoint::trace
