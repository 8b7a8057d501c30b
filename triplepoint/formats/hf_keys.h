// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/spec/model.h"
#include "triplepoint/spec/names.h"
#include "triplepoint/spec/toml_tree.h"

#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {

/// The keys of a config.json under all names that families of models give them, and what a family
/// has where the file leaves a key out.
class HfKeys {
 public:
  using Names = std::initializer_list<std::string_view>;

  HfKeys(const KeyTable& table, Settings settings, std::string type);

  Settings s;
  const std::string type;  // model_type

  std::optional<int64_t> count(Names names, int64_t least = 0);
  /// At least 1; where the file has none, the usual one, which is told.
  int64_t positive(Names names, int64_t usual);
  std::optional<bool> boolean(Names names) { return s.boolean(s.first(names)); }
  std::vector<std::string> list(std::string_view key);
  /// One width, or a list of equal ones.
  std::optional<int64_t> width(Names names) { return width_at(s.first(names)); }
  std::optional<int64_t> width_at(std::string_view key);
  void refuse(std::string_view key, const std::string& what);

  /// Of data/readers/hf.toml.
  bool knows_family() const { return family_ != nullptr; }
  std::string family_text(std::string_view key) const;
  bool family_truth(std::string_view key, bool usual) const;
  std::optional<int64_t> family_number(std::string_view key) const;
  template <class Enum>
  Enum family_word(std::string_view key, Enum usual) const {
    return spec::enum_from_name<Enum>(family_text(key)).value_or(usual);
  }

  /// What the file leaves out and changes work, memory or layout: told in one sentence at the end.
  int64_t usual(std::string_view key, int64_t value);
  bool usual_truth(std::string_view key, bool value);
  void tell_usual();

 private:
  std::optional<int64_t> one_of_list(std::string_view key);

  const spec::TomlValue* family_;
  std::vector<std::string> usual_;  // "head_dim 256"
};

/// The family of a model_type in a list of data/readers/hf.toml, or null.
const spec::TomlValue* family_in(const spec::TomlValue& file, std::string_view list,
                                 std::string_view type);

/// Which layers attend to what, and which have experts: windows, dense layers and patterns.
void read_hf_layers(HfKeys& keys, spec::Model& model);

}  // namespace triplepoint::formats
