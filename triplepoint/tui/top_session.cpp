// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_session.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include <sys/ioctl.h>
#include <unistd.h>

#include "triplepoint/system/process.h"

namespace triplepoint::tui {
namespace {

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

}  // namespace

/// Waits for nodes far away, but not for ever.
bool show_top_once(TopSource& source, TopView view, Console& console) {
  std::vector<TopHost> hosts;
  const auto waiting = [](const TopHost& host) { return !host.latest && host.problem.empty(); };
  for (const auto end = Clock::now() + std::chrono::seconds(15); Clock::now() < end;) {
    source.update(hosts);
    if (std::none_of(hosts.begin(), hosts.end(), waiting) || interrupted()) break;
    std::this_thread::sleep_for(nap);
  }
  if (view.mode == TopMode::automatic) view.mode = TopMode::compact;
  view.title = source.title();
  const std::size_t width = console.abilities().width.value_or(width_of_paper);
  console.print(top_screen(hosts, view, width, 0, console));
  return std::all_of(hosts.begin(), hosts.end(),
                     [](const TopHost& host) { return host.latest.has_value(); });
}

void follow_top(TopSource& source, TopView view, Seconds interval, Console& console) {
  const auto period = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(interval / unit::s));
  std::vector<TopHost> hosts;
  std::cout << "\033[2J";
  while (!interrupted()) {
    source.update(hosts);
    view.title = source.title();
    const TerminalSize size = terminal_size();
    draw(top_screen(hosts, view, size.columns, size.rows - 1, console));
    for (const auto due = Clock::now() + period; Clock::now() < due && !interrupted();)
      std::this_thread::sleep_for(std::min<Clock::duration>(nap, due - Clock::now()));
  }
}

}  // namespace triplepoint::tui
