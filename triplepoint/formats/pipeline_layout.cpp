// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/pipeline_layout.h"

#include <algorithm>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

namespace triplepoint::formats {

std::vector<spec::RecomputeModule> read_recompute_modules(Settings& s, std::string_view key) {
  const auto& names = spec::enum_names<spec::RecomputeModule>;
  const std::vector<std::string> known(names.begin(), names.end());
  std::vector<spec::RecomputeModule> modules;
  for (const std::string& word : s.list(key).value_or(std::vector<std::string>())) {
    if (const auto module = spec::enum_from_name<spec::RecomputeModule>(word))
      modules.push_back(*module);
    else
      s.note(spec::DiagnosisCode::unsupported, Settings::Severity::error, key,
             fmt::format("{} has '{}' (not a part of a layer that can be recomputed); {}", key,
                         word.substr(0, 60), did_you_mean(word, known)));
  }
  return modules;
}

std::vector<std::string> recompute_module_names(const spec::Plan& plan) {
  return mapped<std::string>(plan.recompute_modules, [](const spec::RecomputeModule module) {
    return spec::enum_name(module);
  });
}

namespace {

class Expansion {
 public:
  Expansion(std::string_view text, WrittenForm form)
      : rest_(text), lists_(form == WrittenForm::lists) {}

  std::optional<std::string> all() {
    auto text = sequence(0);
    return text && rest_.empty() ? text : std::nullopt;
  }

 private:
  static constexpr std::size_t longest = 100'000;
  static constexpr int deepest = 8;

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// Lists are joined by +.
  std::optional<std::string> sequence(int depth) {
    std::string text;
    for (bool more = lists_ || (!rest_.empty() && rest_.front() != ')'); more;
         more = lists_ ? take('+') : !rest_.empty() && rest_.front() != ')') {
      const auto piece = repeated(depth);
      if (!piece || text.size() + piece->size() > longest) return std::nullopt;
      text += *piece;
    }
    return text;
  }

  std::optional<std::string> repeated(int depth) {
    auto piece = atom(depth);
    while (piece && take('*')) {
      const std::size_t end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      const auto times = whole_number(rest_.substr(0, end));
      rest_.remove_prefix(end);
      const bool fits =
          times && as_size(*times) <= longest && piece->size() * as_size(*times) <= longest;
      if (!fits) return std::nullopt;
      std::string text;
      for (int64_t i = 0; i < *times; ++i)
        text += *piece;
      piece = text;
      if (!lists_) break;
    }
    return piece;
  }

  std::optional<std::string> atom(int depth) {
    if (take('(')) {
      auto inner = depth < deepest ? sequence(depth + 1) : std::nullopt;
      return inner && take(')') ? inner : std::nullopt;
    }
    if (lists_) return take('[') ? list() : std::nullopt;
    const std::string_view letter = rest_.substr(0, 1);
    if (letter.find_first_of("EtmL|, ") == letter.npos) return std::nullopt;
    rest_.remove_prefix(1);
    return letter == "," || letter == " " ? std::string() : std::string(letter);
  }

  /// "0, 1]" is 01.
  std::optional<std::string> list() {
    const std::size_t end = std::min(rest_.find(']'), rest_.size());
    std::string digits(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    std::erase_if(digits, [](char c) { return c == ',' || c == ' '; });
    const bool known = digits.find_first_not_of("01") == digits.npos;
    return known ? std::optional(digits) : std::nullopt;
  }

  std::string_view rest_;
  bool lists_;
};

}  // namespace

std::optional<std::string> written_out(std::string_view text, WrittenForm form) {
  return Expansion(text, form).all();
}

std::optional<std::vector<int64_t>> read_pipeline_layout(std::string_view text) {
  const auto layout = written_out(text, WrittenForm::letters);
  if (!layout || layout->empty()) return std::nullopt;
  return mapped<int64_t>(split(*layout, '|'),
                         [](const std::string& stage) { return std::ranges::count(stage, 't'); });
}

std::string write_pipeline_layout(const std::vector<int64_t>& layers) {
  std::string text = "E";
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    if (stage > 0) text += '|';
    if (layers[stage] > 0) text += layers[stage] == 1 ? "t" : fmt::format("t*{}", layers[stage]);
  }
  return text + "L";
}

}  // namespace triplepoint::formats
