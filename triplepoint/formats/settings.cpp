// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/text.h"

namespace triplepoint::formats {
namespace {

constexpr int deepest_reference = 8;

std::optional<double> read_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto value = number_of_text<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

/// Whole numbers, also written as 1.0, 1e6 or 1_000.
std::optional<int64_t> read_count(std::string text) {
  std::erase(text, '_');
  const auto value = read_number(text);
  constexpr double exact = 9007199254740992.0;  // doubles hold every whole number up to here
  if (!value || std::trunc(*value) != *value || std::abs(*value) > exact) return std::nullopt;
  return static_cast<int64_t>(*value);
}

/// YAML 1.1, which NeMo's loader reads, knows more than true and false.
std::optional<bool> read_boolean(std::string_view text) {
  constexpr std::array yes{"true", "True", "TRUE", "yes", "Yes", "on", "On", "1"};
  constexpr std::array no{"false", "False", "FALSE", "no", "No", "off", "Off", "0"};
  if (holds(yes, text)) return true;
  if (holds(no, text)) return false;
  return std::nullopt;
}

bool is_plain_null(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::null) return true;
  return node.kind == YamlNode::Kind::scalar && !node.quoted &&
         (node.scalar == "null" || node.scalar == "~" || node.scalar == "None");
}

void flatten(const YamlNode& node, const std::string& key, Settings& into) {
  if (node.kind == YamlNode::Kind::table) {
    if (node.entries.empty() && !key.empty()) into.add({key, {}, node.line, false, true});
    for (const auto& [name, value] : node.entries)
      flatten(value, key.empty() ? name : fmt::format("{}.{}", key, name), into);
    return;
  }
  Setting setting{key, {}, node.line, is_plain_null(node), node.kind == YamlNode::Kind::list};
  if (node.kind == YamlNode::Kind::scalar) setting.words.push_back(node.scalar);
  for (const YamlNode& item : node.items) {
    if (item.kind == YamlNode::Kind::scalar) setting.words.push_back(item.scalar);
    if (item.kind == YamlNode::Kind::table) flatten(item, key + "[]", into);
  }
  into.add(std::move(setting));
}

/// "model.data.seq_length" seen from "model.data.x" for ".seq_length"; other references are whole.
std::string absolute_reference(std::string_view reference, std::string_view from) {
  if (!reference.starts_with('.')) return std::string(reference);
  std::string_view parent = from.substr(0, from.rfind('.') == from.npos ? 0 : from.rfind('.'));
  reference.remove_prefix(1);
  while (reference.starts_with('.')) {
    reference.remove_prefix(1);
    parent = parent.substr(0, parent.rfind('.') == parent.npos ? 0 : parent.rfind('.'));
  }
  return parent.empty() ? std::string(reference) : fmt::format("{}.{}", parent, reference);
}

/// "4, ${.hidden_size}": parts between commas that stand in no brackets.
std::vector<std::string> arguments_of(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  for (std::string& part : parts)
    part = trimmed(part, " '\"");
  return parts;
}

/// NeMo's functions of whole numbers; nothing for others.
std::optional<int64_t> applied(std::string_view function, const std::vector<int64_t>& numbers) {
  if (numbers.size() != 2) return std::nullopt;
  const auto [a, b] = std::pair(numbers[0], numbers[1]);
  if (function == "multiply") return a * b;
  if (function == "add") return a + b;
  if (b <= 0 || a < 0) return std::nullopt;
  if (function == "divide_floor") return a / b;
  if (function == "divide_ceil") return (a + b - 1) / b;
  return std::nullopt;
}

}  // namespace

Settings::Settings(std::string file, std::string prefix)
    : file_(std::move(file)), prefix_(std::move(prefix)) {}

void Settings::add(Setting setting) {
  const auto [place, is_new] = index_.emplace(setting.key, settings_.size());
  if (is_new)
    settings_.push_back(std::move(setting));
  else
    settings_[place->second] = std::move(setting);
}

void Settings::add_tree(const YamlNode& root) {
  if (root.kind == YamlNode::Kind::table) flatten(root, {}, *this);
  if (root.next_document > 0)
    note(spec::DiagnosisCode::unsupported, Severity::error, {},
         fmt::format("another YAML document begins in line {} (a job is one); leave one of them in "
                     "a copy",
                     root.next_document));
}

const Setting* Settings::find(std::string_view key) const {
  const auto place = index_.find(key);
  return place == index_.end() ? nullptr : &settings_[place->second];
}

const Setting* Settings::ask(std::string_view key) {
  asked_.emplace(key);
  const Setting* setting = find(key);
  const bool there = setting != nullptr && !setting->is_null && !setting->is_off;
  return there && !is_ignored(key) ? setting : nullptr;
}

bool Settings::has(std::string_view key) {
  return ask(key) != nullptr;
}

bool Settings::is_stated(std::string_view key) {
  const Setting* setting = ask(key);
  return setting != nullptr && !setting->is_usual;
}

bool Settings::flag(std::string_view key) {
  const Setting* setting = ask(key);
  if (setting == nullptr) return false;
  if (!setting->words.empty())
    malformed(key, fmt::format("{}", fmt::join(setting->words, " ")), "a switch without a value");
  return true;
}

int Settings::line(std::string_view key) const {
  const Setting* setting = find(key);
  return setting == nullptr ? 0 : setting->line;
}

std::string Settings::place(std::string_view key) const {
  const int at = line(key);
  return at == 0 ? fmt::format("{}: ", file_) : fmt::format("{}:{}: ", file_, at);
}

bool Settings::is_by_flags(std::string_view key) const {
  std::string name(key);
  std::ranges::replace(name, '_', '-');
  return by_flags_.contains(name) || by_flags_.contains(name.substr(name.rfind('.') + 1));
}

bool Settings::is_ignored(std::string_view key) const {
  const std::string_view last = key.substr(key.rfind('.') + 1);
  const auto names = [&](const std::string& given) {
    const std::string_view name = trimmed(given, "-");
    return name == key || name == last || key.starts_with(std::string(name) + ".");
  };
  return std::ranges::any_of(ignored_, names);
}

std::string_view Settings::first(std::initializer_list<std::string_view> keys) {
  const Setting* taken = nullptr;
  for (const std::string_view key : keys) {
    const Setting* found = ask(key);
    if (taken == nullptr) taken = found;
    if (found == nullptr || found->words == taken->words || is_ignored(key)) continue;
    note(spec::DiagnosisCode::inconsistent, Severity::error, key,
         fmt::format("{} is {}, but {} is {} (both name one thing); --ignore one of them",
                     shown(taken->key), taken->words.empty() ? "" : taken->words.front(),
                     shown(key), found->words.empty() ? "" : found->words.front()));
  }
  return taken != nullptr ? std::string_view(taken->key) : *keys.begin();
}

void Settings::note(spec::DiagnosisCode code, Severity severity, std::string_view key,
                    std::string_view what) {
  std::string sentence = place(key).append(what);
  if (severity == Severity::error && is_by_flags(key))
    return assume(sentence + "; the command line's value holds");
  diagnoses_.push_back({code, severity, std::move(sentence)});
}

void Settings::malformed(std::string_view key, std::string_view value, std::string_view expected) {
  if (value.starts_with("${"))
    return note(spec::DiagnosisCode::unsupported, Severity::error, key,
                fmt::format("{} is {}, which this file does not set; write its value in its place, "
                            "or give it by a flag",
                            shown(key), value.substr(0, 60)));
  if (value.empty())
    return note(
        spec::DiagnosisCode::inconsistent, Severity::error, key,
        fmt::format("{} has no value (it must be {}); write it down{}", shown(key), expected,
                    prefix_ == "--" ? ", or give what the script needs by -- ARGS or --env "
                                      "NAME=VALUE"
                                    : ""));
  note(spec::DiagnosisCode::inconsistent, Severity::error, key,
       fmt::format("{} is '{}' (it must be {}); correct the value", shown(key), value.substr(0, 60),
                   expected));
}

std::optional<std::string> Settings::resolved(const Setting& setting, int depth) {
  if (setting.words.size() != 1) return std::nullopt;
  const std::string& word = setting.words.front();
  if (word.starts_with("\\${")) return word.substr(1);  // escaped: no reference
  if (!word.starts_with("${") || !word.ends_with("}") || depth >= deepest_reference) return word;
  const std::string inside = word.substr(2, word.size() - 3);
  std::string target = absolute_reference(inside, setting.key);
  // NeMo's launcher puts a file under the name of its stage: training.model.x is model.x of it.
  if (find(target) == nullptr && target.find(".model.") < target.size())
    target.erase(0, target.find(".model.") + 1);
  if (const Setting* other = find(target)) {
    asked_.insert(target);
    return other->is_null ? std::nullopt : resolved(*other, depth + 1);
  }
  return called(setting, inside, depth);
}

/// ${function:a,b}, and ${NAME:4096} or ${oc.env:NAME,4096}: a variable of the environment, and
/// what holds without it.
std::string Settings::called(const Setting& setting, const std::string& inside, int depth) {
  const std::string& word = setting.words.front();
  const std::size_t colon = inside.find(':');
  if (colon == inside.npos || colon == 0) return word;
  const std::string name = inside.substr(0, colon), rest = inside.substr(colon + 1);
  const std::vector<std::string> parts = arguments_of(rest);
  const bool variable = inside.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == colon;
  if (variable || (name == "oc.env" && parts.size() == 2)) {
    std::string told = fmt::format("{} {}: as in an empty environment", shown(setting.key), word);
    if (!holds(assumed_, told)) assume(told);
    return variable ? rest : parts.back();
  }
  std::vector<int64_t> numbers;
  constexpr int64_t largest = 1'000'000'000;
  for (const std::string& part : parts) {
    const auto value = resolved({setting.key, {part}, setting.line}, depth + 1);
    const auto number = value ? read_count(*value) : std::nullopt;
    if (!number || *number < 0 || *number > largest) return word;
    numbers.push_back(*number);
  }
  const auto result = applied(name, numbers);
  return result ? std::to_string(*result) : word;
}

std::optional<std::string> Settings::text(std::string_view key) {
  const Setting* setting = ask(key);
  if (setting == nullptr) return std::nullopt;
  if (setting->is_list || setting->words.size() != 1) {
    malformed(key, fmt::format("{}", fmt::join(setting->words, " ")), "one value");
    return std::nullopt;
  }
  return resolved(*setting, 0);
}

std::optional<bool> Settings::boolean(std::string_view key) {
  const auto word = text(key);
  if (!word) return std::nullopt;
  const auto value = read_boolean(*word);
  if (!value) malformed(key, *word, "true or false");
  return value;
}

std::optional<double> Settings::number(std::string_view key, double least, double most) {
  const auto word = text(key);
  if (!word) return std::nullopt;
  const auto value = read_number(*word);
  if (value && *value >= least && *value <= most) return value;
  malformed(key, *word, fmt::format("a number from {} to {}", least, most));
  return std::nullopt;
}

std::optional<double> Settings::fraction(std::string_view key) {
  const auto value = number(key, 0, 1);
  if (value != 1) return value;
  malformed(key, "1", "a number from 0 to below 1");
  return std::nullopt;
}

std::optional<int64_t> Settings::count(std::string_view key, int64_t least, int64_t most) {
  const auto word = text(key);
  if (!word) return std::nullopt;
  const auto value = read_count(*word);
  if (value && *value >= least && *value <= most) return value;
  malformed(key, *word, fmt::format("a whole number from {} to {}", least, most));
  return std::nullopt;
}

Result<int64_t> Settings::required(std::string_view key, std::string_view instead) {
  if (const auto value = count(key, 1, largest_dimension)) return *value;
  if (is_by_flags(key)) return 1;  // until the flag's value takes its place
  if (!diagnoses_.empty() && line(key) > 0) return error(diagnoses_.back().what);
  return error("{}{} is missing (the model's size depends on it); add it{}", place(key), shown(key),
               instead);
}

std::optional<std::vector<std::string>> Settings::list(std::string_view key) {
  const Setting* setting = ask(key);
  if (setting == nullptr) return std::nullopt;
  return setting->words;
}

bool Settings::is_list(std::string_view key) const {
  const Setting* setting = find(key);
  return setting != nullptr && setting->is_list;
}

std::optional<std::string> Settings::one_of(std::string_view key,
                                            std::span<const std::string_view> words) {
  auto word = text(key);
  if (!word || holds(words, *word)) return word;
  const std::vector<std::string> known(words.begin(), words.end());
  note(spec::DiagnosisCode::unsupported, Severity::error, key,
       fmt::format("{} '{}' is not modelled (it would change work or memory); {}", shown(key),
                   word->substr(0, 60), did_you_mean(*word, known)));
  return std::nullopt;
}

}  // namespace triplepoint::formats
