// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/table_reader.h"

#include <cmath>
#include <iterator>
#include <limits>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {
namespace {

using Kind = TomlValue::Kind;

// Products of three counts still fit a double exactly enough to be compared with a world size.
constexpr int64_t largest_count = 1'000'000'000;

/// Where the numbers of clusters, GPUs, stacks and jobs lie, with a thousandfold to spare: a number
/// outside is a typing error, and the models are not defined there.
struct Range {
  Dim dim;
  double least, most;  // in base units, of numbers other than 0; see spec::diagnose for that
};
constexpr Range ranges[] = {
    {Dim{}, 1e-12, 1e15},
    {Seconds::dim, 1e-12, 1e9},
    {Hertz::dim, 1e3, 1e12},
    {Watts::dim, 1e-6, 1e12},
    {Bytes::dim, 1e-3, 1e18},
    {BytesPerSecond::dim, 1e3, 1e18},
    {FlopsPerSecond::dim, 1e6, 1e21},
    {Kelvins::dim, 1e-6, 1e4},
    {KelvinsPerWatt::dim, 1e-9, 1e6},
};
constexpr Range other_range = {{}, 1e-30, 1e30};
constexpr double coldest = -273.15, hottest = 1000;  // C

const Range& range_of(Dim dim) {
  const auto found = std::ranges::find(ranges, dim, &Range::dim);
  return found == std::end(ranges) ? other_range : *found;
}

bool is_in(const Range& range, double value) {
  const double size = std::abs(value);
  return size == 0 || (size >= range.least && size <= range.most);
}

tl::unexpected<Error> out_of_range(const ReadScope& scope, const TomlValue& value,
                                   std::string_view text, Dim dim) {
  const Range& range = range_of(dim);
  const auto written = [&](double size) {
    return dim == Dim{} ? fmt::format("{:g}", size) : rounded_text(size, dim, 3);
  };
  return error("{} is {} (a {} here is 0 or between {} and {}); write such a one",
               scope.place(value), text, dimension_name(dim), written(range.least),
               written(range.most));
}

Result<int64_t> read_count(const ReadScope& scope, const TomlValue& value, int64_t largest) {
  if (!value.is(Kind::integer))
    return wrong_kind(scope, value, "it counts something", "write a whole number, as in 8");
  if (value.integer < 0 || value.integer > largest)
    return error("{} is {} (counts go from 0 to {}); write a number between them",
                 scope.place(value), value.integer, largest);
  return value.integer;
}

/// The text of a quantity. A bare number is handed on as text: unit_text says what is missing.
Result<std::string> quantity_text(const ReadScope& scope, const TomlValue& value) {
  if (value.is(Kind::text)) return value.text;
  if (value.is(Kind::integer)) return std::to_string(value.integer);
  if (value.is(Kind::number)) return fmt::format("{}", value.number);
  return wrong_kind(scope, value, "it is a quantity",
                    "write a number and a unit in quotes, as in \"700 W\"");
}

tl::unexpected<Error> at_place(const ReadScope& scope, const TomlValue& value,
                               const Error& problem) {
  return error("{}: {}", scope.place(value), problem.what);
}

}  // namespace

Result<void> read_value(const ReadScope& scope, const TomlValue& value, int64_t& out) {
  out = TPT_TRY(read_count(scope, value, largest_count));
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, int& out) {
  out = static_cast<int>(TPT_TRY(read_count(scope, value, largest_count)));
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, uint64_t& out) {
  out =
      static_cast<uint64_t>(TPT_TRY(read_count(scope, value, std::numeric_limits<int64_t>::max())));
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, double& out) {
  if (!value.is(Kind::number) && !value.is(Kind::integer))
    return wrong_kind(scope, value, "it is a plain number, its unit is in its name",
                      "write a number, as in 0.85");
  out = value.is(Kind::integer) ? as_real(value.integer) : value.number;
  if (!std::isfinite(out) || out < 0)
    return error("{} is {} (it is finite and not negative); write such a number",
                 scope.place(value), out);
  if (!is_in(range_of({}), out)) return out_of_range(scope, value, fmt::format("{}", out), {});
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, bool& out) {
  if (!value.is(Kind::truth))
    return wrong_kind(scope, value, "it is switched on or off", "write true or false");
  out = value.truth;
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, std::string& out) {
  if (!value.is(Kind::text)) return wrong_kind(scope, value, "it is a text", "write it in quotes");
  out = value.text;
  return {};
}

Result<double> read_quantity(const ReadScope& scope, const TomlValue& value, Dim dim) {
  const std::string text = TPT_TRY(quantity_text(scope, value));
  const Result<double> parsed = parse_in_base_units(text, dim);
  if (!parsed) return at_place(scope, value, parsed.error());
  if (*parsed < 0 && dim != Dim{.heat = 1})
    return error("{} is \"{}\" (a {} is not negative); leave the sign out", scope.place(value),
                 text, dimension_name(dim));
  if (!is_in(range_of(dim), *parsed))
    return out_of_range(scope, value, fmt::format("\"{}\"", text), dim);
  return *parsed;
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, Celsius& out) {
  const std::string text = TPT_TRY(quantity_text(scope, value));
  const Result<Celsius> parsed = parse_celsius(text);
  if (!parsed) return at_place(scope, value, parsed.error());
  if (!(*parsed >= Celsius(coldest) && *parsed <= Celsius(hottest)))
    return error("{} is \"{}\" (temperatures here lie between {} and {} C); write such a one",
                 scope.place(value), text, coldest, hottest);
  out = *parsed;
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value,
                        std::array<double, op_class_count>& out) {
  if (!value.is(Kind::table))
    return wrong_kind(scope, value, "it has one number per class of operation",
                      fmt::format("write a table, [{}]", scope.key));
  TableReader reader(value, scope);
  for (std::size_t i = 0; i < out.size(); ++i)
    reader(enum_names<OpClass>[i], out[i]);
  return reader.finish();
}

Error unknown_word(const ReadScope& scope, const TomlValue& value,
                   const std::vector<std::string>& known) {
  return {fmt::format("{} is \"{}\" (an unknown word); {}", scope.place(value), value.text,
                      did_you_mean(value.text, known))};
}

void Problems::add(int line, const Error& problem) {
  for (const std::string& each : split(problem.what, '\n'))
    all_.emplace_back(line, each);
}

Result<void> Problems::result() const {
  if (none()) return {};
  constexpr std::size_t most = 20;
  std::vector<std::pair<int, std::string>> sorted = all_;
  std::ranges::stable_sort(sorted, {}, &std::pair<int, std::string>::first);
  std::vector<std::string> lines;
  for (const auto& [line, text] : sorted)
    if (lines.size() < most && !holds(lines, text)) lines.push_back(text);
  if (sorted.size() > most) lines.push_back(fmt::format("({} problems in all)", sorted.size()));
  return error("{}", fmt::join(lines, "\n"));
}

Error at_line(const ReadScope& scope, const TomlValue& value, const Error& problem) {
  std::vector<std::string> lines;
  for (const std::string& each : split(problem.what, '\n'))
    lines.push_back(fmt::format("{}:{}: {}", scope.file, value.line, each));
  return {fmt::format("{}", fmt::join(lines, "\n"))};
}

std::string TableReader::where() const {
  return scope_.key.empty() ? "the file" : fmt::format("[{}]", scope_.key);
}

Result<void> TableReader::finish() const {
  Problems problems = problems_;
  std::vector<std::string> missing = missing_;
  for (const TomlEntry& entry : table_.entries) {
    if (holds(known_, entry.key)) continue;
    problems.add(entry.value.line,
                 {fmt::format("{}:{}: unknown key '{}'{} (it would be ignored); {}", scope_.file,
                              entry.value.line, entry.key,
                              scope_.key.empty() ? "" : fmt::format(" in {}", where()),
                              did_you_mean(entry.key, known_))});
    // A misspelled key is not missing as well.
    if (const auto meant = closest_word(entry.key, known_)) std::erase(missing, *meant);
  }
  const bool one = missing.size() == 1;
  if (!missing.empty())
    problems.add(table_.line,
                 {fmt::format("{}:{}: {} has no '{}' ({} no default); add {}", scope_.file,
                              table_.line, where(), fmt::join(missing, "', '"),
                              one ? "it has" : "they have", one ? "it" : "them")});
  return problems.result();
}

void complete(Model& model) {
  if (model.num_query_groups == 0) model.num_query_groups = model.num_attention_heads;
  if (model.kv_channels == 0 && model.num_attention_heads > 0)
    model.kv_channels = model.hidden_size / model.num_attention_heads;
}

void complete(Cluster& cluster) {
  // Fewer GPUs a node than the base has slots: a part of each node is used.
  const int64_t devices = cluster.gpus_per_node;
  const auto slots = static_cast<int64_t>(cluster.chassis.slots.size());
  if (devices < 1 || devices >= slots) return;
  cluster.gpus_per_node = slots;
  use_devices(cluster, devices);
}

namespace {

TomlValue text_value(std::string_view text, int line) {
  TomlValue value;
  value.kind = Kind::text;
  value.line = line;
  value.text = text;
  return value;
}

TomlValue list_value(std::string_view inside, int line) {
  TomlValue list;
  list.kind = Kind::array;
  list.line = line;
  while (!trimmed(inside).empty()) {
    const std::size_t comma = std::min(inside.find(','), inside.size());
    std::string_view item = trimmed(inside.substr(0, comma));
    const bool quoted = item.size() >= 2 && item.front() == '"' && item.back() == '"';
    list.items.push_back(quoted ? text_value(item.substr(1, item.size() - 2), line)
                                : cell_value(item, line));
    inside.remove_prefix(std::min(comma + 1, inside.size()));
  }
  return list;
}

void set_here(TomlValue& table, std::string_view key, TomlValue value) {
  TomlValue* const known = table.find(key);
  if (known == nullptr)
    table.entries.push_back({std::string(key), std::move(value)});
  else if (known->is(Kind::table))
    set_here(*known, "base", std::move(value));
  else
    *known = std::move(value);
}

/// The table of this key; a name that stands there becomes its base.
TomlValue& table_at(TomlValue& parent, std::string_view key, int line) {
  TomlValue* known = parent.find(key);
  if (known == nullptr) known = &parent.entries.emplace_back(TomlEntry{std::string(key), {}}).value;
  if (!known->is(Kind::table)) {
    TomlValue table;
    table.entries.push_back({"base", std::move(*known)});
    *known = std::move(table);
  }
  known->line = line;
  return *known;
}

class KeyLister {
 public:
  KeyLister(std::string prefix, std::vector<std::string>& keys)
      : prefix_(std::move(prefix)), keys_(keys) {}

  void operator()(std::string_view key, auto& member, Need = Need::optional) {
    const std::string dotted = prefix_ + std::string(key);
    keys_.push_back(dotted);
    list_inside(dotted, member);
  }

 private:
  void list_inside(const std::string& dotted, auto& member) {
    KeyLister inner(dotted + ".", keys_);
    if constexpr (requires { visit_fields(inner, member); }) visit_fields(inner, member);
  }
  template <class T>
  void list_inside(const std::string& dotted, std::optional<T>&) {
    T inside{};
    list_inside(dotted, inside);
  }

  std::string prefix_;
  std::vector<std::string>& keys_;
};

}  // namespace

TomlValue cell_value(std::string_view cell, int line) {
  const std::string_view text = trimmed(cell);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']')
    return list_value(text.substr(1, text.size() - 2), line);
  TomlValue value = text_value(text, line);
  if (text == "true" || text == "false") {
    value.kind = Kind::truth;
    value.truth = text == "true";
  } else if (const auto integer = number_of_text<int64_t>(text)) {
    value.kind = Kind::integer;
    value.integer = *integer;
  } else if (const auto number = number_of_text<double>(text); number && std::isfinite(*number)) {
    value.kind = Kind::number;
    value.number = *number;
  }
  return value;
}

void set_dotted(TomlValue& root, std::string_view key, TomlValue value) {
  TomlValue* table = &root;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    table = &table_at(*table, key.substr(0, dot), value.line);
    key.remove_prefix(dot + 1);
  }
  set_here(*table, key, std::move(value));
}

std::vector<std::string> job_keys() {
  std::vector<std::string> keys;
  KeyLister lister("", keys);
  Job job;
  visit_fields(lister, job);
  return keys;
}

}  // namespace triplepoint::spec
