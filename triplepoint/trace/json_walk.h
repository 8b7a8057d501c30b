// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"

namespace triplepoint::trace {

/// Walks through a JSON document of any size with one value in memory at a time.
///
///   JsonWalk walk(input, {"", ".nodes"});   // look into the document and into its "nodes"
///   JsonItem item;
///   while (TPT_TRY(walk.next(item)))
///     if (item.path == ".nodes[]") ...      // one node after the other
///
/// The path of a member is that of its object, a point and its key; that of an element is that of
/// its array and "[]". A path that ends with * stands for all members of an object. Values that are
/// looked into are no items themselves. A file that ends too early gives what it has; a value that
/// is not JSON is stepped over and counted.
struct JsonItem {
  std::string path;
  std::string_view text;  // valid until the next call
};
class JsonWalk {
 public:
  JsonWalk(Input& input, std::initializer_list<std::string_view> into)
      : input_(input), into_(into.begin(), into.end()) {}

  /// False at the end. An error if the document is no JSON at all or the input cannot be read.
  Result<bool> next(JsonItem&);
  bool is_truncated() const { return truncated_; }
  int64_t broken() const { return broken_; }

 private:
  struct Level {
    bool is_array = false;
    std::string path;
  };
  enum class Step { item, again, end };
  Result<Step> step(JsonItem&);
  Result<Step> name_item(char c, JsonItem&);
  Result<Step> take_value(JsonItem&);
  Step pass_broken();
  Step stop_short();
  /// The first byte that is no space, not skipped; 0 at the end.
  Result<char> first_visible(bool pass_commas);
  /// The value's text ahead; nothing if the input ends before it does.
  Result<std::optional<std::string_view>> value();
  Result<bool> read_key(std::string& key);
  bool looks_into(std::string_view path) const;

  Input& input_;
  std::vector<std::string> into_;
  std::vector<Level> levels_;
  size_t pending_ = 0;  // of the item given last
  bool began_ = false, truncated_ = false;
  int64_t broken_ = 0;
};

/// Where the value ends that begins at the front of `text` (which is no space): its length. 0: it
/// does not end in this text; npos: it is no value.
size_t json_value_length(std::string_view text);

/// A JSON value, asked for what it may or may not have: absent members and wrong types are absent.
/// Only .cpp files include this. Lives until the next parse of its JsonRecord.
class JsonView {
 public:
  JsonView() = default;
  explicit JsonView(simdjson::dom::element element) : element_(element) {}

  explicit operator bool() const { return element_.has_value(); }

  JsonView at(std::string_view key) const {
    simdjson::dom::element member;
    return element_ && (*element_)[key].get(member) == simdjson::SUCCESS ? JsonView(member)
                                                                         : JsonView();
  }
  JsonView at(size_t index) const {
    simdjson::dom::array array;
    simdjson::dom::element member;
    if (!element_ || element_->get(array) != simdjson::SUCCESS) return {};
    return array.at(index).get(member) == simdjson::SUCCESS ? JsonView(member) : JsonView();
  }
  bool is_object() const { return element_ && element_->is_object(); }
  bool is_array() const { return element_ && element_->is_array(); }

  /// Whole numbers, whole floats, and both in quotes.
  std::optional<int64_t> integer() const {
    int64_t value = 0;
    uint64_t bits = 0;
    if (!element_) return std::nullopt;
    if (element_->get(value) == simdjson::SUCCESS) return value;
    if (element_->get(bits) == simdjson::SUCCESS) return static_cast<int64_t>(bits);
    if (const auto quoted = number_of_text<int64_t>(text())) return quoted;
    const std::optional<double> number = real();
    if (!number || !(*number > -9e18 && *number < 9e18)) return std::nullopt;
    return static_cast<int64_t>(*number);
  }
  int64_t integer_or(int64_t otherwise) const { return integer().value_or(otherwise); }

  std::optional<double> real() const {
    double value = 0;
    if (!element_) return std::nullopt;
    if (element_->get(value) == simdjson::SUCCESS) return value;
    return number_of_text<double>(text());
  }
  double real_or(double otherwise) const { return real().value_or(otherwise); }

  bool is_true() const {
    bool value = false;
    return element_ && element_->get(value) == simdjson::SUCCESS && value;
  }
  /// "" if it is no text.
  std::string_view text() const {
    std::string_view value;
    if (element_ && element_->get(value) == simdjson::SUCCESS) return value;
    return {};
  }

  void for_each(auto&& visit) const {
    simdjson::dom::array array;
    if (!element_ || element_->get(array) != simdjson::SUCCESS) return;
    for (const simdjson::dom::element element : array)
      visit(JsonView(element));
  }
  /// Key and value of an object's members.
  void for_each_member(auto&& visit) const {
    simdjson::dom::object object;
    if (!element_ || element_->get(object) != simdjson::SUCCESS) return;
    for (const auto& [key, value] : object)
      visit(key, JsonView(value));
  }

 private:
  std::optional<simdjson::dom::element> element_;
};

/// Parses one value after the other, in the same memory.
class JsonRecord {
 public:
  /// Nothing if the text is not valid JSON. Python's NaN and Infinity are empty texts.
  std::optional<JsonView> parse(std::string_view text) {
    if (padded_.size() < text.size() + simdjson::SIMDJSON_PADDING)
      padded_.resize(2 * text.size() + simdjson::SIMDJSON_PADDING);
    std::memcpy(padded_.data(), text.data(), text.size());
    simdjson::dom::element root;
    auto fault = parser_.parse(padded_.data(), text.size(), false).get(root);
    if (fault != simdjson::SUCCESS && empty_numbers({padded_.data(), text.size()}))
      fault = parser_.parse(padded_.data(), text.size(), false).get(root);
    if (fault != simdjson::SUCCESS) return std::nullopt;
    return JsonView(root);
  }

 private:
  /// Whether there were numbers outside of strings that JSON lacks; each is "" now.
  static bool empty_numbers(std::span<char> text) {
    bool quoted = false, any = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\' && quoted)
        ++i;
      else if (text[i] == '"')
        quoted = !quoted;
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN", "nan", "N/A"}) {
        if (quoted || !std::string_view(text.data() + i, text.size() - i).starts_with(word))
          continue;
        std::fill_n(text.data() + i, word.size(), ' ');
        text[i] = text[i + 1] = '"';
        i += word.size() - 1;
        any = true;
        break;
      }
    }
    return any;
  }

  simdjson::dom::parser parser_;
  std::string padded_;
};

}  // namespace triplepoint::trace
