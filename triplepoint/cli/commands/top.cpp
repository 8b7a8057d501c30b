// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <iostream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/top_screen.h"
#include "triplepoint/tui/top_sources.h"

namespace triplepoint::cli {
namespace {

using tui::Console, tui::TopHost, tui::TopMode, tui::TopSource, tui::TopView;
using Clock = std::chrono::steady_clock;
constexpr std::size_t width_of_paper = 120;  // where there is no terminal
constexpr auto nap = std::chrono::milliseconds(100);

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

/// From the top; what is left of the old picture is wiped. The cursor stays below the last line.
void draw(std::string_view lines) {
  std::string picture = "\033[H";
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    picture += lines.substr(begin, end - begin);
    picture += "\033[K\n";
    begin = end + 1;
  }
  std::cout << picture + "\033[J" << std::flush;
}

/// The time of day, for titles: "19:04:23".
std::string wall_clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
  return text.data();
}

/// One picture of all nodes, printed; nodes far away are waited for, but not for ever. False: some
/// node did not answer.
bool show_top_once(TopSource& source, TopView view, Console& console) {
  std::vector<TopHost> hosts;
  const auto waiting = [](const TopHost& host) { return !host.latest && host.problem.empty(); };
  for (const auto end = Clock::now() + std::chrono::seconds(15); Clock::now() < end;) {
    source.update(hosts);
    if (std::none_of(hosts.begin(), hosts.end(), waiting) || interrupted()) break;
    std::this_thread::sleep_for(nap);
  }
  if (view.mode == TopMode::automatic) view.mode = TopMode::compact;
  view.title = wall_clock_text();
  const std::size_t width = console.abilities().width.value_or(width_of_paper);
  console.print(top_screen(hosts, view, width, 0, console));
  return std::all_of(hosts.begin(), hosts.end(),
                     [](const TopHost& host) { return host.latest.has_value(); });
}

/// Draws the screen anew every `interval`, over the picture before, until the user interrupts.
void follow_top(TopSource& source, TopView view, Seconds interval, Console& console) {
  const auto period = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(interval / unit::s));
  std::vector<TopHost> hosts;
  std::cout << "\033[2J";
  while (!interrupted()) {
    source.update(hosts);
    view.title = wall_clock_text();
    const TerminalSize size = terminal_size();
    draw(top_screen(hosts, view, size.columns, size.rows - 1, console));
    for (const auto due = Clock::now() + period; Clock::now() < due && !interrupted();)
      std::this_thread::sleep_for(std::min<Clock::duration>(nap, due - Clock::now()));
  }
}

class Top : public Command {
 public:
  Arguments arguments() override {
    Arguments all;
    all.toggle("-1,--once", "print one screen and exit", once_)
        .flag("-m,--mode", "MODE", "auto, full (with history) or compact (default auto)",
              into(mode_), {.choices = {"auto", "full", "compact"}})
        .flag("-s,--sort", "BY", "order of the GPUs (default gpu)", into(sort_),
              {.choices = {"gpu", "power", "temperature", "clock", "utilization", "memory",
                           "throttle"}})
        .flag("--interval", "TIME", "refresh interval (default 1s)", into_quantity(interval_))
        .group("Other nodes")
        .flag("--hosts", "LIST", "other nodes by their exporters: host:9400",
              into(hosts_, split_list))
        .flag("--token-file", "FILE", "the token of the exporters (or in TRIPLEPOINT_TOKEN)",
              into(token_file_), {.words = Words::files});
    for (Argument& argument : sensors_.arguments()) {
      if (argument.names == "--devices") argument.names = "-o,--devices";
      all.push_back(std::move(argument));
    }
    return all;
  }

  Result<int> run(Console& console) override {
    for (const std::string& host : hosts_)
      if (host.find(':') == std::string::npos)
        return error(fmt::format(
            "--hosts {0}: no port (a node is read by its exporter); try {0}:9400, or ssh {0} "
            "triplepoint top",
            host));
    if (interval() < 100 * unit::ms || interval() > 3600 * unit::s)
      return error("a picture can be drawn every 100ms to 1h; try --interval 1s");
    const TopView view = first_view();
    const auto source = TPT_TRY(open_source());
    if (once_) return show_top_once(*source, view, console) ? exit_ok : exit_failed;
    if (!console.abilities().width)
      return error(
          "top draws on a terminal (standard output is not one); try --once, or triplepoint "
          "snapshot");
    follow_top(*source, view, interval(), console);
    return exit_ok;
  }

 private:
  Seconds interval() const { return interval_.value_or(1 * unit::s); }

  TopView first_view() const {
    TopView view;
    for (const TopMode mode : {TopMode::full, TopMode::compact})
      if (mode_ == name_of(mode)) view.mode = mode;
    for (int i = 0; i <= static_cast<int>(tui::TopSort::throttle); ++i)
      if (sort_ == name_of(static_cast<tui::TopSort>(i))) view.sort = static_cast<tui::TopSort>(i);
    return view;
  }

  Result<std::unique_ptr<TopSource>> open_source() const {
    if (hosts_.empty()) return tui::local_source(sensors_.options(), interval(), once_);
    tui::RemoteOptions options;
    options.token = TPT_TRY(read_token(token_file_));
    options.interval = interval();
    return tui::remote_source(hosts_, options);
  }

  app::SensorFlags sensors_;
  std::optional<std::string> token_file_;
  std::vector<std::string> hosts_;
  std::string mode_ = "auto", sort_ = "gpu";
  std::optional<Seconds> interval_;
  bool once_ = false;
};

}  // namespace

std::unique_ptr<Command> make_top() {
  return std::make_unique<Top>();
}

}  // namespace triplepoint::cli
