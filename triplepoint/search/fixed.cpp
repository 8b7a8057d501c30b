// SPDX-License-Identifier: Apache-2.0
// "tp=8,mbs=1|2,recompute=full" as what may not vary.
#include <charconv>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/suggest.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/search/space.h"

namespace triplepoint::search {
namespace {

std::vector<std::string_view> split_at(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<void> add(std::string_view key, std::string_view word, std::vector<int64_t>& values) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc() || end != word.data() + word.size() || value < 1)
    return error(
        fmt::format("--fix {}: \"{}\" is no size (it counts something); try {}=8", key, word, key));
  values.push_back(value);
  return {};
}

Result<void> add(std::string_view key, std::string_view word, std::vector<bool>& values) {
  if (word != "on" && word != "off")
    return error(fmt::format("--fix {}: \"{}\" is neither yes nor no; try {}=on or {}=off", key,
                             word, key, key));
  values.push_back(word == "on");
  return {};
}

template <spec::NamedEnum E>
Result<void> add(std::string_view key, std::string_view word, std::vector<E>& values) {
  const auto value = spec::enum_from_name<E>(word);
  const std::vector<std::string> known(spec::EnumNames<E>::names.begin(),
                                       spec::EnumNames<E>::names.end());
  if (!value)
    return error(
        fmt::format("--fix {}: \"{}\" is not known; {}", key, word, did_you_mean(word, known)));
  values.push_back(*value);
  return {};
}

struct Key {
  std::string_view name;
  Result<void> (*add)(Fixed&, std::string_view key, std::string_view word);
};

template <auto Member>
constexpr Key key(std::string_view name) {
  return {name, [](Fixed& fixed, std::string_view name_of_key, std::string_view word) {
            return add(name_of_key, word, fixed.*Member);
          }};
}

constexpr Key keys[] = {key<&Fixed::tensor>("tp"),
                        key<&Fixed::pipeline>("pp"),
                        key<&Fixed::chunks>("vpp"),
                        key<&Fixed::expert>("ep"),
                        key<&Fixed::expert_tensor>("etp"),
                        key<&Fixed::context>("cp"),
                        key<&Fixed::data>("dp"),
                        key<&Fixed::micro>("mbs"),
                        key<&Fixed::sharding>("sharding"),
                        key<&Fixed::recompute>("recompute"),
                        key<&Fixed::recompute_layers>("recompute-layers"),
                        key<&Fixed::schedule>("schedule"),
                        key<&Fixed::sequence_parallel>("sp"),
                        key<&Fixed::overlap_tensor>("overlap-tp"),
                        key<&Fixed::overlap_data>("overlap-dp"),
                        key<&Fixed::overlap_pipeline>("overlap-pp"),
                        key<&Fixed::uneven>("uneven")};

}  // namespace

Result<Fixed> parse_fixed(std::string_view text) {
  Fixed fixed;
  if (text.empty()) return fixed;
  for (const std::string_view part : split_at(text, ',')) {
    const size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    std::vector<std::string> known;
    const Key* found = nullptr;
    for (const Key& candidate : keys) {
      known.emplace_back(candidate.name);
      if (candidate.name == name) found = &candidate;
    }
    if (found == nullptr)
      return error(
          fmt::format("--fix: \"{}\" is no choice of a plan; {}", name, did_you_mean(name, known)));
    if (equals == std::string_view::npos)
      return error(
          fmt::format("--fix {}: no value (nothing would be fixed); write {}=VALUE", name, name));
    for (const std::string_view word : split_at(part.substr(equals + 1), '|')) {
      const Result<void> added = found->add(fixed, name, word);
      if (!added) return tl::unexpected(added.error());
    }
  }
  return fixed;
}

}  // namespace triplepoint::search
