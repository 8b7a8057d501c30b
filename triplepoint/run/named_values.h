// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace triplepoint::run {

/// The one copy of a name, which lasts as long as the program.
std::string_view shared_name(std::string_view);

/// A few numbers by name, in the order of the names: a std::map in 24 bytes a number, since every
/// device of a cluster has the same names.
class NamedValues {
 public:
  using key_type = std::string_view;
  using mapped_type = double;
  using value_type = std::pair<std::string_view, double>;

  NamedValues() = default;
  NamedValues(std::initializer_list<value_type> values) {
    values_.reserve(values.size());
    for (const auto& [name, value] : values)
      (*this)[name] = value;
  }

  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

  double& operator[](std::string_view name) {
    const auto place = std::ranges::lower_bound(values_, name, {}, &value_type::first);
    if (place != values_.end() && place->first == name) return place->second;
    return values_.insert(place, {shared_name(name), 0})->second;
  }
  auto find(std::string_view name) const {
    return std::ranges::find(values_, name, &value_type::first);
  }
  bool contains(std::string_view name) const { return find(name) != end(); }
  double at(std::string_view name) const;  // which is there

  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }
  void erase(std::string_view name) {
    std::erase_if(values_, [&](const value_type& each) { return each.first == name; });
  }
  friend bool operator==(const NamedValues&, const NamedValues&) = default;

 private:
  std::vector<value_type> values_;
};

}  // namespace triplepoint::run
