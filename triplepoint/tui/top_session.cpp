// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "triplepoint/system/process.h"

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

namespace {

constexpr std::string_view enter_screen = "\033[?1049h\033[?25l\033[H\033[2J";
constexpr std::string_view leave_screen = "\033[0m\033[?25h\033[?1049l";
constexpr std::array fatal_signals = {SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A signal handler can reach nothing but globals.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
termios before{};
volatile std::sig_atomic_t is_screen = 0;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count < 0 && errno != EINTR && errno != EAGAIN) return;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void put_back() {
  if (is_screen == 0) return;
  is_screen = 0;
  write_all(leave_screen);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/// Calls nothing that a signal handler may not call.
void die_tidily(int signal) {
  put_back();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void look_again(int) {}  // poll() returns, that is all

bool become_screen() {
  termios raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // Ctrl-Z arrives as a key: the screen is put back first
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return false;
  is_screen = 1;
  write_all(enter_screen);
  return true;
}

Key arrow(char final) {
  switch (final) {
    case 'A':
      return Key::up;
    case 'B':
      return Key::down;
    case 'C':
      return Key::right;
    case 'D':
      return Key::left;
    case 'H':
      return Key::home;
    case 'F':
      return Key::end;
    default:
      return Key::none;
  }
}

/// "ESC [ parameters letter" or "ESC O letter".
std::optional<KeyPress> take_sequence(std::string_view& bytes) {
  if (bytes.size() == 1 || (bytes[1] != '[' && bytes[1] != 'O')) {
    bytes.remove_prefix(1);
    return KeyPress{Key::escape};
  }
  std::size_t end = 2;
  while (end < bytes.size() && bytes[end] >= 0x20 && bytes[end] < 0x40)
    ++end;
  if (end >= bytes.size()) return std::nullopt;
  const std::string_view parameters = bytes.substr(2, end - 2);
  const char final = bytes[end];
  bytes.remove_prefix(end + 1);
  if (final != '~') return KeyPress{arrow(final)};
  if (parameters == "5") return KeyPress{Key::page_up};
  if (parameters == "6") return KeyPress{Key::page_down};
  return KeyPress{parameters == "1" ? Key::home : parameters == "4" ? Key::end : Key::none};
}

}  // namespace

std::optional<KeyPress> take_key(std::string_view& bytes) {
  if (bytes.empty()) return std::nullopt;
  if (bytes.front() == '\033') return take_sequence(bytes);
  const char letter = bytes.front();
  bytes.remove_prefix(1);
  if (letter == 0x1a) return KeyPress{Key::suspend};
  return KeyPress{Key::other, letter};
}

Terminal::Terminal() {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return;
  if (::tcgetattr(STDIN_FILENO, &before) != 0) return;
  for (const int signal : fatal_signals)
    std::signal(signal, die_tidily);
  struct sigaction resize {};
  resize.sa_handler = look_again;
  ::sigaction(SIGWINCH, &resize, nullptr);
  works_ = become_screen();
}

Terminal::~Terminal() {
  put_back();
  for (const int signal : fatal_signals)
    std::signal(signal, SIG_DFL);
}

TerminalSize Terminal::size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return {};
  return {size.ws_col, size.ws_row};
}

void Terminal::show(std::string_view lines) {
  std::string picture = "\033[H";
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    picture += lines.substr(begin, end - begin);
    picture += "\033[K";
    if (end + 1 < lines.size()) picture += "\r\n";
    begin = end + 1;
  }
  write_all(picture + "\033[J");
}

KeyPress Terminal::wait(double seconds) {
  std::string_view bytes(pending_, num_pending_);
  if (num_pending_ == 0) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, static_cast<int>(std::max(0.0, seconds) * 1000)) <= 0) return {};
    const ssize_t count = ::read(STDIN_FILENO, pending_, sizeof pending_);
    if (count <= 0) return {Key::other, 'q'};  // the terminal is gone
    num_pending_ = static_cast<std::size_t>(count);
    bytes = {pending_, num_pending_};
  }
  const auto key = take_key(bytes);
  if (!key) bytes = {};
  std::memmove(pending_, bytes.data(), bytes.size());
  num_pending_ = bytes.size();
  return key.value_or(KeyPress());
}

void Terminal::suspend() {
  put_back();
  std::raise(SIGSTOP);
  become_screen();
}

}  // namespace triplepoint::tui
