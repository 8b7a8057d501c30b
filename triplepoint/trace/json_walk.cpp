// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/json_walk.h"

namespace triplepoint::trace {

namespace {

constexpr size_t longest_value = size_t{64} << 20U;
constexpr int deepest = 512;

/// Behind the closing quote of a string that begins at `at`; npos if there is none.
size_t after_string(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    at = text.find_first_of("\"\\", at);
    if (at == std::string_view::npos) return at;
    if (text[at] == '"') return at + 1;
    ++at;  // what is escaped
  }
  return std::string_view::npos;
}

/// Of what json_value_length() is asked for: a number or word.
size_t bare_length(std::string_view text) {
  const size_t end = text.find_first_of(",]}: \n\r\t\"[{");
  if (end == 0) return std::string_view::npos;
  return end == std::string_view::npos ? 0 : end;
}

/// The same of an object or array.
size_t nested_length(std::string_view text) {
  int depth = 0;
  for (size_t at = 0;;) {
    at = text.find_first_of("\"{}[]", at);
    if (at == std::string_view::npos) return 0;
    if (text[at] == '"') {
      at = after_string(text, at);
      if (at == std::string_view::npos) return 0;
      continue;
    }
    const bool opens = text[at] == '{' || text[at] == '[';
    depth += opens ? 1 : -1;
    ++at;
    if (depth == 0) return at;
    if (depth > deepest) return std::string_view::npos;
  }
}

}  // namespace

size_t json_value_length(std::string_view text) {
  if (text.empty()) return 0;
  if (text[0] == '{' || text[0] == '[') return nested_length(text);
  if (text[0] != '"') return bare_length(text);
  const size_t end = after_string(text, 0);
  return end == std::string_view::npos ? 0 : end;
}

bool JsonWalk::looks_into(std::string_view path) const {
  return std::ranges::any_of(into_, [&](std::string_view wanted) {
    if (!wanted.ends_with('*')) return path == wanted;
    wanted.remove_suffix(1);
    return path.starts_with(wanted) &&
           path.find_first_of(".[", wanted.size()) == std::string_view::npos;
  });
}

Result<char> JsonWalk::first_visible(bool pass_commas) {
  for (;;) {
    const std::string_view ahead = input_.ahead();
    const size_t at = ahead.find_first_not_of(pass_commas ? " \n\r\t," : " \n\r\t");
    if (at != std::string_view::npos) {
      input_.skip(at);
      return ahead[at];
    }
    input_.skip(ahead.size());
    if (!TPT_TRY(input_.fill())) return '\0';
  }
}

Result<std::optional<std::string_view>> JsonWalk::value() {
  for (;;) {
    const std::string_view ahead = input_.ahead();
    const size_t length = json_value_length(ahead);
    if (length == std::string_view::npos) return std::string_view();
    if (length > 0) return ahead.substr(0, length);
    if (ahead.size() > longest_value)
      return error(
          "{}: one value is longer than {} MiB (no profiler writes such); "
          "check the file around byte {}",
          input_.name(), longest_value >> 20U, input_.position());
    if (!TPT_TRY(input_.fill())) return std::nullopt;
  }
}

Result<bool> JsonWalk::read_key(std::string& key) {
  const auto text = TPT_TRY(value());
  if (!text) return false;
  key.clear();
  if (text->size() >= 2 && text->front() == '"') key = text->substr(1, text->size() - 2);
  input_.skip(text->size());
  const char next = TPT_TRY(first_visible(false));
  if (next != ':') return next != '\0';  // a value without a key is an item without a name
  input_.skip(1);
  return TPT_TRY(first_visible(false)) != '\0';
}

JsonWalk::Step JsonWalk::stop_short() {
  truncated_ = true;
  return Step::end;
}

/// Steps over a byte that begins no value.
JsonWalk::Step JsonWalk::pass_broken() {
  ++broken_;
  input_.skip(std::min<size_t>(1, input_.ahead().size()));
  return Step::again;
}

/// The path of what comes next, where `c` is its first byte.
Result<JsonWalk::Step> JsonWalk::name_item(char c, JsonItem& item) {
  item.path = began_ ? levels_.back().path : "";
  if (!began_) return Step::item;
  if (levels_.back().is_array) {
    item.path += "[]";
    return Step::item;
  }
  if (c != '"') return pass_broken();
  std::string key;
  if (!TPT_TRY(read_key(key))) return stop_short();
  item.path += "." + key;
  return Step::item;
}

/// The value of what comes next, or a step into it.
Result<JsonWalk::Step> JsonWalk::take_value(JsonItem& item) {
  const char first = input_.ahead()[0];
  if ((first == '{' || first == '[') && looks_into(item.path)) {
    levels_.push_back({.is_array = first == '[', .path = item.path});
    input_.skip(1);
    return Step::again;
  }
  const auto text = TPT_TRY(value());
  if (!text) return stop_short();
  if (text->empty()) return pass_broken();
  item.text = *text;
  pending_ = text->size();
  return Step::item;
}

Result<JsonWalk::Step> JsonWalk::step(JsonItem& item) {
  const char c = TPT_TRY(first_visible(began_));
  if (!began_ && c != '{' && c != '[')
    return error("{}: no JSON (it begins with neither {{ nor [); check the file", input_.name());
  if (began_ && levels_.empty()) return Step::end;  // text behind the document
  if (c == '\0') return stop_short();
  if (c == '}' || c == ']') {
    input_.skip(1);
    levels_.pop_back();
    return Step::again;
  }
  const Step named = TPT_TRY(name_item(c, item));
  if (named != Step::item) return named;
  began_ = true;
  return take_value(item);
}

Result<bool> JsonWalk::next(JsonItem& item) {
  input_.skip(pending_);
  pending_ = 0;
  Step step = Step::again;
  while (step == Step::again)
    step = TPT_TRY(this->step(item));
  return step == Step::item;
}

}  // namespace triplepoint::trace
