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

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/key_table.h"

namespace triplepoint::formats {
namespace {

constexpr std::size_t largest_text = std::size_t{1} << 20;
constexpr std::size_t most_words = 50'000;       // of one command or variable
constexpr std::size_t longest_word = 1'000'000;  // characters
constexpr std::size_t most_statements = 100'000;
constexpr int deepest = 12;  // command inside a command, ${a:-${b}}, calls
constexpr int most_files = 64;
constexpr std::size_t most_turns = 1024;  // of a loop

using Words = std::vector<std::string>;

/// Why a value is not certain; empty: it is.
using Doubt = std::string;

using Variables = std::map<std::string, Words, std::less<>>;

/// Text that is not certain carries its reason wherever it goes: a mark, the reason's number, a
/// mark, the text, a mark. Marks hold no blanks, so that each word has its own.
constexpr char opens = '\x01', tells = '\x02', closes = '\x03';

std::string unmarked(std::string_view text) {
  std::string plain;
  bool number = false;
  for (const char c : text) {
    if (c == opens) number = true;
    if (!number && c != closes) plain += c;
    if (c == tells) number = false;
  }
  return plain;
}

class Reasons {
 public:
  /// Each word of the text with the reason, unless it has one.
  std::string marked(std::string_view text, const Doubt& why) {
    if (why.empty()) return std::string(text);
    if (all_.empty() || all_.back() != why) all_.push_back(why);
    const std::string open = opens + fmt::format("{}", all_.size() - 1) + tells;
    std::string all;
    while (!text.empty()) {
      const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
      all += text.substr(0, begin);
      text.remove_prefix(begin);
      const std::size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
      const std::string_view word = text.substr(0, end);
      if (word.empty() || word.find(opens) != word.npos)
        all += word;
      else
        all.append(open).append(word) += closes;
      text.remove_prefix(end);
    }
    return all;
  }

  /// The first reason in a text; empty: it is certain.
  Doubt in(std::string_view text) const {
    const std::size_t begin = text.find(opens), end = text.find(tells);
    if (begin == text.npos || end == text.npos || end < begin) return {};
    const auto number = whole_number(text.substr(begin + 1, end - begin - 1));
    return number && static_cast<std::size_t>(*number) < all_.size()
               ? all_[static_cast<std::size_t>(*number)]
               : Doubt();
  }

 private:
  std::vector<Doubt> all_;
};

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

/// Whole-number arithmetic of $(( )), its variables expanded but for bare names: a ? b : c, ||, &&,
/// comparisons, + - * / % **, signs and brackets. Nothing where a value is not known or not
/// defined.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const Variables& variables, const Reasons& reasons)
      : rest_(text), variables_(variables), reasons_(reasons) {}

  std::optional<int64_t> value() {
    const auto result = choice(0);
    skip_blanks();
    return result && rest_.empty() ? result : std::nullopt;
  }
  const Doubt& doubt() const { return doubt_; }

 private:
  using Number = std::optional<int64_t>;

  void skip_blanks() {
    rest_ = rest_.substr(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }

  bool take(std::string_view mark) {
    skip_blanks();
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }

  static Number apply(std::string_view op, int64_t a, int64_t b) {
    int64_t result = 0;
    if (op == "+") return __builtin_add_overflow(a, b, &result) ? Number() : result;
    if (op == "-") return __builtin_sub_overflow(a, b, &result) ? Number() : result;
    if (op == "*") return __builtin_mul_overflow(a, b, &result) ? Number() : result;
    if (op == "/" || op == "%") return b <= 0 ? Number() : op == "/" ? a / b : a % b;
    if (op == "**") {
      Number power = b >= 0 && b < 64 ? Number(1) : Number();
      for (int64_t i = 0; i < b && power; ++i)
        power = apply("*", *power, a);
      return power;
    }
    if (op == "||") return a != 0 || b != 0;
    if (op == "&&") return a != 0 && b != 0;
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<=") return a <= b;
    if (op == ">=") return a >= b;
    return op == "<" ? a < b : a > b;
  }

  Number choice(int depth) {
    if (depth > deepest) return std::nullopt;
    const Number condition = level(0, depth);
    if (!condition || !take("?")) return condition;
    const Number yes = choice(depth + 1);
    if (!take(":")) return std::nullopt;
    const Number no = choice(depth + 1);
    return *condition != 0 ? yes : no;
  }

  /// Operators from the loosest to the tightest; longer ones before their beginnings.
  Number level(std::size_t tightness, int depth) {
    static const std::array<std::vector<std::string_view>, 7> operators{{{"||"},
                                                                         {"&&"},
                                                                         {"==", "!="},
                                                                         {"<=", ">=", "<", ">"},
                                                                         {"+", "-"},
                                                                         {"*", "/", "%"},
                                                                         {"**"}}};
    if (tightness == operators.size()) return atom(depth);
    Number total = level(tightness + 1, depth);
    while (total) {
      const auto& here = operators[tightness];
      skip_blanks();
      const bool power = tightness == 5 && rest_.starts_with("**");
      const auto op = std::find_if(here.begin(), here.end(),
                                   [&](std::string_view each) { return !power && take(each); });
      if (op == here.end()) break;
      const Number next = level(tightness + 1, depth);
      total = next ? apply(*op, *total, *next) : std::nullopt;
    }
    return total;
  }

  Number atom(int depth) {
    if (depth > deepest) return std::nullopt;
    if (take("(")) {
      const Number inner = choice(depth + 1);
      return inner && take(")") ? inner : std::nullopt;
    }
    if (take("-")) {
      const Number positive = atom(depth + 1);
      return positive ? apply("-", 0, *positive) : std::nullopt;
    }
    if (take("!")) {
      const Number inner = atom(depth + 1);
      return inner ? Number(*inner == 0) : std::nullopt;
    }
    skip_blanks();
    std::size_t end = name_length(rest_);
    const bool is_name = end > 0;
    if (!is_name) end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (!is_name) return whole_number(word);
    const auto known = variables_.find(word);
    if (known == variables_.end()) return std::nullopt;
    const std::string value = joined_words(known->second);
    if (doubt_.empty()) doubt_ = reasons_.in(value);
    return whole_number(unmarked(value));
  }

  std::string_view rest_;
  const Variables& variables_;
  const Reasons& reasons_;
  Doubt doubt_;
};

/// Where the bracket that opens at `text[0]` closes; the text's end if it does not.
std::size_t matching_end(std::string_view text, char open, char close, int nested = 0) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool quotes = open == '(' && (text[i] == '\'' || text[i] == '"');
    if (quotes) {
      const char quote = text[i];
      for (++i; i < text.size() && text[i] != quote; ++i)
        if (quote == '"' && text[i] == '\\')
          ++i;
        else if (quote == '"' && nested < deepest && text.substr(i).starts_with("$("))
          i += matching_end(text.substr(i + 1), '(', ')', nested + 1);
    } else if (text[i] == '\\')
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
  Script(const ScriptWorld& world, std::string_view path)
      : world_(world), positional_(world.arguments) {
    for (const auto& [name, value] : world.variables) {
      variables_[name] = {value};
      exported_.insert(name);
    }
    const Path whole = absolute_path(Path(path));
    folder_ = whole.parent_path();
    variables_["BASH_SOURCE"] = {whole.string()};
  }

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
  /// All variables at the end, with what is in doubt of each.
  std::vector<std::pair<std::string, std::vector<ShellWord>>> variables() const {
    std::vector<std::pair<std::string, std::vector<ShellWord>>> all;
    for (const auto& [name, words] : variables_) {
      all.emplace_back(name, std::vector<ShellWord>());
      for (const std::string& word : words)
        all.back().second.push_back({unmarked(word), 0, reasons_.in(word), {}});
    }
    return all;
  }
  /// What was passed over or assumed, and could matter.
  std::vector<std::string> remarks() const {
    std::vector<std::string> all = remarks_;
    if (!environment_.empty())
      all.push_back(
          fmt::format("taken as unset, as in an empty environment: {}; --env NAME=VALUE "
                      "sets one",
                      fmt::join(environment_, ", ")));
    return all;
  }
  int exit_line() const { return exit_line_; }
  /// "line 7 starts train.sh", where that file cannot be read.
  const std::string& elsewhere() const { return elsewhere_; }

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
      doubt_ = why.empty() ? fmt::format("under a condition in line {}", here()) : why;
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
    const int line = here();
    bool chosen = false, open = false;  // a branch that runs; one that may
    const auto branch = [&](Status condition) {
      const std::string why =
          fmt::format("under the condition of line {}{}", line, condition_doubt_);
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
      condition_doubt_.clear();
      const Status condition = read_list({"then"});
      if (!take("then")) return Status::unknown;
      branch(condition);
    } while (take("elif"));
    if (take("else")) branch(Status::succeeds);
    take("fi");
    return skip_redirections();
  }

  Status read_loop() {
    const std::string why = fmt::format("in the loop of line {}", here());
    const bool counts = bare_word() == "for" || bare_word() == "select";
    std::string name;
    const auto values = counts ? read_loop_values(why, name) : std::nullopt;
    // Loops over arguments do not run, if there are none.
    bool of_arguments = false;
    if (!counts) {
      const std::string_view whole = rest_;
      advance(5);
      read_list({"do"});
      const std::string_view condition = whole.substr(0, whole.size() - rest_.size());
      for (const char* part : {"$#", "$1", "getopts"})
        of_arguments = of_arguments || condition.find(part) != condition.npos;
    }
    if (!take("do")) return Status::unknown;
    const Place body{rest_, line_};
    const auto read_body = [&] { return read_list({"done"}); };
    within(values || (of_arguments && positional_.empty()) ? Run::no : Run::perhaps, read_body,
           why);
    const std::string_view text = body.rest.substr(0, body.rest.size() - rest_.size());
    take("done");
    const bool leaves = text.find("break") != text.npos || text.find("continue") != text.npos;
    if (values)
      for (const std::string& value : *values) {
        variables_[name] = {value};
        within(
            leaves ? Run::perhaps : Run::yes, [&] { return read(text, body.line), Status::usual; },
            why);
      }
    return skip_redirections();
  }

  /// The values that a loop's variable takes, where they are certain.
  std::optional<Words> read_loop_values(const std::string& why, std::string& name) {
    advance(bare_word().size());
    skip_blanks();
    name = rest_.substr(0, name_length(rest_));
    if (starts("((")) return counted_values(name);
    std::vector<ShellWord> words;
    while (!at_end_of_command()) {
      read_words(words);
      skip_blanks();
    }
    const bool known = std::all_of(words.begin(), words.end(), [&](const ShellWord& word) {
      return is_certain(word) && word.text.find_first_of("*?[{") == word.text.npos;
    });
    if (is_idle()) return std::nullopt;
    if (!name.empty()) variables_[name] = {reasons_.marked("$" + name, why)};
    // for NAME in WORDS
    if (!known || words.size() < 2 || words[1].text != "in" || words.size() > most_turns ||
        name.empty())
      return std::nullopt;
    Words values;
    for (std::size_t i = 2; i < words.size(); ++i)
      values.push_back(words[i].text);
    return values;
  }

  /// for ((i = 0; i < n; i++))
  std::optional<Words> counted_values(std::string& name) {
    const std::size_t end = matching_end(rest_, '(', ')');
    const std::vector<std::string> parts = split(rest_.substr(2, end > 4 ? end - 4 : 0), ';');
    advance(end);
    skip_blanks();
    if (peek() == ';') advance();
    if (is_idle() || parts.size() != 3 || !doubt_.empty()) return std::nullopt;
    name = trimmed(parts[0]).substr(0, name_length(trimmed(parts[0])));
    Words values;
    Doubt doubt;
    if (!calculate(parts[0], doubt)) return std::nullopt;
    for (auto runs = calculate(parts[1], doubt); runs != 0; runs = calculate(parts[1], doubt)) {
      if (!runs || !doubt.empty() || values.size() > most_turns) return std::nullopt;
      values.push_back(joined_words(variables_[name]));
      if (!calculate(parts[2], doubt)) return std::nullopt;
    }
    return values;
  }

  Status read_case() {
    const int line = here();
    advance(4);
    skip_blanks();
    std::vector<ShellWord> subject;
    read_words(subject);
    condition_doubt_.clear();
    if (!subject.empty()) doubted(subject.front().doubt);
    const std::string why = fmt::format("in the case of line {}{}", line, condition_doubt_);
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
    Words arguments = texts_of(words, 1);
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

  /// (( a = b * 2 )), (( a++ )), (( a > b )).
  Status read_arithmetic_command() {
    const std::size_t end = matching_end(rest_, '(', ')');
    const std::string_view inner = rest_.substr(2, end > 4 ? end - 4 : 0);
    Doubt doubt;
    const auto result = is_idle() ? std::nullopt : calculate(inner, doubt);
    advance(end);
    if (!result || !doubt.empty()) return doubted(doubt);
    return *result != 0 ? Status::succeeds : Status::fails;
  }

  /// The value of an expression, which may set a variable; `doubt` keeps the first reason.
  std::optional<int64_t> calculate(std::string_view expression, Doubt& doubt) {
    const ShellWord inner = expanded_quoted(expression);
    std::string_view text = trimmed(inner.text);
    const std::string name(text.substr(0, name_length(text)));
    std::string_view tail = trimmed(text.substr(name.size()));
    std::string value;
    if (!name.empty() && (tail == "++" || tail == "--"))
      value = fmt::format("{} {} 1", name, tail.front());
    else if (!name.empty() && tail.starts_with('=') && !tail.starts_with("=="))
      value = tail.substr(1);
    else if (!name.empty() && tail.size() > 1 && tail[1] == '=' && tail.find_first_of("+-*/%") == 0)
      value = fmt::format("{} {} ({})", name, tail.front(), tail.substr(2));
    Arithmetic arithmetic(value.empty() ? text : std::string_view(value), variables_, reasons_);
    const auto result = arithmetic.value();
    if (doubt.empty()) doubt = inner.doubt.empty() ? arithmetic.doubt() : inner.doubt;
    if (!value.empty() && result)
      assign(name, {reasons_.marked(fmt::format("{}", *result), doubt)}, false, false);
    else if (!value.empty())
      put_in_doubt(name);
    return result;
  }

  Status doubted(const Doubt& doubt) {
    if (!doubt.empty() && condition_doubt_.empty()) condition_doubt_ = fmt::format(" ({})", doubt);
    return Status::unknown;
  }

  // Simple commands -----------------------------------------------------------------------------

  Status read_simple() {
    std::vector<ShellWord> words;
    const int line = here();
    bool declares = false;
    bool assigned = false;
    std::set<std::string> exports;
    for (;;) {
      skip_blanks();
      if (peek() == '#') skip_comment();
      if (at_end_of_command()) break;
      if (read_redirection()) continue;
      if ((words.empty() || declares) && read_assignment(words, exports)) {
        assigned = true;
        continue;
      }
      if (words.size() == 1 && words.front().text == "[[") {
        read_until_double_bracket(words);
        continue;
      }
      read_words(words);
      if (words.size() == 1 &&
          is_one_of(words.front().text, {"exec", "command", "builtin", "nohup", "time", "env"})) {
        skip_blanks();
        const bool asks = words.front().text == "command" && peek() == '-';  // command -v X
        if (!asks) words.clear();
      }
      if (words.size() == 1)
        declares =
            is_one_of(words.front().text, {"export", "declare", "readonly", "local", "typeset"});
    }
    if (words.empty()) return assigned ? Status::succeeds : Status::usual;
    exported_.merge(exports);  // in front of a command, or by export
    return is_idle() ? Status::unknown : run(std::move(words), line);
  }

  void read_until_double_bracket(std::vector<ShellWord>& words) {
    while (!rest_.empty() && !starts("]]")) {
      skip_blanks();
      if (starts("]]") || peek() == '\n') break;
      if (peek() == '&' || peek() == '|' || peek() == '<' || peek() == '>' || peek() == '(' ||
          peek() == ')') {
        words.push_back({std::string(1, peek()), here(), {}, {}});
        advance();
      } else {
        read_words(words);
      }
    }
    words.push_back({"]]", here(), {}, {}});
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
  bool read_assignment(const std::vector<ShellWord>& words, std::set<std::string>& exports) {
    const std::size_t length = name_length(rest_);
    if (length == 0) return false;
    const bool append = peek(length) == '+' && peek(length + 1) == '=';
    if (!append && peek(length) != '=') return false;
    const std::string name(rest_.substr(0, length));
    if (!words.empty() && words.front().text == "local" && calls_ > 0) locals_.insert(name);
    advance(length + (append ? 2 : 1));
    if (words.empty() || words.front().text == "export") exports.insert(name);
    const bool is_array = peek() == '(';
    std::vector<ShellWord> read;
    if (is_array)
      read_array(read);
    else if (!is_blank(peek()) && !at_end_of_command())
      read_words(read, true);
    Words value;
    for (ShellWord& word : read)
      value.push_back(std::move(word.raw));
    if (!is_array) value = {joined_words(value)};
    if (is_idle())
      unset_.insert(name);
    else
      assign(name, std::move(value), append, is_array);
    return true;
  }

  void assign(const std::string& name, Words value, bool append, bool is_array) {
    const Doubt why = doubt_.empty() ? doubt_ : fmt::format("{} is set {}", name, doubt_);
    Words& variable = variables_[name];
    if (!append) variable.clear();
    if (!append && !why.empty() && joined_words(value).empty()) value = {"$" + name};
    for (std::string& word : value)
      word = reasons_.marked(word, why);
    if (!append || is_array || variable.empty())
      variable.insert(variable.end(), value.begin(), value.end());
    else if (!value.empty() && variable.back().size() + value.front().size() <= longest_word)
      variable.back() += value.front();
    if (variable.size() > most_words) variable.resize(most_words);
  }

  void put_in_doubt(const std::string& name, std::string why = {}) {
    if (name.empty() || name_length(name) != name.size() || skipped_) return;
    if (why.empty()) why = fmt::format("{} is computed in line {}", name, here());
    doubt_words(name, variables_[name], why);
  }

  void doubt_words(const std::string& name, Words& words, const Doubt& why) {
    if (joined_words(words).empty()) words = {"$" + name};
    for (std::string& word : words)
      word = reasons_.marked(word, why);
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
    if (is_one_of(name, {"source", "."}) && words.size() > 1) return run_source(words, line);
    if (is_one_of(name, {"read", "let", "mapfile", "readarray", "getopts", "printf", "unset"}))
      return run_setter(words);
    if (name == "shift") {
      if (!positional_.empty()) positional_.erase(positional_.begin());
      if (calls_ == 0) ++shifted_;
      return Status::succeeds;
    }
    if (name == "export")
      for (const ShellWord& word : words)
        exported_.insert(word.text);
    if (name == "cd" && words.size() == 2 && is_certain(words[1]))
      folder_ = (folder_ / words[1].text).lexically_normal();
    if (name == "eval") {
      words.erase(words.begin());
      return run_text(words, line);
    }
    if (is_one_of(name,
                  {"echo", "cat", "export", "declare", "readonly", "local", "typeset", "set", "cd",
                   "mkdir", "ls", "tee", "trap", "alias", "sed", "awk", "git", "pip", "apt"}))
      return Status::usual;
    consider(std::move(words), line);
    return is_one_of(name_of_last_, {"grep", "command", "which", "type", "hash", "diff", "cmp",
                                     "pgrep", "nvidia-smi"})
               ? Status::unknown
               : Status::usual;
  }

  Status leave(const std::string& name, int line) {
    if (!doubt_.empty()) return Status::unknown;
    if (name == "return" && calls_ + sourced_ > 0)
      returned_ = true;
    else
      exit_line_ = line;
    return Status::usual;
  }

  /// A file that is there is read; what another one sets is not known. Environments of software set
  /// paths.
  Status run_source(const std::vector<ShellWord>& words, int line) {
    const std::string& file = words[1].text;
    if (file.ends_with("/activate") || file == "activate" || file.ends_with("conda.sh") ||
        file.ends_with("bashrc") || file.ends_with("bash_profile") ||
        file.ends_with("setvars.sh") || file.ends_with("modules.sh") ||
        file.starts_with("/etc/profile")) {
      remarks_.push_back(
          fmt::format("line {}: {} is taken to set paths of software only", line, file));
      return Status::usual;
    }
    if (const auto text = is_certain(words[1]) ? text_at(file) : std::nullopt) {
      Words arguments = positional_;
      if (words.size() > 2) arguments = texts_of(words, 2);
      return run_file(*text, file, std::move(arguments), line);
    }
    const std::string why = fmt::format("{} of line {} may set it", file, line);
    for (auto& [name, words] : variables_)
      if (name != "BASH_SOURCE" && !name.starts_with("SLURM_"))
        doubt_words(name, words, fmt::format("{}: {}", name, why));
    ambient_ = why;
    return Status::usual;
  }

  std::optional<std::string> text_at(const std::string& file) const {
    return world_.file ? world_.file((folder_ / file).string()) : std::nullopt;
  }

  static Words texts_of(const std::vector<ShellWord>& words, std::size_t first) {
    Words texts;
    for (std::size_t i = first; i < words.size(); ++i)
      texts.push_back(words[i].text);
    return texts;
  }

  /// Another script, all of it at the line that starts it.
  Status run_file(const std::string& text, const std::string& file, Words arguments, int line) {
    if (++files_ > most_files) return Status::unknown;
    remarks_.push_back(fmt::format("line {}: {} is read as well", line, file));
    texts_.push_back(std::make_unique<std::string>(text));
    const int outer = std::exchange(at_line_, line);
    const Words source = std::exchange(variables_["BASH_SOURCE"], Words{(folder_ / file).string()});
    std::swap(arguments, positional_);
    ++sourced_;
    read(*texts_.back(), line);
    --sourced_;
    returned_ = false;
    std::swap(arguments, positional_);
    variables_["BASH_SOURCE"] = source;
    at_line_ = outer;
    return Status::usual;
  }

  /// bash other.sh a b: another process, which sees what is exported.
  bool run_other_script(const std::vector<ShellWord>& words, int line) {
    const auto is_script = [](const ShellWord& word) {
      return word.text.ends_with(".sh") || word.text.ends_with(".sbatch") ||
             word.text.ends_with(".slurm");
    };
    const auto program = std::find_if(words.begin(), words.end(), [](const ShellWord& word) {
      return word.text.ends_with(".py") || word.text == "-c";
    });
    const auto script = std::find_if(words.begin(), program, is_script);
    const bool starts =
        script == words.begin() ||
        is_one_of(words.front().text,
                  {"bash", "sh", "/bin/bash", "srun", "sbatch", "qsub", "bsub", "mpirun", "mpiexec",
                   "jsrun", "singularity", "apptainer", "docker", "enroot", "numactl", "ssh"});
    if (script == program || !starts) return false;
    for (std::size_t i = 0; i + 1 < words.size(); ++i)  // mpirun -x NAME=VALUE
      if (const std::string& word = words[i + 1].text; words[i].text == "-x") {
        const std::string name = word.substr(0, word.find('='));
        exported_.insert(name);
        if (name.size() < word.size())
          assign(name, {words[i + 1].raw.substr(name.size() + 1)}, false, false);
      }
    const auto text = is_certain(*script) ? text_at(script->text) : std::nullopt;
    if (!text) {
      if (elsewhere_.empty()) elsewhere_ = fmt::format("line {} starts {}", line, script->text);
      return false;
    }
    const Variables before = variables_;
    const Doubt ambient = std::exchange(ambient_, {});
    std::erase_if(variables_, [&](const auto& each) { return !exported_.contains(each.first); });
    const auto functions = std::exchange(functions_, {});
    const std::size_t known = launches_.size();
    const auto at = static_cast<std::size_t>(script - words.begin());
    run_file(*text, script->text, texts_of(words, at + 1), line);
    exit_line_ = 0;  // of the other script
    variables_ = before;
    ambient_ = ambient;
    functions_ = functions;
    for (std::size_t i = known; i < launches_.size(); ++i) {
      std::vector<ShellWord>& inner = launches_[i].command.words;
      inner.insert(inner.begin(), words.begin(), script);
    }
    return true;
  }

  Status run_setter(const std::vector<ShellWord>& words) {
    const std::string& name = words.front().text;
    if (name == "printf" && (words.size() < 3 || words[1].text != "-v")) return Status::usual;
    if (name == "printf" && words.size() == 5) {  // -v NAME "[%s]" word
      const std::string& form = words[3].text;
      const std::size_t at = form.find("%s");
      if (at != form.npos && form.find('%') == at && form.find('%', at + 1) == form.npos) {
        const std::string value = form.substr(0, at) + words[4].text + form.substr(at + 2);
        return assign(words[2].text, {reasons_.marked(value, words[4].doubt)}, false, false),
               Status::succeeds;
      }
    }
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
    for (const ShellWord& word : words)
      text += (text.empty() ? "" : " ") + word.raw;
    texts_.push_back(std::make_unique<std::string>(std::move(text)));
    read(*texts_.back(), line);
    return Status::usual;
  }

  bool is_certain(const ShellWord& word) const {
    return word.doubt.empty() && word.text.find('$') == word.text.npos &&
           word.text.find('`') == word.text.npos;
  }

  /// [ a = b ], [ -z a ], [[ 1 -lt 2 && a != b ]]: where all sides are certain.
  Status tested(const std::vector<ShellWord>& words) {
    const auto end = words.end() - (words.front().text == "test" ? 0 : 1);
    Words parts;
    Status status = Status::unknown;
    std::string joint;
    const auto close = [&] {
      const Status next = tested_part(parts, words.front().text == "[[");
      parts.clear();
      if (joint.empty())
        status = next;
      else if (status == Status::unknown || next == Status::unknown)
        status =
            status == (joint == "&" ? Status::fails : Status::succeeds) ? status : Status::unknown;
      else if ((joint == "&") == (status == Status::succeeds))
        status = next;
    };
    for (auto word = words.begin() + 1; word < end; ++word) {
      const std::string& text = word->text;
      const bool joins = text == "&" || text == "|" || text == "-a" || text == "-o";
      if (!is_certain(*word)) {
        const std::string name = unset_name(*word);
        if (name.empty()) return doubted(word->doubt);
        environment_.insert(name);
        parts.emplace_back();
      } else if (joins && !parts.empty()) {
        close();
        const std::string mark = text == "-a" ? "&" : text == "-o" ? "|" : text;
        if (!joint.empty() && joint != mark) return Status::unknown;
        joint = mark;
        if (text.size() == 1) ++word;  // && and || come as two
      } else {
        parts.push_back(text);
      }
    }
    close();
    return status;
  }

  /// The name of a variable that neither the script nor its world sets, of a word that is only it.
  std::string unset_name(const ShellWord& word) const {
    if (!word.doubt.empty() || !ambient_.empty() || !word.text.starts_with('$')) return {};
    std::string name(trimmed(word.text, "${}"));
    return name_length(name) == name.size() && !variables_.contains(name) ? name : std::string();
  }

  static Status tested_part(const Words& all, bool double_bracket) {
    const bool negated = all.size() > 1 && all.front() == "!";
    const Words parts(all.begin() + (negated ? 1 : 0), all.end());
    const auto status = [&](bool holds) {
      return holds != negated ? Status::succeeds : Status::fails;
    };
    if (parts.size() == 1) return status(!parts[0].empty());
    if (parts.size() == 2 && parts[0] == "-z") return status(parts[1].empty());
    if (parts.size() == 2 && parts[0] == "-n") return status(!parts[1].empty());
    if (parts.size() == 2 && (parts[0] == "=" || parts[0] == "=="))
      return Status::fails;  // an error
    if (parts.size() != 3) return Status::unknown;
    const std::string& op = parts[1];
    if (op == "=" || op == "==" || op == "!=") {
      const bool pattern = double_bracket && parts[2].find_first_of("*?[") != std::string::npos;
      // Without quotes, nothing before != is an error.
      if (pattern || (op == "!=" && parts[0].empty() && !double_bracket)) return Status::unknown;
      return status((parts[0] == parts[2]) != (op == "!="));
    }
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
    if (run_other_script(words, line)) return;
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
    std::string text;  // with marks
    bool open;         // something was written, be it an empty quotation
    std::vector<ShellWord> done;
  };

  /// One word of the text; it becomes none or several where variables are expanded.
  void read_words(std::vector<ShellWord>& into, bool whole = false) {
    Piece piece{here(), {}, false, {}};
    const std::size_t before = rest_.size();
    while (!is_blank(peek()) && !at_end_of_command()) {
      if (peek() == '\'')
        read_single_quoted(piece);
      else if (peek() == '"')
        read_double_quoted(piece);
      else if (peek() == '$')
        read_expansion(piece, whole);
      else if (peek() == '`')
        read_backticks(piece, whole);
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

  void write_doubtful(Piece& piece, std::string_view text, const Doubt& why) {
    write(piece, reasons_.marked(text, why));
  }

  ShellWord word_of(const Piece& piece) const {
    return {unmarked(piece.text), piece.line, reasons_.in(piece.text), piece.text};
  }

  void finish(Piece& piece) const {
    if (piece.open && piece.done.size() < most_words) piece.done.push_back(word_of(piece));
    piece.text.clear();
    piece.open = false;
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
      else if (peek() == '`')
        read_backticks(piece, true);
      else if (peek() == '\\' && is_one_of(rest_.substr(1, 1), {"\"", "\\", "$", "`", "\n"}))
        read_escape(piece);
      else
        copy(piece, 1);
    }
    advance();
  }

  void read_expansion(Piece& piece, bool quoted) {
    if (starts("$((")) return read_arithmetic(piece);
    if (starts("$(")) {
      const std::size_t end = 1 + matching_end(rest_.substr(1), '(', ')');
      return read_output(piece, rest_.substr(2, end > 3 ? end - 3 : 0), end, quoted);
    }
    if (starts("${")) return read_braced(piece, quoted);
    if (peek(1) == '#' && (calls_ > 0 || !world_.arguments.empty())) {
      write(piece, fmt::format("{}", positional_.size()));
      return advance(2);
    }
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

  void read_backticks(Piece& piece, bool quoted) {
    const std::size_t end = std::min(rest_.find('`', 1), rest_.size() - 1) + 1;
    read_output(piece, rest_.substr(1, end > 2 ? end - 2 : 0), end, quoted);
  }

  /// What a command writes, where that follows from its words; else as it stands.
  void read_output(Piece& piece, std::string_view command, std::size_t length, bool quoted) {
    const auto output = skipped_ || depth_ >= deepest ? std::nullopt : output_of(command);
    if (!output) {
      write(piece, as_one_word(rest_.substr(0, length)));
      return advance(length);
    }
    advance(length);
    write_words(piece, *output, quoted);
  }

  /// What is not worked out stays one word.
  static std::string as_one_word(std::string_view text) {
    std::string word(text);
    std::replace_if(
        word.begin(), word.end(), [](char c) { return is_blank(c) || c == '\n'; }, '_');
    return word;
  }

  std::optional<std::string> output_of(std::string_view command) {
    const auto has = [&](std::string_view part) { return command.find(part) != command.npos; };
    // The GPUs of the machine: torchrun's word for them.
    if (has("device_count") || (has("nvidia-smi") && has("wc -l") && !has("topo"))) return "gpu";
    // The lines of a list of hosts.
    if (const auto nodes = variables_.find("SLURM_NNODES");
        has("sort -u") && has("PBS_NODEFILE") && has("wc -l") && nodes != variables_.end())
      return joined_words(nodes->second);
    const std::vector<ShellWord> words = words_within(command);
    Words texts = texts_of(words, 0);
    if (texts.empty() || !std::all_of(words.begin(), words.end(),
                                      [&](const ShellWord& word) { return is_certain(word); }))
      return std::nullopt;
    // IFS=', '; echo "${array[*]}"
    if (texts.size() > 3 && texts[0].starts_with("IFS=") && texts[0].size() > 4 &&
        texts[2] == "echo")
      return joined(Words(texts.begin() + 3, texts.end()), texts[0].substr(4, 1));
    const std::string name = texts.front();
    std::erase_if(texts, [](const std::string& text) {
      return text.starts_with('-') && text.size() > 1 && !is_digit(text[1]);
    });
    const auto path = [&](const std::string& text) {
      return (folder_ / text).lexically_normal().string();
    };
    if (texts.size() == 1 && name == "pwd") return path("");
    if (texts.size() == 5 && name == "cd" && texts[2] == "&" && texts[4] == "pwd")
      return path(texts[1]);
    if (texts.size() == 2 && name == "dirname") {
      const std::string parent = Path(texts[1]).parent_path().string();
      return parent.empty() ? "." : parent;
    }
    if (texts.size() == 2 && name == "basename") return Path(texts[1]).filename().string();
    if (texts.size() == 2 && (name == "realpath" || name == "readlink")) return path(texts[1]);
    if (texts.size() == 6 && name == "echo" && texts[3] == "cut" && texts[4].size() == 1) {
      const std::vector<std::string> fields = split(texts[1], texts[4].front());
      const auto number = static_cast<std::size_t>(whole_number(texts[5]).value_or(0));
      if (number >= 1 && number <= fields.size()) return fields[number - 1];
    }
    const auto bar = std::find(texts.begin(), texts.end(), "|");
    if (name == "echo" && bar == texts.end())
      return joined_words(Words(texts.begin() + 1, texts.end()));
    return std::nullopt;
  }

  /// All words of a text; operators as words of one letter.
  std::vector<ShellWord> words_within(std::string_view text) {
    const Place outer{rest_, line_};
    rest_ = text;
    ++depth_;
    std::vector<ShellWord> words;
    for (skip_blanks(); !rest_.empty(); skip_blanks()) {
      if (read_redirection()) continue;
      if (at_end_of_command()) {
        words.push_back({std::string(1, peek()), here(), {}, {}});
        advance();
      } else {
        read_words(words);
      }
    }
    --depth_;
    rest_ = outer.rest;
    line_ = outer.line;
    return words;
  }

  /// A text as inside of double quotes.
  ShellWord expanded_quoted(std::string_view text) {
    const Place outer{rest_, line_};
    rest_ = text;
    ++depth_;
    Piece piece{here(), {}, false, {}};
    while (!rest_.empty() && depth_ <= deepest)
      if (peek() == '$')
        read_expansion(piece, true);
      else
        copy(piece, 1);
    --depth_;
    rest_ = outer.rest;
    line_ = outer.line;
    return word_of(piece);
  }

  /// $1 of the script or of a function that is called; of a script without arguments not known.
  void expand_positional(Piece& piece, const std::string& name, const std::string& whole) {
    const bool known = calls_ > 0 || !world_.arguments.empty() || !positional_.empty();
    if (!is_digit(name.front())) {
      if (!known) return write(piece, whole);
      for (std::size_t i = 0; i < positional_.size(); ++i) {
        if (i > 0) finish(piece);
        write(piece, positional_[i]);
      }
      return;
    }
    const auto at = static_cast<std::size_t>(whole_number(name).value_or(0));
    if (at == 0) return write(piece, joined_words(variables_["BASH_SOURCE"]));
    if (at <= positional_.size()) return write(piece, positional_[at - 1]);
    if (known) return;
    write_doubtful(piece, whole, fmt::format("argument {} of the script", at + shifted_));
  }

  void read_arithmetic(Piece& piece) {
    const std::size_t end = 1 + matching_end(rest_.substr(1), '(', ')');
    const ShellWord inner = expanded_quoted(rest_.substr(3, end > 5 ? end - 5 : 0));
    Arithmetic arithmetic(inner.text, variables_, reasons_);
    const auto value = arithmetic.value();
    const Doubt& doubt = inner.doubt.empty() ? arithmetic.doubt() : inner.doubt;
    const std::string whole = as_one_word(rest_.substr(0, end));
    write_doubtful(piece, value ? fmt::format("{}", *value) : whole, doubt);
    advance(end);
  }

  void read_braced(Piece& piece, bool quoted) {
    const std::size_t end = 1 + matching_end(rest_.substr(1), '{', '}');
    const std::string whole(rest_.substr(0, end));
    std::string_view inner = std::string_view(whole).substr(2, end > 3 ? end - 3 : 0);
    std::size_t length = name_length(inner);
    const bool positional = !inner.empty() && is_digit(inner.front());
    if (positional) length = std::min(inner.find_first_not_of("0123456789"), inner.size());
    const std::string_view name = inner.substr(0, length), tail = inner.substr(length);
    if (inner.starts_with("@:") && !positional_.empty()) {
      const auto first = static_cast<std::size_t>(whole_number(inner.substr(2)).value_or(1));
      for (std::size_t i = std::max<std::size_t>(1, first); i <= positional_.size(); ++i) {
        write(piece, positional_[i - 1]);
        finish(piece);
      }
    } else if (positional && tail.empty())
      expand_positional(piece, std::string(name), whole);
    else if (length > 0 && (tail == "[@]" || tail == "[*]" || tail == "[0]" || tail.empty()))
      expand(piece, whole, name, tail.size() > 1 && tail != "[0]", quoted);
    else if (length > 0 && is_one_of(tail.substr(0, 1), {":", "-", "=", "+", "?"}))
      expand_or(piece, name, tail, whole, quoted);
    else if (length > 0 && is_one_of(tail.substr(0, 1), {"%", "#", ",", "^"}))
      expand_cut(piece, name, tail, whole);
    else
      write(piece, whole);
    advance(end);
  }

  /// ${A%x}, ${A%%x}, ${A#x}, ${A##x}: without an end or a beginning; ${A,,}, ${A^^}.
  void expand_cut(Piece& piece, std::string_view name, std::string_view tail,
                  const std::string& whole) {
    const auto known = variables_.find(name);
    if (known == variables_.end()) return write(piece, whole);
    const std::string value = joined_words(known->second), text = unmarked(value);
    const Doubt why = reasons_.in(value);
    if (tail == ",,") return write_doubtful(piece, lower_case(text), why);
    if (tail == "^^") return write_doubtful(piece, upper_case(text), why);
    const bool longest = tail.size() > 1 && tail[1] == tail[0], at_end = tail[0] == '%';
    const std::string_view pattern = tail.substr(longest ? 2 : 1);
    if (pattern.find_first_of("?[$\\\"'") != pattern.npos ||
        is_one_of(tail.substr(0, 1), {",", "^"}))
      return write(piece, whole);
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const std::size_t cut = longest ? text.size() - i : i;
      const std::string_view part = at_end ? std::string_view(text).substr(text.size() - cut)
                                           : std::string_view(text).substr(0, cut);
      if (!matches_pattern(pattern, part)) continue;
      return write_doubtful(piece, at_end ? text.substr(0, text.size() - cut) : text.substr(cut),
                            why);
    }
    write_doubtful(piece, text, why);
  }

  /// ${A:-word}, ${A:=word}, ${A:+word}, ${A:?word}.
  void expand_or(Piece& piece, std::string_view name, std::string_view tail,
                 const std::string& whole, bool quoted) {
    const bool colon = tail.starts_with(':');
    const char op = tail.size() > (colon ? 1 : 0) ? tail[colon ? 1 : 0] : '\0';
    const std::string_view word = tail.substr(std::min<std::size_t>(colon ? 2 : 1, tail.size()));
    const auto known = variables_.find(name);
    const bool positional = !name.empty() && is_digit(name.front());
    const auto number =
        positional ? static_cast<std::size_t>(whole_number(name).value_or(0)) : std::size_t{0};
    const bool argument = positional && number >= 1 && number <= positional_.size();
    const bool set =
        argument || (known != variables_.end() && !(colon && joined_words(known->second).empty()));
    if (op == '+' && !set) return write(piece, "");
    if (op != '+' && argument) return write(piece, positional_[number - 1]);
    if (op != '+' && set) return expand(piece, whole, name, false, quoted);
    if (op == '?') {
      if (!skipped_ && !positional) environment_.insert(std::string(name));
      return write_doubtful(piece, whole, fmt::format("{} is set from outside", name));
    }
    if (!is_one_of(std::string_view(&op, 1), {"-", "=", "+"}) || depth_ >= deepest)
      return write(piece, whole);
    const Doubt why =
        ambient_.empty() || op == '+' ? Doubt() : fmt::format("{}: {}", name, ambient_);
    const bool of_environment = !skipped_ && !positional && known == variables_.end();
    if (of_environment && !unset_.contains(std::string(name)))
      environment_.insert(std::string(name));
    const Piece inner = expanded(word);
    for (std::size_t i = 0; i < inner.done.size(); ++i)
      write_doubtful(piece, (i > 0 ? " " : "") + inner.done[i].raw, why);
    if (op == '=' && !skipped_ && !inner.done.empty())
      variables_[std::string(name)] = {inner.done.front().raw};
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
    return {here(), {}, false, std::move(words)};
  }

  /// Quoted values stay one word, unless "${array[@]}"; others fall into words at blanks.
  void expand(Piece& piece, std::string_view whole, std::string_view name, bool all, bool quoted) {
    const auto known = variables_.find(name);
    if (known == variables_.end()) {
      // Set by nothing but what does not run, it is empty.
      const bool empty = ambient_.empty() && unset_.contains(std::string(name));
      if (empty) return quoted ? write(piece, "") : void();
      return write_doubtful(piece, whole,
                            ambient_.empty() ? Doubt() : fmt::format("{}: {}", name, ambient_));
    }
    if (quoted && !all) return write(piece, joined_words(known->second));
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

  void write_words(Piece& piece, const std::string& text, bool quoted) {
    if (quoted) return write(piece, text);
    Words parts;
    split_blanks(text, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
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

  /// The line to name: of a file that another one starts, where it is started.
  int here() const { return at_line_ > 0 ? at_line_ : line_; }

  const ScriptWorld& world_;
  Reasons reasons_;
  std::string_view rest_;
  int line_ = 1, at_line_ = 0;
  Variables variables_;
  Path folder_;  // where the script is taken to run: its own
  std::set<std::string> exported_, environment_;
  std::string elsewhere_;
  std::map<std::string, Function> functions_;
  std::vector<std::pair<std::string, bool>> heredocs_;  // delimiter, and whether tabs stand before
  std::vector<std::unique_ptr<std::string>> texts_;     // that functions of eval point into
  Words positional_;
  std::set<std::string> locals_, unset_;
  std::vector<Launch> launches_;
  std::vector<std::string> remarks_;
  Doubt doubt_, ambient_;  // of what is read now; of names that nothing here sets
  Doubt condition_doubt_;  // of the condition that was read last
  bool skipped_ = false, returned_ = false;
  int exit_line_ = 0, depth_ = 0, calls_ = 0, sourced_ = 0, files_ = 0;
  std::size_t statements_ = 0, shifted_ = 0;
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

std::map<std::string, std::string> plain(const Script& script) {
  std::map<std::string, std::string> all;
  for (const auto& [name, words] : script.variables()) {
    Words texts;
    for (const ShellWord& word : words)
      texts.push_back(word.text);
    all[name] = joined_words(texts);
  }
  return all;
}

/// A file that only sets arrays of arguments: MODEL_ARGS=(--num-layers 32 ...).
ShellCommand command_of_arrays(const Script& script) {
  ShellCommand command;
  for (const auto& [name, value] : script.variables()) {
    std::vector<ShellWord> words;
    for (const ShellWord& word : value)
      for (const std::string& part : split(word.text, ' '))
        if (!part.empty()) words.push_back({part, 0, word.doubt, {}});
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

bool ShellCommand::is_training() const {
  return has_model_arguments(words);
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
                                  const ScriptWorld& world) {
  if (text.size() > largest_text)
    return error(
        fmt::format("{}: larger than 1 MiB (no launch script is); try another file", name));
  std::string lines = is_argument_file(text) ? joined_lines(text) : std::string(text);
  std::erase_if(lines, [](char c) { return c == opens || c == tells || c == closes; });
  Script script(world, name);
  script.read(lines, 1);
  ShellCommand command = TPT_TRY(choose_launch(std::move(script.launches()), name));
  if (command.words.empty() && script.exit_line() > 0)
    return error(fmt::format("{}:{}: the script ends here, before it launches anything; {}", name,
                             script.exit_line(), run_it_instead));
  if (command.words.empty()) command = command_of_arrays(script);
  if (command.words.empty() && !script.elsewhere().empty())
    return error(
        fmt::format("{}: launches no training itself ({}, which is not there); give that script, "
                    "or --run-script where it is",
                    name, script.elsewhere()));
  if (command.words.empty())
    return error(
        fmt::format("{}: has no command with arguments (words that start with --); give a "
                    "launch script, its command line or a file of arguments",
                    name));
  command.variables = plain(script);
  command.remarks = script.remarks();
  return command;
}

}  // namespace triplepoint::formats
