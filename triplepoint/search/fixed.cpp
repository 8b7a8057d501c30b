// SPDX-License-Identifier: Apache-2.0
// "tp=8,mbs=1|2,recompute=full" as what may not vary.
#include <algorithm>
#include <set>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/search/space.h"

namespace triplepoint::search {
namespace {

Result<void> add(std::string_view key, std::string_view word, std::vector<int64_t>& values) {
  values.push_back(parse_count(word).value_or(0));
  if (values.back() >= 1) return {};
  return error("--fix {}: \"{}\" is no size (it counts something); try {}=8", key, word, key);
}
Result<void> add(std::string_view key, std::string_view word,
                 std::vector<std::optional<int64_t>>& values) {
  if (word == "all") {
    values.emplace_back();
    return {};
  }
  std::vector<int64_t> counts;
  TPT_TRY(add(key, word, counts));
  values.emplace_back(counts.front());
  return {};
}

Result<void> add(std::string_view key, std::string_view word, std::vector<bool>& values) {
  if (word != "on" && word != "off")
    return error("--fix {}: \"{}\" is neither yes nor no; try {}=on or {}=off", key, word, key,
                 key);
  values.push_back(word == "on");
  return {};
}

template <spec::NamedEnum E>
Result<void> add(std::string_view key, std::string_view word, std::vector<E>& values) {
  const auto value = spec::enum_from_name<E>(word);
  const std::vector<std::string> known(spec::enum_names<E>.begin(), spec::enum_names<E>.end());
  if (!value)
    return error("--fix {}: \"{}\" is not known; {}", key, word, did_you_mean(word, known));
  values.push_back(*value);
  return {};
}

Result<void> add(std::string_view key, std::string_view word, std::vector<ModuleSet>& sets) {
  ModuleSet set;
  for (const std::string& module : split(word, '+'))
    TPT_TRY(add(key, module, set));
  if (std::set(set.begin(), set.end()).size() < set.size())
    return error("--fix {}: \"{}\" names a module twice; name it once", key, word);
  sets.push_back(std::move(set));
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
                        key<&Fixed::recompute_modules>("recompute-modules"),
                        key<&Fixed::sharding_group>("sharding-group"),
                        key<&Fixed::rank_order>("rank-order"),
                        key<&Fixed::schedule>("schedule"),
                        key<&Fixed::sequence_parallel>("sp"),
                        key<&Fixed::overlap_tensor>("overlap-tp"),
                        key<&Fixed::overlap_data>("overlap-dp"),
                        key<&Fixed::overlap_pipeline>("overlap-pp"),
                        key<&Fixed::overlap_expert>("overlap-ep"),
                        key<&Fixed::uneven>("uneven"),
                        key<&Fixed::power_cap>("power-cap")};

}  // namespace

Result<Fixed> parse_fixed(std::string_view text) {
  Fixed fixed;
  if (text.empty()) return fixed;
  const std::vector<std::string> known = mapped<std::string>(keys, &Key::name);
  std::set<std::string> named;
  for (const auto& [name, value] : assignments(text)) {
    const Key* found = std::ranges::find(keys, name, &Key::name);
    if (found == std::end(keys))
      return error("--fix: \"{}\" is no choice of a plan; {}", name, did_you_mean(name, known));
    if (!value)
      return error("--fix {}: no value (nothing would be fixed); write {}=VALUE", name, name);
    if (!named.insert(name).second)
      return error("--fix {0}: given twice (one would be lost); write {0}=A|B for either", name);
    for (const std::string& word : split(*value, '|'))
      TPT_TRY(found->add(fixed, name, word));
  }
  return fixed;
}

}  // namespace triplepoint::search
