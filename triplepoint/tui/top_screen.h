// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
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

}  // namespace triplepoint::tui
