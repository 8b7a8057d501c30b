// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/nccl_tests/nccl_tests.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "triplepoint/base/text.h"

#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::trace {

namespace {

constexpr size_t most_log_bytes = size_t{64} << 20U;

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::optional<double> number(std::string_view word) {
  double value = 0;
  const auto [stop, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (fault != std::errc() || stop != word.data() + word.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

class OutputReader {
 public:
  explicit OutputReader(NcclTests& tests) : tests_(tests) {}

  void read(std::string_view line) {
    if (contains(line, '{') && read_json(line)) return;
    // Pages on the web drop the # in front of titles.
    const size_t mark = line.find('#'), titles = std::min(line.find("size"), line.size());
    if (is_title(line)) return read_titles(line.substr(mark < titles ? mark + 1 : titles));
    find_operation(line);
    if (contains(line, "Rank ") && contains(line, " device ")) return read_device(line);
    if (contains(line, "Avg bus bandwidth")) return end_program();
    if (!titles_.empty()) read_row(line);
  }

  /// rccl-tests' -Z writes an object a line, nccl-tests' -J one with all results.
  bool read_json(std::string_view line) {
    JsonRecord record;
    const auto json = record.parse(line.substr(line.find('{')));
    if (!json) return false;
    if (json->at("algBw").real()) {
      find_words(json->at("name").text());
      tests_.ranks = std::max(tests_.ranks, json->at("gpus").integer_or(0));
      add_json(*json, *json, "algBw", "busBw", json->at("inPlace").integer_or(0) != 0);
    }
    json->at("results").for_each([&](JsonView row) {
      add_json(row, row.at("out_of_place"), "alg_bw", "bus_bw", false);
      add_json(row, row.at("in_place"), "alg_bw", "bus_bw", true);
    });
    int64_t ranks = 0;
    json->at("devices").for_each([&](JsonView) { ++ranks; });
    tests_.ranks = std::max(tests_.ranks, ranks);
    return true;
  }

 private:
  static bool is_title(std::string_view line) {
    return contains(line, "size") && contains(line, "algbw") && contains(line, "busbw");
  }

  void read_titles(std::string_view line) {
    titles_.clear();
    for (const std::string_view word : columns_of(line))
      titles_.emplace_back(word);
  }

  void end_program() {
    titles_.clear();
    operation_.clear();
    after_program_ = true;
  }

  /// ".../all_reduce_perf -b 8": the command line, if the shell or mpirun echoed it.
  void find_operation(std::string_view line) {
    const size_t end = line.find("_perf");
    if (end == std::string_view::npos) return;
    size_t begin = end;
    while (begin > 0 &&
           (line[begin - 1] == '_' || (line[begin - 1] >= 'a' && line[begin - 1] <= 'z')))
      --begin;
    operation_ = line.substr(begin, end - begin);
  }

  void read_device(std::string_view line) {
    if (after_program_) {
      tests_.devices.clear();
      after_program_ = false;
    }
    const size_t begin = line.find("Rank ");
    const std::string device(line.substr(begin));
    // Every process of old versions prints the whole list.
    if (!holds(tests_.devices, device)) tests_.devices.push_back(device);
    tests_.ranks = static_cast<int64_t>(tests_.devices.size());
  }

  /// "AllReduce" is "all_reduce".
  void find_words(std::string_view name) {
    operation_.clear();
    for (const char c : name) {
      if (c >= 'A' && c <= 'Z' && !operation_.empty()) operation_ += '_';
      operation_ += lower_case(c);
    }
  }

  void add_json(JsonView about, JsonView one, const char* algbw, const char* busbw, bool in_place) {
    const auto time = one.at("time").real(), speed = one.at(algbw).real(),
               bus = one.at(busbw).real();
    const auto size = about.at("size").real();
    if (!one || !size) return;
    if (!time || !speed || !bus || *time < 0 || *speed < 0 || *bus < 0) {
      ++tests_.skipped;
      return;
    }
    NcclTestRow row{.operation = operation_, .size = *size * unit::B};
    row.count = about.at("count").integer_or(0);
    row.type = about.at("type").text();
    if (about.at("redop").text() != "none") row.reduction = about.at("redop").text();
    row.in_place = in_place;
    row.time = *time * unit::us;
    row.algorithm_bandwidth = *speed * unit::GB / unit::s;
    row.bus_bandwidth = *bus * unit::GB / unit::s;
    for (const char* key : {"nwrong", "#wrong"})
      if (const auto wrong = one.at(key).real()) row.wrong = static_cast<int64_t>(*wrong);
    tests_.rows.push_back(std::move(row));
  }

  /// A line of a table has one word per title, behind what a launcher puts before it, and begins
  /// with a size.
  void read_row(std::string_view line) {
    std::vector<std::string_view> words = columns_of(line);
    // "12:", "launcher |", "[1,0]<stdout>:" stand apart from the first column, or end before it.
    const bool dated = titles_.back() == "timestamp";  // a date and a time are two words
    if (dated && words.size() > titles_.size()) words.pop_back();
    if (words.size() > titles_.size())
      words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(titles_.size()));
    const bool is_number = !words.empty() && number(words[0]);
    if (!words.empty())
      if (const size_t end = words[0].find_last_of(":|>"); end != std::string_view::npos)
        words[0].remove_prefix(end + 1);
    const bool is_row = words.size() >= 8 && number(words[0]) && number(words[1]);
    if (!is_row && !is_number) return;
    if (!is_row || words.size() != titles_.size()) {
      ++tests_.skipped;
      return;
    }
    NcclTestRow row{.operation = operation_};
    row.size = *number(words[0]) * unit::B;
    row.count = static_cast<int64_t>(std::clamp(*number(words[1]), 0., 9e18));
    bool has_time = false;
    for (size_t i = 2; i < words.size(); ++i) {
      const std::string& title = titles_[i];
      const bool is_time = title == "time" || title == "cputime";
      if (is_time && has_time) row = second(row);
      has_time = has_time || is_time;
      if (!fill(title, words[i], row)) {
        ++tests_.skipped;
        return;
      }
    }
    if (has_time) tests_.rows.push_back(row);
  }

  /// Out of place comes first: ends it and begins the one in place.
  NcclTestRow second(const NcclTestRow& first) {
    tests_.rows.push_back(first);
    NcclTestRow row = first;
    row.in_place = true;
    row.wrong.reset();
    row.error.reset();
    return row;
  }

  static bool fill(const std::string& title, std::string_view word, NcclTestRow& row) {
    if (title == "type") row.type = word;
    if (title == "redop" && word != "none") row.reduction = word;
    if (title == "type" || title == "redop" || title == "root" || title == "timestamp" ||
        title.starts_with("i_"))  // spread over iterations
      return true;
    const auto value = number(word);
    if (title == "#wrong" || title == "error") {  // N/A where the check is off
      if (title == "error")
        row.error = value;
      else if (value)
        row.wrong = static_cast<int64_t>(std::clamp(*value, 0., 9e18));
      return true;
    }
    if (!value || *value < 0) return false;
    if (title == "time" || title == "cputime") row.time = *value * unit::us;
    if (title == "algbw") row.algorithm_bandwidth = *value * unit::GB / unit::s;
    if (title == "busbw") row.bus_bandwidth = *value * unit::GB / unit::s;
    return true;
  }

  NcclTests& tests_;
  std::vector<std::string> titles_;
  std::string operation_;
  bool after_program_ = false;
};

}  // namespace

Result<NcclTests> parse_nccl_tests(Input& input) {
  NcclTests tests;
  OutputReader reader(tests);
  const std::string all = TPT_TRY(input.rest(most_log_bytes));
  const bool whole = trimmed(all).starts_with('{') && reader.read_json(all);
  Input lines = Input::of_text(whole ? "" : all, input.name());
  TPT_TRY(for_each_line(lines, [&](std::string_view line) { reader.read(line); }));
  if (tests.rows.empty())
    return error(
        "{}: no row of nccl-tests was found (neither a line of titles with size, algbw and "
        "busbw with rows below, nor its JSON); give what all_reduce_perf prints",
        input.name());
  return tests;
}

bool looks_like_nccl_tests(std::string_view head) {
  const auto has = [&](std::string_view word) { return contains(head, word); };
  return (has("algbw") && has("busbw") && has("size")) || (has("\"algBw\"") && has("\"busBw\"")) ||
         (has("\"alg_bw\"") && has("\"bus_bw\""));
}

std::optional<spec::Collective> collective_of(const NcclTestRow& row) {
  return collective_of(std::string_view(row.operation));
}

}  // namespace triplepoint::trace
