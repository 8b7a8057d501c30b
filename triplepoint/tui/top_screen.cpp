// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_screen.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/tui/machine_text.h"

namespace triplepoint::tui {
namespace {

using telemetry::GpuView;
using telemetry::Snapshot;

constexpr std::size_t most_history = 400;  // wider than any terminal's third
constexpr double coldest_c = 20;           // bottom of the temperatures' history

/// A line of pieces in styles that ends where the screen does.
class Line {
 public:
  Line(const Console& console, std::size_t columns) : console_(console), left_(columns) {}
  Line& add(std::string_view text, Style style = Style::plain) {
    if (left_ == 0) return *this;
    const std::string piece = shorten(text, left_);
    left_ -= display_width(piece);
    text_ += console_.styled(piece, style);
    return *this;
  }
  /// In a column of this width, at its right or left end.
  Line& right(const std::string& text, std::size_t width, Style style = Style::plain) {
    const std::string cut = shorten(text, width);
    return add(std::string(width - display_width(cut), ' ')).add(cut, style).add(" ");
  }
  Line& left(const std::string& text, std::size_t width, Style style = Style::plain) {
    const std::string cut = shorten(text, width);
    return add(cut, style).add(std::string(width - display_width(cut) + 1, ' '));
  }
  std::size_t room() const { return left_; }
  const std::string& text() const { return text_; }

 private:
  const Console& console_;
  std::size_t left_;
  std::string text_;
};

/// A GPU before it is written.
struct TopRow {
  const TopHost* host = nullptr;
  GpuView gpu;
  const TopHistory* history = nullptr;
};

/// Which columns this width has room for.
struct TopColumns {
  std::size_t host = 0, model = 8;
  bool limit = false, memory_temperature = false, bars = false, links = false, pcie = false;
};

/// A share of what there is at most, from 0 to 1.
std::optional<double> share_of(const std::optional<double>& value,
                               const std::optional<double>& all) {
  if (!value || !all || *all <= 0) return std::nullopt;
  return std::clamp(*value / *all, 0.0, 1.0);
}

std::optional<double> memory_share(const GpuView& gpu) {
  return share_of(gpu.memory_used_b, gpu.memory_b);
}

std::string bar(const std::optional<double>& share, std::size_t width) {
  std::string text;
  const double filled = share.value_or(0) * static_cast<double>(width);
  for (std::size_t i = 0; i < width; ++i)
    text += filled >= static_cast<double>(i) + 0.5 ? "█" : share ? "·" : " ";
  return text;
}

/// Short form: "NVIDIA H200" is "H200"; long names are cut.
std::string short_model(const std::string& name) {
  for (const std::string_view maker : {"NVIDIA ", "AMD Instinct ", "AMD "})
    if (name.starts_with(maker)) return name.substr(maker.size());
  return name;
}

std::string bare_number(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : "-";
}

std::string link_text(const std::optional<double>& tx, const std::optional<double>& rx) {
  if (!tx && !rx) return "-";
  return rate_text(tx.value_or(0) + rx.value_or(0));
}

Style utilization_style(const std::optional<double>& share) {
  return !share || *share < 0.1 ? Style::dim : *share < 0.75 ? Style::warning : Style::good;
}

std::string power_cell(const GpuView& gpu) {
  if (gpu.power_counted_on) return fmt::format("on {}", *gpu.power_counted_on);
  return gpu.power_w ? watts_text(gpu.power_w) : "-";
}

/// What is sorted by, larger first.
std::optional<double> sort_value(const GpuView& gpu, TopSort sort) {
  switch (sort) {
    case TopSort::power:
      return gpu.power_w;
    case TopSort::temperature:
      return gpu.temperature_c;
    case TopSort::clock:  // the slowest is the one that is looked for
      return gpu.sm_clock_mhz ? std::optional(-*gpu.sm_clock_mhz) : std::nullopt;
    case TopSort::utilization:
      return gpu.utilization;
    case TopSort::memory:
      return gpu.memory_used_b;
    case TopSort::throttle:
      return gpu.throttle_share();
    case TopSort::index:
      return std::nullopt;
  }
  return std::nullopt;
}

/// All GPUs in this order; absent values last.
std::vector<TopRow> rows_of(const std::vector<TopHost>& hosts, TopSort sort) {
  std::vector<TopRow> rows;
  for (const TopHost& host : hosts) {
    if (!host.latest) continue;
    for (std::size_t i = 0; i < host.latest->devices.size(); ++i)
      rows.push_back({&host, view_gpu(*host.latest, static_cast<int32_t>(i)),
                      i < host.history.size() ? &host.history[i] : nullptr});
  }
  if (sort == TopSort::index) return rows;
  std::stable_sort(rows.begin(), rows.end(), [&](const TopRow& a, const TopRow& b) {
    return sort_value(a.gpu, sort) > sort_value(b.gpu, sort);  // absent ones last
  });
  return rows;
}

TopColumns columns_for(std::size_t width, bool many_hosts, const std::vector<TopRow>& rows) {
  TopColumns columns;
  if (many_hosts) {
    for (const TopRow& row : rows)
      columns.host = std::max(columns.host, display_width(row.host->name));
    columns.host = std::min<std::size_t>(columns.host, 16);
    width -= std::min(width, columns.host + 1);
  }
  columns.memory_temperature = width >= 86;
  columns.limit = width >= 92;
  columns.bars = width >= 112;
  columns.links = width >= 124;
  columns.pcie = width >= 136;
  if (width >= 76) columns.model = 12;
  if (width >= 150) columns.model = 22;
  return columns;
}

std::string title_row(const TopColumns& columns, const Console& console, std::size_t width) {
  Line line(console, width);
  if (columns.host > 0) line.left("host", columns.host, Style::dim);
  line.right("gpu", 3, Style::dim).left("model", columns.model, Style::dim);
  line.right("power", 7, Style::dim);
  if (columns.limit) line.right("limit", 7, Style::dim);
  line.right("temp", 5, Style::dim);
  if (columns.memory_temperature) line.right("mem", 5, Style::dim);
  line.right("MHz", 5, Style::dim).right("util", 5, Style::dim);
  if (columns.bars) line.left("", 8);
  line.right("memory", 10, Style::dim);
  if (columns.bars) line.left("", 8);
  if (columns.links) line.right("link", 9, Style::dim);
  if (columns.pcie) line.right("pcie", 9, Style::dim);
  return line.add("slowed by", Style::dim).text();
}

std::string gpu_row(const TopRow& row, const TopColumns& columns, const Console& console,
                    std::size_t width) {
  const GpuView& gpu = row.gpu;
  Line line(console, width);
  if (columns.host > 0) line.left(row.host->name, columns.host);
  line.right(fmt::format("{}", gpu.index), 3).left(short_model(gpu.name), columns.model);
  if (!gpu.answers) return line.add("does not answer", Style::bad).text();
  line.right(power_cell(gpu), 7, power_style(gpu));
  if (columns.limit) line.right(gpu.power_limit_w ? watts_text(gpu.power_limit_w) : "-", 7);
  line.right(gpu.temperature_c ? celsius_text(gpu.temperature_c) : "-", 5, temperature_style(gpu));
  if (columns.memory_temperature) line.right(gpu.memory_c ? celsius_text(gpu.memory_c) : "-", 5);
  line.right(bare_number(gpu.sm_clock_mhz), 5);
  line.right(gpu.utilization ? percent_text(gpu.utilization) : "-", 5,
             utilization_style(gpu.utilization));
  if (columns.bars) line.left(bar(gpu.utilization, 8), 8, utilization_style(gpu.utilization));
  line.right(gpu.memory_used_b ? memory_text(gpu.memory_used_b, gpu.memory_b) : "-", 10);
  if (columns.bars) line.left(bar(memory_share(gpu), 8), 8);
  if (columns.links) line.right(link_text(gpu.scale_up_tx_bps, gpu.scale_up_rx_bps), 9);
  if (columns.pcie) line.right(link_text(gpu.pcie_tx_bps, gpu.pcie_rx_bps), 9);
  const std::string cause = gpu.cause();
  return line.add(cause.empty() ? "-" : cause, throttle_style(gpu)).text();
}

std::string history_row(const TopRow& row, const TopColumns& columns, const Console& console,
                        std::size_t width) {
  Line line(console, width);
  line.add(std::string((columns.host > 0 ? columns.host + 1 : 0) + 4, ' '));
  constexpr std::size_t taken = 24;  // by the names of three graphs
  const std::size_t each = line.room() > taken + 12 ? (line.room() - taken) / 3 : 4;
  if (row.history == nullptr) return line.text();
  const auto graph = [&](const char* name, const std::deque<std::optional<double>>& shares) {
    line.add(fmt::format("{:5} ", name), Style::dim).add(history_line(shares, each)).add("  ");
  };
  graph("power", row.history->power);
  graph("temp", row.history->temperature);
  graph("clock", row.history->clock);
  return line.text();
}

/// The extremes with the GPU that has them: "hottest 83 C (6)".
std::string extreme(const std::vector<TopRow>& rows, bool many_hosts,
                    const std::function<std::optional<double>(const GpuView&)>& value,
                    const std::function<std::string(double)>& text) {
  const TopRow* found = nullptr;
  for (const TopRow& row : rows)
    if (value(row.gpu) && (found == nullptr || *value(row.gpu) > *value(found->gpu))) found = &row;
  if (found == nullptr) return "";
  return fmt::format("{} ({}{})", text(*value(found->gpu)),
                     many_hosts ? found->host->name + " " : "gpu ", found->gpu.index);
}

std::string summary_line(const std::vector<TopHost>& hosts, const std::vector<TopRow>& rows,
                         const TopView& view, const Console& console, std::size_t width) {
  const bool many = hosts.size() > 1;
  double power = 0;
  std::size_t throttled = 0;
  for (const TopHost& host : hosts)
    if (host.latest) power += view_node(*host.latest).gpu_power_w.value_or(0);
  for (const TopRow& row : rows)
    throttled += row.gpu.throttle_share() > 0.01 ? 1 : 0;
  Line line(console, width);
  line.add("triplepoint top", Style::bold).add("  " + view.title);
  if (many) line.add(fmt::format("  {} nodes", hosts.size()));
  if (rows.empty()) return line.add("  no GPU").text();
  line.add(fmt::format("  {} GPU{}", rows.size(), rows.size() == 1 ? "" : "s"));
  if (power > 0) line.add("  " + watts_text(power));
  const std::string hot = extreme(
      rows, many, [](const GpuView& gpu) { return gpu.temperature_c; },
      [](double c) { return celsius_text(c); });
  const std::string slow = extreme(
      rows, many, [](const GpuView& gpu) { return sort_value(gpu, TopSort::clock); },
      [](double mhz) { return fmt::format("{:.0f} MHz", -mhz); });
  if (!hot.empty()) line.add("  hottest " + hot);
  if (!slow.empty()) line.add("  slowest " + slow);
  if (throttled > 0) line.add(fmt::format("  {} held back", throttled), Style::warning);
  return line.text();
}

std::vector<std::string> host_lines(const TopHost& host, const Console& console,
                                    std::size_t width) {
  std::vector<std::string> lines;
  Line line(console, width);
  line.add(host.latest && !host.latest->node.host.empty() ? host.latest->node.host : host.name,
           Style::bold);
  if (host.latest) line.add(fmt::format("  {}", fmt::join(node_pieces(*host.latest), ", ")));
  lines.push_back(line.text());
  if (!host.problem.empty())
    lines.push_back(Line(console, width).add("  " + host.problem, Style::warning).text());
  else if (!host.latest)
    lines.push_back(Line(console, width).add("  waiting for the first reading", Style::dim).text());
  if (!host.latest) return lines;
  for (const std::string& trouble : host.latest->troubles)
    lines.push_back(Line(console, width).add("  " + trouble, Style::warning).text());
  return lines;
}

/// The table's lines; in full mode two a GPU.
std::vector<std::string> table_lines(const std::vector<TopRow>& rows, bool full, bool many_hosts,
                                     const Console& console, std::size_t width) {
  const TopColumns columns = columns_for(width, many_hosts, rows);
  std::vector<std::string> lines;
  for (const TopRow& row : rows) {
    lines.push_back(gpu_row(row, columns, console, width));
    if (full) lines.push_back(history_row(row, columns, console, width));
  }
  return lines;
}

}  // namespace

const char* name_of(TopMode mode) {
  constexpr std::array names = {"auto", "full", "compact"};
  return names.at(static_cast<std::size_t>(mode));
}

const char* name_of(TopSort sort) {
  constexpr std::array names = {"gpu",         "power",  "temperature", "clock",
                                "utilization", "memory", "throttle"};
  return names.at(static_cast<std::size_t>(sort));
}

void add_snapshot(TopHost& host, telemetry::Snapshot snapshot) {
  host.history.resize(snapshot.devices.size());
  const auto push = [](std::deque<std::optional<double>>& values, std::optional<double> value) {
    values.push_back(value);
    if (values.size() > most_history) values.pop_front();
  };
  for (std::size_t i = 0; i < snapshot.devices.size(); ++i) {
    const GpuView gpu = view_gpu(snapshot, static_cast<int32_t>(i));
    std::optional<double> warmth;
    if (gpu.temperature_c) warmth = *gpu.temperature_c - coldest_c;
    const double range = gpu.slowdown_c.value_or(90) - coldest_c;
    push(host.history[i].power, share_of(gpu.power_w, gpu.power_limit_w));
    push(host.history[i].temperature, share_of(warmth, range));
    push(host.history[i].clock, share_of(gpu.sm_clock_mhz, gpu.max_sm_clock_mhz));
  }
  host.latest = std::move(snapshot);
}

std::string top_screen(const std::vector<TopHost>& hosts, const TopView& view, std::size_t columns,
                       std::size_t rows, const Console& console) {
  const std::vector<TopRow> gpus = rows_of(hosts, view.sort);
  const bool many = hosts.size() > 1;
  std::vector<std::string> top = {summary_line(hosts, gpus, view, console, columns)};
  for (const TopHost& host : hosts)
    for (std::string& line : host_lines(host, console, columns))
      top.push_back(std::move(line));
  if (rows > 0 && top.size() > rows / 2 + 1) top.resize(rows / 2 + 1);  // many nodes: GPUs matter
  if (!gpus.empty()) top.push_back(title_row(columns_for(columns, many, gpus), console, columns));
  const std::size_t room = rows == 0 ? SIZE_MAX : rows - std::min(rows, top.size());
  const bool full =
      view.mode == TopMode::full || (view.mode == TopMode::automatic && 2 * gpus.size() <= room);
  for (std::string& line : table_lines(gpus, full, many, console, columns))
    top.push_back(std::move(line));
  if (rows > 0 && top.size() > rows) top.resize(rows);
  return fmt::format("{}\n", fmt::join(top, "\n"));
}

std::string history_line(const std::deque<std::optional<double>>& shares, std::size_t width) {
  constexpr std::array blocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  const std::size_t known = std::min(shares.size(), width);
  text.append(width - known, ' ');
  for (std::size_t i = shares.size() - known; i < shares.size(); ++i) {
    if (!shares[i]) {
      text += ' ';
      continue;
    }
    const auto step = static_cast<std::size_t>(std::clamp(*shares[i], 0.0, 1.0) * 7.999);
    text += blocks.at(std::min<std::size_t>(step, 7));
  }
  return text;
}

}  // namespace triplepoint::tui
