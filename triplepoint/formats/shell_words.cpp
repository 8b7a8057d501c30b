// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/shell_words.h"

#include <algorithm>
#include <cstdint>

#include "triplepoint/base/text.h"
#include "triplepoint/base/units.h"

namespace triplepoint::formats {
namespace {

constexpr char opens = '\x01', closes = '\x02';  // what is not certain
constexpr std::size_t longest = 500'000;         // characters of a word
constexpr std::size_t most_words = 50'000;       // of a command
constexpr int deepest = 12;                      // ${a:-${b}}

bool is_name_part(char c) {
  return is_letter(c) || c == '_' || is_digit(c);
}

/// + - * / % and brackets over whole numbers; nothing where it is more than that.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const ShellNames& names) : rest_(text), names_(names) {}

  std::optional<int64_t> value() {
    const auto result = level(true);
    return result && trimmed(rest_).empty() ? result : std::nullopt;
  }

 private:
  using Number = std::optional<int64_t>;

  char take(std::string_view marks) {
    rest_ = trimmed(rest_);
    if (rest_.empty() || !contains(marks, rest_.front())) return '\0';
    const char mark = rest_.front();
    rest_.remove_prefix(1);
    return mark;
  }

  /// Of sums, and of products.
  Number level(bool sum) {
    const auto next = [&] { return sum ? level(false) : atom(); };
    Number total = next();
    for (char op = '\0'; total && (op = take(sum ? "+-" : "*/%")) != '\0';)
      total = applied(op, *total, next());
    return total;
  }

  static Number applied(char op, int64_t a, Number b) {
    int64_t result = 0;
    if (!b || (contains("/%", op) && *b <= 0)) return std::nullopt;
    bool overflows = false;
    if (op == '+')
      overflows = __builtin_add_overflow(a, *b, &result);
    else if (op == '-')
      overflows = __builtin_sub_overflow(a, *b, &result);
    else if (op == '*')
      overflows = __builtin_mul_overflow(a, *b, &result);
    else
      result = op == '/' ? a / *b : a % *b;
    return overflows ? std::nullopt : Number(result);
  }

  Number atom() {
    if (++atoms_ > 1000) return std::nullopt;
    if (take("-") != '\0') return applied('-', 0, atom());
    if (take("(") != '\0') {
      const Number inner = level(true);
      return take(")") != '\0' ? inner : std::nullopt;
    }
    std::string_view word = rest_.substr(
        0, as_size(std::find_if_not(rest_.begin(), rest_.end(), is_name_part) - rest_.begin()));
    rest_.remove_prefix(word.size());
    const auto known = names_.values.find(word);
    if (known != names_.values.end())
      word = known->second.empty() ? std::string_view() : known->second.front();
    const bool octal = word.size() > 1 && word.front() == '0';
    return octal ? std::nullopt : whole_number(word);
  }

  std::string_view rest_;
  const ShellNames& names_;
  int atoms_ = 0;
};

class WordReader {
 public:
  WordReader(ShellText& text, ShellNames& names, Splitting splitting, MarkedWords& into, int depth)
      : text_(text), names_(names), splitting_(splitting), into_(into), depth_(depth) {}

  void read() {
    const std::size_t before = text_.rest().size();
    while (!text_.at_blank() && !text_.at_end_of_command() && read_part(Quotes::none)) {
    }
    if (text_.rest().size() == before) copy(1);
    finish();
  }

  /// All that is left, as inside of quotes.
  std::string read_quoted() {
    while (!text_.is_at_end())
      read_part(Quotes::around);
    return word_;
  }

 private:
  enum class Quotes { none, around };

  void put(std::string_view text) {
    if (word_.size() + text.size() <= longest) word_ += text;
    open_ = true;
  }
  void doubt(std::string_view text, const std::string& why) { put(names_.marked(text, why)); }

  void finish() {
    if (std::exchange(open_, false) && into_.size() < most_words) into_.push_back(word_);
    word_.clear();
  }

  void copy(std::size_t length) {
    put(text_.rest().substr(0, length));
    text_.advance(length);
  }

  /// What is not worked out.
  void leave(std::size_t length, const std::string& what) {
    doubt(text_.rest().substr(0, length), what);
    text_.advance(length);
  }

  /// A letter, a quotation or an expansion; false where the word ends.
  bool read_part(Quotes quotes) {
    const bool bare = quotes == Quotes::none;
    const char c = text_.peek();
    if (c == '$' || c == '`')
      read_expansion(quotes);
    else if (c == '\\' && (bare || contains("\"\\$`\n", text_.peek(1))))
      read_escape();
    else if (bare && c == '\'')
      read_single_quoted();
    else if (bare && c == '"')
      read_double_quoted();
    else if (bare && (c == '<' || c == '>') && text_.peek(1) == '(')
      leave(1 + matching_end(text_.rest().substr(1), '(', ')'), "a command writes it");
    else if (bare && (c == '<' || c == '>'))
      return false;
    else if (bare && c == '{' && text_.peek(1) != '}')
      leave(1, "braces are not expanded");
    else
      copy(1);
    return true;
  }

  void read_escape() {
    const std::size_t line = text_.starts("\\\n") ? 2 : text_.starts("\\\r\n") ? 3 : 0;
    if (line > 0) return text_.advance(line);
    text_.advance();
    if (!text_.is_at_end()) copy(1);
  }

  void read_single_quoted() {
    const std::size_t end = std::min(text_.rest().find('\'', 1), text_.rest().size());
    put(text_.rest().substr(1, end - 1));
    text_.advance(end + 1);
  }

  void read_double_quoted() {
    const bool was_open = open_;
    vanishes_ = false;
    put({});
    for (text_.advance(); !text_.is_at_end() && text_.peek() != '"';)
      read_part(Quotes::around);
    text_.advance();
    if (vanishes_ && word_.empty()) open_ = was_open;
  }

  void read_expansion(Quotes quotes) {
    const std::string_view rest = text_.rest();
    if (text_.starts("$((")) return read_arithmetic();
    if (text_.starts("$(")) return leave_output(1 + matching_end(rest.substr(1), '(', ')'));
    if (text_.peek() == '`') return leave_output(std::min(rest.find('`', 1), rest.size() - 1) + 1);
    if (text_.starts("${")) return read_braced(quotes);
    std::size_t length = name_length(rest.substr(1));
    if (length == 0 && rest.size() > 1 && contains("0123456789@*#?!$-", text_.peek(1))) length = 1;
    const bool quoted = quotes == Quotes::none && contains("'\"", text_.peek(1)) && rest.size() > 1;
    if (quoted) return leave(1, "$' and $\" are not read");
    if (length == 0) return copy(1);
    const std::string_view name = rest.substr(1, length);
    text_.advance(length + 1);
    expand(name, name == "@" || name == "*" ? name : "", rest.substr(0, length + 1), quotes);
  }

  void leave_output(std::size_t length) {
    const std::string_view command = text_.rest().substr(0, length);
    const auto says = [&](std::string_view part) { return contains(command, part); };
    const bool counts =
        (says("nvidia-smi") && says("wc -l")) || says("print(torch.cuda.device_count())");
    leave(length, counts ? counts_gpus : "it is the output of a command");
  }

  void read_arithmetic() {
    const std::string_view rest = text_.rest();
    const std::size_t end = 1 + matching_end(rest.substr(1), '(', ')');
    if (depth_ > deepest) return leave(end, "its form is not worked out");
    ShellText inside(rest.substr(3, end > 5 ? end - 5 : 0), text_.line());
    MarkedWords none;
    const std::string text =
        WordReader(inside, names_, Splitting::no, none, depth_ + 1).read_quoted();
    const auto value = Arithmetic(text, names_).value();
    if (!value) {
      const std::string why = names_.doubt(text);
      return leave(end, why.empty() ? "its numbers are not known, or more than + - * / %" : why);
    }
    put(fmt::format("{}", *value));
    text_.advance(end);
  }

  /// ${A}, ${A[@]}, ${A[0]}, ${A:-word}, ${A:=word}
  void read_braced(Quotes quotes) {
    const std::string_view rest = text_.rest();
    const std::size_t end = 1 + matching_end(rest.substr(1), '{', '}');
    const std::string_view whole = rest.substr(0, end);
    const std::string_view inside = whole.substr(2, end > 3 ? end - 3 : 0);
    std::size_t length = name_length(inside);
    if (length == 0) length = std::min(inside.find_first_not_of("0123456789"), inside.size());
    if (length == 0 && (inside == "@" || inside == "*")) length = 1;
    const std::string_view name = inside.substr(0, length);
    std::string_view tail = inside.substr(length), index = name == "@" || name == "*" ? name : "";
    if (tail.starts_with('[')) {
      const std::size_t close = std::min(tail.find(']'), tail.size() - 1);
      index = tail.substr(1, close - 1);
      tail.remove_prefix(close + 1);
    }
    const std::size_t colon = tail.starts_with(':') ? 1 : 0;
    const bool sets = tail.substr(colon).starts_with('=');
    const bool known = tail.empty() || sets || tail.substr(colon).starts_with('-');
    if (name.empty() || depth_ > deepest || !known) return leave(end, "its form is not worked out");
    text_.advance(end);
    if (tail.empty()) return expand(name, index, whole, quotes);
    const ShellNames::Meaning meaning = names_.meaning(name);
    const std::string value = meaning.value ? joined(*meaning.value) : "";
    if (meaning.outside) names_.taken_as_unset.emplace(name);
    const bool set = meaning.value && !(colon > 0 && value.empty());
    const std::string why = meaning.outside ? "" : meaning.doubt + names_.doubt(value);
    if (!why.empty()) return doubt(whole, why);
    if (set) return expand(name, index, whole, quotes);
    const MarkedWords words = words_of_text(tail.substr(colon + 1), quotes);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) quotes == Quotes::none&& splitting_ == Splitting::yes ? finish() : put(" ");
      put(words[i]);
    }
    const std::string& run = names_.may_not_run;
    if (sets)
      names_.values[std::string(name)] = {
          run.empty() ? joined(words)
                      : names_.marked(whole, fmt::format("{} is set {}", name, run))};
  }

  MarkedWords words_of_text(std::string_view text, Quotes quotes) {
    const bool splits = splitting_ == Splitting::yes && quotes == Quotes::none;
    ShellText inside(text, text_.line());
    MarkedWords words;
    for (inside.skip_blanks(); !inside.is_at_end(); inside.skip_blanks())
      WordReader(inside, names_, splits ? Splitting::yes : Splitting::no, words, depth_ + 1).read();
    return words;
  }

  /// Quoted values stay one word, unless "${array[@]}"; others fall into words at blanks.
  void expand(std::string_view name, std::string_view index, std::string_view whole,
              Quotes quotes) {
    const ShellNames::Meaning meaning = names_.meaning(name);
    const bool quoted = quotes == Quotes::around;
    const bool unset = names_.outside_is_unset && meaning.outside;
    if (unset) names_.taken_as_unset.emplace(name);
    names_.met_outside = names_.met_outside || unset;
    if (unset && name == "#") return put("0");
    if (!meaning.value && !meaning.doubt.empty() && !unset) return doubt(whole, meaning.doubt);
    const bool all = index == "@" || index == "*";
    const auto number = index.empty() ? std::optional<int64_t>(0) : whole_number(index);
    if (!all && !number) return doubt(whole, "its form is not worked out");
    MarkedWords words = meaning.value.value_or(MarkedWords());
    const auto at = as_size(number.value_or(0));
    if (!all) words = at < words.size() ? MarkedWords{words[at]} : MarkedWords();
    if (splitting_ == Splitting::no || (quoted && index != "@")) return put(joined(words));
    vanishes_ = quoted && words.empty();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) finish();
      if (quoted)
        put(words[i]);
      else
        for (const char c : words[i])
          contains(" \t\n", c) ? finish() : put({&c, 1});
    }
  }

  ShellText& text_;
  ShellNames& names_;
  Splitting splitting_;
  MarkedWords& into_;
  int depth_;
  std::string word_;
  bool open_ = false;      // something was written, be it an empty quotation
  bool vanishes_ = false;  // "${array[@]}" without words
};

}  // namespace

// Text ----------------------------------------------------------------------------------------

bool ShellText::at_end_of_command() const {
  return rest_.empty() || (!starts("&>") && contains("\n;&|)", peek()));
}

std::string_view ShellText::bare_word() const {
  const std::size_t end = std::min(rest_.find_first_of(" \t\r\n;()&|"), rest_.size());
  return rest_.substr(0, end);
}

void ShellText::advance(std::size_t count) {
  for (; count > 0 && !rest_.empty(); --count) {
    const bool ends_line = rest_.front() == '\n';
    rest_.remove_prefix(1);
    if (!ends_line) continue;
    ++line_;
    for (const std::string& delimiter : std::exchange(heredocs_, {}))
      for (bool inside = true; inside && !rest_.empty(); ++line_) {
        const std::string_view line = rest_.substr(0, rest_.find('\n'));
        rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
        inside = trimmed(line, "\t\r") != delimiter;
      }
  }
}

void ShellText::skip_blanks() {
  for (;;)
    if (at_blank())
      advance();
    else if (starts("\\\n") || starts("\\\r\n"))
      advance(peek(1) == '\n' ? 2 : 3);
    else
      break;
  if (peek() == '#') advance(std::min(rest_.find('\n'), rest_.size()));
}

std::size_t name_length(std::string_view text) {
  if (text.empty() || is_digit(text.front())) return 0;
  return as_size(std::find_if_not(text.begin(), text.end(), is_name_part) - text.begin());
}

std::size_t matching_end(std::string_view text, char open, char close) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (open == '(' && (c == '\'' || c == '"')) {
      for (++i; i < text.size() && text[i] != c; ++i)
        if (c == '"' && text[i] == '\\') ++i;
    } else if (c == open) {
      ++depth;
    } else if (c == close && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

// Names ---------------------------------------------------------------------------------------

std::string unmarked(std::string_view text) {
  std::string plain(text);
  std::erase_if(plain, [](char c) { return c == opens || c == closes; });
  return plain;
}

std::string ShellNames::marked(std::string_view text, const std::string& why) {
  std::string word = unmarked(text);
  std::replace_if(
      word.begin(), word.end(), [](char c) { return contains(" \t\n", c); }, '_');
  reasons_[word] = why;
  return opens + word + closes;
}

std::string ShellNames::readable(std::string_view text) {
  std::string all;
  bool inside = false;
  for (const char c : text) {
    inside = c == opens || (inside && c != closes);
    if (inside && contains("'\"\\`$;&|<>(){}#", c)) all += '\\';
    all += c;
  }
  return all;
}

std::string ShellNames::doubt(std::string_view text) const {
  const std::size_t begin = text.find(opens);
  if (begin == text.npos) return {};
  return value_at(reasons_, text.substr(begin + 1, text.find(closes) - begin - 1))
      .value_or("it is not certain");
}

ShellNames::Meaning ShellNames::meaning(std::string_view name) const {
  if (const auto known = values.find(name); known != values.end()) return {known->second, {}};
  if (const auto number = whole_number(name); number && *number > 0) {
    const auto at = as_size(*number);
    if (at <= arguments.size()) return {MarkedWords{arguments[at - 1]}, {}};
    const std::string why = fmt::format("${} is an argument of the script", name);
    return arguments.empty() ? Meaning{std::nullopt, why, true} : Meaning();
  }
  if ((name == "@" || name == "*") && !arguments.empty()) return {arguments, {}};
  if (name == "#" && !arguments.empty())
    return {MarkedWords{fmt::format("{}", arguments.size())}, {}};
  if (name == "#") return {std::nullopt, "$# is a number of arguments of the script", true};
  if (name_length(name) == 0) return {std::nullopt, fmt::format("${} is not known", name)};
  if (!all_in_doubt_.empty()) return {std::nullopt, fmt::format("{}: {}", name, all_in_doubt_)};
  for (const char* machine : {"HOME", "PWD", "USER", "HOSTNAME", "PATH", "RANDOM", "SECONDS", "UID",
                              "LANG", "SHELL", "BASH_SOURCE", "OSTYPE", "LINENO"})
    if (name == machine) return {std::nullopt, fmt::format("{} is the machine's", name)};
  return {std::nullopt, fmt::format("{} has no value in this file", name), true};
}

void ShellNames::doubt_all(const std::string& why) {
  all_in_doubt_ = why;
  for (auto& [name, words] : values)
    words = {marked("$" + name, fmt::format("{}: {}", name, why))};
}

void read_word(ShellText& text, ShellNames& names, Splitting splitting, MarkedWords& into) {
  WordReader(text, names, splitting, into, 0).read();
}

}  // namespace triplepoint::formats
