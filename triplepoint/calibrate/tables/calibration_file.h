// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"

namespace triplepoint::calibrate {

/// A table of a file of data/calibrations that describes benchmarks, or a list of tables. T has
/// visit_fields, as the things of a library have.
template <class T>
Result<T> read_calibration(const spec::Library& library, const std::string& name,
                           const std::string& key) {
  const std::string path = library.root + "/calibrations/" + name;
  const spec::TomlValue root = TPT_TRY(spec::parse_toml(TPT_TRY(read_file(path)), path));
  const spec::TomlValue* table = root.find(key);
  if (table == nullptr)
    return error(
        "{}: '{}' is missing (it describes a benchmark); try the file that came with this version",
        path, key);
  spec::ReadScope scope{.library = &library, .file = path, .key = key};
  T read;
  if (const Result<void> done = spec::read_value(scope, *table, read); !done)
    return tl::unexpected(done.error());
  return read;
}

}  // namespace triplepoint::calibrate
