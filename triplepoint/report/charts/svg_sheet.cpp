// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/svg_sheet.h"

#include <fmt/format.h>

#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

std::string closed(std::string_view tag, std::string_view says) {
  return says.empty() ? "/>" : fmt::format("><title>{}</title></{}>", escape(says), tag);
}

const char* anchor_name(SvgSheet::Anchor anchor) {
  return anchor == SvgSheet::Anchor::start    ? "start"
         : anchor == SvgSheet::Anchor::middle ? "middle"
                                              : "end";
}

}  // namespace

void SvgSheet::rect(double x, double y, double width, double height, std::string_view fill,
                    std::string_view says) {
  body_ +=
      fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"",
                  x, y, width, height, fill) +
      closed("rect", says) + "\n";
}

void SvgSheet::line(double x1, double y1, double x2, double y2, std::string_view colour,
                    double thick) {
  path(fmt::format("M{:.2f} {:.2f}L{:.2f} {:.2f}", x1, y1, x2, y2), colour, thick);
}

void SvgSheet::path(std::string_view d, std::string_view stroke, double thick,
                    std::string_view dashes) {
  body_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"", d, stroke,
                       thick);
  if (!dashes.empty()) body_ += fmt::format(" stroke-dasharray=\"{}\"", dashes);
  body_ += "/>\n";
}

void SvgSheet::marker(int shape, double x, double y, std::string_view fill, std::string_view says) {
  constexpr const char* outlines[] = {"", "m0 -4l4 7h-8z", "m0 -4.5l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
                                      "m-3.2 -3.2h6.4v6.4h-6.4z"};
  if (shape == 0) {
    body_ += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3.3\" fill=\"{}\"", x, y, fill) +
             closed("circle", says) + "\n";
    return;
  }
  body_ += fmt::format("<path d=\"M{:.2f} {:.2f}{}\" fill=\"{}\"", x, y, outlines[shape], fill) +
           closed("path", says) + "\n";
}

void SvgSheet::text(double x, double y, std::string_view words, const TextStyle& style) {
  body_ += fmt::format(
      "<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"{}\" font-size=\"{}\" "
      "fill=\"{}\"",
      x, y, anchor_name(style.anchor), style.size, style.colour);
  if (style.bold) body_ += " font-weight=\"bold\"";
  if (style.turned != 0)
    body_ += fmt::format(" transform=\"rotate({} {:.2f} {:.2f})\"", style.turned, x, y);
  body_ += ">" + escape(words) + "</text>\n";
}

std::string SvgSheet::svg(double width, double height, std::string_view title) const {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
             "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
             "<title>{2}</title>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
             width, height, escape(title)) +
         body_ + "</svg>\n";
}

void draw_axis(SvgSheet& sheet, const PlotBox& box, std::string_view name) {
  for (const double tick : box.axis.ticks) {
    const double y = box.y(tick);
    sheet.line(box.left, y, box.right(), y, ink::pale, 0.8);
    sheet.text(box.left - 6, y + 4, box.axis.tick_text(tick),
               {.anchor = SvgSheet::Anchor::end, .size = 10.5});
  }
  sheet.path(
      fmt::format("M{:.1f} {:.1f}V{:.1f}H{:.1f}", box.left, box.top, box.bottom(), box.right()),
      ink::soft, 1);
  sheet.text(box.left - 44, box.top + box.height / 2, name,
             {.anchor = SvgSheet::Anchor::middle, .size = 11.5, .turned = -90});
}

}  // namespace triplepoint::report
