// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/nccl_tests/nccl_tests.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::trace {

namespace {

std::vector<std::string_view> words_of(std::string_view line) {
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
    const size_t mark = line.find('#');
    if (mark != std::string_view::npos && is_title(line.substr(mark)))
      return read_titles(line.substr(mark + 1));
    find_operation(line);
    if (line.find("Rank ") != std::string_view::npos &&
        line.find(" device ") != std::string_view::npos)
      return read_device(line);
    if (line.find("Avg bus bandwidth") != std::string_view::npos) {
      if (const auto speed = number_after(line, "Avg bus bandwidth"))
        tests_.average_bus_bandwidth = *speed * unit::GB / unit::s;
      return end_program();
    }
    if (!titles_.empty()) read_row(line);
  }

 private:
  static bool is_title(std::string_view line) {
    return line.find("size") != std::string_view::npos &&
           line.find("algbw") != std::string_view::npos &&
           line.find("busbw") != std::string_view::npos;
  }

  void read_titles(std::string_view line) {
    titles_.clear();
    for (const std::string_view word : words_of(line))
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
    if (std::find(tests_.devices.begin(), tests_.devices.end(), device) == tests_.devices.end())
      tests_.devices.push_back(device);
    tests_.ranks = static_cast<int64_t>(tests_.devices.size());
  }

  /// A line of a table has one word per title and begins with a size.
  void read_row(std::string_view line) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 8 || !number(words[0]) || !number(words[1])) return;
    if (words.size() != titles_.size()) {
      ++tests_.skipped;
      return;
    }
    NcclTestRow row{.operation = operation_};
    row.size = *number(words[0]) * unit::B;
    row.count = static_cast<int64_t>(std::clamp(*number(words[1]), 0., 9e18));
    bool has_time = false;
    for (size_t i = 2; i < words.size(); ++i) {
      const std::string& title = titles_[i];
      if (title == "time" && has_time) row = second(row);
      has_time = has_time || title == "time";
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
    if (title == "type" || title == "redop" || title == "root") return true;
    const auto value = number(word);
    if (title == "#wrong" || title == "error") {  // N/A where the check is off
      if (title == "error")
        row.error = value;
      else if (value)
        row.wrong = static_cast<int64_t>(std::clamp(*value, 0., 9e18));
      return true;
    }
    if (!value || *value < 0) return false;
    if (title == "time") row.time = *value * unit::us;
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
  TPT_TRY(for_each_line(input, [&](std::string_view line) { reader.read(line); }));
  if (tests.rows.empty())
    return error(
        fmt::format("{}: no table of nccl-tests was found (a line of titles with size, "
                    "algbw and busbw begins it); give what all_reduce_perf prints",
                    input.name()));
  return tests;
}

std::optional<spec::Collective> collective_of(const NcclTestRow& row) {
  return collective_of(std::string_view(row.operation));
}

}  // namespace triplepoint::trace
