// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/priors.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/table_reader.h"

namespace triplepoint::learn {

double Distance::likeness(const Knobs& a, const Knobs& b) const {
  double sum = 0, product = 1;
  const auto apart = [&](double z) {
    sum += z;
    product *= 1 + z;
  };
  for (std::size_t k = 0; k < sizes.size(); ++k)
    apart(sizes[k] * std::abs(a.sizes[k] - b.sizes[k]));
  for (std::size_t k = 0; k < words.size(); ++k)
    if (a.words[k] != b.words[k]) apart(words[k]);
  return product * std::exp(-sum);
}

Result<void> check(const Priors& priors, const std::string& file) {
  const auto sound = [](double number) { return number >= 0 && std::isfinite(number); };
  const Remainder& rest = priors.remainder;
  const bool all_sound = std::ranges::all_of(priors.spread, sound) &&
                         std::ranges::all_of(priors.distance.sizes, sound) &&
                         std::ranges::all_of(priors.distance.words, sound) && sound(rest.common) &&
                         sound(rest.near) && sound(rest.kernels) && sound(rest.other_gpu) &&
                         rest.other_gpu <= 1 && sound(rest.other_model) && rest.other_model <= 1;
  const PowerPriors& power = priors.power;
  const RoomPriors& room = priors.room;
  if (all_sound &&
      std::min({room.inlet_k, room.slot_k, room.board, room.noise_k, room.power}) > 0 &&
      power.energy > 0 && power.idle > 0 && power.noise > 0 && rest.noise > 0 &&
      rest.noise_tails > 0 && rest.coefficient_tails > 0 && rest.surprise > 0)
    return {};
  return error(
      "{}: a spread or a distance is below zero, or noise or tails are not above it (they are "
      "standard deviations and degrees of freedom); try the file that came with this version",
      file);
}

Result<Priors> load_priors(const spec::Library& library) {
  const std::string path = library.root + "/learned/priors.toml";
  spec::TomlValue root = TPT_TRY(spec::parse_toml(TPT_TRY(read_file(path)), path));
  std::erase_if(root.entries, [](const spec::TomlEntry& entry) { return entry.key == "source"; });
  spec::ReadScope scope;
  scope.file = path;
  Priors priors;
  if (auto read = spec::read_table(scope, root, priors); !read) return tl::unexpected(read.error());
  if (auto checked = check(priors, path); !checked) return tl::unexpected(checked.error());
  return priors;
}

}  // namespace triplepoint::learn
