// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/report/charts/charts.h"

namespace triplepoint::report {

/// A drawing that stands alone: fonts and colours are in it, on white, as papers want them.
class SvgSheet {
 public:
  enum class Anchor { start, middle, end };
  struct TextStyle {
    Anchor anchor = Anchor::start;
    double size = 11;
    bool bold = false;
    double turned = 0;  // degrees, clockwise, around the anchor
    std::string colour = "#1a1d21";
  };

  void rect(double x, double y, double width, double height, std::string_view fill,
            std::string_view says = "");
  void line(double x1, double y1, double x2, double y2, std::string_view colour, double thick = 1);
  void path(std::string_view d, std::string_view stroke, double thick,
            std::string_view dashes = "");
  /// shape 0: disc, 1: triangle, 2: diamond, 3: square
  void marker(int shape, double x, double y, std::string_view fill, std::string_view says = "");
  void text(double x, double y, std::string_view words, const TextStyle& style);
  void text(double x, double y, std::string_view words) { text(x, y, words, {}); }

  std::string svg(double width, double height, std::string_view title) const;

 private:
  std::string body_;
};

/// Where a plot lies on a sheet, and its vertical scale.
struct PlotBox {
  double left = 0, top = 0, width = 0, height = 0;
  Axis axis;
  double y(double value) const { return top + height * (1 - axis.share(value)); }
  double bottom() const { return top + height; }
  double right() const { return left + width; }
};

/// Frame, grid, ticks and what the axis shows.
void draw_axis(SvgSheet& sheet, const PlotBox& box, std::string_view name);

/// Okabe and Ito's colours, which people with any colour vision tell apart.
namespace ink {
inline constexpr const char *blue = "#0072b2", *sky = "#56b4e9", *green = "#009e73",
                            *yellow = "#e5c700", *orange = "#e69f00", *vermilion = "#d55e00",
                            *purple = "#cc79a7", *grey = "#8a929b", *pale = "#e3e6ea",
                            *soft = "#59636e", *black = "#1a1d21";
}

}  // namespace triplepoint::report
