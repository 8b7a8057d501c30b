// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/report/charts/axis.h"

/// Elements of a drawing. A look is a class of the style sheet, or a colour "#rrggbb"; attributes
/// are markup. Places are in the drawing's own units, about one CSS pixel each (svg_begin).
namespace triplepoint::report::svg {

/// With one decimal where it has any: "12.3", "12".
std::string number(double value);

std::string text(std::string_view look, double x, double y, std::string_view words,
                 std::string_view attributes = "");
/// `title`: said when pointed at.
std::string box(std::string_view look, double x, double y, double width, double height,
                std::string_view title = "", std::string_view attributes = "");
std::string path(std::string_view look, std::string_view line, std::string_view title = "");
std::string dot(std::string_view look, double x, double y, double radius,
                std::string_view title = "", std::string_view attributes = "");
/// A lower end, joined to the point before if there is one: "M3 4", "L5 6".
std::string point(double x, double y, bool joined);

/// A group of a job, or of none, with what is said when pointed at; ended by "</g>".
std::string group(std::string_view job, std::string_view title);

/// A line across the plot with its number below, or at its left.
std::string tick_down(double x, double top, double bottom, std::string_view words,
                      std::string_view look = "grid");
std::string tick_across(double y, double left, double right, std::string_view words);

/// Shades from the lowest to the highest value, the ticks below; the names stand by themselves.
std::string colour_scale(const Axis& axis, double left, double top, double length);

/// Room at the left for labels of as many characters.
double label_room(std::size_t longest);

}  // namespace triplepoint::report::svg
