// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <simdjson.h>

namespace triplepoint::trace {

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
    if (const std::string_view quoted = text(); !quoted.empty()) {
      const auto [stop, fault] =
          std::from_chars(quoted.data(), quoted.data() + quoted.size(), value);
      if (fault == std::errc() && stop == quoted.data() + quoted.size()) return value;
    }
    const std::optional<double> number = real();
    if (!number || !(*number > -9e18 && *number < 9e18)) return std::nullopt;
    return static_cast<int64_t>(*number);
  }
  int64_t integer_or(int64_t otherwise) const { return integer().value_or(otherwise); }

  std::optional<double> real() const {
    double value = 0;
    if (!element_) return std::nullopt;
    if (element_->get(value) == simdjson::SUCCESS) return value;
    const std::string_view quoted = text();
    const auto [stop, fault] = std::from_chars(quoted.data(), quoted.data() + quoted.size(), value);
    if (quoted.empty() || fault != std::errc() || stop != quoted.data() + quoted.size())
      return std::nullopt;
    return value;
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

  template <class Visit>
  void for_each(Visit&& visit) const {
    simdjson::dom::array array;
    if (!element_ || element_->get(array) != simdjson::SUCCESS) return;
    for (const simdjson::dom::element element : array)
      visit(JsonView(element));
  }
  /// Key and value of an object's members.
  template <class Visit>
  void for_each_member(Visit&& visit) const {
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
  /// Nothing if the text is not valid JSON.
  std::optional<JsonView> parse(std::string_view text) {
    if (padded_.size() < text.size() + simdjson::SIMDJSON_PADDING)
      padded_.resize(2 * text.size() + simdjson::SIMDJSON_PADDING);
    std::memcpy(padded_.data(), text.data(), text.size());
    simdjson::dom::element root;
    const auto fault = parser_.parse(padded_.data(), text.size(), false).get(root);
    if (fault != simdjson::SUCCESS) return std::nullopt;
    return JsonView(root);
  }

 private:
  simdjson::dom::parser parser_;
  std::string padded_;
};

}  // namespace triplepoint::trace
