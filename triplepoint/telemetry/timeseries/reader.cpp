// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/timeseries/reader.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/timeseries/collector.h"
#include "triplepoint/telemetry/timeseries/columns.h"
#include "triplepoint/telemetry/timeseries/text_table.h"
#include "triplepoint/telemetry/timeseries/windows.h"
#include "triplepoint/trace/input.h"

namespace triplepoint::telemetry {
namespace {

using Is = Column::Is;

enum class Form : uint8_t { none, table, bare_power, windows, emissions, json };

constexpr std::size_t sniffed = 64 * 1024, most_bytes = std::size_t{4} << 30U;

/// Unpacked, at least `most` bytes if there are. Of a packed file that is cut, what there is.
Result<std::string> text_of(const Path& path, std::size_t most, std::string* fault = nullptr) {
  trace::Input file = TPT_TRY(trace::Input::open(path));
  Result<bool> more = true;
  while (more.value_or(false) && file.ahead().size() < most)
    more = file.fill();
  if (!more && file.ahead().empty()) return tl::unexpected(more.error());
  if (!more && fault != nullptr) *fault = more.error().what;
  return plain_text(std::string(file.ahead()));
}

std::vector<Column> columns_of(const TableHead& head) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < head.titles.size(); ++i)
    columns.push_back(column_of(head.titles[i], i < head.units.size() ? head.units[i] : ""));
  // amd-smi calls the memory's temperature "mem", beside that of the hot spot, or, where that has a
  // column, how busy the memory is.
  const auto has_signal = [&](std::string_view signal) {
    return holds(columns, signal, &Column::signal);
  };
  if (has_signal("junction_c"))
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].is == Is::unknown && lower_case(head.titles[i]) == "mem")
        columns[i] = column_of("mem", has_signal("memory_c") ? "%" : "C");
  // "instance" may be an exporter, and is the node only where nothing else is.
  const auto is_instance = [&](std::size_t i) {
    return contains(lower_case(head.titles[i]), "instance");
  };
  bool has_node = false;
  for (std::size_t i = 0; i < columns.size(); ++i)
    has_node |= columns[i].is == Is::host && !is_instance(i);
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].is == Is::host && has_node && is_instance(i)) columns[i] = {};
  return columns;
}

bool tells_of_gpus(const Column& column) {
  return (column.is == Is::reading && column.signal != "throttled_share") ||
         column.is == Is::reason;
}

bool has(const std::vector<Column>& columns, Is is) {
  return holds(columns, is, &Column::is);
}

/// Zeus' PowerMonitor without a header: a Unix time and watts.
bool is_bare_power(const TableHead& head) {
  if (head.titles.size() < 2) return false;
  const auto moment = moment_in(head.titles[0]);
  const bool is_time = moment && !moment->is_relative && !moment->has_no_zone;
  return is_time && std::ranges::all_of(head.titles.begin() + 1, head.titles.end(), [](auto& cell) {
           return cell.empty() || number_in(cell, {.is = Is::reading, .signal = "power_w"});
         });
}

/// Text of an exporter: comments of its metrics, or metric{label="value"} 1.
bool is_scrape(std::string_view text) {
  std::string_view line;
  for (int i = 0; i < 20 && next_line(text, line); ++i)
    if (const std::size_t at = line.find('{');
        line.starts_with("# HELP ") || line.starts_with("# TYPE ") ||
        (at != line.npos && at > 0 && line.find_first_of(" ,;\"'") > at && contains(line, "=\"")))
      return true;
  return false;
}

/// Of a first line: numbers, with units or not, and times, at least one that tells it is a reading.
bool is_row(const TableHead& head, const std::vector<std::string>& cells) {
  bool any = false;
  for (const std::string_view cell : cells) {
    const auto moment = moment_in(cell);
    const bool has_unit = std::ranges::any_of(
        std::array{"power_w", "die_c", "sm_clock_mhz", "utilization"}, [&](const char* signal) {
          const bool is_bare = cell.find_first_not_of("0123456789.") == cell.npos;
          return !is_bare && number_in(cell, {.is = Is::reading, .signal = signal});
        });
    any |= has_unit || (moment && !moment->is_relative);
    if (!cell.empty() && !moment && !has_unit && !cell.starts_with("[N/A")) return false;
  }
  return any && head.titles.size() > 1;
}

/// Why a text of form none is no recording, where it looks like one.
std::optional<std::string> fault_of(std::string_view text) {
  const std::string_view start = trimmed(text.substr(0, 4096));
  constexpr std::string_view query =
      "ask for nvidia-smi --query-gpu=timestamp,index,temperature.gpu,power.draw,clocks.sm "
      "--format=csv -l 1";
  constexpr std::string_view range = "give the answer of its /api/v1/query_range";
  if (start.starts_with('{') && contains(start, "\"errorType\""))
    return fmt::format("an error that Prometheus answered, no readings: {}; mend the query",
                       start.substr(0, 120));
  if (start.starts_with("{\"metric\"") && contains(text, "\"timestamps\""))
    return fmt::format("an export of VictoriaMetrics; {}", range);
  if (is_scrape(start))
    return fmt::format(
        "one scrape of an exporter (one moment, and no course); {} from the server "
        "that scrapes it, or use triplepoint record",
        range);
  if (contains(start, "NVIDIA-SMI") || contains(start, "<nvidia_smi_log"))
    return fmt::format("the screen or XML of nvidia-smi (one moment, and no course); {}", query);
  const TableHead head = head_of(text);
  if (is_row(head, head.titles))
    return fmt::format(
        "rows of readings without a line of titles, so what they are is not known; "
        "write one, or {}",
        query);
  std::string_view rows = head.rows, line;
  std::vector<std::string_view> cells;
  next_line(rows, line);
  split_cells(line, head.form, cells);
  if (cells.size() != head.titles.size() || !is_row(head, {cells.begin(), cells.end()}))
    return std::nullopt;
  return fmt::format(
      "a table of readings whose titles name no known quantity ({}, ...); title the "
      "columns by quantity and unit, as timestamp, gpu0 power [W], gpu0 temp [C]",
      fmt::join(std::span(head.titles).first(std::min<std::size_t>(3, head.titles.size())), ", "));
}

Form form_of(std::string_view text) {
  const std::string_view start = trimmed(text.substr(0, 4096));
  if (start.starts_with('{') || start.starts_with('[')) {
    const std::string_view head = text.substr(0, sniffed);
    if (contains(head, "traceEvents")) return Form::none;
    for (const char* const word :
         {"\"resultType\"", "\"card0\"", "\"card1\"", "system.gpu.", "system/gpu.",
          "\"gfx_activity\"", "\"socket_power\"", "\"power_usage\"", "\"hotspot_temperature\"",
          "\"hotspot\"", "\"temperature.gpu\"", "\"power.draw\""})
      if (contains(head, word)) return Form::json;
    return Form::none;
  }
  if (is_scrape(start)) return Form::none;
  const TableHead head = head_of(text);
  if (head.line.starts_with("start_time,window_name,elapsed_time")) return Form::windows;
  const auto has_title = [&](const char* title) { return holds(head.titles, title); };
  if (has_title("emissions") && has_title("duration")) return Form::emissions;
  if (is_bare_power(head)) return Form::bare_power;
  const std::vector<Column> columns = columns_of(head);
  const bool placed = has(columns, Is::time) || has(columns, Is::gpu) || has(columns, Is::date) ||
                      std::ranges::any_of(columns, [](auto& c) { return c.gpu.has_value(); });
  return placed && std::ranges::any_of(columns, tells_of_gpus) ? Form::table : Form::none;
}

/// One table or stream of documents, row by row into the collector.
class FileReader {
 public:
  FileReader(Collector& collector, const TimeSeriesOptions& options, std::string name)
      : collector_(collector), options_(options), name_(std::move(name)) {}

  const std::set<std::string>& unread() const { return unread_; }

  Result<void> read(std::string_view text, Form form) {
    if (form == Form::json) return read_json(text);
    TableHead head = head_of(text);
    std::vector<Column> columns;
    if (form == Form::bare_power) {
      columns.push_back({.is = Is::time});
      for (std::size_t i = 1; i < head.titles.size(); ++i)
        columns.push_back(column_of(fmt::format("power{}", i - 1)));
      head.rows = text;
    } else {
      columns = columns_of(head);
    }
    // Zeus' older monitor writes milliwatts.
    if (head.line == "Time,Power") columns[1].unit = 1e-3;
    TPT_TRY(refuse_others(head, columns));
    TPT_TRY(choose_set(head, columns));
    tell_unread(head, columns);
    read_rows(head, columns);
    return {};
  }

 private:
  /// Tables whose rows or columns are no GPU's over time, though their titles look so.
  Result<void> refuse_others(const TableHead& head, const std::vector<Column>& columns) {
    std::set<std::string> runs, times;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string title = lower_case(head.titles[i]);
      if (title == "pid")
        return error(
            "{}: a table of processes (pid), whose numbers are theirs and not "
            "their GPU's; give nvidia-smi dmon or --query-gpu",
            name_);
      if (const std::size_t dash = title.find(" - "); dash != title.npos && columns[i].gpu)
        runs.insert(head.titles[i].substr(0, dash));
      if (columns[i].is == Is::unknown && contains(title, "time")) times.insert(title);
    }
    if (runs.size() > 1)
      return error("{}: columns of {} runs ({}); leave those of one", name_, runs.size(),
                   fmt::join(runs, ", "));
    if (!times.empty() && !has(columns, Is::time) && !has(columns, Is::date))
      return error(
          "{}: column {} may hold times, in a unit that is not known; write "
          "seconds, titled timestamp",
          name_, *times.begin());
    return {};
  }

  Result<void> choose_set(const TableHead& head, const std::vector<Column>& columns) {
    const auto set = std::ranges::find(columns, Is::set, &Column::is);
    if (set == columns.end()) return {};
    set_ = as_size(set - columns.begin());
    std::vector<std::string> sets;
    std::vector<std::string_view> cells;
    std::string_view rows = head.rows, line;
    while (next_line(rows, line)) {
      split_cells(line, head.form, cells);
      if (cells.size() == columns.size() && !holds(sets, cells[*set_]))
        sets.emplace_back(cells[*set_]);
    }
    if (options_.row && !holds(sets, *options_.row))
      return error("{}: no rows of \"{}\" (--row names a config or snapshot_id); there are {}",
                   name_, *options_.row, fmt::join(sets, ", "));
    if (!options_.row && sets.size() > 1)
      return error(
          "{} holds {} sets of GPUs (they may be different machines); choose one with --row: {}",
          name_, sets.size(), fmt::join(sets, ", "));
    return {};
  }

  void tell_unread(const TableHead& head, const std::vector<Column>& columns) {
    std::vector<std::string> unread;
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].is == Is::unknown && !head.titles[i].empty()) unread.push_back(head.titles[i]);
    constexpr std::size_t most = 8;
    const std::size_t more = unread.size() - std::min(most, unread.size());
    unread.resize(unread.size() - more);
    if (!unread.empty())
      collector_.note(fmt::format("columns that are not read: {}{}", fmt::join(unread, ", "),
                                  more > 0 ? fmt::format(" and {} more", more) : ""));
  }

  /// Entities of dcgmi dmon are two words: "GPU 0".
  static void join_entity(std::vector<std::string_view>& cells, std::size_t wanted) {
    if (cells.size() != wanted + 1 || cells[0] != "GPU") return;
    cells[1] = {cells[0].data(), as_size(cells[1].data() + cells[1].size() - cells[0].data())};
    cells.erase(cells.begin());
  }

  /// "175 W" and "34 °C" of amd-smi monitor are two words.
  static void join_units(std::vector<std::string_view>& cells, std::size_t wanted) {
    constexpr std::array words = {"W", "°C", "C", "MHz", "GHz", "%", "GB", "MB", "J", "V", "RPM"};
    for (std::size_t i = 1; i < cells.size() && cells.size() > wanted;) {
      if (!holds(words, cells[i])) {
        ++i;
        continue;
      }
      const char* const begin = cells[i - 1].data();
      cells[i - 1] = {begin, as_size(cells[i].data() + cells[i].size() - begin)};
      cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void read_rows(const TableHead& head, const std::vector<Column>& columns) {
    std::vector<std::string_view> cells;
    std::string_view rows = head.rows, line;
    std::size_t longest_last = 0;
    int64_t of_instances = 0;
    while (next_line(rows, line)) {
      const std::string_view all = trimmed(line);
      // Loggers that start again write their titles again; a sampler's lines of # are no rows.
      if (all.empty() || all == head.line || all.starts_with('#') || is_units_line(head, all))
        continue;
      split_cells(line, head.form, cells);
      if (head.form.separator == ' ' && all.starts_with("GPU-")) {
        ++of_instances;
        continue;
      }
      if (head.form.separator == ' ') join_entity(cells, columns.size());
      if (head.form.separator == ' ') join_units(cells, columns.size());
      if (cells.size() != columns.size()) {
        // "600,95 W" in a table of commas.
        const bool is_comma = head.form.separator == ',' && cells.size() > columns.size();
        collector_.leave_out(
            all, fmt::format(
                     "have {} cells for {} titles{}", cells.size(), columns.size(),
                     is_comma ? "; if commas are decimal, separate the cells by semicolons" : ""));
        continue;
      }
      if (set_ && options_.row && cells[*set_] != *options_.row) continue;
      // What a writer was stopped in the middle of may end in the middle of a number.
      const bool is_cut = rows.empty() && line.data() + line.size() == end_of(head) &&
                          is_cut_short(cells.back(), longest_last);
      longest_last = std::max(longest_last, cells.back().size());
      if (is_cut) {
        collector_.note(fmt::format(
            "the last line ends without a line break: its last cell (\"{}\") may be cut and is "
            "left out",
            cells.back()));
        cells.back() = {};
      }
      collector_.add(columns, cells, head.form.decimal_comma);
    }
    if (of_instances > 0)
      collector_.note(
          fmt::format("{} rows are of MIG instances, which are parts of a GPU, and are left out",
                      of_instances));
  }

  static const char* end_of(const TableHead& head) { return head.rows.data() + head.rows.size(); }
  static bool is_units_line(const TableHead& head, std::string_view line) {
    return head.form.separator == ' ' && (line.starts_with("ID ") || line == "ID");
  }
  /// A number without a unit behind it that is shorter than all before it.
  static bool is_cut_short(std::string_view last, std::size_t longest) {
    return !last.empty() && (is_digit(last.back()) || last.back() == '.') && last.size() < longest;
  }

  // Documents: each object with numbers is a row, its keys the titles.

  Result<void> read_json(std::string_view text) {
    std::string_view rest = text;
    while (!(rest = trimmed(rest, " \t\r\n,")).empty()) {
      const std::size_t size = document_size(rest);
      if (size == 0) {
        collector_.leave_out(rest, "end inside a document");
        break;
      }
      auto json = parse_json(rest.substr(0, size), name_);
      if (!json) json = parse_json(without_python_numbers(rest.substr(0, size)), name_);
      rest.remove_prefix(size);
      if (!json)
        collector_.leave_out(json.error().what, "are no JSON");
      else
        walk(*json, {});
    }
    return read_answers();
  }

  /// NaN and Infinity, which JSON lacks, are null.
  static std::string without_python_numbers(std::string_view text) {
    std::string all(text);
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN", "nan"})
      for (std::size_t at = 0; (at = all.find(word, at)) != all.npos; ++at)
        if (const std::size_t before = all.find_last_not_of(' ', at - 1);
            at > 0 && before != all.npos && contains(":,[", all[before]))
          all.replace(at, word.size(), "null");
    return all;
  }

  /// Characters of the first document of several; 0 where it has no end.
  static std::size_t document_size(std::string_view text) {
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (quoted && text[i] == '\\') {
        ++i;
        continue;
      }
      if (text[i] == '"') quoted = !quoted;
      if (quoted) continue;
      if (text[i] == '{' || text[i] == '[') ++depth;
      if ((text[i] == '}' || text[i] == ']') && --depth == 0) return i + 1;
      if (depth == 0 && text[i] == '\n') return i + 1;  // a line that is no document
    }
    return 0;
  }

  using Record = std::vector<std::pair<std::string, std::string>>;  // title, cell

  static std::string text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    return value.is_null() ? "" : json_text(value, -1);
  }

  /// {"value": 745, "unit": "W"}
  static bool is_quantity(const Json& value) {
    return value.is_object() && value.contains("value") && !value.at("value").is_structured();
  }

  static bool is_card(std::string_view key) {
    const std::size_t digits = key.find_first_of("0123456789");
    return (key.starts_with("card") || key.starts_with("gpu")) && digits != key.npos &&
           whole_number(key.substr(digits)).has_value();
  }

  void flatten(const Json& object, const std::string& path, Record& record,
               std::vector<std::pair<std::string, const Json*>>& inner) {
    for (const auto& [key, value] : object.items()) {
      const std::string title = path.empty() ? key : path + "." + key;
      if (is_quantity(value)) {
        const std::string unit = value.contains("unit") ? text_of(value.at("unit")) : "";
        record.emplace_back(title, text_of(value.at("value")) + (unit.empty() ? "" : " " + unit));
      } else if (value.is_array() || (value.is_object() && is_card(key))) {
        inner.emplace_back(is_card(key) ? key : "", &value);
      } else if (value.is_object()) {
        flatten(value, title, record, inner);
      } else {
        record.emplace_back(title, text_of(value));
      }
    }
  }

  void walk(const Json& json, const Record& outer) {
    if (json.is_array()) {
      for (const Json& one : json)
        if (one.is_structured()) walk(one, outer);
      return;
    }
    if (!json.is_object()) return;
    if (json.contains("resultType") && json.contains("result")) {
      has_empty_answer_ |= json.at("result").empty();
      for (const Json& series : json.at("result"))
        if (series.is_object() && series.contains("metric")) answers_.push_back(series);
      return;
    }
    if (const auto data = json.find("data"); data != json.end() && data->contains("resultType"))
      return walk(*data, outer);
    Record record = outer;
    std::vector<std::pair<std::string, const Json*>> inner;
    flatten(json, "", record, inner);
    add_record(record);
    for (const auto& [card, value] : inner) {
      Record of_card = record;
      if (!card.empty()) of_card.emplace_back("gpu", card);
      walk(*value, of_card);
    }
  }

  /// Of a path the end that is known: usage.gfx_activity.
  const Column& known_column(const std::string& path) {
    const auto [at, fresh] = titles_.try_emplace(path);
    if (!fresh || contains(path, ".process.")) return at->second;  // a process is no GPU
    for (std::string_view title = path; at->second.is == Is::unknown;) {
      at->second = column_of(title);
      const std::size_t point = title.find('.');
      if (point == title.npos) break;
      title.remove_prefix(point + 1);
    }
    return at->second;
  }

  void add_record(const Record& record) {
    std::vector<Column> columns;
    std::vector<std::string_view> cells;
    bool any = false;
    for (const auto& [title, cell] : record) {
      const Column& column = known_column(title);
      const bool again = std::ranges::any_of(columns, [&](const Column& other) {
        return other.is == column.is && other.signal == column.signal && other.gpu == column.gpu &&
               column.is != Is::gpu;
      });
      if (column.is == Is::unknown || again) continue;
      any |= tells_of_gpus(column);
      columns.push_back(column);
      cells.push_back(cell);
    }
    if (any) collector_.add(columns, cells);
  }

  // Prometheus: series of one metric each, whose labels say whose they are.

  struct Answer {
    std::string metric;
    std::map<std::string, std::string> labels;             // without those of MIG instances
    std::string gpu, host;                                 // gpu: its UUID, else its number
    std::vector<std::pair<int64_t, const Json*>> samples;  // by time
  };

  /// Labels of a scrape or of what ran: one GPU has them in several values.
  static bool is_of_scrape(std::string_view label) {
    if (label.starts_with("exported_")) label.remove_prefix(9);
    constexpr std::array<std::string_view, 10> words{
        "job",       "instance", "endpoint", "service", "namespace",
        "container", "pod",      "uid",      "monitor", "receive"};
    return contains(label, "replica") || label.starts_with("prometheus") || holds(words, label);
  }

  static bool is_of_instance(std::string_view label, std::string_view value) {
    const std::string word = lower_case(label);
    return word.starts_with("gpu_i_") || word.starts_with("gpu_instance") ||
           contains(word, "mig") || value.starts_with("MIG-");
  }

  /// Which of several says the node: "instance" may be an exporter's, a host's name a pod's.
  static int rank_of_host(std::string_view label) {
    const std::string word = lower_case(label);
    return contains(word, "node")        ? 0
           : !contains(word, "instance") ? 1
           : word == "instance"          ? 3
                                         : 2;
  }

  void add_answer(const Json& series, std::vector<Answer>& to) {
    Answer one;
    bool is_instance = false, has_uuid = false;
    std::string host, clock, die;
    for (const auto& [label, json] : series.at("metric").items()) {
      const std::string value = text_of(json), word = lower_case(label);
      // AMD's exporter calls all clocks gpu_clock, of each die.
      if (word == "clock_type") clock = lower_case(value);
      if (word == "clock_index") die = value;
      if (word == "clock_type" || word == "clock_index") continue;
      is_instance |= !value.empty() && is_of_instance(label, value);
      if (label == "__name__") one.metric = value;
      if (label == "__name__" || value.empty() || is_of_instance(label, value)) continue;
      one.labels[label] = value;
      const Is is = known_column(label).is;
      const bool is_better = contains(word, "uuid") || one.gpu.empty() || word == "gpu";
      if (is == Is::gpu && is_better && !has_uuid)  // "device" is nvidia0: gpu says more
        one.gpu = value, has_uuid = contains(word, "uuid");
      if (is == Is::host && (host.empty() || rank_of_host(label) < rank_of_host(host)))
        host = label, one.host = value;
    }
    const bool is_main = clock.empty() || contains(clock, "system");
    const bool is_memory = contains(clock, "memory");
    if (is_memory) one.metric = "memory_clock";
    const Column& column = known_column(one.metric);
    // Power, temperatures and clocks that an instance tells are its whole GPU's.
    const bool is_whole =
        std::ranges::any_of(std::array{"_w", "_c", "_mhz", "_j", "_reasons"},
                            [&](std::string_view unit) { return column.signal.ends_with(unit); });
    std::string why;
    if (one.metric.empty()) why = "a series without a name";
    if (tells_of_gpus(column) && one.gpu.empty() && !column.of_node) why = " without a GPU's label";
    if (is_instance && !is_whole) why = " of MIG instances";
    if (!is_main && !is_memory) why = " of " + clock;
    const auto first = dies_.try_emplace(one.metric + "\n" + one.host + "\n" + one.gpu, die).first;
    if (first->second != die) why = " of further dies";
    if (!tells_of_gpus(column) || !why.empty()) {
      unread_.insert(one.metric + why);
      return;
    }
    const auto add = [&](const Json& value) {
      const auto moment =
          value.is_array() && value.size() == 2 ? moment_in(text_of(value[0])) : std::nullopt;
      moment ? void(one.samples.emplace_back(moment->ns, &value[1])) : void(++without_time_);
    };
    if (const auto found = series.find("values"); found != series.end())
      for (const Json& value : *found)
        add(value);
    if (series.contains("value")) add(series.at("value"));
    std::ranges::stable_sort(one.samples, {}, [](const auto& sample) { return sample.first; });
    of_instances_ += is_instance;
    to.push_back(std::move(one));
  }

  /// How many readings of `b` are of times that `a` tells, and how many of them differ.
  static std::pair<std::size_t, std::size_t> shared(const Answer& a, const Answer& b) {
    const auto& all = a.samples;
    const int64_t step =
        all.empty() ? 0 : 3 * (all.back().first - all.front().first) / std::ssize(all);
    std::pair<std::size_t, std::size_t> count;
    for (const auto& [ns, value] : b.samples) {
      const auto next = std::ranges::lower_bound(all, ns, {}, [](auto& s) { return s.first; });
      if (next == all.end()) break;
      const auto last = next->first == ns || next == all.begin() ? next : next - 1;
      if (next->first != ns && (last == next || next->first - last->first > step)) continue;
      ++count.first;
      count.second += *next->second != *value && *last->second != *value;
    }
    return count;
  }

  /// Two series of one metric, node and GPU tell the same twice, or another label names the node
  /// (true: it was found), or they are refused.
  Result<bool> tell_apart(const Answer& a, const Answer& b) {
    const auto [both, differ] = shared(a, b);
    if (20 * differ <= std::min(a.samples.size(), b.samples.size())) {
      twice_.insert(both > 0 ? &b : nullptr);
      return false;
    }
    std::set<std::string> labels;
    for (const auto& [one, other] : {std::pair(&a.labels, &b.labels), {&b.labels, &a.labels}})
      for (const auto& [label, value] : *one)
        if (const auto found = other->find(label); found == other->end() || found->second != value)
          labels.insert(label);
    const std::size_t before = apart_.size();
    if (!contains(a.gpu, '-'))
      std::ranges::remove_copy_if(labels, std::inserter(apart_, apart_.end()), is_of_scrape);
    if (apart_.size() > before) return true;
    return error(
        "{}: two series of {} tell other values of GPU {} of node \"{}\" at the same times ({}); "
        "choose one in the query, or keep the label of the node in it",
        name_, a.metric, a.gpu, a.host,
        labels.empty() ? "no label differs"
                       : fmt::format("they differ in {}", fmt::join(labels, ", ")));
  }

  std::string node_of(const Answer& one) const {
    std::string node = one.host;
    for (const std::string& label : apart_)
      if (const auto found = one.labels.find(label); found != one.labels.end())
        node += (node.empty() ? "" : "/") + found->second;
    return node;
  }

  Result<void> read_answers() {
    if (answers_.empty() && has_empty_answer_)
      return error(
          "{}: the query's answer holds no series; mend its selector or its "
          "time",
          name_);
    std::vector<Answer> answers;
    for (const Json& series : answers_)
      add_answer(series, answers);
    for (bool again = !answers.empty(); again;) {
      again = false;
      twice_.clear();
      std::map<std::string, std::vector<const Answer*>> seen;
      for (const Answer& one : answers) {
        auto& others = seen[fmt::format("{}\n{}\n{}", one.metric, node_of(one), one.gpu)];
        for (const Answer* const other : others)
          again = again || TPT_TRY(tell_apart(*other, one));
        others.push_back(&one);
      }
      twice_.erase(nullptr);
    }
    for (const Answer& one : answers) {
      Record record(one.labels.begin(), one.labels.end());
      std::erase_if(record, [&](const auto& label) {
        return known_column(label.first).is == Is::host ||
               (label.first == "device" && one.labels.contains("gpu"));
      });
      record.emplace_back("host", node_of(one));
      for (const auto& [ns, value] : one.samples) {
        record.emplace_back("timestamp", fmt::format("{}", ns));
        record.emplace_back(one.metric, text_of(*value));
        add_record(record);
        record.resize(record.size() - 2);
      }
    }
    const auto say = [&](std::size_t count, const char* text) {
      if (count > 0)
        collector_.note(fmt::format(fmt::runtime(text), count, fmt::join(apart_, ", ")));
    };
    if (!answers.empty()) collector_.take_any_order();
    say(without_time_, "{} readings have no time that can be read: they are left out");
    say(apart_.size(), "GPUs are told apart by {} more labels ({}), taken for the node's name");
    say(of_instances_,
        "{} series are of MIG instances: they tell power and temperature of their "
        "whole GPU, which count once");
    say(of_instances_ > 0 ? 0 : twice_.size(),
        "{} series tell the values of another again (a GPU scraped twice), and count once");
    if (!unread_.empty())
      collector_.note(fmt::format("metrics that are not read: {}", fmt::join(unread_, ", ")));
    return {};
  }

  Collector& collector_;
  const TimeSeriesOptions& options_;
  std::string name_;
  std::optional<std::size_t> set_;
  std::map<std::string, Column> titles_;
  std::size_t without_time_ = 0;  // readings of Prometheus
  std::set<std::string> unread_;
  std::vector<Json> answers_;                // series of Prometheus
  std::set<std::string> apart_;              // labels of them that name the node
  std::map<std::string, std::string> dies_;  // whose clock is read, by metric and GPU
  std::set<const void*> twice_;              // that tell what another does
  std::size_t of_instances_ = 0;
  bool has_empty_answer_ = false;
};

std::vector<Path> files_of(const Path& source) {
  if (!is_folder(source)) return {source};
  std::vector<Path> files;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(source, problem)) {
    std::error_code ignored;
    if ((entry.path().extension() == ".csv" || entry.path().extension() == ".json") &&
        entry.is_regular_file(ignored))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

std::string producer_of(Form form, std::string_view text) {
  if (form == Form::windows || form == Form::bare_power) return "Zeus";
  if (form == Form::emissions) return "codecarbon";
  const std::string_view head = text.substr(0, 4096);
  for (const auto& [word, name] :
       {std::pair("Time,Power", "Zeus"), std::pair("time,power", "Zeus"),
        std::pair("system.gpu", "wandb"), std::pair("system/gpu", "wandb"),
        std::pair("\"query_time\"", "gpustat"), std::pair("\"resultType\"", "Prometheus"),
        std::pair("#Entity", "dcgmi"), std::pair("# Entity", "dcgmi"),
        std::pair("card0", "rocm-smi"), std::pair("socket_power", "amd-smi"),
        std::pair("hotspot", "amd-smi"), std::pair("GFX_CLK", "amd-smi"),
        std::pair("temperature.gpu", "nvidia-smi"), std::pair("power.draw", "nvidia-smi"),
        std::pair("clocks.", "nvidia-smi"), std::pair("# gpu", "nvidia-smi"),
        std::pair("#Date", "nvidia-smi")})
    if (contains(head, word)) return name;
  return "another sampler";
}

std::optional<int32_t> gpu_in_name(const Path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind("gpu");
  if (at == name.npos) return std::nullopt;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", at + 3), name.size());
  const auto number = whole_number(name.substr(at + 3, end - at - 3));
  return number && *number < 65536 ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

}  // namespace

bool looks_like_time_series(const Path& source) {
  const std::vector<Path> files = files_of(source);
  return !files.empty() && std::ranges::all_of(files, [](const Path& path) {
    return path_exists(path) && !is_folder(path) &&
           form_of(text_of(path, sniffed).value_or("")) != Form::none;
  });
}

std::optional<std::string> why_no_time_series(const Path& source) {
  const auto text = is_folder(source) ? std::string() : text_of(source, sniffed).value_or("");
  const auto why = text.empty() ? std::nullopt : fault_of(text);
  return why ? std::optional(fmt::format("{}: {}", source.string(), *why)) : std::nullopt;
}

Result<run::Run> read_time_series(const Path& source, const TimeSeriesOptions& options) {
  Collector collector(options.gpus_per_node);
  Windows windows(options.gpus_per_node);
  std::string producer;
  const std::vector<Path> files = files_of(source);
  if (files.empty())
    return error(
        "{}: holds no .csv or .json file, in which samplers write readings; "
        "name a file, or another folder",
        source.string());
  for (const Path& path : files) {
    std::string fault;
    const std::string text = TPT_TRY(text_of(path, most_bytes, &fault));
    if (!fault.empty()) collector.note(fault + ": what was there is read");
    const Form form = form_of(text);
    if (const auto why = form == Form::none ? fault_of(text) : std::nullopt)
      return error("{}: {}", path.string(), *why);
    if (form == Form::none)
      return error(
          "{}: no column of readings is known (temperature, power, clock, energy, utilization of "
          "GPUs, with a time or a GPU); a first line with titles is needed, such as timestamp, "
          "index, temperature.gpu, power.draw [W], clocks.sm [MHz]",
          path.string());
    if (producer.empty()) producer = producer_of(form, text);
    if (form == Form::windows || form == Form::emissions) {
      TPT_TRY(form == Form::windows ? windows.read_zeus(text, path.string())
                                    : windows.read_emissions(text, path.string()));
      continue;
    }
    collector.begin_file(gpu_in_name(path));
    const int64_t before = collector.rows(), lost = collector.left_out();
    FileReader reader(collector, options, path.string());
    TPT_TRY(reader.read(text, form));
    if (collector.rows() == before || collector.left_out() - lost > collector.rows() - before)
      return error(
          "{}: {} of {} rows can be read{}", path.string(), collector.rows() - before,
          collector.rows() - before + collector.left_out() - lost,
          collector.left_out() > lost ? ": " + collector.why_left_out()
          : !reader.unread().empty()
              ? fmt::format(": metrics that are not read are {}", fmt::join(reader.unread(), ", "))
              : " (rows need a time or a GPU); name whose they are in a column, such as index");
  }
  run::Run run = TPT_TRY(collector.finish(source, producer));
  windows.add_to(run, collector.epoch());
  if (run.series.empty() && run.steps.empty() && !run.numbers.recording_s)
    return error("{}: no reading is left: {}", source.string(),
                 fmt::join(run.manifest.notes, "; "));
  return run;
}

}  // namespace triplepoint::telemetry
