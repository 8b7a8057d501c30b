// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/calibration_file.h"

#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint::calibrate {

using spec::TomlValue;

Result<CalibrationFile> CalibrationFile::read(const spec::Library& library,
                                              const std::string& name) {
  std::string path = library.root + "/calibrations/" + name;
  const std::string text = TPT_TRY(read_file(path));
  TomlValue root = TPT_TRY(spec::parse_toml(text, path));
  return CalibrationFile(std::move(path), std::move(root));
}

Result<const TomlValue*> CalibrationFile::find(const TomlValue& table, const char* key) const {
  const TomlValue* found = table.find(key);
  if (found == nullptr)
    return error(
        fmt::format("{}:{}: '{}' is missing (it describes a benchmark); try the file that "
                    "came with this version",
                    path_, table.line, key));
  return found;
}

Result<std::string> CalibrationFile::text(const TomlValue& table, const char* key) const {
  return TPT_TRY(find(table, key))->text;
}

Result<double> CalibrationFile::number(const TomlValue& table, const char* key) const {
  const TomlValue* found = TPT_TRY(find(table, key));
  return found->is(TomlValue::Kind::integer) ? static_cast<double>(found->integer) : found->number;
}

Result<Seconds> CalibrationFile::time(const TomlValue& table, const char* key) const {
  return parse_quantity<Seconds>(TPT_TRY(find(table, key))->text);
}

}  // namespace triplepoint::calibrate
