// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_screen.h"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/telemetry/live/snapshot_testing.h"
#include "triplepoint/tui/machine_text.h"

namespace triplepoint::tui {
namespace {

namespace live = telemetry::testing;
using Kind = run::ReadingKind;

/// A node of `gpus` GPUs; GPU i draws 100 i watts, has 60 - i degrees and 1500 + i MHz.
TopHost node(const std::string& name, int gpus) {
  telemetry::Snapshot snapshot;
  snapshot.node.host = name;
  for (int i = 0; i < gpus; ++i) {
    telemetry::LiveDevice device;
    device.facts.device.local = i;
    device.facts.device.name = "NVIDIA H200";
    device.facts.power_limit = 700 * unit::W;
    device.facts.slowdown = Celsius(87);
    device.facts.max_sm_clock = 1980 * unit::MHz;
    snapshot.devices.push_back(device);
    snapshot.readings.push_back(live::reading("power_instant_w", i, Kind::instant, 100 * i));
    snapshot.readings.push_back(live::reading("die_c", i, Kind::instant, 60 - i));
    snapshot.readings.push_back(live::reading("sm_clock_mhz", i, Kind::instant, 1500 + i));
  }
  TopHost host;
  host.name = name;
  for (int i = 0; i < 5; ++i)
    add_snapshot(host, snapshot);
  return host;
}

std::string screen(const std::vector<TopHost>& hosts, const TopView& view, std::size_t columns,
                   std::size_t rows) {
  std::ostringstream out, err;
  const Console console(out, err, {});
  return top_screen(hosts, view, columns, rows, console);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

TEST_CASE("the screen never exceeds the terminal, however small it is") {
  const std::vector<TopHost> hosts = {node("node17", 8), node("a-node-with-a-very-long-name", 8)};
  for (const TopMode mode : {TopMode::automatic, TopMode::full, TopMode::compact})
    for (const std::size_t columns : {1, 20, 80, 100, 119, 160, 300})
      for (const std::size_t rows : {1, 2, 5, 24, 60}) {
        TopView view;
        view.mode = mode;
        const auto lines = lines_of(screen(hosts, view, columns, rows));
        CHECK(lines.size() <= rows);
        for (const std::string& line : lines)
          CHECK(display_width(line) <= columns);
      }
}

TEST_CASE("a picture without limits shows every GPU") {
  const std::string text = screen({node("node17", 8)}, {}, 120, 0);
  for (const char* watts : {"100 W", "300 W", "700 W"})
    CHECK(text.find(watts) != std::string::npos);
  CHECK(text.find("hottest 60 C (gpu 0)") != std::string::npos);
  CHECK(text.find("slowest 1500 MHz (gpu 0)") != std::string::npos);
}

TEST_CASE("sorting puts the hungriest, hottest and slowest first") {
  const auto first_gpu = [](TopSort sort) {
    TopView view;
    view.mode = TopMode::compact;
    view.sort = sort;
    const auto lines = lines_of(screen({node("n", 8)}, view, 100, 40));
    const auto title = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find("slowed by") != std::string::npos;
    });
    return std::stoi(*(title + 1));
  };
  CHECK(first_gpu(TopSort::index) == 0);
  CHECK(first_gpu(TopSort::power) == 7);
  CHECK(first_gpu(TopSort::temperature) == 0);
  CHECK(first_gpu(TopSort::clock) == 0);
}

TEST_CASE("what a node says of itself is on the screen: lost GPUs, troubles, no connection") {
  TopHost host;
  add_snapshot(host, live::sample_snapshot());
  TopHost far;
  far.name = "node18:9400";
  far.problem = "cannot reach node18:9400";
  const std::string text = screen({host, far}, {}, 140, 40);
  CHECK(text.find("does not answer") != std::string::npos);
  CHECK(text.find("GPU 1 fell off the bus") != std::string::npos);
  CHECK(text.find("cannot reach node18:9400") != std::string::npos);
  CHECK(text.find("power cap 25%") != std::string::npos);
  CHECK(text.find("1 held back") != std::string::npos);
}

TEST_CASE("a machine without GPUs has a screen, too") {
  telemetry::Snapshot snapshot;
  snapshot.node.host = "laptop";
  snapshot.readings = {live::node_reading("memory_used_b", Kind::instant, 8e9)};
  TopHost host;
  add_snapshot(host, snapshot);
  const std::string text = screen({host}, {}, 80, 24);
  CHECK(text.find("no GPU") != std::string::npos);
  CHECK(text.find("memory 8.0 GB") != std::string::npos);
}

TEST_CASE("a history ends with the newest value and is blank where nothing was read") {
  CHECK(history_line({0.0, 0.5, 1.0}, 5) == "  ▁▄█");
  CHECK(history_line({0.0, std::nullopt, 1.0}, 2) == " █");
  CHECK(history_line({}, 3) == "   ");
  CHECK(history_line({-1.0, 7.0}, 2) == "▁█");
}

TEST_CASE("the table of a snapshot says what is missing instead of 0") {
  std::ostringstream out, err;
  const Console console(out, err, {});
  const std::string text = snapshot_table(live::sample_snapshot(), console);
  CHECK(text.find("690 W") != std::string::npos);
  CHECK(text.find("n/a") != std::string::npos);
  CHECK(text.find("does not answer") != std::string::npos);
  CHECK(text.find("triplepoint doctor") != std::string::npos);
}

TEST_CASE("numbers have the prefix that leaves them readable") {
  CHECK(watts_text(690.4) == "690 W");
  CHECK(watts_text(5432.0) == "5.4 kW");
  CHECK(watts_text(std::nullopt) == "n/a");
  CHECK(rate_text(999.0) == "999 B/s");
  CHECK(rate_text(2.0e9) == "2.0 GB/s");
  CHECK(memory_text(70e9, 141e9) == "70/141 GB");
}

}  // namespace
}  // namespace triplepoint::tui
