// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "triplepoint/telemetry/open_file.h"
#include "triplepoint/telemetry/zeus/imported_run.h"
#include "triplepoint/telemetry/zeus/zeus.h"

namespace triplepoint::telemetry {
namespace {

constexpr int32_t most_gpus = 65536;        // a title with a larger number names no GPU
constexpr int32_t usual_gpus_per_node = 8;  // the files do not say

enum class ZeusFile { none, power, monitor, windows };

/// "power3" and "3" are GPU 3, "gpu3_energy" too; -1 if there is no number.
int32_t gpu_of(std::string_view title) {
  const std::size_t begin = title.find_first_of("0123456789");
  int32_t gpu = -1;
  if (begin != std::string_view::npos)
    std::from_chars(title.data() + begin, title.data() + title.size(), gpu);
  return gpu >= 0 && gpu < most_gpus ? gpu : -1;
}

ZeusFile kind_of(const Path& path) {
  const std::string line = first_line(path);
  if (line == "Time,Power") return ZeusFile::monitor;
  if (line.starts_with("start_time,window_name,elapsed_time")) return ZeusFile::windows;
  const std::vector<std::string_view> cells = cells_of(line);
  if (cells.size() < 2) return ZeusFile::none;
  const bool is_titled = cells[0] == "time" && gpu_of(cells[1]) >= 0;
  const auto time = unix_time(cells[0]);
  constexpr int64_t earliest = 1'000'000'000'000'000'000;  // 2001: other numbers are no Unix times
  const bool is_bare = time && *time > earliest && number(cells[1]);
  return is_titled || is_bare ? ZeusFile::power : ZeusFile::none;
}

/// "2022-07-13 02:07:36.708783111", taken as UTC.
std::optional<int64_t> calendar_time(std::string_view text) {
  if (text.size() < 19 || text[4] != '-' || text[10] != ' ' || text[13] != ':') return std::nullopt;
  const auto part = [&](std::size_t at, std::size_t size) {
    int value = -1;
    std::from_chars(text.data() + at, text.data() + at + size, value);
    return value;
  };
  namespace chrono = std::chrono;
  const chrono::year_month_day day{chrono::year(part(0, 4)),
                                   chrono::month(static_cast<unsigned>(part(5, 2))),
                                   chrono::day(static_cast<unsigned>(part(8, 2)))};
  const int hour = part(11, 2), minute = part(14, 2), second = part(17, 2);
  if (!day.ok() || hour < 0 || minute < 0 || second < 0) return std::nullopt;
  const int64_t days = chrono::sys_days(day).time_since_epoch().count();
  const int64_t seconds = days * 86400 + hour * int64_t{3600} + minute * int64_t{60} + second;
  return unix_time(fmt::format("{}{}", seconds, text.substr(19)));
}

class ZeusReader {
 public:
  explicit ZeusReader(const Path& source) : run_(source, "Zeus") {}

  Result<run::Run> read(const Path& source) {
    for (const Path& path : csv_files(source))
      TPT_TRY(read_one(path));
    run_.number_devices(usual_gpus_per_node);
    if (has_local_times_) run_.note("times without a zone are taken as UTC");
    run::Run& run = run_.finished();
    add_steps(run);
    return std::move(run);
  }

 private:
  struct Window {
    int64_t begin_ns = 0, end_ns = 0;
    std::string name;
    std::map<int32_t, double> joules;  // by GPU
  };

  Result<void> read_one(const Path& path) {
    const ZeusFile kind = kind_of(path);
    if (kind == ZeusFile::none) return {};
    const std::string text = TPT_TRY(read_file(path));
    switch (kind) {
      case ZeusFile::power:
        return read_power(text, path);
      case ZeusFile::monitor:
        return read_monitor(text, path);
      default:
        return read_windows(text, path);
    }
  }

  void add_power(Column column, int32_t gpu, const char* sensor) {
    run_.note_failed("power", column.failed);
    num_gpus_ = std::max(num_gpus_, gpu + 1);
    run_.add(std::move(column.samples), {.signal = "power_instant_w",
                                         .device = gpu,
                                         .scope = run::Scope::gpu,
                                         .kind = run::ReadingKind::instant,
                                         .sensor = sensor});
  }

  Result<void> read_power(std::string_view text, const Path& path) {
    std::vector<int32_t> gpus;
    std::string_view rest = text;
    const auto header = cells_of(next_line(rest).value_or(""));
    if (!header.empty() && header[0] == "time") {
      for (std::size_t i = 1; i < header.size(); ++i)
        gpus.push_back(gpu_of(header[i]));
      text = rest;
    }
    const NumberRows rows = TPT_TRY(read_rows(text, path.string(), gpus.size()));
    for (std::size_t i = 0; i < rows.columns.size(); ++i) {
      const int32_t gpu = i < gpus.size() ? gpus[i] : static_cast<int32_t>(i);
      if (gpu >= 0) add_power(readings(rows, i), gpu, "Zeus PowerMonitor");
    }
    return {};
  }

  /// One GPU per file, in mW; which one the name of the file says, or the order.
  Result<void> read_monitor(std::string_view text, const Path& path) {
    has_local_times_ = true;
    next_line(text);
    NumberRows rows;
    rows.columns.resize(1);
    for (int64_t line_number = 2;; ++line_number) {
      const auto line = next_line(text);
      if (!line) break;
      const std::vector<std::string_view> cells = cells_of(*line);
      const auto time = cells.size() == 2 ? calendar_time(cells[0]) : std::nullopt;
      const auto milliwatts = cells.size() == 2 ? number(cells[1]) : std::nullopt;
      if (line->empty() || ((!time || !milliwatts) && text.empty())) continue;
      if (!time || !milliwatts)
        return error(
            fmt::format("{}:{}: \"{}\" is not a time and milliwatts (rows read like "
                        "2022-07-13 02:07:36.70,32402); remove the line or the file",
                        path.string(), line_number, line->substr(0, 60)));
      rows.unix_ns.push_back(*time);
      rows.columns[0].push_back(*milliwatts / 1000);
    }
    const std::string name = path.filename().string();
    const std::size_t gpu = name.rfind("gpu");
    const int32_t named = gpu != name.npos ? gpu_of(name.substr(gpu)) : -1;
    add_power(readings(rows, 0), named >= 0 ? named : num_gpus_, "Zeus monitor");
    return {};
  }

  Result<void> read_windows(std::string_view text, const Path& path) {
    const auto titles = cells_of(next_line(text).value_or(""));
    for (int64_t line_number = 2;; ++line_number) {
      const auto line = next_line(text);
      if (!line) return {};
      const std::vector<std::string_view> cells = cells_of(*line);
      const auto begin = cells.size() == titles.size() ? unix_time(cells[0]) : std::nullopt;
      const auto elapsed = cells.size() == titles.size() ? number(cells[2]) : std::nullopt;
      const bool is_window = begin && elapsed && *elapsed >= 0 && *elapsed < 1e9;
      if (line->empty() || (!is_window && text.empty())) continue;
      if (!is_window)
        return error(
            fmt::format("{}:{}: \"{}\" is not a window (rows read like "
                        "1700000000.25,step,1.5,450.2); remove the line or the file",
                        path.string(), line_number, line->substr(0, 60)));
      Window window{.begin_ns = *begin,
                    .end_ns = *begin + std::llround(*elapsed * 1e9),
                    .name = std::string(cells[1])};
      for (std::size_t i = 3; i < cells.size(); ++i) {
        const int32_t gpu = gpu_of(titles[i]);
        if (const auto joules = number(cells[i]); joules && *joules >= 0 && gpu >= 0)
          window.joules[gpu] = *joules;
      }
      windows_.push_back(std::move(window));
    }
  }

  /// Windows may nest: those named most often are the steps (what lies inside of another of them
  /// is not one).
  void add_steps(run::Run& run) {
    if (windows_.empty()) return;
    const std::string name = commonest_name();
    std::stable_sort(windows_.begin(), windows_.end(),
                     [](const Window& a, const Window& b) { return a.begin_ns < b.begin_ns; });
    if (run.series.empty()) run.manifest.epoch_unix_ns = windows_.front().begin_ns;
    const int64_t epoch = *run.manifest.epoch_unix_ns;
    const Window* last = nullptr;
    for (const Window& window : windows_) {
      const bool is_step = window.name == name && window.end_ns > window.begin_ns &&
                           (last == nullptr || window.begin_ns >= last->end_ns);
      if (!is_step) continue;
      run.steps.push_back(
          {.begin = Instant(window.begin_ns - epoch), .end = Instant(window.end_ns - epoch)});
      last = &window;
    }
    if (last == nullptr) return;
    run.manifest.notes.push_back(
        fmt::format("steps are the windows named {}; energies are those of the last one", name));
    add_energies(run, *last);
  }

  std::string commonest_name() const {
    std::map<std::string, int64_t> counts;
    for (const Window& window : windows_)
      ++counts[window.name];
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  static void add_energies(run::Run& run, const Window& window) {
    const double seconds = static_cast<double>(window.end_ns - window.begin_ns) * 1e-9;
    for (const auto& [gpu, joules] : window.joules) {
      for (auto i = static_cast<int32_t>(run.devices.size()); i <= gpu; ++i)
        run.devices.push_back({.index = i,
                               .node = i / usual_gpus_per_node,
                               .local = i % usual_gpus_per_node,
                               .slot = i % usual_gpus_per_node,
                               .rank = i});
      run.summaries.resize(run.devices.size());
      run::DeviceSummary& summary = run.summaries[static_cast<std::size_t>(gpu)];
      summary.energy_j = joules;
      summary.power_mean_w = joules / seconds;
    }
  }

  ImportedRun run_;
  std::vector<Window> windows_;
  int32_t num_gpus_ = 0;
  bool has_local_times_ = false;
};

}  // namespace

bool looks_like_zeus(const Path& source) {
  const std::vector<Path> files = csv_files(source);
  return std::any_of(files.begin(), files.end(), [](const Path& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && kind_of(path) != ZeusFile::none;
  });
}

Result<run::Run> read_zeus(const Path& source) {
  return ZeusReader(source).read(source);
}

}  // namespace triplepoint::telemetry
