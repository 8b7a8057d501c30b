// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/recompute_modules.h"

#include <fmt/format.h>

#include "triplepoint/base/suggest.h"

#include "triplepoint/spec/names.h"

namespace triplepoint::formats {

std::vector<spec::RecomputeModule> read_recompute_modules(Settings& s, std::string_view key) {
  const auto& names = spec::EnumNames<spec::RecomputeModule>::names;
  const std::vector<std::string> known(names.begin(), names.end());
  std::vector<spec::RecomputeModule> modules;
  for (const std::string& word : s.list(key).value_or(std::vector<std::string>())) {
    if (const auto module = spec::enum_from_name<spec::RecomputeModule>(word))
      modules.push_back(*module);
    else
      s.note(spec::DiagnosisCode::unsupported, Settings::Severity::error, key,
             fmt::format("{} has '{}' (no part of a layer that we know how to play again); {}", key,
                         word.substr(0, 60), did_you_mean(word, known)));
  }
  return modules;
}

std::vector<std::string> recompute_module_names(const spec::Plan& plan) {
  std::vector<std::string> names;
  for (const spec::RecomputeModule module : plan.recompute_modules)
    names.emplace_back(spec::enum_name(module));
  return names;
}

}  // namespace triplepoint::formats
