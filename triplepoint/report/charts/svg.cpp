// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/svg.h"

#include <fmt/format.h>

#include "triplepoint/report/pages/html.h"

namespace triplepoint::report::svg {
namespace {

std::string look_of(std::string_view look) {
  if (look.empty()) return "";
  return fmt::format(" {}=\"{}\"", look.starts_with('#') ? "fill" : "class", look);
}

/// An element with its title, if it has one.
std::string element(std::string_view name, std::string_view attributes, std::string_view title) {
  if (title.empty()) return fmt::format("<{}{}/>", name, attributes);
  return fmt::format("<{0}{1}><title>{2}</title></{0}>", name, attributes, escape(title));
}

}  // namespace

std::string number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string text(std::string_view look, double x, double y, std::string_view words,
                 std::string_view attributes) {
  return fmt::format("<text{} x=\"{}\" y=\"{}\"{}{}>{}</text>", look_of(look), number(x), number(y),
                     attributes.empty() ? "" : " ", attributes, escape(words));
}

std::string box(std::string_view look, double x, double y, double width, double height,
                std::string_view title, std::string_view attributes) {
  return element("rect",
                 fmt::format("{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}{}", look_of(look),
                             number(x), number(y), number(width), number(height),
                             attributes.empty() ? "" : " ", attributes),
                 title);
}

std::string path(std::string_view look, std::string_view line, std::string_view title) {
  return element("path", fmt::format("{} d=\"{}\"", look_of(look), line), title);
}

std::string dot(std::string_view look, double x, double y, double radius, std::string_view title,
                std::string_view attributes) {
  return element("circle",
                 fmt::format("{} cx=\"{}\" cy=\"{}\" r=\"{}\"{}{}", look_of(look), number(x),
                             number(y), number(radius), attributes.empty() ? "" : " ", attributes),
                 title);
}

std::string point(double x, double y, bool joined) {
  return fmt::format("{}{} {}", joined ? "L" : "M", number(x), number(y));
}

std::string group(std::string_view job, std::string_view title) {
  std::string begin = job.empty() ? "<g>" : fmt::format("<g data-job=\"{}\">", escape(job));
  if (!title.empty()) begin += fmt::format("<title>{}</title>", escape(title));
  return begin;
}

std::string tick_down(double x, double top, double bottom, std::string_view words,
                      std::string_view look) {
  return path(look, point(x, top, false) + "V" + number(bottom)) +
         text("tick", x, bottom + 14, words);
}

std::string tick_across(double y, double left, double right, std::string_view words) {
  return path("grid", point(left, y, false) + "H" + number(right)) +
         text("label", left - 6, y + 4, words);
}

std::string colour_scale(const Axis& axis, double left, double top, double length) {
  constexpr int shades = 48;
  std::string svg;
  for (int i = 0; i < shades; ++i)
    svg += box(heat_colour((i + 0.5) / shades), left + length * i / shades, top,
               length / shades + 0.4, 9);
  for (const double tick : axis.ticks)
    svg += text("tick", left + length * axis.share(tick), top + 21, axis.tick_text(tick));
  return svg;
}

double label_room(std::size_t longest) {
  constexpr double character = 7, least = 4;  // mean width of one at the label's size
  return std::max(least, static_cast<double>(longest)) * character + 8;
}

}  // namespace triplepoint::report::svg
