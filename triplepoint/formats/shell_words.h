// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace triplepoint::formats {

/// A shell text and the place that reading has come to.
class ShellText {
 public:
  explicit ShellText(std::string_view text, int line = 1) : rest_(text), line_(line) {}

  std::string_view rest() const { return rest_; }
  int line() const { return line_; }
  bool is_at_end() const { return rest_.empty(); }
  char peek(std::size_t ahead = 0) const { return ahead < rest_.size() ? rest_[ahead] : '\0'; }
  bool starts(std::string_view text) const { return rest_.starts_with(text); }
  bool at_blank() const { return peek() == ' ' || peek() == '\t' || peek() == '\r'; }
  bool at_end_of_command() const;
  /// The bare word that comes next: a keyword, if it is one.
  std::string_view bare_word() const;

  /// Goes on; at an end of a line also over the heredocs that the line announced.
  void advance(std::size_t count = 1);
  /// Blanks, ends of lines behind a backslash, and a comment.
  void skip_blanks();
  bool expects_heredoc() const { return !heredocs_.empty(); }
  /// The lines after this one, up to the delimiter, are no commands. Tabs may stand before it.
  void expect_heredoc(std::string delimiter) { heredocs_.push_back(std::move(delimiter)); }

 private:
  std::string_view rest_;
  int line_;
  std::vector<std::string> heredocs_;
};

/// Letters of a variable's name at the beginning of a text; 0 without one.
std::size_t name_length(std::string_view text);

/// Where the bracket that opens at `text[0]` closes; the text's end if it does not.
std::size_t matching_end(std::string_view text, char open, char close);

/// Words as they are kept: what is not certain stands between two marks, as the script writes it.
using MarkedWords = std::vector<std::string>;  // one word: the value of a plain variable
std::string unmarked(std::string_view text);

/// What names mean at a place of a script.
class ShellNames {
 public:
  std::map<std::string, MarkedWords, std::less<>> values;
  std::set<std::string> taken_as_unset;  // what the environment could set
  std::vector<std::string> arguments;    // none: $1 is not known, but ${1:-x} is x

  std::string may_not_run;        // why what is read may not run: ${A:=word} sets nothing sure
  bool outside_is_unset = false;  // in tests: what nothing here sets
  bool met_outside = false;       // and that there was such a name

  /// A text that is not certain: one word, with the reason.
  std::string marked(std::string_view text, const std::string& why);
  /// A text to be read once more: what is not certain has no letters that a shell acts on.
  static std::string readable(std::string_view text);
  /// Why a text is not certain; empty: it is.
  std::string doubt(std::string_view text) const;

  struct Meaning {
    std::optional<MarkedWords> value;
    std::string doubt;     // why it is not known; empty: it is known, or known to be unset
    bool outside = false;  // nothing here sets it, but the environment could
  };
  Meaning meaning(std::string_view name) const;

  /// From here on any name may have any value: a file that is not read may set it.
  void doubt_all(const std::string& why);

 private:
  std::map<std::string, std::string, std::less<>> reasons_;  // by marked text
  std::string all_in_doubt_;
};

/// Why a word is not certain that asks nvidia-smi or torch.
inline constexpr const char* counts_gpus = "it counts the GPUs of the machine";

enum class Splitting { yes, no };  // of expansions without quotes, at blanks

/// Reads one word as the shell does; it becomes none or several where variables are expanded.
void read_word(ShellText& text, ShellNames& names, Splitting splitting, MarkedWords& into);

}  // namespace triplepoint::formats
