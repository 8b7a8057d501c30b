// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::calibrate {

/// A file of data/calibrations that describes benchmarks. What is missing in it is an error that
/// names the file and the line.
class CalibrationFile {
 public:
  static Result<CalibrationFile> read(const spec::Library&, const std::string& name);

  const spec::TomlValue& root() const { return root_; }
  Result<const spec::TomlValue*> find(const spec::TomlValue& table, const char* key) const;
  Result<std::string> text(const spec::TomlValue& table, const char* key) const;
  Result<double> number(const spec::TomlValue& table, const char* key) const;
  Result<Seconds> time(const spec::TomlValue& table, const char* key) const;

 private:
  CalibrationFile(std::string path, spec::TomlValue root)
      : path_(std::move(path)), root_(std::move(root)) {}
  std::string path_;
  spec::TomlValue root_;
};

}  // namespace triplepoint::calibrate
