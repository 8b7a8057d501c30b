// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/formats/yaml_document.h"

namespace triplepoint::formats {

inline constexpr int64_t largest_dimension = 10'000'000;
inline constexpr int64_t most_ranks = 1'000'000;  // products of three sizes still fit 64 bits

/// One value of a launch file: "model.optim.name" in a NeMo YAML, "num-layers" on a command line.
struct Setting {
  std::string key;
  std::vector<std::string> words;  // one of a plain value; none of a flag or an empty list
  int line = 0;
  bool is_null = false;  // written as null, ~ or nothing: as good as absent
  bool is_list = false;
  bool is_off = false;  // a switch that a file of keys turns off: as good as absent, if it is known
  bool is_usual = false;  // what the program takes where the file has none
};

/// The settings of one file, and what was found to be wrong with them while they were read.
///
/// A reader asks for keys by name; a value which cannot be read is noted as a diagnosis with file
/// and line, and counts as absent. Keys that were not read can be listed afterwards.
class Settings {
 public:
  /// `prefix` stands before keys in messages: "--" for command lines.
  explicit Settings(std::string file, std::string prefix = {});

  using Keys = std::set<std::string, std::less<>>;
  /// Keys whose values flags replace (ImportHints): what is wrong with theirs is no error.
  void set_by_flags(Keys keys) { by_flags_ = std::move(keys); }
  bool is_by_flags(std::string_view key) const;
  /// Keys that the user says do not matter: as good as absent.
  void set_ignored(Keys keys) { ignored_ = std::move(keys); }
  bool is_ignored(std::string_view key) const;

  /// A key that is given again replaces what was there: command lines work so.
  void add(Setting setting);
  /// Flattens a document: table keys joined by dots, lists of plain words kept as one setting,
  /// lists of tables flattened as "key[]".
  void add_tree(const YamlNode& root);

  const std::string& file() const { return file_; }
  /// A key as messages name it: "--seq-length".
  std::string shown(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key);        // present and not null
  bool is_stated(std::string_view key);  // the same, and of the file itself
  /// Of several names of one thing, the one that the file uses; else the first. Two that differ are
  /// an error.
  std::string_view first(std::initializer_list<std::string_view> keys);
  int line(std::string_view key) const;  // 0 where absent
  std::optional<std::string> text(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<double> number(std::string_view key, double least = 0, double most = 1e12);
  /// A number from 0 to below 1.
  std::optional<double> fraction(std::string_view key);
  /// A whole number in [least, most].
  std::optional<int64_t> count(std::string_view key, int64_t least = 1,
                               int64_t most = 1'000'000'000);
  /// A dimension of the model, which has to be there. `instead`: what else helps where it is not.
  Result<int64_t> required(std::string_view key, std::string_view instead = {});
  std::optional<std::vector<std::string>> list(std::string_view key);
  bool is_list(std::string_view key) const;
  /// Present at all; on a command line, a flag.
  bool flag(std::string_view key);
  /// One of `words`, or noted as a diagnosis.
  std::optional<std::string> one_of(std::string_view key, std::span<const std::string_view> words);

  using Severity = spec::Diagnosis::Severity;
  void note(spec::DiagnosisCode code, Severity severity, std::string_view key,
            std::string_view what);
  /// What had to be assumed because the file does not say it.
  void assume(std::string what) { assumed_.push_back(std::move(what)); }

  std::vector<spec::Diagnosis>& diagnoses() { return diagnoses_; }
  std::vector<std::string>& assumed() { return assumed_; }
  const std::vector<Setting>& all() const { return settings_; }
  const std::set<std::string, std::less<>>& asked() const { return asked_; }
  /// "file.yaml:7: " of a key, or "file.yaml: " where the key is absent.
  std::string place(std::string_view key) const;

 private:
  const Setting* find(std::string_view key) const;
  const Setting* ask(std::string_view key);  // only present and not null
  /// The value with ${other.key} followed.
  std::optional<std::string> resolved(const Setting& setting, int depth);
  std::string called(const Setting& setting, const std::string& inside, int depth);
  void malformed(std::string_view key, std::string_view value, std::string_view expected);

  std::string file_, prefix_;
  std::vector<Setting> settings_;
  std::map<std::string, std::size_t, std::less<>> index_;  // key to its place in settings_
  std::set<std::string, std::less<>> asked_;
  Keys by_flags_, ignored_;
  std::vector<spec::Diagnosis> diagnoses_;
  std::vector<std::string> assumed_;
};

}  // namespace triplepoint::formats
