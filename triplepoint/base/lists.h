// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace triplepoint {

/// What `Of` makes of an element of a `List`, as a value.
template <class List, class Of>
using MadeOf =
    std::remove_cvref_t<std::invoke_result_t<Of&, decltype(*std::begin(std::declval<List&>()))>>;

/// What `of` makes of each element, in their order; as `T` where that is another type.
template <class T = void, class List, class Of>
auto mapped(List&& list, Of&& of) {
  std::vector<std::conditional_t<std::is_void_v<T>, MadeOf<List, Of>, T>> all;
  if constexpr (requires { std::size(list); }) all.reserve(std::size(list));
  for (auto&& each : list)
    all.emplace_back(std::invoke(of, each));
  return all;
}

/// What `of` makes of 0, 1, ... `count` - 1.
template <class T = void, class Count, class Of>
auto numbered(Count count, Of&& of) {
  using Made = std::remove_cvref_t<std::invoke_result_t<Of&, Count>>;
  std::vector<std::conditional_t<std::is_void_v<T>, Made, T>> all;
  all.reserve(static_cast<std::size_t>(count));
  for (Count i = 0; i < count; ++i)
    all.emplace_back(std::invoke(of, i));
  return all;
}

/// The elements that are as asked, in their order.
template <class List, class Is>
auto filtered(List&& list, Is&& is) {
  std::vector<MadeOf<List, std::identity>> all;
  for (auto&& each : list)
    if (std::invoke(is, each)) all.push_back(each);
  return all;
}

/// Whether one of the elements, or what `of` makes of it, is `value`.
template <class List, class Value, class Of = std::identity>
bool holds(const List& list, const Value& value, Of of = {}) {
  return std::ranges::find(list, value, of) != std::ranges::end(list);
}

/// The first element that is `value`, or of which `of` makes it; null where there is none.
template <class List, class Of = std::identity>
auto* find_in(List& list, const auto& value, Of of = {}) {
  const auto found = std::ranges::find(list, value, of);
  return found == std::ranges::end(list) ? nullptr : std::addressof(*found);
}

/// The first element that is as asked; null where there is none.
template <class List>
auto* find_where(List& list, const auto& is) {
  const auto found = std::ranges::find_if(list, is);
  return found == std::ranges::end(list) ? nullptr : std::addressof(*found);
}

/// What a map has under a key.
template <class Map>
std::optional<typename Map::mapped_type> value_at(const Map& map, const auto& key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  return found->second;
}

/// What a map has under a key, made by `make` where it has nothing yet.
template <class Map>
auto& get_or_make(Map& map, const typename Map::key_type& key, const auto& make) {
  const auto found = map.find(key);
  return found == map.end() ? map.emplace(key, make()).first->second : found->second;
}

/// From the first element on; of none, zero.
template <class List, class Of = std::identity>
auto sum_of(List&& list, Of&& of = {}) {
  MadeOf<List, Of> sum{};
  for (auto&& each : list)
    sum += std::invoke(of, each);
  return sum;
}

/// The largest, and zero at least.
template <class List, class Of = std::identity>
auto most_of(List&& list, Of&& of = {}) {
  MadeOf<List, Of> most{};
  for (auto&& each : list)
    most = std::max(most, MadeOf<List, Of>(std::invoke(of, each)));
  return most;
}

}  // namespace triplepoint
