// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/console.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/listen_flags.h"
#include "triplepoint/cli/sensor_flags.h"
#include "triplepoint/cli/terminal.h"
#include "triplepoint/cli/top_screen.h"
#include "triplepoint/cli/top_sources.h"
#include "triplepoint/cli/verbs.h"

namespace triplepoint::cli {
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

class Top : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = {
        {.names = "RUN",
         .help = "a run to look at instead of this node, also while it is being recorded",
         .words = Words::files,
         .store = into(run_)},
        {.names = "-1,--once", .help = "one picture, then end", .store = into_switch(once_)},
        {.names = "-m,--mode",
         .value = "MODE",
         .help = "auto, full (with history) or compact (default auto)",
         .choices = {"auto", "full", "compact"},
         .store = into(mode_)},
        {.names = "-s,--sort",
         .value = "BY",
         .help = "order of the GPUs (default gpu)",
         .choices = {"gpu", "power", "temperature", "clock", "utilization", "memory", "throttle"},
         .store = into(sort_)},
        {.names = "--interval",
         .value = "TIME",
         .help = "between two pictures (default 1s)",
         .store = into_quantity(interval_)},
        {.names = "--hosts",
         .value = "LIST",
         .help = "other nodes: host:9400 by its exporter, host by ssh",
         .group = "Other nodes",
         .store = [this](std::string_view text) -> Result<void> {
           hosts_ = TPT_TRY(split_list(text));
           return {};
         }},
        {.names = "--ssh",
         .value = "PROGRAM",
         .help = "what reaches hosts without a port (default ssh)",
         .group = "Other nodes",
         .store = into(ssh_)},
        {.names = "--token-file",
         .value = "FILE",
         .help = "the token of the exporters (or in TRIPLEPOINT_TOKEN)",
         .group = "Other nodes",
         .words = Words::files,
         .store = into(token_file_)}};
    for (Argument& argument : sensors_.arguments()) {
      if (argument.names == "--devices") argument.names = "-o,--devices";
      all.push_back(std::move(argument));
    }
    return all;
  }

  Result<int> run(Console& console) override {
    if (run_ && !hosts_.empty()) {
      console.warn("triplepoint: top: a run and --hosts cannot be looked at together\n");
      return exit_usage;
    }
    if (interval() < 100 * unit::ms || interval() > 3600 * unit::s)
      return error("a picture can be drawn every 100ms to 1h; try --interval 1s");
    TopView view = first_view();
    const auto source = TPT_TRY(open_source());
    if (once_) return show_once(*source, view, console);
    Terminal terminal;
    if (!terminal.works())
      return error(
          "top draws on a terminal (standard input or output is none); try --once, or "
          "triplepoint snapshot");
    follow(*source, view, terminal, console);
    return exit_ok;
  }

 private:
  Seconds interval() const { return interval_.value_or(1 * unit::s); }

  TopView first_view() const {
    TopView view;
    for (const TopMode mode : {TopMode::full, TopMode::compact})
      if (mode_ == name_of(mode)) view.mode = mode;
    for (int i = 0; i <= static_cast<int>(TopSort::throttle); ++i)
      if (sort_ == name_of(static_cast<TopSort>(i))) view.sort = static_cast<TopSort>(i);
    return view;
  }

  Result<std::unique_ptr<TopSource>> open_source() const {
    if (run_) return run_source(*run_, interval());
    if (hosts_.empty()) return local_source(sensors_.options(), interval(), once_);
    RemoteOptions options;
    options.token = TPT_TRY(read_token(token_file_));
    options.ssh = ssh_;
    options.interval = interval();
    return remote_source(hosts_, options);
  }

  /// Waits for nodes far away, but not for ever.
  static int show_once(TopSource& source, TopView view, Console& console) {
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
    return all ? exit_ok : exit_failed;
  }

  void follow(TopSource& source, TopView& view, Terminal& terminal, const Console& console) const {
    const auto period = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(interval() / unit::s));
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

  /// False: the user wants to leave.
  static bool take(const KeyPress& press, TopSource& source, TopView& view, Terminal& terminal,
                   const TerminalSize& size) {
    if (press.key == Key::escape) return false;
    if (press.key == Key::other) return !take_letter(press.letter, view);
    if (press.key == Key::suspend) terminal.suspend();
    if (press.key == Key::left) source.move(-1);
    if (press.key == Key::right) source.move(1);
    scroll(view, press.key, std::max<std::size_t>(1, size.rows / 2));
    return true;
  }

  SensorFlags sensors_;
  std::optional<std::string> run_, token_file_;
  std::vector<std::string> hosts_;
  std::string mode_ = "auto", sort_ = "gpu", ssh_ = "ssh";
  std::optional<Seconds> interval_;
  bool once_ = false;
};

}  // namespace

std::unique_ptr<Command> make_top() {
  return std::make_unique<Top>();
}

}  // namespace triplepoint::cli
