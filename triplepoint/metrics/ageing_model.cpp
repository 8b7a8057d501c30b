// SPDX-License-Identifier: Apache-2.0
// The constants of the wear models, from data/ageing.toml.
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/toml_tree.h"

#include "triplepoint/metrics/ageing.h"

namespace triplepoint::metrics {
namespace {

using spec::TomlValue;

class Reader {
 public:
  Reader(const TomlValue& table, std::string file) : table_(table), file_(std::move(file)) {}

  Result<void> number(const char* key, double& value) const {
    const TomlValue* found = table_.find(key);
    if (found != nullptr && found->is(TomlValue::Kind::integer))
      value = static_cast<double>(found->integer);
    else if (found != nullptr && found->is(TomlValue::Kind::number))
      value = found->number;
    else
      return problem(key, "is no number");
    return {};
  }
  template <class T>
  Result<void> quantity(const char* key, T& value) const {
    const TomlValue* found = table_.find(key);
    if (found == nullptr) return problem(key, "is missing");
    value = TPT_TRY(parse_quantity<T>(found->text));
    return {};
  }

 private:
  Result<void> problem(const char* key, const char* what) const {
    return error(fmt::format("{}: ageing.{} {} (wear cannot be told without it); write it", file_,
                             key, what));
  }
  const TomlValue& table_;
  std::string file_;
};

}  // namespace

Result<AgeingModel> load_ageing_model(const spec::Library& library) {
  const std::string path = library.root + "/ageing.toml";
  const std::string text = TPT_TRY(read_file(path));
  const TomlValue root = TPT_TRY(spec::parse_toml(text, path));
  const TomlValue* table = root.find("ageing");
  if (table == nullptr)
    return error(
        fmt::format("{}: no [ageing] (it holds the constants of wear); restore the file", path));
  const Reader read(*table, path);
  AgeingModel model;
  TPT_TRY(read.quantity("reference_die", model.reference_die));
  TPT_TRY(read.quantity("reference_cycle", model.reference_cycle));
  TPT_TRY(read.quantity("cycling_elastic", model.cycling_elastic));
  const std::pair<const char*, double*> numbers[] = {
      {"reference_power_share", &model.reference_power_share},
      {"reference_cycles_per_day", &model.reference_cycles_per_day},
      {"electromigration_exponent", &model.electromigration_exponent},
      {"electromigration_energy_ev", &model.electromigration_energy_ev},
      {"oxide_exponent", &model.oxide_exponent},
      {"oxide_exponent_per_kelvin", &model.oxide_exponent_per_kelvin},
      {"oxide_energy_ev", &model.oxide_energy_ev},
      {"oxide_energy_ev_kelvin", &model.oxide_energy_ev_kelvin},
      {"oxide_energy_ev_per_kelvin", &model.oxide_energy_ev_per_kelvin},
      {"cycling_exponent", &model.cycling_exponent}};
  for (const auto& [key, value] : numbers)
    TPT_TRY(read.number(key, *value));
  return model;
}

}  // namespace triplepoint::metrics
