// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_session.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "triplepoint/base/interrupt.h"

namespace triplepoint::tui {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t width_of_paper = 120;  // where there is no terminal

template <class Enum>
Enum next(Enum value, Enum last, int step) {
  const int count = static_cast<int>(last) + 1;
  return static_cast<Enum>((static_cast<int>(value) + step + count) % count);
}

/// True: the user wants to leave.
bool take_letter(char letter, TopView& view) {
  switch (letter) {
    case 's':
      view.sort = next(view.sort, TopSort::throttle, 1);
      break;
    case 'S':
      view.sort = next(view.sort, TopSort::throttle, -1);
      break;
    case 'm':
      view.mode = next(view.mode, TopMode::compact, 1);
      break;
    case 'h':
    case '?':
      view.help = !view.help;
      break;
    case ' ':
      view.paused = !view.paused;
      break;
    default:
      return letter == 'q' || letter == 'Q' || letter == 0x03;
  }
  return false;
}

void scroll(TopView& view, Key key, std::size_t page) {
  const std::size_t at = view.scroll;
  if (key == Key::up) view.scroll = at > 0 ? at - 1 : 0;
  if (key == Key::down) view.scroll = at + 1;
  if (key == Key::page_up) view.scroll = at > page ? at - page : 0;
  if (key == Key::page_down) view.scroll = at + page;
  if (key == Key::home) view.scroll = 0;
}

/// False: the user wants to leave.
bool take(const KeyPress& press, TopSource& source, TopView& view, Terminal& terminal,
          const TerminalSize& size) {
  if (press.key == Key::escape) return false;
  if (press.key == Key::other) return !take_letter(press.letter, view);
  if (press.key == Key::suspend) terminal.suspend();
  if (press.key == Key::left) source.move(-1);
  if (press.key == Key::right) source.move(1);
  scroll(view, press.key, std::max<std::size_t>(1, size.rows / 2));
  return true;
}

}  // namespace

/// Waits for nodes far away, but not for ever.
bool show_top_once(TopSource& source, TopView view, Console& console) {
  std::vector<TopHost> hosts;
  const auto waiting = [](const TopHost& host) { return !host.latest && host.problem.empty(); };
  for (const auto end = Clock::now() + std::chrono::seconds(15); Clock::now() < end;) {
    source.update(hosts);
    if (std::none_of(hosts.begin(), hosts.end(), waiting) || interrupted()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  view.keys = false;
  if (view.mode == TopMode::automatic) view.mode = TopMode::compact;
  view.title = source.title();
  const std::size_t width = console.abilities().width.value_or(width_of_paper);
  console.print(top_screen(hosts, view, width, 0, console));
  const bool all = std::all_of(hosts.begin(), hosts.end(),
                               [](const TopHost& host) { return host.latest.has_value(); });
  return all;
}

void follow_top(TopSource& source, TopView& view, Terminal& terminal, Seconds interval,
                const Console& console) {
  const auto period = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(interval / unit::s));
  std::vector<TopHost> hosts;
  for (auto due = Clock::now(); !interrupted();) {
    if (Clock::now() >= due) {
      if (!view.paused) source.update(hosts);
      due = Clock::now() + period;
    }
    view.title = source.title();
    const TerminalSize size = Terminal::size();
    terminal.show(top_screen(hosts, view, size.columns, size.rows, console));
    const std::chrono::duration<double> left = due - Clock::now();
    const KeyPress press = terminal.wait(left.count());
    if (!take(press, source, view, terminal, size)) return;
    if (press.key == Key::left || press.key == Key::right) due = Clock::now();
  }
}

}  // namespace triplepoint::tui
