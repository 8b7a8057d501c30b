// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "triplepoint/tui/console.h"
#include "triplepoint/tui/top_screen.h"
#include "triplepoint/tui/top_sources.h"

namespace triplepoint::tui {

enum class Key {
  none,
  up,
  down,
  left,
  right,
  page_up,
  page_down,
  home,
  end,
  escape,
  suspend,
  other
};

struct KeyPress {
  Key key = Key::none;
  char letter = 0;  // of Key::other
};

/// Reads one key from the front of what a terminal sent, and cuts it off; nothing while a sequence
/// is not complete.
std::optional<KeyPress> take_key(std::string_view& bytes);

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};

/// The terminal of this process as a screen: other page, no cursor, keys unbuffered. Whatever ends
/// the process (return, signal, crash) puts it back as it was. At most one at a time.
class Terminal {
 public:
  /// Nothing if input or output is no terminal.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal(Terminal&&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  Terminal& operator=(Terminal&&) = delete;

  bool works() const { return works_; }
  static TerminalSize size();
  /// Shows these lines from the top; what is left of the old picture is wiped.
  void show(std::string_view lines);
  /// Waits for a key so long; a change of the window's size counts as Key::none.
  KeyPress wait(double seconds);
  /// As Ctrl-Z would do without a screen.
  void suspend();

 private:
  bool works_ = false;
  char pending_[64] = {};
  std::size_t num_pending_ = 0;
};

/// One picture of all nodes, printed. False: some node did not answer.
bool show_top_once(TopSource&, TopView, Console&);

/// Draws the screen anew every `interval` and obeys keys, until the user leaves.
void follow_top(TopSource&, TopView&, Terminal&, Seconds interval, const Console&);

}  // namespace triplepoint::tui
