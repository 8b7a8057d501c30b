// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/console.h"

#include <cerrno>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace triplepoint::tui {
namespace {

std::optional<std::size_t> terminal_width(int descriptor) {
  if (isatty(descriptor) == 0) return std::nullopt;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

/// As the locale says; one that says nothing knows ASCII.
bool knows_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale(value);
    return locale.find("UTF-8") != std::string_view::npos ||
           locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

const char* escape_code(Style style) {
  switch (style) {
    case Style::plain:
      return "";
    case Style::bold:
      return "\033[1m";
    case Style::dim:
      return "\033[2m";
    case Style::good:
      return "\033[32m";
    case Style::warning:
      return "\033[33m";
    case Style::bad:
      return "\033[31m";
  }
  return "";
}

}  // namespace

void Console::print(std::string_view text) {
  errno = 0;
  *out_ << text;
  if (!*out_ && errno == EPIPE) reader_left_ = true;
}

void Console::flush() {
  errno = 0;
  out_->flush();
  if (!*out_ && errno == EPIPE) reader_left_ = true;
  err_->flush();
}

std::string Console::styled(std::string_view text, Style style) const {
  if (!abilities_.colour || style == Style::plain) return std::string(text);
  return fmt::format("{}{}\033[0m", escape_code(style), text);
}

Console process_console() {
  Console::Abilities abilities;
  abilities.width = terminal_width(STDOUT_FILENO);
  abilities.colour = abilities.width.has_value() && wants_colour();
  abilities.unicode = !abilities.width || knows_unicode();  // files are UTF-8
  const auto error_width = terminal_width(STDERR_FILENO);
  abilities.error_is_terminal = error_width.has_value();
  abilities.error_width = error_width.value_or(80);
  return Console(std::cout, std::cerr, abilities);
}

}  // namespace triplepoint::tui
