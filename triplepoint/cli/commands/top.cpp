// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/live/live.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/machine_text.h"

namespace triplepoint::cli {
namespace {

using tui::Console;
using Clock = std::chrono::steady_clock;

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

/// The first rows, from the top; what is left of the old picture is wiped. The cursor stays below
/// the last line.
void draw(std::string_view lines, std::size_t rows) {
  std::string picture = "\033[H";
  for (std::size_t begin = 0, row = 0; begin < lines.size() && row < rows; ++row) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    picture += lines.substr(begin, end - begin);
    picture += "\033[K\n";
    begin = end + 1;
  }
  std::cout << picture + "\033[J" << std::flush;
}

/// "triplepoint top  19:04:23"
std::string title_line(const Console& console) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
  return console.styled("triplepoint top", tui::Style::bold) + "  " + text.data() + "\n";
}

class Top : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .flag("--interval", "TIME", "refresh interval (default 1s)", into_quantity(interval_))
        .add(sensors_.arguments());
  }

  /// Draws what `snapshot` prints anew every interval, over the picture before, until the user
  /// interrupts.
  Result<int> run(Console& console) override {
    const Seconds interval = interval_.value_or(1 * unit::s);
    if (interval < 100 * unit::ms || interval > 3600 * unit::s)
      return error("a picture can be drawn every 100ms to 1h; try --interval 1s");
    if (!console.abilities().width)
      return error(
          "top draws on a terminal (standard output is not one); try triplepoint snapshot");
    telemetry::SamplingPlan plan;
    plan.interval = std::clamp(interval / 4, 50 * unit::ms, 500 * unit::ms);
    plan.slow_every = std::max(1, static_cast<int>(1 * unit::s / plan.interval));
    plan.probe = 0 * unit::s;  // periods are for doctor and record; here the first picture counts
    telemetry::Live live(TPT_TRY(telemetry::open_sensors(sensors_.options())), plan);
    live.start();
    std::cout << "\033[2J";
    const auto period = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(interval / unit::s));
    while (!interrupted()) {
      live.update();
      const TerminalSize size = terminal_size();
      Console::Abilities abilities = console.abilities();
      abilities.width = size.columns;
      const Console screen(std::cout, std::cerr, abilities);
      draw(title_line(screen) + tui::snapshot_table(live.snapshot(), screen), size.rows - 1);
      for (const auto due = Clock::now() + period; Clock::now() < due && !interrupted();)
        std::this_thread::sleep_for(
            std::min<Clock::duration>(std::chrono::milliseconds(100), due - Clock::now()));
    }
    return exit_ok;
  }

 private:
  app::SensorFlags sensors_;
  std::optional<Seconds> interval_;
};

}  // namespace

std::unique_ptr<Command> make_top() {
  return std::make_unique<Top>();
}

}  // namespace triplepoint::cli
