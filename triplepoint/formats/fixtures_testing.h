// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/formats/import.h"

namespace triplepoint::formats {

inline const std::string testdata = TPT_SOURCE_DIR "/triplepoint/formats/testdata/";

inline std::string fixture(const std::string& name) {
  return read_file(testdata + name).value();
}

/// The text with one of its lines put in other words; it must be there.
inline std::string with(std::string text, std::string_view line, std::string_view instead) {
  const std::size_t place = text.find(line);
  REQUIRE(place != std::string::npos);
  return text.replace(place, line.size(), instead);
}

inline bool finds(const Imported& imported, spec::DiagnosisCode code,
                  spec::Diagnosis::Severity severity, std::string_view sentence) {
  std::string others;
  for (const spec::Diagnosis& each : imported.diagnoses) {
    if (each.code == code && each.severity == severity && each.what == sentence) return true;
    if (each.code == code) others += "\n  " + each.what;
  }
  MESSAGE("found instead:", others);
  return false;
}

inline bool assumes(const Imported& imported, std::string_view what) {
  return std::ranges::any_of(imported.assumed,
                             [&](const std::string& each) { return each == what; });
}

}  // namespace triplepoint::formats
