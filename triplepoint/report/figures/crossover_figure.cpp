// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/crossover_figure.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/report/charts/svg_sheet.h"

namespace triplepoint::report {
namespace {

constexpr double left = 78, right = 24, top = 64, bottom = 54, width = 640, height = 400;
constexpr const char* soft_band = "#f3e3d3";

using Spot = CrossoverFigure::Spot;
using Value = std::optional<double> Spot::*;
using Words = std::string Spot::*;

class Drawing {
 public:
  explicit Drawing(const CrossoverFigure& figure) : figure_(figure) {
    box_ = {.left = left,
            .top = top,
            .width = width - left - right,
            .height = height - top - bottom,
            .axis = {}};
    double highest = 0;
    for (const Spot& spot : figure.spots)
      highest = std::max({highest, spot.base.value_or(0), spot.against.value_or(0)});
    box_.axis = axis_from_zero(highest > 0 ? highest : 1, 6);
    low_ = std::log(figure.spots.front().x);
    high_ = std::log(figure.spots.back().x);
  }

  std::string svg() {
    for (const auto& [low, high] : figure_.crossovers)
      sheet_.rect(x(low), box_.top, std::max(2.0, x(high) - x(low)), box_.height, soft_band,
                  "the better cluster changes here");
    draw_axis(sheet_, box_, figure_.y_name);
    for (const Spot& spot : figure_.spots)
      if (spot.labelled)
        sheet_.text(x(spot.x), box_.bottom() + 16, spot.value,
                    {.anchor = SvgSheet::Anchor::middle, .size = 11});
    sheet_.text(box_.left + box_.width / 2, height - 12, figure_.x_name,
                {.anchor = SvgSheet::Anchor::middle, .size = 12});
    curve(&Spot::base, &Spot::base_plan, 0, ink::blue);
    curve(&Spot::against, &Spot::against_plan, 1, ink::vermilion);
    sheet_.text(left, 22, figure_.title, {.size = 13, .bold = true});
    legend(left, figure_.base, 0, ink::blue);
    legend(left + box_.width / 2, figure_.against, 1, ink::vermilion);
    return sheet_.svg(width, height, figure_.title);
  }

 private:
  double x(double value) const {
    const double share = high_ > low_ ? (std::log(value) - low_) / (high_ - low_) : 0.5;
    constexpr double margin = 0.04;
    return box_.left + box_.width * (margin + (1 - 2 * margin) * share);
  }

  /// A cluster without a plan at a value has a gap there.
  void curve(Value value, Words plan, int shape, const char* colour) {
    std::string path;
    bool pen_down = false;
    for (const Spot& spot : figure_.spots) {
      if (spot.*value)
        path +=
            fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x(spot.x), box_.y(*(spot.*value)));
      pen_down = (spot.*value).has_value();
    }
    if (!path.empty()) sheet_.path(path, colour, 1.6);
    for (const Spot& spot : figure_.spots)
      if (spot.*value)
        sheet_.marker(shape, x(spot.x), box_.y(*(spot.*value)), colour,
                      fmt::format("{}: {}", spot.value, spot.*plan));
  }

  void legend(double at, const std::string& words, int shape, const char* colour) {
    sheet_.marker(shape, at + 6, 42, colour);
    sheet_.text(at + 18, 46, words, {.size = 12});
  }

  const CrossoverFigure& figure_;
  SvgSheet sheet_;
  PlotBox box_;
  double low_ = 0, high_ = 1;
};

}  // namespace

std::string crossover_svg(const CrossoverFigure& figure) {
  return figure.spots.empty() ? std::string() : Drawing(figure).svg();
}

}  // namespace triplepoint::report
