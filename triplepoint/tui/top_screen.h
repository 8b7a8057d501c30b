// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/live/view.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// The past of one GPU, newest last, as shares of what there is at most (the power limit, the
/// slowdown temperature, the highest clock); absent where nothing was read.
struct TopHistory {
  std::deque<std::optional<double>> power, temperature, clock;
};

struct TopHost {
  std::string name;  // as it was asked for
  std::string problem;
  std::optional<telemetry::Snapshot> latest;
  std::vector<TopHistory> history;  // by device
};

/// A new snapshot of a host: it becomes the latest, and the end of the histories.
void add_snapshot(TopHost& host, telemetry::Snapshot snapshot);

enum class TopMode { automatic, full, compact };
enum class TopSort { index, power, temperature, clock, utilization, memory, throttle };
const char* name_of(TopMode);
const char* name_of(TopSort);

struct TopView {
  TopMode mode = TopMode::automatic;
  TopSort sort = TopSort::index;
  std::string title;  // "19:04:23"
};

/// The screen: at most `rows` lines of at most `columns` characters. 0 rows: as many as it takes.
std::string top_screen(const std::vector<TopHost>&, const TopView&, std::size_t columns,
                       std::size_t rows, const Console&);

/// Shares as blocks, newest at the right: "▁▂▄█"; blanks where there is nothing.
std::string history_line(const std::deque<std::optional<double>>& shares, std::size_t width);

/// A line of pieces in styles that ends where the screen does.
class Line {
 public:
  Line(const Console& console, std::size_t columns) : console_(console), left_(columns) {}
  Line& add(std::string_view text, Style style = Style::plain);
  /// In a column of this width, at its right or left end.
  Line& right(const std::string& text, std::size_t width, Style style = Style::plain);
  Line& left(const std::string& text, std::size_t width, Style style = Style::plain);
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
  telemetry::GpuView gpu;
  const TopHistory* history = nullptr;
};

/// All GPUs in this order; absent values last.
std::vector<TopRow> rows_of(const std::vector<TopHost>& hosts, TopSort sort);
/// What is sorted by, larger first.
std::optional<double> sort_value(const telemetry::GpuView& gpu, TopSort sort);

/// Which columns this width has room for.
struct TopColumns {
  std::size_t host = 0, model = 8;
  bool limit = false, memory_temperature = false, bars = false, links = false, pcie = false;
};

TopColumns columns_for(std::size_t width, bool many_hosts, const std::vector<TopRow>& rows);

std::string title_row(const TopColumns&, const Console&, std::size_t width);
std::string gpu_row(const TopRow&, const TopColumns&, const Console&, std::size_t width);
std::string history_row(const TopRow&, const TopColumns&, const Console&, std::size_t width);

/// A share of what there is at most, from 0 to 1.
std::optional<double> share_of(const std::optional<double>& value,
                               const std::optional<double>& all);

}  // namespace triplepoint::tui
