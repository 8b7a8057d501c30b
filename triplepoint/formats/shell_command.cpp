// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/shell_command.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

namespace triplepoint::formats {
namespace {

constexpr std::size_t largest_text = std::size_t{1} << 20;
constexpr std::size_t most_words = 50'000;       // of one command or variable
constexpr std::size_t longest_word = 1'000'000;  // characters
constexpr int deepest = 8;                       // command inside a command, ${a:-${b}}

using Words = std::vector<std::string>;
using Variables = std::map<std::string, Words, std::less<>>;

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name_part(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9');
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::size_t name_length(std::string_view text) {
  if (text.empty() || !is_name_start(text.front())) return 0;
  std::size_t end = 1;
  while (end < text.size() && is_name_part(text[end]))
    ++end;
  return end;
}

std::string joined(const Words& words) {
  std::string all;
  for (const std::string& word : words) {
    if (!all.empty()) all += ' ';
    if (all.size() + word.size() > longest_word) break;
    all += word;
  }
  return all;
}

/// Whole-number arithmetic of $(( )): + - * / % and brackets.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const Variables& variables)
      : rest_(text), variables_(variables) {}

  std::optional<int64_t> value() {
    const auto result = sum(0);
    skip_blanks();
    return result && rest_.empty() ? result : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (is_blank(rest_.front()) || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// Nothing where the result does not fit or is not defined.
  static std::optional<int64_t> apply(char op, int64_t a, int64_t b) {
    int64_t result = 0;
    if (op == '+')
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    if (op == '-')
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    if (op == '*')
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    if (b <= 0) return std::nullopt;
    return op == '/' ? a / b : a % b;
  }

  /// One of these characters, if it comes next.
  std::optional<char> take_one_of(std::string_view ops) {
    for (const char op : ops)
      if (take(op)) return op;
    return std::nullopt;
  }

  std::optional<int64_t> sum(int depth) {
    auto total = product(depth);
    while (total) {
      const auto op = take_one_of("+-");
      if (!op) break;
      const auto next = product(depth);
      total = next ? apply(*op, *total, *next) : std::nullopt;
    }
    return total;
  }

  std::optional<int64_t> product(int depth) {
    auto total = atom(depth);
    while (total) {
      const auto op = take_one_of("*/%");
      if (!op) break;
      const auto next = atom(depth);
      total = next ? apply(*op, *total, *next) : std::nullopt;
    }
    return total;
  }

  std::optional<int64_t> atom(int depth) {
    if (depth > deepest) return std::nullopt;
    if (take('(')) {
      const auto inner = sum(depth + 1);
      return inner && take(')') ? inner : std::nullopt;
    }
    take('$');
    const bool braced = take('{');
    std::size_t end = name_length(rest_);
    const bool is_name = end > 0;
    if (!is_name) end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (braced && !take('}')) return std::nullopt;
    if (!is_name) return whole_number(word);
    const auto known = variables_.find(word);
    return known == variables_.end() ? std::nullopt : whole_number(joined(known->second));
  }

  std::string_view rest_;
  const Variables& variables_;
};

/// Where the bracket that opens at `text[0]` closes; the text's end if it does not.
std::size_t matching_end(std::string_view text, char open, char close) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == open)
      ++depth;
    else if (text[i] == close && --depth == 0)
      return i + 1;
  }
  return text.size();
}

class ScriptReader {
 public:
  ScriptReader(std::string_view text, Variables variables, int depth, int line)
      : rest_(text), variables_(std::move(variables)), depth_(depth), line_(line) {}

  void read() {
    while (!rest_.empty())
      read_statement();
  }

  /// The command with the most arguments, also of commands inside its words.
  ShellCommand best() && {
    ShellCommand command{std::move(best_), {}};
    for (const auto& [name, words] : variables_)
      command.variables[name] = joined(words);
    return command;
  }

 private:
  char peek(std::size_t ahead = 0) const { return ahead < rest_.size() ? rest_[ahead] : '\0'; }

  void advance(std::size_t count = 1) {
    const std::string_view passed = rest_.substr(0, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    rest_.remove_prefix(passed.size());
  }

  /// Blanks, and a backslash at the end of a line, which continues it.
  void skip_blanks() {
    for (;;) {
      if (is_blank(peek()))
        advance();
      else if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n')))
        advance(peek(1) == '\n' ? 2 : 3);
      else
        return;
    }
  }

  bool at_end_of_statement() const {
    const char c = peek();
    return rest_.empty() || c == '\n' || c == ';' || c == '&' || c == '|';
  }

  void read_statement() {
    Words array_or_value;
    std::vector<ShellWord> words;
    for (;;) {
      skip_blanks();
      if (peek() == '#') skip_comment();
      if (at_end_of_statement()) break;
      if (words.empty() && read_assignment()) continue;
      read_words(words);
      if (words.size() == 1 && is_keyword(words.front().text)) words.clear();
    }
    if (!rest_.empty()) advance();
    consider(std::move(words));
  }

  static bool is_keyword(std::string_view word) {
    constexpr std::string_view keywords[] = {"export", "declare", "readonly", "local", "then",
                                             "else",   "do",      "{",        "exec",  "eval"};
    return std::find(std::begin(keywords), std::end(keywords), word) != std::end(keywords);
  }

  void skip_comment() { advance(std::min(rest_.find('\n'), rest_.size())); }

  /// NAME=value, NAME+=value, NAME=(a b c).
  bool read_assignment() {
    const std::size_t length = name_length(rest_);
    if (length == 0) return false;
    const bool append = peek(length) == '+' && peek(length + 1) == '=';
    if (!append && peek(length) != '=') return false;
    const std::string name(rest_.substr(0, length));
    advance(length + (append ? 2 : 1));
    Words value;
    const bool is_array = peek() == '(';
    if (is_array) {
      advance();
      read_array(value);
    } else if (!is_blank(peek()) && !at_end_of_statement()) {
      std::vector<ShellWord> words;
      read_words(words);
      Words texts;
      for (ShellWord& word : words)
        texts.push_back(std::move(word.text));
      value.push_back(joined(texts));
    }
    assign(name, std::move(value), append, is_array);
    return true;
  }

  void assign(const std::string& name, Words value, bool append, bool is_array) {
    Words& variable = variables_[name];
    if (!append) {
      variable = std::move(value);
    } else if (is_array || variable.empty()) {
      variable.insert(variable.end(), value.begin(), value.end());
    } else if (!value.empty() && variable.back().size() + value.front().size() <= longest_word) {
      variable.back() += value.front();
    }
    if (variable.size() > most_words) variable.resize(most_words);
  }

  void read_array(Words& into) {
    while (!rest_.empty() && peek() != ')') {
      skip_blanks();
      if (peek() == '#')
        skip_comment();
      else if (at_end_of_statement())
        advance();  // arrays go over several lines
      else if (peek() != ')')
        read_element(into);
    }
    advance();
  }

  void read_element(Words& into) {
    std::vector<ShellWord> words;
    read_words(words);
    for (ShellWord& word : words)
      if (into.size() < most_words) into.push_back(std::move(word.text));
  }

  /// One word of the text; it becomes none or several where variables are expanded.
  void read_words(std::vector<ShellWord>& into) {
    Piece piece{line_, {}, false, {}};
    const std::size_t before = rest_.size();
    while (!is_blank(peek()) && !at_end_of_statement() && peek() != ')') {
      if (peek() == '\'')
        read_single_quoted(piece);
      else if (peek() == '"')
        read_double_quoted(piece);
      else if (peek() == '$')
        read_expansion(piece, false);
      else if (peek() == '\\')
        read_escape(piece);
      else
        take_character(piece);
    }
    if (rest_.size() == before) advance();  // a bracket of a shape not known here
    finish(piece);
    for (ShellWord& word : piece.done)
      if (into.size() < most_words) into.push_back(std::move(word));
  }

  /// A word on its way: finished words, and the one being written.
  struct Piece {
    int line;
    std::string text;
    bool open;  // something was written, be it an empty quotation
    std::vector<ShellWord> done;
  };

  static void write(Piece& piece, std::string_view text) {
    if (piece.text.size() + text.size() <= longest_word) piece.text += text;
    piece.open = true;
  }

  static void finish(Piece& piece) {
    if (piece.open && piece.done.size() < most_words)
      piece.done.push_back({piece.text, piece.line});
    piece.text.clear();
    piece.open = false;
  }

  void take_character(Piece& piece) {
    write(piece, rest_.substr(0, 1));
    advance();
  }

  void read_escape(Piece& piece) {
    const bool continues = peek(1) == '\n';
    if (!continues && rest_.size() > 1) write(piece, rest_.substr(1, 1));
    advance(2);
  }

  void read_single_quoted(Piece& piece) {
    const std::size_t end = std::min(rest_.find('\'', 1), rest_.size());
    write(piece, rest_.substr(1, end - 1));
    advance(end + 1);
  }

  void read_double_quoted(Piece& piece) {
    advance();
    write(piece, "");
    while (!rest_.empty() && peek() != '"') {
      if (peek() == '$')
        read_expansion(piece, true);
      else if (peek() == '\\')
        read_escape(piece);
      else
        take_character(piece);
    }
    advance();
  }

  void read_expansion(Piece& piece, bool quoted) {
    if (peek(1) == '(' && peek(2) == '(') return read_arithmetic(piece);
    if (peek(1) == '(') return copy(piece, 1 + matching_end(rest_.substr(1), '(', ')'));
    if (peek(1) == '{') return read_braced(piece, quoted);
    const std::size_t length = name_length(rest_.substr(1));
    if (length == 0) return take_character(piece);
    const std::string_view whole = rest_.substr(0, length + 1);
    expand(piece, whole, rest_.substr(1, length), false, quoted);
    advance(length + 1);
  }

  void copy(Piece& piece, std::size_t length) {
    write(piece, rest_.substr(0, length));
    advance(length);
  }

  void read_arithmetic(Piece& piece) {
    const std::size_t end = 1 + matching_end(rest_.substr(1), '(', ')');
    std::string_view inner = rest_.substr(3, end > 5 ? end - 5 : 0);
    const auto value = Arithmetic(inner, variables_).value();
    if (!value) return copy(piece, end);
    write(piece, fmt::format("{}", *value));
    advance(end);
  }

  void read_braced(Piece& piece, bool quoted) {
    const std::size_t end = 1 + matching_end(rest_.substr(1), '{', '}');
    const std::string whole(rest_.substr(0, end));
    std::string_view inner = std::string_view(whole).substr(2, end > 3 ? end - 3 : 0);
    const std::size_t length = name_length(inner);
    const std::string_view name = inner.substr(0, length), tail = inner.substr(length);
    if (length > 0 && (tail == "[@]" || tail == "[*]" || tail.empty()))
      expand(piece, whole, name, !tail.empty(), quoted);
    else if (length > 0 && (tail.starts_with(":-") || tail.starts_with("-")))
      expand_or(piece, name, tail.substr(tail.find('-') + 1), quoted);
    else
      write(piece, whole);
    advance(end);
  }

  void expand_or(Piece& piece, std::string_view name, std::string_view fallback, bool quoted) {
    if (variables_.find(name) != variables_.end()) return expand(piece, {}, name, false, quoted);
    if (depth_ >= deepest) return;
    ScriptReader inner(fallback, variables_, depth_ + 1, line_);
    std::vector<ShellWord> words;
    while (!inner.rest_.empty()) {
      inner.skip_blanks();
      if (inner.at_end_of_statement()) break;
      inner.read_words(words);
    }
    for (std::size_t i = 0; i < words.size(); ++i)
      write(piece, (i > 0 ? " " : "") + words[i].text);
  }

  /// Quoted values stay one word, unless "${array[@]}"; others fall into words at blanks.
  void expand(Piece& piece, std::string_view whole, std::string_view name, bool all, bool quoted) {
    const auto known = variables_.find(name);
    if (known == variables_.end()) return write(piece, whole);
    if (quoted && !all) return write(piece, joined(known->second));
    Words parts;
    for (const std::string& word : known->second) {
      if (quoted)
        parts.push_back(word);
      else
        split_blanks(word, parts);
    }
    for (std::size_t i = 0; i < parts.size() && piece.done.size() < most_words; ++i) {
      if (i > 0) finish(piece);
      write(piece, parts[i]);
    }
  }

  static void split_blanks(std::string_view text, Words& into) {
    while (!(text = trimmed(text)).empty() && into.size() < most_words) {
      const std::size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
      into.emplace_back(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

  static std::ptrdiff_t options_in(const std::vector<ShellWord>& words) {
    return std::count_if(words.begin(), words.end(),
                         [](const ShellWord& word) { return word.text.starts_with("--"); });
  }

  void consider(std::vector<ShellWord> words) {
    for (const ShellWord& word : words)
      if (word.text.find(" --") != std::string::npos) consider_inside(word);
    if (options_in(words) > options_in(best_)) best_ = std::move(words);
  }

  /// bash -c "python pretrain_gpt.py --num-layers 96 ...".
  void consider_inside(const ShellWord& word) {
    if (depth_ >= deepest) return;
    ScriptReader inner(word.text, variables_, depth_ + 1, word.line);
    inner.read();
    if (options_in(inner.best_) > options_in(best_)) best_ = inner.best_;
  }

  std::string_view rest_;
  Variables variables_;
  int depth_ = 0, line_ = 1;
  std::vector<ShellWord> best_;
};

/// A file of arguments has one per line and no backslashes between them.
bool is_argument_file(std::string_view text) {
  bool any = false;
  for (std::string_view line : lines_of(text)) {
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with("--")) return false;
    any = true;
  }
  return any;
}

std::string joined_lines(std::string_view text) {
  std::string all;
  for (std::string_view line : lines_of(text)) {
    line = trimmed(line);
    if (line.starts_with('#')) line = {};
    line = trimmed(line.substr(0, line.find(" #")));
    if (line.ends_with('\\')) line.remove_suffix(1);
    all += line;
    all += " \\\n";
  }
  return all;
}

}  // namespace

std::optional<std::string> ShellCommand::variable(const std::string& name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? std::nullopt : std::optional(found->second);
}

Result<ShellCommand> find_command(std::string_view text, std::string_view name) {
  if (text.size() > largest_text)
    return error(
        fmt::format("{}: larger than 1 MiB (no launch script is); try another file", name));
  const bool is_arguments = is_argument_file(text);
  const std::string lines = is_arguments ? joined_lines(text) : std::string(text);
  ScriptReader reader(lines, {}, 0, 1);
  reader.read();
  ShellCommand command = std::move(reader).best();
  if (command.words.empty())
    return error(
        fmt::format("{}: has no command with arguments (words that start with --); give a "
                    "launch script, its command line or a file of arguments",
                    name));
  return command;
}

}  // namespace triplepoint::formats
