// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/hf_keys.h"

#include <algorithm>
#include <utility>

#include "triplepoint/base/text.h"

namespace triplepoint::formats {

using spec::TomlValue;

/// The family of a model_type in a list of data/readers/hf.toml, or null.
const TomlValue* family_in(const TomlValue& file, std::string_view list, std::string_view type) {
  const TomlValue* families = file.find(list);
  if (families == nullptr) return nullptr;
  for (const TomlValue& family : families->items) {
    const std::vector<std::string> types = words_at(family, "types");
    if (holds(types, type)) return &family;
  }
  return nullptr;
}

HfKeys::HfKeys(const KeyTable& table, Settings settings, std::string model_type)
    : s(std::move(settings)),
      type(std::move(model_type)),
      family_(family_in(table.file(), "family", type)) {}

std::optional<int64_t> HfKeys::count(Names names, int64_t least) {
  return s.count(s.first(names), least, largest_dimension);
}

int64_t HfKeys::positive(Names names, int64_t otherwise) {
  const auto value = count(names, 1);
  return value ? *value : usual(s.first(names), otherwise);
}

std::vector<std::string> HfKeys::list(std::string_view key) {
  return s.list(key).value_or(std::vector<std::string>());
}

void HfKeys::refuse(std::string_view key, const std::string& what) {
  s.note(spec::DiagnosisCode::unsupported, Settings::Severity::error, key, what);
}

std::optional<int64_t> HfKeys::width_at(std::string_view key) {
  const auto words = s.list(key);
  if (!words) return std::nullopt;
  if (!s.is_list(key)) return s.count(key, 0, largest_dimension);
  if (words->size() < 2) return one_of_list(key);
  if (std::adjacent_find(words->begin(), words->end(), std::not_equal_to<>()) == words->end())
    return one_of_list(key);
  refuse(key, fmt::format("{} differs from layer to layer (layers of unequal widths are not "
                          "modelled); give a model whose layers are alike",
                          key));
  return std::nullopt;
}

std::optional<int64_t> HfKeys::one_of_list(std::string_view key) {
  const auto value = whole_number(s.list(key)->empty() ? "" : s.list(key)->front());
  if (!value) refuse(key, fmt::format("{} is no whole number; correct the value", key));
  return value;
}

std::string HfKeys::family_text(std::string_view key) const {
  return family_ != nullptr ? text_at(*family_, key) : std::string();
}

bool HfKeys::family_truth(std::string_view key, bool usual) const {
  const TomlValue* value = family_ != nullptr ? family_->find(key) : nullptr;
  return value != nullptr ? value->truth : usual;
}

std::optional<int64_t> HfKeys::family_number(std::string_view key) const {
  const TomlValue* value = family_ != nullptr ? family_->find(key) : nullptr;
  return value != nullptr ? std::optional(value->integer) : std::nullopt;
}

int64_t HfKeys::usual(std::string_view key, int64_t value) {
  usual_.push_back(fmt::format("{} {}", key, value));
  return value;
}

bool HfKeys::usual_truth(std::string_view key, bool value) {
  usual_.push_back(fmt::format("{} {}", key, value));
  return value;
}

void HfKeys::tell_usual() {
  if (usual_.empty()) return;
  s.assume(fmt::format("not in the file, taken as is usual{}: {}",
                       family_ != nullptr ? fmt::format(" for {}", type) : "",
                       fmt::join(usual_, ", ")));
}

}  // namespace triplepoint::formats
