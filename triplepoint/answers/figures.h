// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "triplepoint/base/data_table.h"

namespace triplepoint::run {
struct Run;
}

namespace triplepoint::answers {

// Key figures, and what charts show, as data. A style names the kind of a thing ("k-compute"); the
// page has its colour.

/// A number that stands at the top of an answer, and what belongs to it.
struct KeyFigure {
  std::string label, value, remark;
};

struct LegendEntry {
  std::string style, text;
};

/// One piece of a bar.
struct BarPart {
  double value = 0;
  std::string style;
  std::string name;  // said when pointed at
};

/// One line of a chart of lying bars.
struct Bar {
  std::string label = {};
  std::vector<BarPart> parts;  // drawn one after the other
  std::optional<double> peak;  // a mark beyond the bar
  std::string text;            // stands at the end
  std::string status;          // instead of a bar: "out of memory"
  bool begins_group = false;   // a gap and a rule above
  std::string job = {};        // whose bar it is; empty: no job's
  std::string hint = {};       // said when pointed at
};

struct BarChart {
  std::string title;  // for screen readers
  std::string unit;   // below the axis: "power (W)"
  std::vector<Bar> bars;
  std::optional<double> limit;  // a rule across all bars
  std::string limit_name;
  double low = 0;    // where the axis begins: 0 unless the bars are points on a scale
  bool cuts = true;  // one bar many times longer than the others is cut; not where bars are shares
};

struct Line {
  std::string name, style;
  std::vector<std::optional<double>> values;  // one per position; absent: a gap
  std::vector<std::string> jobs = {};         // whose value it is; empty: no job's
};

/// Values over a few named positions: microbatch sizes, stages.
struct LineChart {
  std::string title, x_name, y_unit;
  std::vector<std::string> positions;
  std::vector<Line> lines;
  bool from_zero = true;
};

struct Point {
  double x = 0, y = 0;
  std::optional<double> colour;  // absent: grey
  std::string job, hint;
  std::string label;       // beside it; empty: none
  bool on_front = false;   // ringed, and joined to the others of the front
  std::string style = {};  // instead of a colour
};

/// Points over two numbers, a third one as colour. An axis whose numbers lie far apart is
/// logarithmic.
struct ScatterChart {
  std::string title, x_unit, y_unit, colour_unit;
  std::vector<Point> points;
  bool diagonal = false;  // both axes alike; lines where y = x, and at twice and half of it
};

/// Ratios of one kind of row: between `low` and `high` lie most, `middle` is their median.
struct RangeRow {
  std::string label;
  double low = 1, middle = 1, high = 1;
  struct Band {
    double low = 1, high = 1;
  };
  std::optional<Band> band;  // where they were expected
  std::string text, hint;    // at the right; said when pointed at
};

/// Ratios around 1 on a logarithmic axis, so that twice and half are equally far.
struct RangeChart {
  std::string title, unit;
  std::vector<RangeRow> rows;
};

/// One lying bar to the left (less) or right (more) of a middle line.
struct DifferenceBar {
  std::string label;
  double relative = 0;  // of the base
  std::string text;     // at its end
  int judgement = 0;    // 1: good news, -1: bad, 0: neither
  bool begins_group = false;
};

/// Bars beyond 100 % are cut at the edge; their text says how long they are.
struct DifferenceChart {
  std::string title, unit;  // below the axis
  std::vector<DifferenceBar> bars;
};

struct HeatRow {
  std::string label;
  std::vector<double> values;  // one per device
  std::string job = {};        // whose row it is; empty: no job's
};

/// Devices from left to right, jobs from top to bottom, colour for the value.
struct HeatMap {
  std::string title, unit;
  std::vector<HeatRow> rows;
  int64_t per_node = 8;     // a wider gap after this many devices
  bool names_nodes = true;  // above the columns
};

/// Each node of a run from its inlet to its outlet, slots as warm as they are.
struct ChassisPicture {
  std::shared_ptr<const run::Run> run;
  std::vector<std::string> slot_words = {};  // of each device, instead of its power
  std::optional<std::pair<double, double>> range = std::nullopt;  // °C, ends of the colour scale
};

/// A chart, its title, which says what it shows, and the numbers behind it.
struct Figure {
  std::string id, title, note;
  std::variant<std::monostate, BarChart, LineChart, ScatterChart, RangeChart, DifferenceChart,
               HeatMap, ChassisPicture>
      chart;
  std::vector<LegendEntry> legend;
  DataTable table;
  bool wide = false;  // takes the whole row of a page
};

}  // namespace triplepoint::answers
