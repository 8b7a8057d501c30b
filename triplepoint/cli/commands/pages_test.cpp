// SPDX-License-Identifier: Apache-2.0
// report, compare and what serve serves, from files to pages.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/run_figures.h"
#include "triplepoint/app/site.h"
#include "triplepoint/cli/command_testing.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/store/store.h"
#include "triplepoint/tui/run_text.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::Outcome;

/// A run of one step of `seconds`, with a power reading.
run::Run small_run(double step_s) {
  run::Run run;
  run.manifest.origin = run::Origin::measured;
  run.manifest.name = "small";
  run.manifest.epoch_unix_ns = 1'700'000'000'000'000'000;
  run.devices = {{0, 0, 0, 0, "Test GPU", 0}};
  run.steps = {{Instant(0), instant_at(step_s * unit::s), 8, 4096}};
  run::Series power{"power_w", 0, false, {}, {}};
  for (int i = 0; i <= 20; ++i) {
    power.times.push_back(instant_at(step_s * i / 20 * unit::s));
    power.values.push_back(300 + 10 * i);
  }
  run.series = {power};
  return run;
}

std::string saved(const ScratchFolder& scratch, const std::string& name, double step_s) {
  REQUIRE(run::save(small_run(step_s), scratch.path(name)));
  return scratch.path(name);
}

// ---- compare

TEST_CASE("compare: the same numbers in all formats") {
  const ScratchFolder scratch;
  const std::string a = saved(scratch, "a.run", 4), b = saved(scratch, "b.run", 5);
  const Outcome table = call({"compare", a, b});
  CHECK(table.code == exit_ok);
  CHECK(contains(table.out, "A step of b takes 25 % longer than one of a"));
  const auto json = must(parse_json(call({"compare", a, b, "--format", "json"}).out, "json"));
  const Json& step = json["sections"][0]["rows"][0];
  CHECK(step["key"] == "step_time_s");
  CHECK(step["relative"][1] == doctest::Approx(0.25));
  const auto csv = must(CsvTable::parse(call({"compare", a, b, "--format", "csv"}).out, "csv"));
  CHECK(*csv.number(0, *csv.require_column("b")) == doctest::Approx(5));
}

TEST_CASE("compare: equal file names are told apart by their folders") {
  const ScratchFolder scratch;
  REQUIRE(make_folder(scratch.folder() / "before"));
  REQUIRE(make_folder(scratch.folder() / "after"));
  const Outcome outcome =
      call({"compare", saved(scratch, "before/job.run", 4), saved(scratch, "after/job.run", 3)});
  CHECK(contains(outcome.out, "after/job is 33 % faster than before/job"));
}

TEST_CASE("compare: one source, or a run and a study, are refused with a way out") {
  const ScratchFolder scratch;
  const std::string a = saved(scratch, "a.run", 4);
  CHECK(contains(call({"compare", a, a}).out, " (1)"));
  CHECK(contains(call({"compare", a}).err, "name two or more"));
  CHECK(contains(call({"compare", a, scratch.folder().string()}).err, "is a study"));
  CHECK(call({"compare", a, a, "--names", "x"}).code == exit_failed);
}

TEST_CASE("compare: writes the page it was asked for") {
  const ScratchFolder scratch;
  const std::string page = scratch.path("page.html");
  const std::string a = saved(scratch, "a.run", 4), b = saved(scratch, "b.run", 5);
  CHECK(call({"compare", a, b, "-o", page}).code == exit_ok);
  CHECK(contains(*read_file(page), "b against a"));
}

// ---- report

TEST_CASE("report: traces with the recording taken meanwhile are one run") {
  const ScratchFolder scratch;
  const std::string rank0 = scratch.file("rank0.json", testing::KinetoFixture(0).text());
  const std::string rank1 = scratch.file("rank1.json", testing::KinetoFixture(1).text());
  const std::string page = scratch.path("page.html");
  const Outcome outcome =
      call({"report", rank0, rank1, saved(scratch, "job.run", 0.01), "-o", page});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == exit_ok);
  const std::string html = *read_file(page);
  CHECK(contains(html, "ampere_bf16_gemm"));
  CHECK(contains(html, "power (W)"));
}

TEST_CASE("report: a step that is not there is an error that names those that are") {
  const ScratchFolder scratch;
  const std::string rank0 = scratch.file("rank0.json", testing::KinetoFixture(0).text());
  CHECK(call({"report", rank0, "--step", "2"}).code == exit_ok);
  CHECK(contains(call({"report", rank0, "--step", "7"}).err, "from 1 to 2"));
}

TEST_CASE("report: what a folder's results are read from is not written") {
  const ScratchFolder scratch;
  saved(scratch, "a.run", 4);
  const std::string results = scratch.file("results.json", "{}");
  CHECK(contains(call({"report", scratch.folder().string(), "-o", results}).err,
                 "name another output"));
  CHECK(*read_file(results) == "{}");
}

// ---- serve

HttpRequest request(const std::string& path) {
  HttpRequest made;
  made.path = path;
  return made;
}

TEST_CASE("serve: the first page lists runs with their numbers, and leads to theirs") {
  const ScratchFolder scratch;
  REQUIRE(make_folder(scratch.folder() / "deep"));
  saved(scratch, "deep/my run.run", 4);
  app::Site site(scratch.folder());
  const HttpResponse index = site.answer(request("/"));
  CHECK(contains(index.body, "href=\"/deep/my%20run.html\""));
  const HttpResponse page = site.answer(request("/deep/my run.html"));
  const auto has = [&](const char* name, const char* part) {
    return std::ranges::any_of(page.headers, [&](const auto& header) {
      return header.first == name && contains(header.second, part);
    });
  };
  CHECK(has("Content-Security-Policy", "frame-ancestors 'none'"));
  CHECK(has("X-Content-Type-Options", "nosniff"));
  CHECK(page.status == 200);
  CHECK(contains(page.body, "Triplepoint run"));
  CHECK(contains(index.body, "<td class=\"num\">4.00</td>"));  // seconds of a step
}

TEST_CASE("serve: nothing but runs and studies can be asked for") {
  const ScratchFolder scratch;
  saved(scratch, "a.run", 4);
  scratch.file("secret.html", "secret");
  app::Site site(scratch.folder());
  for (const char* path : {"/secret.html", "/../../etc/passwd", "/a.run.tail", "//etc/passwd",
                           "/a.run/", "/deep/", "/%00"})
    CHECK(site.answer(request(path)).status == 404);
}

TEST_CASE("serve: a link to a run outside of the folder is not served") {
  const ScratchFolder outside, scratch;
  saved(outside, "secret.run", 4);
  saved(scratch, "own.run", 4);
  std::filesystem::create_symlink(outside.path("secret.run"), scratch.path("link.run"));
  std::filesystem::create_symlink(scratch.path("own.run"), scratch.path("again.run"));
  app::Site site(scratch.folder());
  CHECK(site.answer(request("/link.html")).status == 404);
  CHECK(site.answer(request("/again.html")).status == 200);
}

TEST_CASE("serve: a page is made anew only when its run has changed") {
  const ScratchFolder scratch;
  saved(scratch, "a.run", 4);
  app::Site site(scratch.folder());
  const HttpResponse page = site.answer(request("/a.html"));
  std::string tag;
  for (const auto& [name, value] : page.headers)
    if (name == "ETag") tag = value;
  REQUIRE(!tag.empty());
  HttpRequest again = request("/a.html");
  again.headers["if-none-match"] = tag;
  CHECK(site.answer(again).status == 304);
}

TEST_CASE("serve: a broken run is listed with what is wrong, and has no page") {
  const ScratchFolder scratch;
  scratch.file("broken.run", "no run at all");
  app::Site site(scratch.folder());
  CHECK(contains(site.answer(request("/")).body, "broken"));
  CHECK(site.answer(request("/broken.html")).status == 500);
}

TEST_CASE("serve: compares two runs of the folder, and asks which if it is not told") {
  const ScratchFolder scratch;
  saved(scratch, "a.run", 4);
  saved(scratch, "b.run", 5);
  app::Site site(scratch.folder());
  HttpRequest both = request("/compare");
  CHECK(site.answer(both).status == 400);
  both.query = {{"a", "a.run"}, {"b", "b.run"}};
  CHECK(contains(site.answer(both).body, "b against a"));
  both.query["b"] = "../b.run";
  CHECK(site.answer(both).status == 404);
}

// ---- sparklines

TEST_CASE("sparkline: a run's lines say where they began and ended") {
  std::ostringstream out;
  const tui::Console console(out, out, {});
  const std::string lines = tui::run_sparklines(console, small_run(4));
  CHECK(contains(lines, "power (W)"));
  CHECK(contains(lines, "500"));
  CHECK(tui::run_sparklines(console, run::Run()).empty());
}

// ---- one answer, several views

/// What a reader of HTML sees: no tags, plain spaces.
std::string seen_text(const std::string& html) {
  std::string text;
  bool in_tag = false;
  for (const char c : html) {
    in_tag = in_tag || c == '<';
    if (!in_tag) text += c;
    in_tag = in_tag && c != '>';
  }
  constexpr std::string_view hard_space = "\u00a0";
  for (std::size_t at = text.find(hard_space); at != std::string::npos; at = text.find(hard_space))
    text.replace(at, hard_space.size(), " ");
  return text;
}

TEST_CASE("terminal, page and JSON say the same of a run, in the same words") {
  const std::vector<std::vector<std::string>> jobs = {
      {"--model", "llama3-8b", "--cluster", "hgx-h100", "--gbs", "64", "--tp", "2", "--pp", "2"},
      {"--model", "llama3-8b", "--cluster", "hgx-h200", "--gbs", "64", "--power-limit", "400W"},
      {"--model", "llama3-8b", "--cluster", "hgx-h100", "--gbs", "8", "--task", "decode"},
      {"--model", "mixtral-8x7b", "--cluster", "hgx-h200", "--gbs", "64", "--ep", "8", "--seq",
       "2048"},
      {"--model", "llama3-8b", "--cluster", "mi300x", "--gbs", "64", "--fault", "gpu=3,power=0.5"}};
  for (const std::vector<std::string>& job : jobs) {
    CAPTURE(job);
    const ScratchFolder scratch;
    const std::string file = scratch.path("a.run"), page = scratch.path("a.html");
    const auto words = testing::plus({"simulate"}, job);
    const Outcome terminal = call(testing::plus(words, {"-o", file}));
    REQUIRE_MESSAGE(terminal.code == exit_ok, terminal.err);
    REQUIRE(call({"report", file, "-o", page}).code == exit_ok);
    const std::string seen = seen_text(read_file(page).value());
    const run::Run run = run::load(file).value();
    const metrics::Metrics metrics = metrics::measure(run);
    for (const answers::KeyFigure& figure : answers::key_figures(run, metrics)) {
      CAPTURE(figure.label);
      for (const std::string& text : {terminal.out, seen}) {
        CHECK(contains(text, figure.label));
        CHECK(contains(text, figure.value));
        CHECK(contains(text, figure.remark));
      }
    }
    const Json json = testing::json_of(call(testing::plus(words, {"--format", "json"})));
    CHECK(json["step_time_s"] == *metrics.step_time / unit::s);
    CHECK(json["temperature_c"]["peak"] == *metrics.temperature_peak_c);
  }
}

/// A data folder beside which the explorer may lie, for as long as it lives.
class OwnData {
 public:
  OwnData() {
    std::filesystem::create_directory_symlink(spec::default_library().root, scratch_.path("data"));
    ::setenv("TRIPLEPOINT_DATA", scratch_.path("data").c_str(), 1);
  }
  OwnData(const OwnData&) = delete;
  OwnData& operator=(const OwnData&) = delete;
  ~OwnData() { ::unsetenv("TRIPLEPOINT_DATA"); }
  const ScratchFolder& scratch() const { return scratch_; }

 private:
  ScratchFolder scratch_;
};

TEST_CASE("explore: without a built page it says how to build one, and serve's page does, too") {
  const OwnData data;
  const Outcome refused = call({"explore", "-o", data.scratch().path("page.html")});
  CHECK(refused.code == exit_failed);
  CHECK(contains(refused.err, "make explore"));
  app::Site site(data.scratch().folder());
  const HttpResponse answer = site.answer({.path = "/explore"});
  CHECK(answer.status == 404);
  CHECK(contains(answer.body, "make explore"));
}

/// What the explorer's page begins with.
Json begins_with(const OwnData& data, const testing::Words& words) {
  data.scratch().file("explore/explore.html", "<main></main><!--job--><script></script>");
  const std::string page = data.scratch().path("page.html");
  const Outcome written = call(testing::plus({"explore"}, testing::plus(words, {"-o", page})));
  REQUIRE_MESSAGE(written.code == exit_ok, written.err);
  const std::string text = read_file(page).value_or("");
  const std::string head = "<script type=\"application/json\" id=\"job\">";
  const std::size_t begin = text.find(head), end = text.find("</script>", begin);
  REQUIRE(begin != text.npos);
  const std::string inside = text.substr(begin + head.size(), end - begin - head.size());
  CHECK(!contains(inside, '<'));
  return parse_json(inside, page).value_or(Json());
}

spec::Job job_in(const Json& page) {
  const auto job =
      spec::parse_job(spec::default_library(), page.at("beginning").get<std::string>(), "page");
  REQUIRE(job);
  return *job;
}

TEST_CASE("explore: the page holds the job, whose text cannot end its element") {
  const OwnData data;
  const Json page = begins_with(data, {"--model", "gpt3-175b", "--cluster", "hgx-h200", "--nodes",
                                       "4", "--tp", "8", "--pp", "4"});
  CHECK(job_in(page).plan.pipeline_parallel_size == 4);
  CHECK(!page.contains("measured"));
  CHECK(call({"explore", "--model", "gpt3-175", "--cluster", "hgx-h200"}).code == exit_failed);
}

TEST_CASE("explore: of a recording the page holds the job and what was measured") {
  const OwnData data;
  run::Run recording = small_run(2);
  recording.manifest.job =
      *spec::parse_job(spec::default_library(),
                       "model = \"gpt3-175b\"\ncluster = \"hgx-h200\"\n[plan]\n"
                       "tensor_parallel_size = 8\n",
                       "job.toml");
  const std::string file = data.scratch().path("small.run");
  REQUIRE(run::save(recording, file));
  const Json page = begins_with(data, {file});
  const spec::Job job = job_in(page);  // but for its name and notes the recording's
  CHECK(job.plan == recording.manifest.job->plan);
  CHECK(job.model == recording.manifest.job->model);
  CHECK(job.cluster == recording.manifest.job->cluster);
  CHECK(page.at("measured").at("step time") == "2.00 s");
}

}  // namespace
}  // namespace triplepoint::cli
