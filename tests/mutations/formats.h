// SPDX-License-Identifier: Apache-2.0
// A training as the files of other tools have it, record by record, so that any value can be
// broken.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace triplepoint::mutations {

/// One value of a record; absent, or text as it stands in the file.
struct Field {
  std::string key;
  std::optional<std::string> text;
  bool is_number = true;
};

/// An event, a row or a line; `kind` says which, where a format has several.
struct Record {
  std::string kind;
  std::vector<Field> fields;

  Field* find(const std::string& key);
  /// The text; "" where it is absent.
  std::string at(const std::string& key) const;
};

/// A format: the records of a small training, and the file that they make.
struct Format {
  const char* name;
  const char* file;  // its name
  std::function<std::vector<Record>()> records;
  std::function<std::string(const std::vector<Record>&)> write;
  bool is_telemetry = false;
};

std::vector<Format> all_formats();

/// GPUs of one node as nvidia-smi prints them each second; of one of them, `change` replaces values
/// by title.
std::vector<Record> smi_records(int64_t gpus, int64_t rows, int64_t changed,
                                const std::vector<std::pair<std::string, std::string>>& change);
std::string smi_text(const std::vector<Record>&);

}  // namespace triplepoint::mutations
