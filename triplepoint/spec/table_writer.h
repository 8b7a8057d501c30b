// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/fields.h"

namespace triplepoint::spec {

struct Library;

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

template <Arithmetic T>
std::string value_text(T value) {
  return fmt::format("{}", value);
}
inline std::string value_text(const std::string& value) {
  return toml_text(value);
}
inline std::string value_text(Celsius value) {
  return toml_text(to_text(value));
}
template <Dim D>
std::string value_text(Quantity<D> value) {
  return toml_text(to_text(value));
}
template <NamedEnum E>
std::string value_text(E value) {
  return toml_text(enum_name(value));
}

/// `key = "name"` where the library holds exactly this under its name, and nothing where it does
/// not.
std::optional<std::string> by_name(const Library&, std::string_view, const auto&) {
  return std::nullopt;
}
std::optional<std::string> by_name(const Library&, std::string_view key, const Model&);
std::optional<std::string> by_name(const Library&, std::string_view key, const Cluster&);
std::optional<std::string> by_name(const Library&, std::string_view key, const Stack&);
std::optional<std::string> by_name(const Library&, std::string_view key, const OptimizerState&);
std::optional<std::string> by_name(const Library&, std::string_view key, const Records&);

/// Writes fields as "key = value" lines, and structs as tables behind them (TOML wants that order).
/// With a library, things it holds are named.
class TableWriter {
 public:
  explicit TableWriter(const Library* library = nullptr, std::string path = "")
      : library_(library), path_(std::move(path)) {}

  void operator()(std::string_view key, auto& value, Need = Need::optional) { write(key, value); }

  /// "[path]" with its lines, then the tables below it.
  std::string text() const;

 private:
  void write(std::string_view key, const auto& value) {
    if constexpr (requires { value_text(value); })
      lines_ += fmt::format("{} = {}\n", key, value_text(value));
    else
      write_table(key, value);
  }

  template <class T>
  void write(std::string_view key, const std::optional<T>& value) {
    if (value) write(key, *value);
  }

  template <class T>
  void write(std::string_view key, const std::vector<T>& values) {
    std::string list = joined(mapped(values, [](const T& value) { return item(value); }), "");
    if (list.ends_with(", ")) list.resize(list.size() - 2);
    lines_ += fmt::format("{} = [{}]\n", key, list);
  }

  void write(std::string_view key, const std::array<double, op_class_count>& values);

  void write_table(std::string_view key, auto value) {
    const std::optional<std::string> named =
        library_ == nullptr ? std::nullopt : by_name(*library_, key, value);
    if (named) {
      lines_ += *named;
      return;
    }
    TableWriter inner(library_,
                      path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
    visit_fields(inner, value);
    tables_ += inner.text();
  }

  static std::string item(auto value) {
    if constexpr (requires { value_text(value); }) {
      return value_text(value) + ", ";
    } else {
      TableWriter inner;
      visit_fields(inner, value);
      return fmt::format("\n  {{ {} }},", inner.on_one_line());
    }
  }

  std::string on_one_line() const;

  const Library* library_ = nullptr;
  std::string path_, lines_, tables_;
};

}  // namespace triplepoint::spec
