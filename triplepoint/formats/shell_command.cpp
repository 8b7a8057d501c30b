// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/shell_command.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "triplepoint/base/lists.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/shell_words.h"

namespace triplepoint::formats {
namespace {

constexpr std::size_t largest_text = std::size_t{1} << 20;
constexpr int most_nested = 4;
constexpr std::size_t most_written = std::size_t{1} << 22;  // of all values together

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return holds(words, word);
}

bool has_any(std::string_view text, std::string_view letters) {
  return text.find_first_of(letters) != text.npos;
}

/// Reads commands one after the other. Tests of known words choose; of other conditions, cases and
/// loops all branches are read, and what they set is in doubt. A function that is called may set
/// anything.
class ScriptReader {
 public:
  ScriptReader(std::string_view text, const ScriptWorld& world) : text_(text) {
    for (const auto& [name, value] : world.variables) {
      names_.values[name] = {unmarked(value)};
      exported_.insert(name);
    }
    names_.arguments = world.arguments;
  }

  Result<ShellCommand> read(const std::string& name) {
    while (!text_.is_at_end() && exit_line_ == 0)
      read_next();
    if (!blocks_.empty() && exit_line_ == 0)
      refuse(fmt::format("no end of what line {} begins", blocks_.back().line));
    if (!problem_.empty()) return error("{}:{}", name, problem_);
    ShellCommand command = TPT_TRY(choose_launch(std::move(launches_), name));
    const bool found = command.is_training() || (!command.words.empty() && passed_over_.empty());
    if (!found && !passed_over_.empty())
      return error("{}:{} (not read literally); {}", name, passed_over_.front(), run_it_instead);
    if (!found && exit_line_ > 0)
      return error("{}:{}: the script ends here, before it launches anything; {}", name, exit_line_,
                   run_it_instead);
    if (!found) command = arrays();
    for (const std::string& line : passed_over_)
      command.remarks.push_back(fmt::format("passed over: line {}", line));
    if (!names_.taken_as_unset.empty())
      command.remarks.push_back(
          fmt::format("taken as unset, as in an empty environment: {}; --env NAME=VALUE sets one",
                      joined({names_.taken_as_unset.begin(), names_.taken_as_unset.end()}, ", ")));
    return command;
  }

 private:
  using Words = std::set<std::string, std::less<>>;

  /// What stands between if and fi, do and done, { and }.
  struct Block {
    std::string begin;
    int line;
    bool runs = false;          // as often as is known
    bool taken = false;         // the branches that follow do not run
    bool may_have_run = false;  // one of those before
    bool by_absence = false;    // the branch was chosen as nothing sets a name
    bool at_pattern = false;    // of a case
  };

  /// X=1 in front of the command that is read, and what X was.
  struct Own {
    std::string value;
    std::optional<MarkedWords> before;
  };

  /// Why what is read now may not run; empty: it runs.
  std::string doubt() const {
    for (const Block& block : blocks_)
      if (!block.runs) return fmt::format("in the '{}' of line {}", block.begin, block.line);
    return joined_ ? fmt::format("if line {} says so", text_.line()) : "";
  }

  /// The rest is not understood, so nothing of the script is.
  void refuse(const std::string& what) {
    if (problem_.empty())
      problem_ = fmt::format("{}: {} (not read literally); {}", text_.line(), what, run_it_instead);
    text_ = ShellText({}, text_.line());
  }
  /// What could launch something.
  void pass_over(const std::string& what) {
    passed_over_.push_back(fmt::format("{}: {}", text_.line(), what));
  }

  // Blocks --------------------------------------------------------------------------------------

  void read_next() {
    text_.skip_blanks();
    if (!blocks_.empty() && blocks_.back().at_pattern && text_.bare_word() != "esac")
      return skip_pattern();
    const bool both = text_.starts("&&"), either = text_.starts("||");
    if (text_.starts(";;") && !blocks_.empty() && blocks_.back().begin == "case") {
      text_.advance(2);
      joined_ = false;
      blocks_.back().at_pattern = true;
    } else if (both || either) {
      joined_ = joined_ || either || tests_;
      text_.advance(2);
      skip_lines();
    } else if (text_.peek() == '|') {
      text_.advance(text_.peek(1) == '&' ? 2 : 1);
      skip_lines();
    } else if (text_.peek() == '(' && !text_.starts("((")) {
      begin("(");
    } else if (text_.peek() == ')') {
      text_.advance();
      if (blocks_.empty() || blocks_.back().begin != "(") return refuse("')' closes nothing");
      blocks_.pop_back();
    } else if (text_.at_end_of_command()) {
      text_.advance();
      joined_ = false;
    } else if (!read_keyword() && !read_function()) {
      read_simple();
    }
  }

  void skip_lines() {
    while (text_.skip_blanks(), text_.peek() == '\n')
      text_.advance();
  }

  void begin(const std::string& word) {
    blocks_.push_back({word, text_.line()});
    text_.advance(word == "function" ? 1 : word.size());
    if (word == "if") choose(read_condition());
    if (word == "while" && read_condition() == false) skip_block(blocks_.size());
    if (word == "case") skip_pattern("in");
  }

  bool read_keyword() {
    const std::string word(text_.bare_word());
    if (is_one_of(word, {"if", "for", "select", "while", "until", "case", "{"})) {
      begin(word);
      if (word == "for" || word == "select") read_loop_variable();
    } else if (is_one_of(word, {"fi", "done", "esac", "}"})) {
      if (blocks_.empty()) return refuse(fmt::format("'{}' closes nothing", word)), true;
      blocks_.pop_back();
      text_.advance(word.size());
      for (text_.skip_blanks(); read_redirection(); text_.skip_blanks())
        tests_ = true;
    } else if (is_one_of(word, {"else", "elif"})) {
      if (blocks_.empty() || blocks_.back().begin != "if")
        return refuse(fmt::format("'{}' without an if", word)), true;
      text_.advance(word.size());
      choose(word == "else" ? std::optional(true) : read_condition());
    } else if (is_one_of(word, {"then", "do", "!"})) {
      text_.advance(word.size());
    } else if (text_.starts("((")) {
      read_arithmetic();
    } else if (text_.starts("[[")) {
      text_.advance(std::min(text_.rest().find("]]"), text_.rest().size()) + 2);
      tests_ = true;
    } else {
      return false;
    }
    return true;
  }

  void read_loop_variable() {
    text_.skip_blanks();
    if (text_.starts("((")) return read_arithmetic();
    const std::string name(text_.rest().substr(0, name_length(text_.rest())));
    text_.advance(name.size());
    put_in_doubt(name);
    MarkedWords values;
    for (text_.skip_blanks(); !text_.at_end_of_command(); text_.skip_blanks())
      read_word(text_, names_, Splitting::no, values);
  }

  // Branches ------------------------------------------------------------------------------------

  /// The next branch begins; `runs`: whether it does, where that is known.
  void choose(std::optional<bool> runs) {
    Block& block = blocks_.back();
    block.runs = false;
    if (block.taken || runs == false) return void(skip_block(blocks_.size()));
    if (block.begin == "if") block.by_absence = names_.met_outside;
    block.taken = runs.has_value();
    block.runs = block.taken && !block.may_have_run;
    block.may_have_run = block.may_have_run || !block.taken;
  }

  /// Reads on and forgets, up to what ends the branch or the block; whether the block ended.
  bool skip_block(std::size_t depth) {
    ScriptReader other = *this;
    other.blocks_.back().runs = false;
    for (other.text_.skip_blanks(); !other.text_.is_at_end() && other.blocks_.size() >= depth;
         other.text_.skip_blanks()) {
      const std::string word(other.text_.bare_word());
      if (other.blocks_.size() == depth &&
          (is_one_of(word, {"else", "elif", "fi", "esac", "done"}) || other.text_.starts(";;")))
        break;
      other.read_next();
    }
    text_ = other.text_;
    problem_ = other.problem_;
    return other.blocks_.size() < depth;
  }

  /// Over "WORD in", and then over each "a | b)": which arm of a case runs is not worked out.
  void skip_pattern(std::string_view end = ")") {
    skip_lines();
    if (text_.bare_word() == "esac") return;
    MarkedWords words;
    while (!text_.is_at_end() && text_.bare_word() != end && !(end == ")" && text_.peek() == ')'))
      if (text_.at_blank() || text_.at_end_of_command() || text_.peek() == '(')
        text_.advance();
      else
        read_word(text_, names_, Splitting::no, words);
    text_.advance(end.size());
    blocks_.back().at_pattern = end == "in";
    if (end == ")") choose(std::nullopt);
  }

  /// [ a = b ] && [ c = d ]; then. Where it is not known, nothing is read.
  std::optional<bool> read_condition() {
    const ShellText before = text_;
    names_.met_outside = false;
    text_.skip_blanks();
    std::optional<bool> all = read_test();
    for (text_.skip_blanks(); all && (text_.starts("&&") || text_.starts("||"));
         text_.skip_blanks()) {
      const bool both = text_.starts("&&");
      text_.advance(2);
      skip_lines();
      const auto next = read_test();
      all = !next ? next : both ? *all && *next : *all || *next;
    }
    if (all && (text_.peek() == ';' || text_.peek() == '\n')) return all;
    text_ = before;
    return std::nullopt;
  }

  /// [ a = b ], [[ -n a ]], ! [ 3 -lt 4 ] of known words; what nothing sets is unset, which is
  /// told.
  std::optional<bool> read_test() {
    const bool negates = text_.bare_word() == "!";
    if (negates) text_.advance();
    text_.skip_blanks();
    const std::string begin(text_.bare_word()), end = begin == "[" ? "]" : "]]";
    if (begin != "[" && begin != "[[") return std::nullopt;
    text_.advance(begin.size());
    const std::set<std::string> told = names_.taken_as_unset;
    MarkedWords words;
    names_.outside_is_unset = true;
    for (text_.skip_blanks(); !text_.at_end_of_command() && text_.bare_word() != end;
         text_.skip_blanks())
      read_word(text_, names_, begin == "[" ? Splitting::yes : Splitting::no, words);
    names_.outside_is_unset = false;
    const bool closed = text_.bare_word() == end;
    const auto truth = closed ? truth_of(words, begin == "[[") : std::nullopt;
    if (closed) text_.advance(end.size());
    if (!truth) names_.taken_as_unset = told;
    return truth ? std::optional(*truth != negates) : truth;
  }

  std::optional<bool> truth_of(MarkedWords words, bool matches) const {
    const bool negates = words.size() > 1 && words.front() == "!";
    if (negates) words.erase(words.begin());
    for (const std::string& word : words)
      if (!names_.doubt(word).empty()) return std::nullopt;
    std::optional<bool> truth;
    if (words.size() == 1) truth = !words[0].empty();
    if (words.size() == 2 && words[0] == "-z") truth = words[1].empty();
    if (words.size() == 2 && words[0] == "-n") truth = !words[1].empty();
    if (words.size() == 3) truth = compared(words[0], words[1], words[2], matches);
    return truth ? std::optional(*truth != negates) : truth;
  }

  static std::optional<bool> compared(const std::string& a, const std::string& op,
                                      const std::string& b, bool matches) {
    const bool equal = op == "=" || op == "==";
    if (equal || op == "!=")
      return matches && has_any(b, "*?[") ? std::nullopt : std::optional((a == b) == equal);
    const auto x = whole_number(a), y = whole_number(b);
    if (!x || !y) return std::nullopt;
    if (op == "-eq") return *x == *y;
    if (op == "-ne") return *x != *y;
    if (op == "-lt") return *x < *y;
    if (op == "-le") return *x <= *y;
    if (op == "-gt") return *x > *y;
    if (op == "-ge") return *x >= *y;
    return std::nullopt;
  }

  /// (( ... )): any name in it may be set.
  void read_arithmetic() {
    const std::size_t end = matching_end(text_.rest(), '(', ')');
    for (std::string_view rest = text_.rest().substr(0, end); !rest.empty();) {
      const std::size_t length = name_length(rest);
      put_in_doubt(std::string(rest.substr(0, length)));
      rest.remove_prefix(std::max<std::size_t>(1, length));
    }
    text_.advance(end);
    tests_ = true;
  }

  /// name() { and function name {: what stands in it is forgotten.
  bool read_function() {
    const ShellText before = text_;
    std::string_view name = text_.bare_word();
    text_.advance(name.size());
    text_.skip_blanks();
    const bool keyword = name == "function";
    if (keyword) {
      name = text_.bare_word();
      text_.advance(name.size());
      text_.skip_blanks();
    }
    const bool brackets = text_.starts("()");
    const bool is_name = !name.empty() && name.find_first_of("=$\"'`") == name.npos;
    if (!is_name || (!brackets && !keyword)) return text_ = before, false;
    text_.advance(brackets ? 2 : 0);
    skip_lines();
    if (text_.peek() != '{') return refuse("a function without { }"), true;
    functions_.emplace(name);
    begin("function");
    if (skip_block(blocks_.size())) blocks_.pop_back();
    return true;
  }

  // Commands ------------------------------------------------------------------------------------

  void read_simple() {
    const int line = text_.line();
    std::vector<ShellWord> words;  // with marks
    names_.may_not_run = doubt();
    own_.clear();
    bool declares = false, execs = false;
    for (;;) {
      text_.skip_blanks();
      if (text_.at_end_of_command()) break;
      if (read_redirection()) continue;
      if ((words.empty() || declares) && read_assignment(words)) continue;
      if (words.empty()) restore();
      MarkedWords read;
      const int at = text_.line();
      read_word(text_, names_, Splitting::yes, read);
      for (std::string& word : read)
        words.push_back({std::move(word), at});
      if (words.size() != 1) continue;
      const std::string& first = words.front().text;
      declares = is_one_of(first, {"export", "declare", "readonly", "local", "typeset"});
      execs = execs || first == "exec";
      text_.skip_blanks();
      if (is_one_of(first, {"exec", "command", "nohup", "time", "env"}) && text_.peek() != '-')
        words.clear();
    }
    const bool piped = text_.peek() == '|' && text_.peek(1) != '|';
    if (words.empty() && piped)  // in a separate process
      for (const auto& [name, own] : own_)
        put_in_doubt(name);
    const bool ends = execs && !words.empty() && doubt().empty();
    tests_ = !words.empty() &&
             !is_one_of(words.front().text, {"cd", "mkdir", "export", "source", "echo", "module"});
    for (const ShellWord& word : words)
      if (text_.expects_heredoc() && is_one_of(word.text, {"sbatch", "qsub", "bash", "sh", "ssh"}))
        pass_over(fmt::format("the text that {} gets is another script", word.text));
    if (!words.empty()) run_command(std::move(words), line);
    if (ends) exit_line_ = line;
  }

  /// X=1 in front of a command is of its environment only.
  void restore() {
    for (const auto& [name, own] : own_)
      if (own.before)
        names_.values[name] = *own.before;
      else
        names_.values.erase(name);
  }

  /// > file, 2>&1, &> file, < file, <<EOF, <<< word.
  bool read_redirection() {
    const std::string_view rest = text_.rest();
    const std::size_t at =
        text_.starts("&>") ? 1 : std::min(rest.find_first_not_of("0123456789"), rest.size());
    const char mark = text_.peek(at);
    if ((mark != '>' && mark != '<') || text_.peek(at + 1) == '(') return false;
    const std::size_t end = std::min(rest.find_first_not_of("<>&|", at), rest.size());
    const bool heredoc = rest.substr(at, end - at) == "<<";
    text_.advance(end + (heredoc && text_.peek(end) == '-' ? 1 : 0));
    text_.skip_blanks();
    const std::string_view before = text_.rest();
    MarkedWords target;
    if (!text_.at_end_of_command()) read_word(text_, names_, Splitting::no, target);
    if (!heredoc) return true;
    std::string delimiter(before.substr(0, before.size() - text_.rest().size()));
    std::erase_if(delimiter, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    text_.expect_heredoc(delimiter);
    return true;
  }

  /// NAME=value, NAME+=value, NAME=(a b c), NAME[i]=value.
  bool read_assignment(const std::vector<ShellWord>& words) {
    const std::string_view rest = text_.rest();
    std::size_t length = name_length(rest);
    const std::string name(rest.substr(0, length));
    bool keyed = length > 0 && text_.peek(length) == '[';
    if (keyed) length += matching_end(rest.substr(length), '[', ']');
    const bool append = text_.peek(length) == '+';
    if (name.empty() || text_.peek(length + (append ? 1 : 0)) != '=') return false;
    text_.advance(length + (append ? 2 : 1));
    MarkedWords value;
    const bool is_array = text_.peek() == '(';
    if (is_array)
      value = read_array();
    else if (!text_.at_blank() && !text_.at_end_of_command())
      read_word(text_, names_, Splitting::no, value);
    if (!is_array && value.empty()) value.emplace_back();
    for (const std::string& word : value)
      keyed = keyed || (is_array && word.starts_with('[') && contains(word, "]="));
    for (const ShellWord& word : words)  // declare -A
      keyed =
          keyed || (word.text.starts_with('-') && word.text.find_first_of("Ain") != word.text.npos);
    if (name == "IFS" && text_.at_end_of_command()) refuse("IFS changes how words are split");
    if (words.empty() && !own_.contains(name) && names_.values.contains(name))
      own_[name].before = names_.values[name];
    if (!words.empty() && words.front().text == "export") exported_.insert(name);
    if (keyed)
      put_in_doubt(name);
    else
      assign(name, std::move(value), append, is_array);
    if (words.empty() && names_.values.contains(name))
      own_[name].value = joined(names_.values[name]);
    tests_ = false;
    return true;
  }

  MarkedWords read_array() {
    MarkedWords words;
    text_.advance();
    for (skip_lines(); !text_.is_at_end() && text_.peek() != ')'; skip_lines())
      if (text_.at_end_of_command())
        refuse("an array holds commands");
      else
        read_word(text_, names_, Splitting::yes, words);
    if (text_.is_at_end()) refuse("an array is not closed");
    text_.advance();
    return words;
  }

  void assign(const std::string& name, MarkedWords value, bool append, bool is_array) {
    const MarkedWords old = names_.values.contains(name) ? names_.values[name] : MarkedWords();
    // Where a value goes on from the old one, only what it adds can be in doubt.
    const bool goes_on =
        append || (!is_array && !old.empty() && value.front().starts_with(old.front()));
    if (!append && goes_on) value.front().erase(0, old.front().size());
    const std::string why = doubt();
    if (!why.empty() && !goes_on && !old.empty()) return put_in_doubt(name);
    if (!why.empty())
      for (std::string& word : value)
        word = each_marked(word, fmt::format("{} is set {}", name, why));
    MarkedWords all = goes_on ? old : MarkedWords();
    if (is_array || all.empty())
      all.insert(all.end(), value.begin(), value.end());
    else
      all.front() += value.front();
    written_ += joined(all).size();
    if (written_ > most_written) return refuse("a value grows without end");
    names_.values[name] = std::move(all);
  }

  /// Blanks stay, so that each word has its own mark.
  std::string each_marked(const std::string& text, const std::string& why) {
    std::vector<std::string> words = split(text, ' ');
    for (std::string& word : words)
      if (!word.empty() && names_.doubt(word).empty()) word = names_.marked(word, why);
    return joined(words);
  }

  void put_in_doubt(const std::string& name) {
    if (name.empty()) return;
    const std::string block = doubt();
    const std::string why = block.empty() ? fmt::format("in line {}", text_.line()) : block;
    names_.values[name] = {names_.marked("$" + name, fmt::format("{} is set {}", name, why))};
  }

  /// Takes a command for what it changes here.
  void run_command(std::vector<ShellWord> words, int line) {
    const std::string name = words.front().text;
    const bool starts = starts_program(words);
    if (functions_.contains(name)) {
      names_.doubt_all(fmt::format("the function {} of line {} may set it", name, line));
      pass_over(fmt::format("{} is a function", name));
    } else if (name == "exit" && doubt().empty() &&
               (blocks_.empty() || !blocks_.back().by_absence)) {
      exit_line_ = line;  // else what it misses is given, or the branch is not taken
    } else if (name == "eval" && words.size() > 1 &&
               names_.doubt(words[1].text.substr(0, words[1].text.find(' '))).empty()) {
      std::string text;
      for (std::size_t i = 1; i < words.size(); ++i)
        text += ShellNames::readable(words[i].text) + " ";
      read_nested(text);
    } else if (is_one_of(name, {"eval", "source", "."})) {
      run_text(words);
    } else if (name == "set" && words.size() > 1 && !words[1].text.starts_with('+') &&
               (words[1].text == "--" || !words[1].text.starts_with('-'))) {
      refuse("set changes the arguments");
    } else if (name == "shift") {
      const auto by = words.size() > 1 ? whole_number(words[1].text) : std::optional<int64_t>(1);
      const auto all = std::ssize(names_.arguments);
      const auto gone = by && doubt().empty() ? std::min<std::ptrdiff_t>(*by, all) : all;
      names_.arguments.erase(names_.arguments.begin(), names_.arguments.begin() + gone);
    } else if (is_one_of(name, {"read", "let", "mapfile", "readarray", "getopts", "unset"}) ||
               (name == "printf" && words.size() > 2 && words[1].text == "-v")) {
      for (const ShellWord& word : words)
        put_in_doubt(word.text.substr(0, name_length(word.text)));
    } else if (is_one_of(name, {"export", "declare", "readonly", "local", "typeset"})) {
      declare(words);
    } else if (starts && !is_one_of(name, {"echo", "printf", "cat", "ls", "mkdir", "tee", "trap",
                                           "grep", "sed", "awk", "git", "pip", "apt", "exit", "rm",
                                           "cp", "module", "conda", "["})) {
      consider(words, line);
    }
  }

  /// A text as commands: of eval, and what a shell runs.
  void read_nested(const std::string& text) {
    if (++nested_ > most_nested) return refuse("texts in texts");
    const std::size_t depth = blocks_.size();
    const bool joined = joined_, tests = tests_;
    const ShellText outer = std::exchange(text_, ShellText(text, text_.line()));
    while (!text_.is_at_end() && exit_line_ == 0)
      read_next();
    if (problem_.empty()) text_ = outer;
    if (blocks_.size() != depth) refuse("a text that is run does not end");
    joined_ = joined;
    tests_ = tests;
    --nested_;
  }

  /// srun ... bash -c "...": what it launches is launched by srun. The shell sees what is exported.
  void read_shell_text(const std::vector<ShellWord>& words, std::size_t shell) {
    const std::size_t before = launches_.size();
    const std::string text = ShellNames::readable(words[shell + 2].text);
    if (!names_.doubt(text.substr(0, text.find(' '))).empty())
      return pass_over(fmt::format("{} {} runs a text", words[shell].text, words[shell + 1].text));
    ShellNames kept = names_;
    std::erase_if(names_.values, [&](const auto& each) { return !exported_.contains(each.first); });
    names_.arguments.clear();
    read_nested(text);
    kept.taken_as_unset = names_.taken_as_unset;
    names_ = std::move(kept);
    for (std::size_t i = before; i < launches_.size(); ++i) {
      std::vector<ShellWord>& all = launches_[i].command.words;
      for (std::size_t at = 0; at < shell; ++at)
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(at),
                   {unmarked(words[at].text), words[at].line, names_.doubt(words[at].text)});
    }
  }

  /// source: environments of software set paths, all else may set anything.
  void run_text(const std::vector<ShellWord>& words) {
    std::string text;
    for (const ShellWord& word : words)
      text += (text.empty() ? "" : " ") + unmarked(word.text);
    for (const char* software : {"activate", "conda", "mamba", "bashrc", "bash_profile",
                                 "setvars.sh", "modules.sh", "/module.sh", "/etc/profile"})
      if (contains(text, software)) return;
    text = text.substr(0, 60);
    names_.doubt_all(fmt::format("'{}' of line {} may set it", text, text_.line()));
    pass_over(fmt::format("'{}' runs what does not stand here", text));
  }

  /// export NAME, and export "$NAME=value".
  void declare(const std::vector<ShellWord>& words) {
    for (const ShellWord& word : words) {
      const std::size_t equals = word.text.find('=');
      if (words.front().text == "export") exported_.insert(word.text.substr(0, equals));
      if (equals == word.text.npos) continue;
      if (names_.doubt(word.text).empty())
        assign(word.text.substr(0, equals), {word.text.substr(equals + 1)}, false, false);
      else
        names_.doubt_all(fmt::format("export of line {} may set it", text_.line()));
    }
  }

  bool starts_program(const std::vector<ShellWord>& words) const {
    return std::ranges::any_of(words, [&](const ShellWord& word) {
      return contains(word.text, ".py") || word.text == "-m" || is_shell_script(word.text) ||
             word.text.starts_with("--") || contains(word.text, " --") ||
             !names_.doubt(word.text).empty();
    });
  }

  /// Keeps what starts a program.
  void consider(const std::vector<ShellWord>& words, int line) {
    for (std::size_t i = 0; i + 2 < words.size() && !words[i].text.ends_with(".py"); ++i) {
      const std::string &shell = words[i].text, &option = words[i + 1].text;
      const bool runs = shell == "sh" || shell.ends_with("/sh") || shell.ends_with("bash");
      if (runs && option.starts_with('-') && !option.starts_with("--") && option.ends_with('c'))
        return read_shell_text(words, i);
    }
    ShellCommand command;
    for (const ShellWord& word : words) {
      // Of a program the name counts, not its folder.
      const std::string name = word.text.substr(word.text.rfind('/') + 1);
      const bool known = name.ends_with(".py") && unmarked(name) == name;
      command.words.push_back(
          {unmarked(word.text), word.line, known ? "" : names_.doubt(word.text)});
    }
    if (const std::string text = command.started_text(); !text.empty()) return pass_over(text);
    for (const auto& [name, own] : own_)
      command.variables[name] = own.value;
    for (const std::string& name : exported_)
      if (names_.values.contains(name))
        command.variables.try_emplace(name, joined(names_.values[name]));
    std::erase_if(command.variables,
                  [&](const auto& each) { return !names_.doubt(each.second).empty(); });
    launches_.push_back({std::move(command), line, doubt()});
  }

  /// A file that only sets arrays of arguments: MODEL_ARGS=(--num-layers 32 ...).
  ShellCommand arrays() {
    ShellCommand command;
    for (const auto& [name, value] : names_.values) {
      if (!trimmed(joined(value)).starts_with("--")) continue;
      for (const std::string& word : split(joined(value), ' '))
        if (!trimmed(word).empty())
          command.words.push_back({unmarked(trimmed(word)), 0, names_.doubt(word)});
      command.only_arguments = true;
    }
    return command;
  }

  ShellText text_;
  ShellNames names_;
  std::vector<Block> blocks_;
  Words functions_;
  std::vector<Launch> launches_;
  std::vector<std::string> passed_over_;  // "7: eval runs ..."
  std::set<std::string> exported_;
  std::map<std::string, Own> own_;
  std::string problem_;
  bool tests_ = false;   // the last command is a condition
  bool joined_ = false;  // whether the next command runs, it says
  int exit_line_ = 0, nested_ = 0;
  std::size_t written_ = 0;
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

Result<ShellCommand> find_command(std::string_view text, std::string_view name,
                                  const ScriptWorld& world) {
  if (text.size() > largest_text)
    return error("{}: larger than 1 MiB (no launch script is); try another file", name);
  const std::string lines = unmarked(is_argument_file(text) ? joined_lines(text) : text);
  ShellCommand command = TPT_TRY(ScriptReader(lines, world).read(std::string(name)));
  if (command.words.empty())
    return error(
        "{}: has no command with arguments (words that start with --); give a "
        "launch script, its command line or a file of arguments",
        name);
  return command;
}

}  // namespace triplepoint::formats
