// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <thread>

#include <fmt/chrono.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/live/live.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/machine_text.h"

namespace triplepoint::cli {
namespace {

/// Sleeps in pieces: Ctrl-C is not kept waiting.
void sleep_for(Seconds time) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(time / unit::s));
  while (!interrupted() && Clock::now() < end)
    std::this_thread::sleep_for(
        std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(100)));
}

/// "triplepoint snapshot  19:04:23"
std::string title_line(const tui::Console& console) {
  return console.styled("triplepoint snapshot", tui::Style::bold) +
         fmt::format("  {:%H:%M:%S}\n", fmt::localtime(std::time(nullptr)));
}

/// Over the picture before: the rows that the terminal has room for, from the top. The cursor stays
/// below the last line.
void draw(const tui::Console& console, const telemetry::Snapshot& snapshot) {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  tui::Console::Abilities abilities = console.abilities();
  abilities.width = size.ws_col;
  const tui::Console screen(std::cout, std::cerr, abilities);
  const std::string text = title_line(screen) + tui::snapshot_table(snapshot, screen);
  std::vector<std::string_view> lines = lines_of(text);
  lines.resize(std::min(lines.size(), as_size(size.ws_row) - 1));
  std::string picture = "\033[H";
  for (const std::string_view line : lines)
    picture.append(line).append("\033[K\n");
  std::cout << picture + "\033[J" << std::flush;
}

class SnapshotCommand : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .add(format_.argument())
        .flag(
            "--every,--interval", "TIME",
            "repeat until interrupted; a table is drawn anew on a terminal, JSON has one line per "
            "snapshot",
            into_quantity(every_))
        .add(sensors_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    const bool draws = every_ && format_.is_table() && console.abilities().width;
    if (draws && (*every_ < 100 * unit::ms || *every_ > 3600 * unit::s))
      return error("a table can be drawn every 100ms to 1h; try --every 1s");
    telemetry::SamplingPlan plan;
    plan.probe = 0 * unit::s;
    if (draws) {
      plan.interval = std::clamp(*every_ / 4, 50 * unit::ms, 500 * unit::ms);
      plan.slow_every = std::max(1, static_cast<int>(1 * unit::s / plan.interval));
    }
    telemetry::Live live(TPT_TRY(telemetry::open_sensors(sensors_.options())), plan);
    const auto read = [&] { draws ? live.update() : live.read_now(); };
    if (draws) {
      live.start();
      std::cout << "\033[2J";
    }
    read();
    sleep_for(0.5 * unit::s);  // over which rates are measured
    for (bool first = true;; first = false) {
      read();
      draws ? draw(console, live.snapshot()) : print(live.snapshot(), first, console);
      console.flush();
      if (!every_ || console.reader_left()) return exit_ok;
      sleep_for(*every_);
      if (interrupted()) return exit_ok;  // what was asked for: until interrupted
    }
  }

 private:
  void print(const telemetry::Snapshot& snapshot, bool first, tui::Console& console) const {
    if (format_.is_csv())
      console.print(snapshot_csv(snapshot, first));
    else if (format_.is_json())
      console.print(json_text(snapshot_json(snapshot), every_ ? -1 : 2) + "\n");
    else
      console.print(tui::snapshot_table(snapshot, console));
  }

  app::SensorFlags sensors_;
  FormatFlag format_{FormatFlag::Csv::yes};
  std::optional<Seconds> every_;
};

}  // namespace

std::unique_ptr<Command> make_snapshot() {
  return std::make_unique<SnapshotCommand>();
}

}  // namespace triplepoint::cli
