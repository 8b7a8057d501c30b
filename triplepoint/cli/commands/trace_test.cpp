// SPDX-License-Identifier: Apache-2.0
// `triplepoint trace` from files to printed words, on small traces of our own.
#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/cli/command_testing.h"
#include "triplepoint/report/study_testing.h"
#include "triplepoint/store/store.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::cli {
namespace {

using testing::KinetoFixture;

struct Outcome : testing::Outcome {
  Json json() const { return *parse_json(out, "output"); }
};

Outcome run(std::vector<std::string> words) {
  words.insert(words.begin(), "trace");
  return {testing::call(words)};
}

struct TwoRanks {
  ScratchFolder scratch;
  std::string rank0 = scratch.file("rank0.json", KinetoFixture(0).text());
  std::string rank1 = scratch.file("rank1.json", KinetoFixture(1).text());

  Outcome ask(const std::string& analysis, std::vector<std::string> flags = {}) const {
    std::vector<std::string> words = {analysis, rank0, rank1};
    words.insert(words.end(), flags.begin(), flags.end());
    return run(words);
  }
};

TEST_CASE("trace breakdown: every rank's time, exact, with the extremes and their ranks") {
  const TwoRanks traces;
  const Json json = traces.ask("breakdown", {"--format", "json"}).json();
  CHECK(json["schema"] == 1);
  const Json& ranks = json["tables"]["ranks"];
  REQUIRE(ranks["rows"].size() == 2);
  for (const Json& row : ranks["rows"]) {
    CHECK(row["compute_ns"] == 2 * (2 * 400 + 50) * 1000);
    CHECK(row["span_ns"].get<int64_t>() ==
          row["compute_ns"].get<int64_t>() + row["exposed_communication_ns"].get<int64_t>() +
              row["exposed_copy_ns"].get<int64_t>() + row["idle_ns"].get<int64_t>());
  }
  // Rank 0 waits for the data that rank 1 loads.
  CHECK(ranks["spread"]["exposed_communication_ns"]["max_rank"] == 0);
  CHECK(json["tables"]["steps"]["rows"].size() == 4);
  // Most time first: rank 0's waiting is inside its all-reduces.
  CHECK(json["tables"]["classes"]["rows"][0]["class"] == "all_reduce");
  CHECK(json["tables"]["classes"]["rows"][1]["class"] == "compute");
}

TEST_CASE("trace breakdown: the same numbers in all three formats") {
  const TwoRanks traces;
  const std::string csv = traces.ask("breakdown", {"--format", "csv"}).out;
  CHECK(csv.starts_with("rank,span_ns,compute_ns,"));
  CHECK(contains(csv, "\n1,"));
  CHECK(contains(csv, ",1700000,"));
  const std::string table = traces.ask("breakdown").out;
  CHECK(contains(table, "1700.0"));
  CHECK(contains(table, "max /rank"));
  const std::string steps = traces.ask("breakdown", {"--format", "csv", "--show", "steps"}).out;
  CHECK(contains(steps, "ProfilerStep#2"));
}

TEST_CASE("trace stragglers: the last starter, its data loader, and not who waited longest") {
  const Outcome outcome = TwoRanks().ask("stragglers");
  CHECK(outcome.code == exit_ok);
  CHECK(outcome.out.starts_with("Rank 1 slows the others"));
  CHECK(contains(outcome.out, "By communication time alone rank 0 looks slowest"));
  CHECK(contains(outcome.out, "data loader: +3.00 ms"));
}

TEST_CASE("trace comm: nccl-tests columns, waits apart from transfers") {
  const Json rows =
      TwoRanks().ask("comm", {"--format", "json"}).json()["tables"]["collectives"]["rows"];
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["size_bytes"] == 4194304);
  CHECK(rows[0]["count"] == 2097152);
  CHECK(rows[0]["time_ns"] == 120'000.0);
  CHECK(rows[0]["algbw_gb_s"].get<double>() == doctest::Approx(4194304.0 / 120'000));
  CHECK(rows[0]["busbw_gb_s"] == rows[0]["algbw_gb_s"]);  // 2 (n - 1) / n of two ranks
}

TEST_CASE("trace comm says which of size, data type and group the trace does not tell") {
  const TwoRanks traces;
  const auto said_without = [&](std::vector<std::string> keys) {
    std::vector<std::string> words = {"comm"};
    for (const int rank : {0, 1}) {
      Json trace = *parse_json(KinetoFixture(rank).text(), "fixture");
      trace["distributedInfo"].erase("world_size");
      for (Json& event : trace["traceEvents"])
        for (const std::string& key : keys)
          if (event.contains("args") && event["args"].is_object()) event["args"].erase(key);
      words.push_back(traces.scratch.file(fmt::format("less{}.json", rank), json_text(trace)));
    }
    return run(words).out;
  };
  CHECK(!contains(said_without({}), "n/a"));
  const std::string no_type = said_without({"dtype"});
  CHECK(contains(no_type,
                 "n/a (size B, algbw GB/s, busbw GB/s): the trace does not tell the data type"));
  CHECK(!contains(no_type, "elements"));
  CHECK(contains(said_without({"In msg nelems", "Out msg nelems"}),
                 "n/a (size B, count, algbw GB/s, busbw GB/s): the trace does not tell how many "
                 "elements"));
  said_without({"Group size", "Process Group Ranks"});
  CHECK(contains(run({"comm", traces.scratch.path("less0.json")}).out,
                 "n/a (ranks, busbw GB/s): the trace does not tell groups"));
}

TEST_CASE("trace breakdown misses no grid of copies, and says so only of kernels") {
  const std::string with_grid = TwoRanks().ask("breakdown").out;
  CHECK(contains(with_grid, "copies have none"));
  const std::string classes = TwoRanks().ask("breakdown", {"--show", "kernels"}).out;
  CHECK(contains(classes, "n/a (blocks, warps, occupancy %): copies have none"));
}

TEST_CASE("trace breakdown prints control characters of kernel names as they are written") {
  const TwoRanks traces;
  std::string hostile = KinetoFixture(0).text();
  for (size_t at; (at = hostile.find("layer_norm_kernel")) != std::string::npos;)
    hostile.replace(at, 17, "layer\\u001b[2J\\nnorm\\u007f");
  const Outcome outcome =
      run({"breakdown", traces.scratch.file("x.json", hostile), "--show", "kernels"});
  CHECK(outcome.code == exit_ok);
  CHECK(contains(outcome.out, "layer\\x1b[2J\\nnorm\\x7f"));
  CHECK(!contains(outcome.out, '\033'));
}

TEST_CASE("trace breakdown by collective, critical-path and a step alone answer") {
  const TwoRanks traces;
  const Json overlap = traces.ask("breakdown", {"--show", "overlap", "--format", "json"}).json();
  CHECK(overlap["tables"]["overlap"]["rows"][0]["overlap_percent"] == 0.0);
  const Json path = traces.ask("critical-path", {"--format", "json", "--step", "2"}).json();
  double shares = 0;
  for (const Json& row : path["tables"]["classes"]["rows"])
    shares += row["on_path_percent"].get<double>();
  CHECK(shares == doctest::Approx(100));
  CHECK(path["remarks"][0] == "step 2 of 2 (ProfilerStep#2)");
  CHECK(contains(traces.ask("breakdown", {"--step", "7"}).err, "from 1 to 2"));
}

TEST_CASE("trace diff: longer matrix products, and nothing else") {
  const ScratchFolder scratch;
  const std::string before = scratch.file("before.json", KinetoFixture(0).text());
  const std::string after = scratch.file("after.json", KinetoFixture(0, 500).text());
  const Json tables = run({"diff", before, after, "--format", "json"}).json()["tables"];
  for (const Json& row : tables["classes"]["rows"])
    if (row["class"] != "all_reduce")  // waits less, as rank 0 itself comes later
      CHECK(row["difference_ns"] == (row["class"] == "compute" ? 200'000.0 : 0.0));
  CHECK(contains(run({"diff", before}).err, "two traces"));
}

/// A recording at 600 W while rank 0's device is at work, 100 W else, from a second before on.
run::Run recording_of(double begin_us, double end_us) {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  run.manifest.epoch_unix_ns = 1'700'000'000'000'000'000 - 1'000'000'000;
  run.devices = {{.index = 0, .rank = 0}};
  run::Series power{"power_instant_w", 0};
  for (double us = 0; us < 20'000; us += 7) {
    power.times.emplace_back(static_cast<int64_t>((1e6 + us) * 1000));
    power.values.push_back(us >= begin_us && us < end_us ? 600 : 100);
  }
  run.series = {power};
  return run;
}

TEST_CASE("trace join: joules of each phase, on the recorder's clock") {
  const TwoRanks traces;
  const std::string recording = traces.scratch.path("job.run");
  REQUIRE(run::save(recording_of(0, 5000), recording));
  const Json json = traces.ask("join", {recording, "--by", "step", "--format", "json"}).json();
  const Json& rows = json["tables"]["step"]["rows"];
  REQUIRE(rows.size() == 4);
  CHECK(rows[0]["method"] == "integrated");
  // The first step lasts from 1000 to 5900 us, 4000 of them at 600 W.
  CHECK(rows[0]["energy_j"].get<double>() ==
        doctest::Approx(4000e-6 * 600 + 900e-6 * 100).epsilon(0.01));
  CHECK(rows[2]["energy_j"].is_null());  // the recording has no device of rank 1
  const std::string table = traces.ask("join", {recording, "--by", "step"}).out;
  CHECK(contains(table, "the run has no device of this rank"));
}

TEST_CASE("trace merge: one file of both ranks that can be asked again") {
  const TwoRanks traces;
  const std::string merged = traces.scratch.path("merged.run");
  const std::string recording = traces.scratch.path("job.run");
  REQUIRE(run::save(recording_of(0, 5000), recording));
  REQUIRE(traces.ask("merge", {recording, "-o", merged}).code == exit_ok);
  const Json whole = traces.ask("breakdown", {"--format", "json"}).json();
  const Json again = run({"breakdown", merged, "--format", "json"}).json();
  CHECK(again["tables"]["ranks"] == whole["tables"]["ranks"]);
  CHECK(run({"join", merged, "--by", "step"}).code == exit_ok);
  for (const char* name : {"merged.pftrace", "merged.json"}) {
    REQUIRE(traces.ask("merge", {"-o", traces.scratch.path(name)}).code == exit_ok);
    CHECK(read_file(traces.scratch.path(name))->find("ncclDevKernel_AllReduce") !=
          std::string::npos);
  }
  CHECK(traces.ask("merge", {"-o", traces.scratch.path("merged.txt")}).code == exit_failed);
  const Outcome nodes = run({"merge", recording, "-o", traces.scratch.path("all.run")});
  CHECK(nodes.code == exit_ok);
  CHECK(contains(nodes.out, "clock aligned by"));
  const std::string chrome = traces.scratch.path("merged.json"), kept = *read_file(chrome);
  CHECK(run({"merge", chrome, "-o", chrome}).code == exit_failed);
  CHECK(*read_file(chrome) == kept);
}

TEST_CASE(
    "trace merge: a file for viewers carries what the analyses need, and reads back the same") {
  const TwoRanks traces;
  const std::string merged = traces.scratch.path("merged.json");
  REQUIRE(traces.ask("merge", {"-o", merged}).code == exit_ok);
  const Json events = (*parse_json(*read_file(merged), merged))["traceEvents"];
  int64_t launches = 0, arrows = 0;
  for (const Json& event : events) {
    const std::string phase = event["ph"];
    launches += event.value("cat", "") == "cuda_runtime";
    arrows += phase == "s";
    if (phase == "X") CHECK(event.contains("cat"));
    if (phase != "X" || event["name"].get<std::string>().find("AllReduce") == std::string::npos)
      continue;
    for (const char* key : {"correlation", "stream", "In msg nelems", "Group size", "Seq"})
      CHECK(event["args"].contains(key));
  }
  CHECK(launches == 2 * 10);
  CHECK(arrows == launches);
  for (const char* analysis : {"breakdown", "stragglers", "comm"}) {
    const Json whole = traces.ask(analysis, {"--format", "json"}).json();
    const Json again = run({analysis, merged, "--format", "json"}).json();
    CAPTURE(analysis);
    CHECK(again["headlines"] == whole["headlines"]);
    CHECK(again["tables"] == whole["tables"]);
  }
}

TEST_CASE("trace join: ranks of an unmarked recording are taken from the traces' devices") {
  const TwoRanks traces;
  run::Run recording = recording_of(0, 5000);
  recording.devices = {{.index = 0, .local = 0}, {.index = 1, .local = 1}};
  const std::string file = traces.scratch.path("unmarked.run");
  REQUIRE(run::save(recording, file));
  const Json json = traces.ask("join", {file, "--by", "step", "--format", "json"}).json();
  CHECK(json["tables"]["step"]["rows"][0]["energy_j"].is_number());
  CHECK(contains(json["remarks"].dump(),
                 "rank 0 taken as GPU 0, rank 1 taken as GPU 1, from the "
                 "traces"));

  // Processes that see one GPU each all call it 0: nothing tells which is which.
  std::vector<std::string> words = {"join", file};
  for (const int rank : {0, 1}) {
    Json trace = *parse_json(KinetoFixture(rank).text(), "fixture");
    for (Json& event : trace["traceEvents"])
      if (event.contains("args") && event["args"].is_object() && event["args"].contains("device"))
        event["args"]["device"] = 0;
    words.push_back(traces.scratch.file(fmt::format("one{}.json", rank), json_text(trace)));
  }
  const std::string said = run(words).out;
  CHECK(contains(said, "ranks 0 and 1 both call their device 0"));
  CHECK(contains(said, "one triplepoint record per rank"));
}

TEST_CASE("trace stragglers: clocks of an unmarked recording explain a late rank") {
  const TwoRanks traces;
  run::Run recording = recording_of(0, 5000);
  recording.devices = {{.index = 0, .local = 0}, {.index = 1, .local = 1}};
  recording.series.push_back({"sm_clock_mhz", 0, false, {Instant(0)}, {1755}});
  recording.series.push_back({"sm_clock_mhz", 1, false, {Instant(0)}, {900}});
  const std::string file = traces.scratch.path("unmarked.run");
  REQUIRE(run::save(recording, file));
  const std::string slow = traces.scratch.file("rank1.json", KinetoFixture(1, 430).text());
  std::string said = run({"stragglers", traces.rank0, slow, file, "--align", "never"}).out;
  std::ranges::replace(said, '\n', ' ');
  CHECK(contains(said, "; 900.0 MHz against 1,755 MHz"));
}

TEST_CASE("trace stragglers of a simulated run names who slows it, as its page and JSON do") {
  const ScratchFolder scratch;
  const std::string file = scratch.path("tp.run");
  const auto simulated = [&](std::vector<std::string> flags) {
    std::vector<std::string> words = {"simulate", "--model", "llama3-8b", "--cluster", "hgx-h100",
                                      "-o",       file,      "--format",  "json"};
    words.insert(words.end(), flags.begin(), flags.end());
    return *parse_json(testing::call(words).out, "simulate");
  };
  simulated({"--tp", "8", "--fault", "gpu=3,power=0.5"});
  CHECK(run({"stragglers", file}).out.starts_with("GPU 3 slows the others: "));
  simulated({"--tp", "2", "--pp", "4", "--fault", "gpu=3,power=0.5"});
  const Json said = run({"stragglers", file, "--format", "json"}).json()["headlines"];
  CHECK(said[0].get<std::string>().starts_with("GPU 3 slows the others: "));
  CHECK(said.size() == 1);
  simulated({"--tp", "2", "--pp", "4"});
  CHECK(run({"stragglers", file})
            .out.starts_with("No GPU, link or host slows the step by 1 % or more"));
}

TEST_CASE("the charts of a simulated pipeline say the same shares as its key figures") {
  const ScratchFolder scratch;
  const std::string file = scratch.path("pp.run"), page = scratch.path("pp.html");
  REQUIRE(testing::call({"simulate", "--model", "llama3-8b", "--cluster", "hgx-h100", "--tp", "2",
                         "--pp", "4", "--gbs", "32", "-o", file})
              .code == exit_ok);
  REQUIRE(testing::call({"report", file, "-o", page}).code == exit_ok);
  const metrics::Metrics m = metrics::measure(run::load(file).value());
  const std::string html = report::with_plain_blanks(read_file(page).value());
  const auto says = [&](Seconds part, const char* name) {
    return contains(html, percent(part / *m.step_time) + " is " + name);
  };
  CHECK(says(m.parts->computing, "computing"));
  CHECK(says(m.parts->bubble, "the pipeline&#39;s bubble"));
  CHECK(says(m.parts->waiting, "waiting for late peers"));
  CHECK(contains(html, "is waiting for the pipeline, "));
  CHECK(!contains(html, "waiting for the last rank"));
}

TEST_CASE("traces come from standard input, and with a byte order mark") {
  const TwoRanks traces;
  const std::string plain = run({"breakdown", traces.rank0}).out;
  const std::string marked =
      traces.scratch.file("bom.json", "\xef\xbb\xbf" + KinetoFixture(0).text());
  CHECK(run({"breakdown", marked}).out == plain);
  CHECK(run({"breakdown", traces.scratch.file("empty.json", "")}).err.find("is empty (0 bytes)") !=
        std::string::npos);
  const int kept = dup(STDIN_FILENO), file = open(traces.rank0.c_str(), O_RDONLY);
  REQUIRE(dup2(file, STDIN_FILENO) == STDIN_FILENO);
  CHECK(run({"breakdown", "-"}).out == plain);
  dup2(kept, STDIN_FILENO);
  close(file);
  close(kept);
}

TEST_CASE("a regular expression of kernel rules that takes for ever ends in a sentence") {
  const TwoRanks traces;
  std::string text = KinetoFixture(0).text();
  for (size_t at; (at = text.find("layer_norm_kernel")) != std::string::npos;)
    text.replace(at, 17, std::string(60, 'a'));
  const std::string trace = traces.scratch.file("long.json", text);
  const Outcome outcome =
      run({"breakdown", trace, "--rules",
           traces.scratch.file("slow.toml", "[[rule]]\nclass = \"memory\"\nregex = '(a+)+b'\n")});
  CHECK(outcome.code == exit_failed);
  CHECK(contains(outcome.err, "a regular expression takes too long on the kernel name \"aaaa"));
}

TEST_CASE("report: traces as they are become a page that says what the analyses say") {
  const TwoRanks traces;
  const auto report = [](std::vector<std::string> words) {
    words.insert(words.begin(), "report");
    std::ostringstream out, err;
    tui::Console console(out, err, {});
    const int code = run_command_line(words, console);
    return Outcome{code, out.str(), err.str()};
  };
  const std::string page = traces.scratch.path("step.html");
  REQUIRE(report({traces.rank0, traces.rank1, "-o", page}).code == exit_ok);
  const std::string html = report::with_plain_blanks(read_file(page).value());
  CHECK(contains(html, "Where the time went"));
  const Json said = traces.ask("stragglers", {"--format", "json"}).json()["headlines"];
  REQUIRE(!said.empty());
  CHECK(contains(html, said[0].get<std::string>()));
  CHECK(said[0].get<std::string>().starts_with("Rank 1 slows the others"));

  // Beside a single trace, under its name without the endings of traces.
  const std::string one = traces.scratch.file("one.pt.trace.json", KinetoFixture(0).text());
  REQUIRE(report({one}).code == exit_ok);
  CHECK(read_file(traces.scratch.path("one.html")));
  CHECK(report({traces.scratch.file("x.json", "hello")}).err.find("is no trace") !=
        std::string::npos);
}

TEST_CASE("trace: every analysis but merge writes a page that says what it prints") {
  const TwoRanks traces;
  const std::string page = traces.scratch.path("late.html");
  const Outcome outcome = traces.ask("stragglers", {"-o", page, "--format", "json"});
  CHECK(outcome.json()["written"][0] == page);
  const std::string html = report::with_plain_blanks(read_file(page).value());
  CHECK(contains(html, outcome.json()["headlines"][0].get<std::string>()));
  CHECK(traces.ask("breakdown", {"-o", traces.rank0}).code == exit_usage);
}

TEST_CASE("kernel rules: a file decides, and mistakes in it are named with their line") {
  const TwoRanks traces;
  const std::string rules =
      traces.scratch.file("my.toml", "[[rule]]\nclass = \"memory\"\nregex = 'gemm$'\n");
  const Json rows = traces.ask("breakdown", {"--rules", rules, "--format", "json"})
                        .json()["tables"]["classes"]["rows"];
  for (const Json& row : rows)
    CHECK(row["class"] != "compute");
  const auto complaint = [&](const char* text) {
    return traces.ask("breakdown", {"--rules", traces.scratch.file("wrong.toml", text)}).err;
  };
  CHECK(
      complaint("[[rule]]\nclass = \"comput\"\nany = [\"x\"]\n")
          .find("wrong.toml:2: no kernel class is called \"comput\"; did you mean \"compute\"?") !=
      std::string::npos);
  CHECK(contains(complaint("[[rule]]\nclass = \"compute\"\nregex = \"(\"\n"), "wrong.toml:3"));
  CHECK(contains(complaint("[[rule]]\nany = [\"x\"]\n"), "without a class"));
  CHECK(contains(traces.ask("breakdown", {"--rules", "nothing"}).err, "try default"));
}

TEST_CASE("trace: what cannot be asked is refused in a sentence") {
  const TwoRanks traces;
  CHECK(traces.ask("breakdown", {"-o", "x"}).code == exit_usage);
  CHECK(contains(traces.ask("breakdown", {"--ranks", "5"}).err, "none of the ranks 5"));
  CHECK(traces.ask("breakdown", {"--ranks", "3-1"}).code == exit_failed);
  CHECK(contains(traces.ask("breakdown", {"--show", "rank"}).err, "it has ranks, classes"));
  CHECK(contains(traces.ask("join").err, "needs one recording"));
  CHECK(contains(run({"breakdwn", traces.rank0}).err, "did you mean \"breakdown\"?"));
  CHECK(contains(run({"breakdown"}).err, "FILE is missing"));
  CHECK(run({"breakdown", traces.scratch.file("x.json", "hello")}).code == exit_failed);
}

TEST_CASE("ranks are lists and ranges") {
  CHECK(*trace_report::parse_ranks("0,2,8-10") == std::vector<int32_t>{0, 2, 8, 9, 10});
  CHECK(!trace_report::parse_ranks("1-"));
  CHECK(!trace_report::parse_ranks("0-99999999"));
}

TEST_CASE("trace: the critical path of a simulated pipeline covers the whole step") {
  const ScratchFolder scratch;
  const std::string run = scratch.path("job.run");
  REQUIRE(testing::call({"simulate", "--model", "llama3-8b", "--cluster", "hgx-h200", "--nodes",
                         "1", "--tp", "2", "--pp", "2", "--gbs", "32", "-o", run})
              .code == exit_ok);
  const testing::Outcome outcome = testing::call({"trace", "critical-path", run});
  CAPTURE(outcome.out);
  CHECK(contains(outcome.out, "The longest chain of dependencies takes"));
}

}  // namespace
}  // namespace triplepoint::cli
