// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::spec {

struct Library;

/// Where the reader stands, and how strict it is.
struct ReadScope {
  const Library* library = nullptr;
  std::string file;
  std::string key;           // dotted: "cluster.scale_up"; empty at the root
  bool from_scratch = true;  // required keys must be there; false where a named base gave them
  int depth = 0;             // of bases that have bases

  ReadScope at(std::string_view name) const {
    ReadScope inner = *this;
    inner.key = key.empty() ? std::string(name) : fmt::format("{}.{}", key, name);
    return inner;
  }
  /// "job.toml:7: plan.tensor_parallel_size".
  std::string place(const TomlValue& value) const {
    return fmt::format("{}:{}: {}", file, value.line, key.empty() ? "the file" : key);
  }
};

/// Things that are written by name or in full: `model = "gpt3-175b"`, or `[model]` with all keys,
/// or `[model]` with `base = "gpt3-175b"` and only what differs.
template <class T>
struct NamedThing;  // static Result<T> load(const ReadScope&, std::string_view name)

template <>
struct NamedThing<Model> {
  static Result<Model> load(const ReadScope&, std::string_view name);
};
template <>
struct NamedThing<Gpu> {
  static Result<Gpu> load(const ReadScope&, std::string_view name);
};
template <>
struct NamedThing<Cluster> {
  static Result<Cluster> load(const ReadScope&, std::string_view name);
};
template <>
struct NamedThing<Stack> {
  static Result<Stack> load(const ReadScope&, std::string_view name);
};
template <>
struct NamedThing<OptimizerState> {
  static Result<OptimizerState> load(const ReadScope&, std::string_view name);
};
template <>
struct NamedThing<Records> {
  static Result<Records> load(const ReadScope&, std::string_view name);
};

template <class T>
concept HasName = requires(const ReadScope& scope) {
  NamedThing<T>::load(scope, "");
};

/// What is wrong with a file, by lines; the reader goes on behind a problem and reports all at
/// once.
class Problems {
 public:
  void add(int line, const Error& problem);
  bool none() const { return all_.empty(); }
  /// One line of text for each, in the order of the file; of many the first few and their number.
  Result<void> result() const;

 private:
  std::vector<std::pair<int, std::string>> all_;
};

inline tl::unexpected<Error> wrong_kind(const ReadScope& scope, const TomlValue& value,
                                        std::string_view why, std::string_view way_out) {
  return error("{} is {} ({}); {}", scope.place(value), describe(value.kind), why, way_out);
}

Result<void> read_value(const ReadScope&, const TomlValue&, int64_t&);
Result<void> read_value(const ReadScope&, const TomlValue&, int&);
Result<void> read_value(const ReadScope&, const TomlValue&, uint64_t&);
Result<void> read_value(const ReadScope&, const TomlValue&, double&);
Result<void> read_value(const ReadScope&, const TomlValue&, bool&);
Result<void> read_value(const ReadScope&, const TomlValue&, std::string&);
Result<void> read_value(const ReadScope&, const TomlValue&, Celsius&);
Result<void> read_value(const ReadScope&, const TomlValue&, std::array<double, op_class_count>&);

/// A quantity text of this dimension; only temperature differences may be negative.
Result<double> read_quantity(const ReadScope&, const TomlValue&, Dim);

template <Dim D>
Result<void> read_value(const ReadScope& scope, const TomlValue& value, Quantity<D>& out) {
  out = Quantity<D>(TPT_TRY(read_quantity(scope, value, D)));
  return {};
}

Error unknown_word(const ReadScope&, const TomlValue&, const std::vector<std::string>& known);

template <NamedEnum E>
Result<void> read_value(const ReadScope& scope, const TomlValue& value, E& out) {
  const std::vector<std::string> known(enum_names<E>.begin(), enum_names<E>.end());
  if (!value.is(TomlValue::Kind::text))
    return wrong_kind(scope, value, "it is one of a few words",
                      fmt::format("known are {}", fmt::join(known, ", ")));
  const std::optional<E> found = enum_from_name<E>(value.text);
  if (!found) return tl::unexpected(unknown_word(scope, value, known));
  out = *found;
  return {};
}

template <class T>
Result<void> read_value(const ReadScope& scope, const TomlValue& value, std::optional<T>& out);
template <class T>
Result<void> read_value(const ReadScope& scope, const TomlValue& value, std::vector<T>& out);

/// Walks a list of fields and takes what the table holds; finish() says all that was wrong.
class TableReader {
 public:
  TableReader(const TomlValue& table, ReadScope scope) : table_(table), scope_(std::move(scope)) {}

  void operator()(std::string_view key, auto& out, Need need = Need::optional) {
    known_.emplace_back(key);
    const TomlValue* value = table_.find(key);
    if (value == nullptr) {
      if (need == Need::required && scope_.from_scratch) missing_.emplace_back(key);
      return;
    }
    if (Result<void> read = read_value(scope_.at(key), *value, out); !read)
      problems_.add(value->line, read.error());
  }

  /// Keys that another reader reads.
  void allow(std::string_view key) { known_.emplace_back(key); }

  Result<void> finish() const;

 private:
  std::string where() const;

  const TomlValue& table_;
  ReadScope scope_;
  std::vector<std::string> known_, missing_;
  Problems problems_;
};

/// Keys that follow from others where they are not written.
inline void complete(auto&) {}
void complete(Model&);
void complete(Cluster&);

template <class T>
Result<void> read_table(const ReadScope& scope, const TomlValue& value, T& out) {
  if (!value.is(TomlValue::Kind::table))
    return wrong_kind(scope, value, "it has its own keys",
                      fmt::format("write a table, [{}]", scope.key));
  TableReader reader(value, scope);
  if constexpr (HasName<T>) reader.allow("base");
  visit_fields(reader, out);
  if (Result<void> finished = reader.finish(); !finished) return finished;
  complete(out);
  return {};
}

/// A problem of what a line names, in front of each of its lines this line's place.
Error at_line(const ReadScope&, const TomlValue&, const Error&);

template <class T>
Result<T> load_base(const ReadScope& scope, const TomlValue& value, const TomlValue& name) {
  if (!name.is(TomlValue::Kind::text))
    return wrong_kind(scope, name, "it is chosen by name", "write the name in quotes");
  ReadScope inner = scope;
  ++inner.depth;
  if (inner.depth > 8)
    return error(
        "{}: \"{}\" has too many bases (an entry cannot be its own base); "
        "leave `base` out of one of them",
        scope.place(value), name.text);
  Result<T> loaded = NamedThing<T>::load(inner, name.text);
  if (!loaded) return tl::unexpected(at_line(scope, name, loaded.error()));
  return loaded;
}

template <class T>
requires(std::is_class_v<T> && !NamedEnum<T>) Result<void> read_value(const ReadScope& scope,
                                                                      const TomlValue& value,
                                                                      T& out) {
  if constexpr (HasName<T>) {
    if (!value.is(TomlValue::Kind::table)) {
      out = TPT_TRY(load_base<T>(scope, value, value));
      return {};
    }
    if (const TomlValue* base = value.find("base")) {
      out = TPT_TRY(load_base<T>(scope, value, *base));
      ReadScope inner = scope;
      inner.from_scratch = false;
      return read_table(inner, value, out);
    }
  }
  return read_table(scope, value, out);
}

template <class T>
Result<void> read_value(const ReadScope& scope, const TomlValue& value, std::optional<T>& out) {
  ReadScope inner = scope;
  if (!out) inner.from_scratch = true;  // nothing to build upon, whatever the outer base was
  T read = out.value_or(T{});
  if (Result<void> result = read_value(inner, value, read); !result) return result;
  out = std::move(read);
  return {};
}

template <class T>
Result<void> read_value(const ReadScope& scope, const TomlValue& value, std::vector<T>& out) {
  if (!value.is(TomlValue::Kind::array))
    return wrong_kind(scope, value, "it is a list", "write it in square brackets");
  std::vector<T> read(value.items.size());
  Problems problems;
  for (std::size_t i = 0; i < read.size(); ++i)
    if (Result<void> result = read_value(scope, value.items[i], read[i]); !result)
      problems.add(value.items[i].line, result.error());
  out = std::move(read);
  return problems.result();
}

/// A cell of a table as a TOML value: true or false, a whole number, a decimal, a list in square
/// brackets; everything else is a text. Texts in lists may stand in quotes.
TomlValue cell_value(std::string_view cell, int line);

/// Sets "plan.tensor_parallel_size" in a tree whose root is a table. Where a key holds a name and
/// has its own keys as well (cluster = "dgx-h100", cluster.num_nodes = 4), in either order, the
/// name becomes the base of its table.
void set_dotted(TomlValue& root, std::string_view key, TomlValue value);

/// Every dotted key that a job file may have: "task", "model", "model.moe.num_experts", ...
std::vector<std::string> job_keys();

}  // namespace triplepoint::spec
