// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/shell_command.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/key_table.h"

namespace triplepoint::formats {
namespace {

constexpr std::size_t largest_text = std::size_t{1} << 20;
constexpr std::size_t most_words = 50'000;       // of one command or variable
constexpr std::size_t longest_word = 1'000'000;  // characters
constexpr std::size_t most_statements = 100'000;
constexpr int deepest = 12;  // command inside a command, ${a:-${b}}, calls

using Words = std::vector<std::string>;

/// Why a value is not certain; empty: it is.
using Doubt = std::string;

struct Value {
  Words words;
  Doubt doubt;
};
using Variables = std::map<std::string, Value, std::less<>>;

bool is_name_part(char c) {
  return is_letter(c) || c == '_' || is_digit(c);
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::size_t name_length(std::string_view text) {
  if (text.empty() || is_digit(text.front()) || !is_name_part(text.front())) return 0;
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_name_part) -
                                  text.begin());
}

std::string joined_words(const Words& words) {
  std::string all;
  for (const std::string& word : words) {
    if (!all.empty()) all += ' ';
    if (all.size() + word.size() > longest_word) break;
    all += word;
  }
  return all;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
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
  const Doubt& doubt() const { return doubt_; }

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
    if (known == variables_.end()) return std::nullopt;
    if (doubt_.empty()) doubt_ = known->second.doubt;
    return whole_number(joined_words(known->second.words));
  }

  std::string_view rest_;
  const Variables& variables_;
  Doubt doubt_;
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

/// What is known of a command's end.
enum class Status { succeeds, fails, usual, unknown };

/// Reads a script as the shell runs it, as far as that is certain. What is not known to run sets
/// values in doubt; what is known not to run sets none.
class Script {
 public:
  explicit Script(Variables variables) : variables_(std::move(variables)) {}

  void read(std::string_view text, int line) {
    Place outer{rest_, line_};
    rest_ = text;
    line_ = line;
    if (++depth_ <= deepest) read_list({});
    --depth_;
    rest_ = outer.rest;
    line_ = outer.line;
  }

  std::vector<Launch>& launches() { return launches_; }
  const Variables& variables() const { return variables_; }
  const std::vector<std::string>& remarks() const { return remarks_; }
  int exit_line() const { return exit_line_; }

 private:
  struct Place {
    std::string_view rest;
    int line;
  };
  struct Function {
    std::string_view body;
    int line;
  };

  /// What is read now does not run.
  bool is_idle() const { return skipped_ || returned_ || exit_line_ > 0; }

  // Characters ----------------------------------------------------------------------------------

  char peek(std::size_t ahead = 0) const { return ahead < rest_.size() ? rest_[ahead] : '\0'; }
  bool starts(std::string_view text) const { return rest_.starts_with(text); }

  void advance(std::size_t count = 1) {
    for (; count > 0 && !rest_.empty(); --count) {
      const bool ends_line = rest_.front() == '\n';
      rest_.remove_prefix(1);
      if (!ends_line) continue;
      ++line_;
      skip_heredocs();
    }
  }

  /// Lines up to each delimiter that the line before named.
  void skip_heredocs() {
    for (const auto& [delimiter, tabs] : std::exchange(heredocs_, {}))
      while (!rest_.empty()) {
        const std::size_t end = std::min(rest_.find('\n'), rest_.size());
        std::string_view line = rest_.substr(0, end);
        rest_.remove_prefix(std::min(end + 1, rest_.size()));
        ++line_;
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (tabs) line = trimmed(line, "\t");
        if (line == delimiter) break;
      }
  }

  /// Blanks, and a backslash at the end of a line, which continues it.
  void skip_blanks() {
    for (;;) {
      if (is_blank(peek()))
        advance();
      else if (starts("\\\n") || starts("\\\r\n"))
        advance(peek(1) == '\n' ? 2 : 3);
      else
        return;
    }
  }

  void skip_comment() { advance(std::min(rest_.find('\n'), rest_.size())); }

  /// Blanks, comments and ends of statements.
  void skip_separators() {
    for (;;) {
      skip_blanks();
      if (peek() == '#')
        skip_comment();
      else if (peek() == '\n' || (peek() == ';' && peek(1) != ';') ||
               (peek() == '&' && peek(1) != '&'))
        advance();
      else
        return;
    }
  }

  bool at_end_of_command() const {
    const char c = peek();
    if (c == '&' && peek(1) == '>') return false;
    return rest_.empty() || c == '\n' || c == ';' || c == '&' || c == '|' || c == ')';
  }

  /// The bare word that comes next: a keyword, if it is one.
  std::string_view bare_word() const {
    std::size_t end = 0;
    while (end < rest_.size() && (is_name_part(rest_[end]) || rest_[end] == '!'))
      ++end;
    const char after = peek(end);
    const bool ends = end == rest_.size() || is_blank(after) || after == '\n' || after == ';' ||
                      after == '(' || after == ')' || after == '&' || after == '|';
    return ends ? rest_.substr(0, end) : std::string_view();
  }

  bool take(std::string_view keyword) {
    skip_separators();
    if (bare_word() != keyword) return false;
    advance(keyword.size());
    return true;
  }

  // Statements ----------------------------------------------------------------------------------

  /// Statements up to one of the words that end them, or a bracket or ;;.
  Status read_list(std::initializer_list<std::string_view> ends) {
    Status status = Status::succeeds;
    for (;;) {
      skip_separators();
      if (rest_.empty() || peek() == ')' || starts(";;") || peek() == '}') return status;
      if (is_one_of(bare_word(), ends)) return status;
      const std::size_t before = rest_.size();
      if (++statements_ > most_statements) return void(rest_ = {}), status;
      status = read_and_or();
      if (rest_.size() == before) advance();  // of a shape not known here
    }
  }

  /// Commands joined by && and ||: the next runs where the one before says so.
  Status read_and_or() {
    Status status = read_pipeline();
    for (;;) {
      skip_blanks();
      const bool both = starts("&&"), either = starts("||");
      if (!both && !either) return status;
      advance(2);
      skip_separators();
      const bool runs =
          status == (both ? Status::succeeds : Status::fails) || (both && status == Status::usual);
      const Status next = within(runs                        ? Run::yes
                                 : status == Status::unknown ? Run::perhaps
                                                             : Run::no,
                                 [&] { return read_pipeline(); });
      if (runs) status = next;
    }
  }

  Status read_pipeline() {
    bool negated = false;
    while (take_mark('!'))
      negated = !negated;
    Status status = read_command();
    skip_blanks();
    while (peek() == '|' && peek(1) != '|') {
      advance(peek(1) == '&' ? 2 : 1);
      skip_separators();
      read_command();
      status = Status::unknown;
      skip_blanks();
    }
    if (!negated) return status;
    return status == Status::succeeds ? Status::fails
           : status == Status::fails  ? Status::succeeds
                                      : Status::unknown;
  }

  bool take_mark(char mark) {
    skip_blanks();
    if (peek() != mark || !is_blank(peek(1))) return false;
    advance();
    return true;
  }

  enum class Run { yes, perhaps, no };

  /// Reads on with what is known of whether it runs.
  template <class Read>
  Status within(Run run, const Read& read, const std::string& why = {}) {
    const bool skipped = skipped_;
    const Doubt doubt = doubt_;
    if (run == Run::no) skipped_ = true;
    if (run == Run::perhaps && doubt_.empty())
      doubt_ = why.empty() ? fmt::format("under a condition in line {}", line_) : why;
    const Status status = read();
    skipped_ = skipped;
    doubt_ = doubt;
    return status;
  }

  Status read_command() {
    skip_blanks();
    if (starts("((")) return read_arithmetic_command();
    if (peek() == '(') return read_subshell();
    if (peek() == '{' && (is_blank(peek(1)) || peek(1) == '\n')) {
      advance();
      read_list({});
      if (peek() == '}') advance();
      return skip_redirections();
    }
    const std::string_view word = bare_word();
    if (word == "if") return read_if();
    if (word == "while" || word == "until" || word == "for" || word == "select") return read_loop();
    if (word == "case") return read_case();
    if (read_function()) return Status::succeeds;
    return read_simple();
  }

  Status skip_redirections() {
    std::vector<ShellWord> none;
    for (skip_blanks(); read_redirection(); skip_blanks()) {
    }
    return Status::usual;
  }

  Status read_subshell() {
    const Variables before = variables_;
    advance();
    read_list({});
    if (peek() == ')') advance();
    variables_ = before;
    return skip_redirections();
  }

  Status read_if() {
    const int line = line_;
    bool chosen = false, open = false;  // a branch that runs; one that may
    const std::string why = fmt::format("under the condition of line {}", line);
    const auto branch = [&](Status condition) {
      const bool may = condition == Status::unknown || condition == Status::usual;
      const Run run = chosen || condition == Status::fails ? Run::no
                      : may || open                        ? Run::perhaps
                                                           : Run::yes;
      within(
          run,
          [&] {
            return read_list({"elif", "else", "fi"});
          },
          why);
      chosen = chosen || run == Run::yes || (open && condition == Status::succeeds);
      open = open || run == Run::perhaps;
    };
    advance(2);
    do {
      const Status condition = read_list({"then"});
      if (!take("then")) return Status::unknown;
      branch(condition);
    } while (take("elif"));
    if (take("else")) branch(Status::succeeds);
    take("fi");
    return skip_redirections();
  }

  Status read_loop() {
    const int line = line_;
    const std::string_view whole = rest_;
    const bool counts = bare_word() == "for" || bare_word() == "select";
    const std::string why = fmt::format("in the loop of line {}", line);
    bool of_arguments = false;
    if (counts) {
      advance(bare_word().size());
      skip_blanks();
      const std::string name(rest_.substr(0, name_length(rest_)));
      if (starts("((")) advance(matching_end(rest_, '(', ')'));
      std::vector<ShellWord> words;
      while (!at_end_of_command()) {
        read_words(words);
        skip_blanks();
      }
      if (!name.empty() && !skipped_) variables_[name] = {{"$" + name}, why};
    } else {
      advance(5);
      read_list({"do"});
      const std::string_view condition = whole.substr(0, whole.size() - rest_.size());
      // Loops over arguments do not run: the script is read without any.
      of_arguments = condition.find("$#") != condition.npos ||
                     condition.find("$1") != condition.npos ||
                     condition.find("getopts") != condition.npos;
    }
    if (!take("do")) return Status::unknown;
    within(
        of_arguments ? Run::no : Run::perhaps, [&] { return read_list({"done"}); }, why);
    take("done");
    return skip_redirections();
  }

  Status read_case() {
    const std::string why = fmt::format("in the case of line {}", line_);
    advance(4);
    skip_blanks();
    std::vector<ShellWord> subject;
    read_words(subject);
    const bool known = subject.size() == 1 && is_certain(subject.front());
    take("in");
    bool chosen = false;
    for (skip_separators(); !rest_.empty() && bare_word() != "esac"; skip_separators()) {
      if (peek() == '(') advance();
      const std::size_t end = std::min(rest_.find(')'), rest_.size());
      bool matches = false;
      for (const std::string& pattern : split(rest_.substr(0, end), '|'))
        matches =
            matches || (known && matches_pattern(unquoted(trimmed(pattern)), subject.front().text));
      advance(end + 1);
      within(
          !known               ? Run::perhaps
          : matches && !chosen ? Run::yes
                               : Run::no,
          [&] { return read_list({"esac"}); }, why);
      chosen = chosen || matches;
      if (starts(";;")) advance(2);
    }
    take("esac");
    return skip_redirections();
  }

  /// name() { ... } and function name { ... }: read when it is called.
  bool read_function() {
    std::size_t at = 0;
    const bool keyword = bare_word() == "function";
    if (keyword) at = std::min(rest_.find_first_not_of(" \t", 8), rest_.size());
    std::size_t end = at;
    while (end < rest_.size() && (is_name_part(rest_[end]) || rest_[end] == '-'))
      ++end;
    const std::string name(rest_.substr(at, end - at));
    const std::size_t open = std::min(rest_.find_first_not_of(" \t", end), rest_.size());
    const bool brackets = rest_.substr(open).starts_with("()");
    if (name.empty() || (!brackets && !keyword)) return false;
    advance(brackets ? open + 2 : end);
    skip_separators();
    if (peek() != '{' && peek() != '(') return true;
    advance();
    const Function function{rest_, line_};
    within(Run::no, [&] { return read_list({}); });
    functions_[name] = {function.body.substr(0, function.body.size() - rest_.size()),
                        function.line};
    advance();
    return true;
  }

  Status call(const Function& function, const std::vector<ShellWord>& words) {
    if (depth_ >= deepest) return Status::unknown;
    const Variables before = variables_;
    const std::set<std::string> locals = std::exchange(locals_, {});
    Words arguments;
    for (std::size_t i = 1; i < words.size(); ++i)
      arguments.push_back(words[i].text);
    std::swap(arguments, positional_);
    ++calls_;
    read(function.body, function.line);
    --calls_;
    returned_ = false;
    std::swap(arguments, positional_);
    for (const std::string& name : locals_)
      if (const auto old = before.find(name); old != before.end())
        variables_[name] = old->second;
      else
        variables_.erase(name);
    locals_ = locals;
    return Status::usual;
  }

  Status read_arithmetic_command() {
    const std::size_t end = matching_end(rest_, '(', ')');
    const std::string_view inner = rest_.substr(0, end);
    for (std::size_t at = inner.find('='); at != inner.npos; at = inner.find('=', at + 1)) {
      std::size_t begin = at;
      while (begin > 0 && !is_name_part(inner[begin - 1]))
        --begin;
      const std::size_t last = begin;
      while (begin > 0 && is_name_part(inner[begin - 1]))
        --begin;
      put_in_doubt(std::string(inner.substr(begin, last - begin)));
    }
    advance(end);
    return Status::unknown;
  }

  // Simple commands -----------------------------------------------------------------------------

  Status read_simple() {
    std::vector<ShellWord> words;
    const int line = line_;
    bool declares = false;
    bool assigned = false;
    for (;;) {
      skip_blanks();
      if (peek() == '#') skip_comment();
      if (at_end_of_command()) break;
      if (read_redirection()) continue;
      if ((words.empty() || declares) && read_assignment(words)) {
        assigned = true;
        continue;
      }
      if (words.size() == 1 && words.front().text == "[[") {
        read_until_double_bracket(words);
        continue;
      }
      read_words(words);
      if (words.size() == 1 &&
          is_one_of(words.front().text, {"exec", "command", "builtin", "nohup", "time", "env"}))
        words.clear();
      if (words.size() == 1)
        declares =
            is_one_of(words.front().text, {"export", "declare", "readonly", "local", "typeset"});
    }
    if (words.empty()) return assigned ? Status::succeeds : Status::usual;
    return is_idle() ? Status::unknown : run(std::move(words), line);
  }

  void read_until_double_bracket(std::vector<ShellWord>& words) {
    while (!rest_.empty() && !starts("]]")) {
      skip_blanks();
      if (starts("]]") || peek() == '\n') break;
      if (peek() == '&' || peek() == '|' || peek() == '<' || peek() == '>' || peek() == '(' ||
          peek() == ')') {
        words.push_back({std::string(1, peek()), line_, {}});
        advance();
      } else {
        read_words(words);
      }
    }
    words.push_back({"]]", line_, {}});
    advance(2);
  }

  /// > file, 2>&1, &> file, < file, <<EOF, <<< word.
  bool read_redirection() {
    std::size_t at = 0;
    while (is_digit(peek(at)))
      ++at;
    const bool both = starts("&>");
    if (!both && peek(at) != '>' && peek(at) != '<') return false;
    if (both) at = 1;
    if (peek(at + 1) == '(') return false;  // <(command)
    std::size_t end = at;
    while (peek(end) == '<' || peek(end) == '>' || peek(end) == '&' || peek(end) == '|')
      ++end;
    const std::string_view mark = rest_.substr(at, end - at);
    advance(end);
    const bool tabs = mark == "<<" && peek() == '-';
    if (tabs) advance();
    skip_blanks();
    std::vector<ShellWord> target;
    const std::string_view before = rest_;
    const bool skipped = std::exchange(skipped_, true);
    if (!at_end_of_command()) read_words(target);
    skipped_ = skipped;
    if (mark != "<<") return true;
    std::string delimiter(before.substr(0, before.size() - rest_.size()));
    std::erase_if(delimiter, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    heredocs_.emplace_back(delimiter, tabs);
    return true;
  }

  /// NAME=value, NAME+=value, NAME=(a b c).
  bool read_assignment(const std::vector<ShellWord>& words) {
    const std::size_t length = name_length(rest_);
    if (length == 0) return false;
    const bool append = peek(length) == '+' && peek(length + 1) == '=';
    if (!append && peek(length) != '=') return false;
    const std::string name(rest_.substr(0, length));
    if (!words.empty() && words.front().text == "local" && calls_ > 0) locals_.insert(name);
    advance(length + (append ? 2 : 1));
    Value value;
    const bool is_array = peek() == '(';
    std::vector<ShellWord> read;
    if (is_array)
      read_array(read);
    else if (!is_blank(peek()) && !at_end_of_command())
      read_words(read, true);
    for (ShellWord& word : read) {
      value.words.push_back(std::move(word.text));
      if (value.doubt.empty()) value.doubt = std::move(word.doubt);
    }
    if (!is_array && value.words.empty()) value.words.emplace_back();
    if (!is_array && value.words.size() > 1) value.words = {joined_words(value.words)};
    if (is_idle())
      unset_.insert(name);
    else
      assign(name, std::move(value), append, is_array);
    return true;
  }

  void assign(const std::string& name, Value value, bool append, bool is_array) {
    Value& variable = variables_[name];
    if (!doubt_.empty()) value.doubt = fmt::format("{} is set {}", name, doubt_);
    if (!append) {
      variable = std::move(value);
    } else {
      if (variable.doubt.empty()) variable.doubt = value.doubt;
      if (is_array || variable.words.empty())
        variable.words.insert(variable.words.end(), value.words.begin(), value.words.end());
      else if (!value.words.empty() &&
               variable.words.back().size() + value.words.front().size() <= longest_word)
        variable.words.back() += value.words.front();
    }
    if (variable.words.size() > most_words) variable.words.resize(most_words);
  }

  void put_in_doubt(const std::string& name, std::string why = {}) {
    if (name.empty() || name_length(name) != name.size() || skipped_) return;
    if (why.empty()) why = fmt::format("{} is computed in line {}", name, line_);
    Value& variable = variables_[name];
    if (variable.words.empty()) variable.words = {"$" + name};
    variable.doubt = std::move(why);
  }

  void read_array(std::vector<ShellWord>& into) {
    advance();
    while (!rest_.empty() && peek() != ')') {
      skip_blanks();
      if (peek() == '#')
        skip_comment();
      else if (peek() == '\n' || peek() == ';' || peek() == '&' || peek() == '|')
        advance();  // arrays go over several lines
      else if (peek() != ')')
        read_words(into);
    }
    advance();
  }

  /// Runs a command as far as it changes what is read here.
  Status run(std::vector<ShellWord> words, int line) {
    const std::string& name = words.front().text;
    if (const auto function = functions_.find(name); function != functions_.end())
      return call(function->second, words);
    if (name == "true" || name == ":") return Status::succeeds;
    if (name == "false") return Status::fails;
    if (name == "[" || name == "[[" || name == "test") return tested(words);
    if (is_one_of(name, {"exit", "return"})) return leave(name, line);
    if (is_one_of(name, {"source", "."}) && words.size() > 1)
      return run_source(words[1].text, line);
    if (is_one_of(name, {"read", "let", "mapfile", "readarray", "getopts", "printf", "unset"}))
      return run_setter(words);
    if (name == "shift") {
      if (!positional_.empty()) positional_.erase(positional_.begin());
      return Status::succeeds;
    }
    if (name == "eval") {
      words.erase(words.begin());
      return run_text(words, line);
    }
    if (is_one_of(name,
                  {"echo", "cat", "export", "declare", "readonly", "local", "typeset", "set", "cd",
                   "mkdir", "ls", "tee", "trap", "alias", "sed", "awk", "git", "pip", "apt"}))
      return Status::usual;
    consider(std::move(words), line);
    return is_one_of(name_of_last_,
                     {"grep", "command", "which", "hash", "diff", "cmp", "pgrep", "nvidia-smi"})
               ? Status::unknown
               : Status::usual;
  }

  Status leave(const std::string& name, int line) {
    if (!doubt_.empty()) return Status::unknown;
    if (name == "return" && calls_ > 0)
      returned_ = true;
    else
      exit_line_ = line;
    return Status::usual;
  }

  /// What another file sets is not known. Environments of software set paths.
  Status run_source(const std::string& file, int line) {
    if (file.ends_with("/activate") || file == "activate" || file.ends_with("conda.sh") ||
        file.ends_with("bashrc") || file.ends_with("bash_profile") ||
        file.ends_with("setvars.sh") || file.ends_with("modules.sh") ||
        file.starts_with("/etc/profile")) {
      remarks_.push_back(
          fmt::format("line {}: {} is taken to set paths of software only", line, file));
      return Status::usual;
    }
    const std::string why = fmt::format("{} of line {} may set it", file, line);
    for (auto& [name, value] : variables_)
      if (value.doubt.empty()) value.doubt = fmt::format("{}: {}", name, why);
    ambient_ = why;
    return Status::usual;
  }

  Status run_setter(const std::vector<ShellWord>& words) {
    const std::string& name = words.front().text;
    if (name == "printf" && (words.size() < 3 || words[1].text != "-v")) return Status::usual;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string variable = words[i].text.substr(0, name_length(words[i].text));
      if (name == "unset" && doubt_.empty())
        variables_.erase(variable);
      else
        put_in_doubt(variable);
    }
    return Status::usual;
  }

  Status run_text(const std::vector<ShellWord>& words, int line) {
    std::string text;
    Doubt doubt;
    for (const ShellWord& word : words) {
      text += (text.empty() ? "" : " ") + word.text;
      if (doubt.empty()) doubt = word.doubt;
    }
    texts_.push_back(std::make_unique<std::string>(std::move(text)));
    const Doubt before = doubt_;
    if (doubt_.empty()) doubt_ = doubt;
    read(*texts_.back(), line);
    doubt_ = before;
    return Status::usual;
  }

  bool is_certain(const ShellWord& word) const {
    return word.doubt.empty() && word.text.find('$') == word.text.npos &&
           word.text.find('`') == word.text.npos;
  }

  /// [ a = b ], [ -z a ], [ 1 -lt 2 ]: where both sides are certain.
  Status tested(const std::vector<ShellWord>& words) const {
    const auto end = words.end() - (words.front().text == "test" ? 0 : 1);
    std::vector<std::string> parts;
    bool negated = false;
    for (auto word = words.begin() + 1; word < end; ++word) {
      if (!is_certain(*word)) return Status::unknown;
      if (parts.empty() && word->text == "!")
        negated = !negated;
      else
        parts.push_back(word->text);
    }
    const auto status = [&](bool holds) {
      return holds != negated ? Status::succeeds : Status::fails;
    };
    if (parts.size() == 1) return status(!parts[0].empty());
    if (parts.size() == 2 && parts[0] == "-z") return status(parts[1].empty());
    if (parts.size() == 2 && parts[0] == "-n") return status(!parts[1].empty());
    if (parts.size() != 3) return Status::unknown;
    const std::string& op = parts[1];
    if (op == "=" || op == "==")
      return parts[2].find_first_of("*?[") != std::string::npos && words.front().text == "[["
                 ? Status::unknown
                 : status(parts[0] == parts[2]);
    if (op == "!=")
      return parts[2].find_first_of("*?[") != std::string::npos && words.front().text == "[["
                 ? Status::unknown
                 : status(parts[0] != parts[2]);
    const auto a = whole_number(parts[0]), b = whole_number(parts[2]);
    if (!a || !b) return Status::unknown;
    if (op == "-eq") return status(*a == *b);
    if (op == "-ne") return status(*a != *b);
    if (op == "-lt") return status(*a < *b);
    if (op == "-le") return status(*a <= *b);
    if (op == "-gt") return status(*a > *b);
    if (op == "-ge") return status(*a >= *b);
    return Status::unknown;
  }

  /// Keeps what starts a program; commands inside of words are read as well: bash -c "...".
  void consider(std::vector<ShellWord> words, int line) {
    name_of_last_ = words.front().text;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      const bool program_inside = text.find(".py ") != text.npos || text.find(" -m ") != text.npos;
      if (!program_inside || text.find(' ') == text.npos) continue;
      const std::size_t before = launches_.size();
      run_text({words[i]}, words[i].line);
      for (std::size_t at = before; at < launches_.size(); ++at) {
        std::vector<ShellWord>& inner = launches_[at].command.words;
        inner.insert(inner.begin(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
      }
      return;
    }
    const bool program = std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
      return word.text.ends_with(".py") || word.text == "-m";
    });
    const bool options = std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
      return word.text.starts_with("--") || !word.doubt.empty() || word.text.starts_with('$');
    });
    if (program || options) launches_.push_back({{std::move(words), {}, {}}, line, doubt_});
  }

  // Words ---------------------------------------------------------------------------------------

  /// A word on its way: finished words, and the one being written.
  struct Piece {
    int line;
    std::string text;
    bool open;  // something was written, be it an empty quotation
    Doubt doubt;
    std::vector<ShellWord> done;
  };

  /// One word of the text; it becomes none or several where variables are expanded.
  void read_words(std::vector<ShellWord>& into, bool whole = false) {
    Piece piece{line_, {}, false, {}, {}};
    const std::size_t before = rest_.size();
    while (!is_blank(peek()) && !at_end_of_command()) {
      if (peek() == '\'')
        read_single_quoted(piece);
      else if (peek() == '"')
        read_double_quoted(piece);
      else if (peek() == '$')
        read_expansion(piece, whole);
      else if (peek() == '`')
        copy(piece, std::min(rest_.find('`', 1), rest_.size() - 1) + 1);
      else if (peek() == '\\')
        read_escape(piece);
      else if ((peek() == '<' || peek() == '>') && peek(1) == '(')
        copy(piece, 1 + matching_end(rest_.substr(1), '(', ')'));
      else if (peek() == '<' || peek() == '>')
        break;
      else
        copy(piece, 1);
    }
    if (rest_.size() == before) advance();  // of a shape not known here
    finish(piece);
    for (ShellWord& word : piece.done)
      if (into.size() < most_words) into.push_back(std::move(word));
  }

  static void write(Piece& piece, std::string_view text) {
    if (piece.text.size() + text.size() <= longest_word) piece.text += text;
    piece.open = true;
  }

  static void finish(Piece& piece) {
    if (piece.open && piece.done.size() < most_words)
      piece.done.push_back({piece.text, piece.line, piece.doubt});
    piece.text.clear();
    piece.open = false;
    piece.doubt.clear();
  }

  void copy(Piece& piece, std::size_t length) {
    write(piece, rest_.substr(0, length));
    advance(length);
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
      else if (peek() == '\\' && is_one_of(rest_.substr(1, 1), {"\"", "\\", "$", "`", "\n"}))
        read_escape(piece);
      else
        copy(piece, 1);
    }
    advance();
  }

  void read_expansion(Piece& piece, bool quoted) {
    if (starts("$((")) return read_arithmetic(piece);
    if (starts("$(")) return copy(piece, 1 + matching_end(rest_.substr(1), '(', ')'));
    if (starts("${")) return read_braced(piece, quoted);
    if (is_digit(peek(1)) || peek(1) == '@' || peek(1) == '*') {
      const std::string name(1, peek(1));
      expand_positional(piece, name, std::string(rest_.substr(0, 2)));
      return advance(2);
    }
    const std::size_t length = name_length(rest_.substr(1));
    if (length == 0) return copy(piece, 1);
    expand(piece, rest_.substr(0, length + 1), rest_.substr(1, length), false, quoted);
    advance(length + 1);
  }

  /// Of a function that is called; the script itself is read without arguments.
  void expand_positional(Piece& piece, const std::string& name, const std::string& whole) {
    Words words = positional_;
    if (is_digit(name.front())) {
      const auto at = static_cast<std::size_t>(name.front() - '0');
      words = at >= 1 && at <= positional_.size() ? Words{positional_[at - 1]} : Words{};
    }
    if (words.empty() && (calls_ == 0 || is_digit(name.front()))) return write(piece, whole);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) finish(piece);
      write(piece, words[i]);
    }
  }

  void read_arithmetic(Piece& piece) {
    const std::size_t end = 1 + matching_end(rest_.substr(1), '(', ')');
    Arithmetic arithmetic(rest_.substr(3, end > 5 ? end - 5 : 0), variables_);
    const auto value = arithmetic.value();
    if (piece.doubt.empty()) piece.doubt = arithmetic.doubt();
    if (!value) return copy(piece, end);
    write(piece, fmt::format("{}", *value));
    advance(end);
  }

  void read_braced(Piece& piece, bool quoted) {
    const std::size_t end = 1 + matching_end(rest_.substr(1), '{', '}');
    const std::string whole(rest_.substr(0, end));
    std::string_view inner = std::string_view(whole).substr(2, end > 3 ? end - 3 : 0);
    std::size_t length = name_length(inner);
    const bool positional = !inner.empty() && is_digit(inner.front());
    if (positional) length = 1;
    const std::string_view name = inner.substr(0, length), tail = inner.substr(length);
    if (positional && tail.empty())
      expand_positional(piece, std::string(name), whole);
    else if (length > 0 && (tail == "[@]" || tail == "[*]" || tail.empty()))
      expand(piece, whole, name, !tail.empty(), quoted);
    else if (length > 0 && is_one_of(tail.substr(0, 1), {":", "-", "=", "+", "?"}))
      expand_or(piece, name, tail, whole, quoted);
    else
      write(piece, whole);
    advance(end);
  }

  /// ${A:-word}, ${A:=word}, ${A:+word}, ${A:?word}.
  void expand_or(Piece& piece, std::string_view name, std::string_view tail,
                 const std::string& whole, bool quoted) {
    const bool colon = tail.starts_with(':');
    const char op = tail.size() > (colon ? 1 : 0) ? tail[colon ? 1 : 0] : '\0';
    const std::string_view word = tail.substr(std::min<std::size_t>(colon ? 2 : 1, tail.size()));
    const auto known = variables_.find(name);
    const bool positional = !name.empty() && is_digit(name.front());
    const auto number = positional ? static_cast<std::size_t>(name.front() - '0') : 0;
    const bool argument = positional && number >= 1 && number <= positional_.size();
    const bool set = argument || (known != variables_.end() &&
                                  !(colon && joined_words(known->second.words).empty()));
    if (op == '+' && !set) return write(piece, "");
    if (op != '+' && argument) return write(piece, positional_[number - 1]);
    if (op != '+' && set) return expand(piece, whole, name, false, quoted);
    if (op == '?' || !is_one_of(std::string_view(&op, 1), {"-", "=", "+"}) || depth_ >= deepest)
      return write(piece, whole);
    if (piece.doubt.empty() && !ambient_.empty() && op != '+')
      piece.doubt = fmt::format("{}: {}", name, ambient_);
    const Piece inner = expanded(word);
    for (std::size_t i = 0; i < inner.done.size(); ++i) {
      write(piece, (i > 0 ? " " : "") + inner.done[i].text);
      if (piece.doubt.empty()) piece.doubt = inner.done[i].doubt;
    }
    if (op == '=' && !skipped_ && !inner.done.empty())
      variables_[std::string(name)] = {{inner.done.front().text}, inner.done.front().doubt};
  }

  Piece expanded(std::string_view text) {
    const Place outer{rest_, line_};
    rest_ = text;
    ++depth_;
    std::vector<ShellWord> words;
    while (!rest_.empty()) {
      skip_blanks();
      if (rest_.empty()) break;
      if (at_end_of_command())
        advance();
      else
        read_words(words);
    }
    --depth_;
    rest_ = outer.rest;
    line_ = outer.line;
    return {line_, {}, false, {}, std::move(words)};
  }

  /// Quoted values stay one word, unless "${array[@]}"; others fall into words at blanks.
  void expand(Piece& piece, std::string_view whole, std::string_view name, bool all, bool quoted) {
    const auto known = variables_.find(name);
    if (known == variables_.end()) {
      if (piece.doubt.empty() && !ambient_.empty())
        piece.doubt = fmt::format("{}: {}", name, ambient_);
      // Set by nothing but what does not run, it is empty.
      const bool empty = ambient_.empty() && unset_.contains(std::string(name));
      return empty ? (quoted ? write(piece, "") : void()) : write(piece, whole);
    }
    const Doubt& doubt = known->second.doubt;
    const auto mark = [&] {
      if (piece.doubt.empty()) piece.doubt = doubt;
    };
    mark();
    if (quoted && !all) return write(piece, joined_words(known->second.words));
    Words parts;
    for (const std::string& word : known->second.words) {
      if (quoted)
        parts.push_back(word);
      else
        split_blanks(word, parts);
    }
    if (parts.empty() && !doubt.empty()) write(piece, whole);  // it may hold words
    for (std::size_t i = 0; i < parts.size() && piece.done.size() < most_words; ++i) {
      if (i > 0) finish(piece);
      mark();
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

  std::string_view rest_;
  int line_ = 1;
  Variables variables_;
  std::map<std::string, Function> functions_;
  std::vector<std::pair<std::string, bool>> heredocs_;  // delimiter, and whether tabs stand before
  std::vector<std::unique_ptr<std::string>> texts_;     // that functions of eval point into
  Words positional_;
  std::set<std::string> locals_, unset_;
  std::vector<Launch> launches_;
  std::vector<std::string> remarks_;
  Doubt doubt_, ambient_;  // of what is read now; of names that nothing here sets
  bool skipped_ = false, returned_ = false;
  int exit_line_ = 0, depth_ = 0, calls_ = 0;
  std::size_t statements_ = 0;
  std::string name_of_last_;
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

/// Two of the arguments without which Megatron does not start.
bool has_model_arguments(const std::vector<ShellWord>& words) {
  return std::count_if(words.begin(), words.end(), [](const ShellWord& word) {
           const std::string_view option =
               std::string_view(word.text).substr(0, word.text.find('='));
           return is_one_of(option, {"--num-layers", "--hidden-size", "--num-attention-heads",
                                     "--micro-batch-size", "--seq-length", "--num_layers"});
         }) >= 2;
}

bool has_options(const std::vector<ShellWord>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const ShellWord& word) { return word.text.starts_with("--"); });
}

std::map<std::string, std::string> plain(const Variables& variables) {
  std::map<std::string, std::string> all;
  for (const auto& [name, value] : variables)
    all[name] = joined_words(value.words);
  return all;
}

/// A file that only sets arrays of arguments: MODEL_ARGS=(--num-layers 32 ...).
ShellCommand command_of_arrays(const Script& script) {
  ShellCommand command;
  for (const auto& [name, value] : script.variables()) {
    std::vector<ShellWord> words;
    for (const std::string& word : value.words)
      for (const std::string& part : split(word, ' '))
        if (!part.empty()) words.push_back({part, 0, value.doubt});
    if (words.empty() || !words.front().text.starts_with("--")) continue;
    command.words.insert(command.words.end(), words.begin(), words.end());
    command.only_arguments = true;
  }
  return command;
}

}  // namespace

std::optional<std::string> ShellCommand::variable(const std::string& name) const {
  const auto found = variables.find(name);
  return found == variables.end() ? std::nullopt : std::optional(found->second);
}

std::size_t ShellCommand::first_argument() const {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(".py")) return i + 1;
    if (words[i].text != "-m" || i + 1 >= words.size()) continue;
    const std::string& module = words[i + 1].text;
    const bool launcher = module.starts_with("torch.distributed") ||
                          module.starts_with("accelerate") || module.starts_with("deepspeed");
    if (!launcher) return i + 2;
  }
  return 0;
}

Result<ShellCommand> choose_launch(std::vector<Launch> launches, std::string_view name) {
  std::vector<Launch> chosen;
  enum class Needs { sizes, program, options };
  for (const Needs needs : {Needs::sizes, Needs::program, Needs::options}) {
    for (const Launch& launch : launches) {
      const bool fits = needs == Needs::sizes     ? has_model_arguments(launch.command.words)
                        : needs == Needs::program ? launch.command.first_argument() > 0
                                                  : has_options(launch.command.words);
      const bool twice = std::any_of(chosen.begin(), chosen.end(), [&](const Launch& other) {
        return other.command.words == launch.command.words;
      });
      if (fits && !twice) chosen.push_back(launch);
    }
    if (!chosen.empty()) break;
  }
  if (chosen.size() > 1) {
    std::vector<std::string> lines;
    for (const Launch& launch : chosen)
      lines.push_back(launch.line > 0 ? fmt::format("line {}", launch.line)
                                      : launch.command.words.front().text);
    return error(
        fmt::format("{}: {} commands that train are launched ({}), and a job is one; leave one "
                    "in a copy",
                    name, chosen.size(), fmt::join(lines, ", ")));
  }
  if (chosen.empty()) return ShellCommand();
  Launch& launch = chosen.front();
  if (!launch.doubt.empty())
    return error(
        fmt::format("{}:{}: the training is launched {} (whether and how often is not known "
                    "without running the script); {}",
                    name, launch.line, launch.doubt, run_it_instead));
  return std::move(launch.command);
}

Result<ShellCommand> find_command(std::string_view text, std::string_view name,
                                  const std::map<std::string, std::string>& given) {
  if (text.size() > largest_text)
    return error(
        fmt::format("{}: larger than 1 MiB (no launch script is); try another file", name));
  const std::string lines = is_argument_file(text) ? joined_lines(text) : std::string(text);
  Variables variables;
  for (const auto& [variable, value] : given)
    variables[variable] = {{value}, {}};
  Script script(std::move(variables));
  script.read(lines, 1);
  ShellCommand command = TPT_TRY(choose_launch(std::move(script.launches()), name));
  if (command.words.empty() && script.exit_line() > 0)
    return error(fmt::format("{}:{}: the script ends here, before it launches anything; {}", name,
                             script.exit_line(), run_it_instead));
  if (command.words.empty()) command = command_of_arrays(script);
  if (command.words.empty())
    return error(
        fmt::format("{}: has no command with arguments (words that start with --); give a "
                    "launch script, its command line or a file of arguments",
                    name));
  command.variables = plain(script.variables());
  command.remarks = script.remarks();
  return command;
}

}  // namespace triplepoint::formats
