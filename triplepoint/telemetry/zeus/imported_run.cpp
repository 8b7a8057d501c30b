// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/zeus/imported_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

namespace triplepoint::telemetry {
namespace {

std::string name_of_source(const Path& source) {
  const Path path = by_own_name(source);
  return path.extension() == ".csv" ? path.stem().string() : path.filename().string();
}

}  // namespace

ImportedRun::ImportedRun(const Path& source, std::string producer) {
  run_.manifest.origin = run::Origin::imported;
  run_.manifest.fidelity = run::Fidelity::real;
  run_.manifest.name = name_of_source(source);
  run_.manifest.producer = std::move(producer);
}

void ImportedRun::add(Samples samples, run::SeriesSource about) {
  if (samples.empty()) return;
  if (!about.of_node) num_devices_ = std::max(num_devices_, about.device + 1);
  pending_.push_back({std::move(samples), std::move(about)});
}

void ImportedRun::note_failed(std::string_view signal, int64_t count) {
  if (count > 0) failed_[std::string(signal)] += count;
}

void ImportedRun::number_devices(int32_t per_node) {
  for (int32_t i = 0; i < num_devices_; ++i) {
    run_.devices.push_back(
        {.index = i, .node = i / per_node, .local = i % per_node, .slot = i % per_node, .rank = i});
  }
}

Instant ImportedRun::instant_of(int64_t unix_ns) const {
  return Instant(unix_ns - epoch_);
}

run::Run& ImportedRun::finished() {
  epoch_ = pending_.empty() ? 0 : std::numeric_limits<int64_t>::max();
  for (const Pending& one : pending_)
    epoch_ = std::min(epoch_, one.samples.unix_ns.front());
  run_.manifest.epoch_unix_ns = epoch_;
  for (Pending& one : pending_) {
    run::Series series{.signal = one.about.signal,
                       .device = one.about.device,
                       .of_node = one.about.of_node,
                       .values = std::move(one.samples.values)};
    series.times.reserve(series.values.size());
    for (const int64_t stamp : one.samples.unix_ns)
      series.times.push_back(instant_of(stamp));
    run_.series.push_back(std::move(series));
    run_.sources.push_back(std::move(one.about));
  }
  pending_.clear();
  for (const auto& [signal, count] : failed_)
    note(fmt::format("{}: {} readings failed (written as a negative number) and are left out",
                     signal, count));
  return run_;
}

std::vector<Path> csv_files(const Path& source) {
  std::error_code problem;
  if (!std::filesystem::is_directory(source, problem)) return {source};
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source, problem)) {
    std::error_code ignored;
    if (entry.path().extension() == ".csv" && entry.is_regular_file(ignored))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr double latest_s = 9'000'000'000;  // 2255: more would not fit into nanoseconds

/// Digits after the point, as nanoseconds; what is finer is cut.
int64_t fraction_ns(std::string_view digits) {
  int64_t ns = 0;
  for (std::size_t i = 0; i < 9; ++i)
    ns = 10 * ns + (i < digits.size() ? digits[i] - '0' : 0);
  return ns;
}

/// Whether the row could be read; an empty cell is no value.
bool add_row(const std::vector<std::string_view>& cells, NumberRows& rows) {
  if (cells.size() != rows.columns.size() + 1) return false;
  const auto time = unix_time(cells[0]);
  if (!time) return false;
  std::vector<std::optional<double>> values;
  for (std::size_t i = 1; i < cells.size(); ++i) {
    values.push_back(number(cells[i]));
    if (!values.back() && !trimmed(cells[i]).empty()) return false;
  }
  rows.unix_ns.push_back(*time);
  for (std::size_t i = 0; i < values.size(); ++i)
    rows.columns[i].push_back(values[i]);
  return true;
}

}  // namespace

std::optional<std::string_view> next_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(line);
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

std::optional<double> number(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = problem == std::errc() && end == text.data() + text.size();
  if (!is_whole || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> unix_time(std::string_view seconds) {
  seconds = trimmed(seconds);
  const auto about = number(seconds);
  if (!about || *about < 0 || *about > latest_s) return std::nullopt;
  const std::size_t point = std::min(seconds.find('.'), seconds.size());
  const std::string_view whole = seconds.substr(0, point);
  const std::string_view fraction = seconds.substr(std::min(point + 1, seconds.size()));
  if (!std::all_of(whole.begin(), whole.end(), is_digit) ||
      !std::all_of(fraction.begin(), fraction.end(), is_digit) || whole.empty())
    return std::llround(*about * 1e9);  // 1.7e9
  int64_t count = 0;
  std::from_chars(whole.data(), whole.data() + whole.size(), count);
  return count * second_ns + fraction_ns(fraction);
}

std::string unix_time_text(int64_t unix_ns) {
  return fmt::format("{}.{:09}", unix_ns / second_ns, unix_ns % second_ns);
}

Result<NumberRows> read_rows(std::string_view text, std::string_view name, std::size_t columns) {
  NumberRows rows;
  for (int64_t number = 1;; ++number) {
    const auto line = next_line(text);
    if (!line) return rows;
    if (line->empty()) continue;
    const std::vector<std::string_view> cells = cells_of(*line);
    if (rows.columns.empty()) rows.columns.resize(columns > 0 ? columns : cells.size() - 1);
    if (add_row(cells, rows)) continue;
    if (text.empty() && !rows.unix_ns.empty()) return rows;  // its writer was stopped in the middle
    return error(fmt::format(
        "{}:{}: \"{}\" is not a time and {} (rows read like 1700000000.25,412.5); "
        "remove the line or the file",
        name, number, line->substr(0, 60),
        rows.columns.size() == 1 ? "a number" : fmt::format("{} numbers", rows.columns.size())));
  }
}

Column readings(const NumberRows& rows, std::size_t column) {
  std::vector<std::size_t> order(rows.unix_ns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows.unix_ns[a] < rows.unix_ns[b]; });
  Column result;
  for (const std::size_t row : order) {
    const auto& value = rows.columns[column][row];
    auto& [times, values] = result.samples;
    if (value && *value < 0) ++result.failed;
    if (!value || *value < 0 || (!times.empty() && times.back() == rows.unix_ns[row])) continue;
    times.push_back(rows.unix_ns[row]);
    values.push_back(*value);
  }
  return result;
}

}  // namespace triplepoint::telemetry
