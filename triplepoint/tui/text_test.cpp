// SPDX-License-Identifier: Apache-2.0
// What documents, runs and work in progress look like on a terminal.
#include "triplepoint/base/text.h"

#include <chrono>
#include <sstream>
#include <thread>

#include <doctest/doctest.h>

#include "triplepoint/tui/document_text.h"
#include "triplepoint/tui/progress.h"
#include "triplepoint/tui/run_text.h"

namespace triplepoint::tui {
namespace {

using Kind = answers::Remark::Kind;

std::string text_of(const auto& print, std::optional<std::size_t> width = {}) {
  std::ostringstream out, err;
  Console console(out, err, {.width = width});
  print(console);
  CHECK(err.str().empty());
  return out.str();
}

answers::Document sample_document() {
  DataTable table{.name = "plans", .title = "Plans", .columns = {{"plan", "plan"}, {"e", "kJ"}}};
  table.add({"TP8", int64_t{5}});
  answers::Section section{"plans", "Of all", {{"TP8 is fastest"}}, {}, {table}};
  section.remarks.push_back({"the PUE is assumed", Kind::note});
  section.remarks.push_back({"GPU 3 is hot", Kind::warning});
  section.remarks.push_back({"triplepoint simulate --tp 8 --pp 4 --gbs 1024", Kind::command});
  answers::Section nothing{.id = "empty", .title = "Nothing", .tables = {titled_table({"none"})}};
  return {"plan", "llama", "12 plans", "Take TP8.", {{"time", "3 h", "± 5 %"}}, {section, nothing}};
}

TEST_CASE("a document: title, verdict, facts, figures, then tables with what is said of them") {
  CHECK(text_of([](Console& console) { print_document(console, sample_document()); }) ==
        "llama\nTake TP8.\n12 plans\n\ntime  3 h  ± 5 %\n\nPlans\nplan  kJ\nTP8    5\n"
        "- TP8 is fastest\nnote: the PUE is assumed\nwarning: GPU 3 is hot\n"
        "  triplepoint simulate --tp 8 --pp 4 --gbs 1024\n");
}

TEST_CASE("sentences are wrapped on a narrow terminal, commands are not: they are copied") {
  const std::string text =
      text_of([](Console& console) { print_document(console, sample_document()); }, 20);
  CHECK(contains(text, "note: the PUE is\n  assumed\n"));
  CHECK(contains(text, "\n  triplepoint simulate --tp 8 --pp 4 --gbs 1024\n"));
}

TEST_CASE("a section's title stands above tables without one, and empty tables are left out") {
  answers::Section section{.id = "a", .title = "Of all", .tables = {titled_table({"none"})}};
  section.tables.push_back(titled_table({"plan"}));
  section.tables.back().add({"TP8"});
  CHECK(text_of([&](Console& console) { print_section(console, section); }) ==
        "\nOf all\nplan\n TP8\n");
}

TEST_CASE("a job that does not fit shows its memory and notes, and no speed") {
  run::Run run;
  run.manifest.name = "big";
  run.manifest.fits_memory = false;
  run.manifest.notes = {"the batch is assumed"};
  run.memory = {{.weights = 90 * unit::GiB}};
  run.memory_limit = 80 * unit::GiB;
  const std::string text = text_of([&](Console& console) { print_run(console, run, {}); });
  CHECK(text.starts_with("big\nout of memory: the fullest GPU (stage 0) needs 90.0 GiB of 80.0"));
  CHECK(contains(text, "Memory of a GPU (GiB)"));
  CHECK(contains(text, "note: the batch is assumed\n"));
  CHECK_FALSE(contains(text, "step time"));
}

TEST_CASE("a run over time: the mean of its GPUs, begin and end, and the extremes of any") {
  run::Run run;
  const auto lines = [&] {
    return text_of([&](Console& console) { console.print(run_sparklines(console, run)); });
  };
  CHECK(lines().empty());
  for (int32_t gpu : {0, 1}) {
    run.devices.push_back({.index = gpu});
    run::Series& die = run.series.emplace_back(run::Series{.signal = "die_c", .device = gpu});
    for (int second = 0; second < 8; ++second) {
      die.times.emplace_back(int64_t{second} * 1'000'000'000);
      die.values.push_back(40 + 10 * gpu + second);
    }
  }
  const std::string text = lines();
  for (const char* number : {"45.0", "52.0", "40.0", "57.0"})  // begin, end, lowest, highest
    CHECK_MESSAGE(contains(text, number), text);
}

TEST_CASE("a progress line tells done, rate and time left, and fits") {
  const std::string line = progress_line("Simulating", 50, 100, 10.0, 80);
  CHECK(contains(line, "50/100"));
  CHECK(contains(line, "5.0/s"));
  CHECK(contains(line, "10 s left"));
  for (std::size_t width : {20, 40, 60, 200})
    CHECK(display_width(progress_line("Simulating", 3, 163, 1.0, width)) <= width);
}

TEST_CASE("long work has a bar on a terminal alone, which goes with its end, unlike lines") {
  for (const bool terminal : {false, true}) {
    std::ostringstream out, err;
    Console console(out, err, {.error_is_terminal = terminal});
    {
      const Watch watch = watch_on(console);
      watch.begin("Simulating", 100);
      watch.advance();  // too early to tell how long it takes
      CHECK(err.str().empty());
      std::this_thread::sleep_for(std::chrono::milliseconds(450));
      watch.advance();
      CHECK(contains(err.str(), "2/100") == terminal);
      watch.say("one is left out");
    }
    CHECK(err.str().ends_with("triplepoint: one is left out\n"));
    CHECK(out.str().empty());
  }
}

}  // namespace
}  // namespace triplepoint::tui
