// SPDX-License-Identifier: Apache-2.0
// Thermal-aware placement against the job as it stands: what it brings, and why.
#include "triplepoint/report/figures/placement_figure.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/report/charts/svg_sheet.h"

namespace triplepoint::report {
namespace {

using advise::Placement;
using advise::PlacementReason;

constexpr double left = 64, top = 64, height = 150, column = 78, panel_gap = 74, bar = 30;

struct Reason {
  const char* name;
  const char* colour;
  double PlacementReason::*seconds;
};
constexpr std::array<Reason, 4> reasons = {
    {{"rank order", ink::grey, &PlacementReason::order},
     {"imbalance", ink::vermilion, &PlacementReason::layers},
     {"heat (who sits where)", ink::blue, &PlacementReason::heat},
     {"boards, clock steps", ink::sky, &PlacementReason::boards}}};

/// One bar per placement.
struct Panel {
  const char* name;
  std::vector<double> values;
};

class Drawing {
 public:
  Drawing(const advise::PlaceResult& result, const std::string& title)
      : result_(result), base_(result.placements.front().outcome) {
    sheet_.text(left, 20, title, {.size = 13, .bold = true});
    draw_legend();
    draw_reasons(left);
    const double next = left + width() + panel_gap;
    draw_bars(next, {"samples/(s MJ), % of baseline", relative_efficiency()});
    draw_bars(next + width() + panel_gap, {"hot less cold GPUs (K)", gaps()});
  }

  std::string svg() const {
    return sheet_.svg(left + 3 * width() + 2 * panel_gap + 24, top + height + 48,
                      "Placements by heat");
  }

 private:
  double width() const { return column * static_cast<double>(result_.placements.size()); }
  double middle(double from, size_t i) const {
    return from + column * (static_cast<double>(i) + 0.5);
  }

  std::string name_at(size_t i) const {
    const Placement& placement = result_.placements[i];
    std::string name = name_of(placement.kind);
    if (placement.shift > 0) name += fmt::format(" +{}", placement.shift);
    return name;
  }

  void draw_legend() {
    double x = left;
    for (const Reason& reason : reasons) {
      sheet_.rect(x, 32, 10, 10, reason.colour);
      sheet_.text(x + 14, 41, reason.name);
      x += 26 + 6.3 * static_cast<double>(std::string_view(reason.name).size());
    }
    sheet_.path(fmt::format("M{:.1f} 37L{:.1f} 37", x, x + 12), ink::black, 2);
    sheet_.text(x + 17, 41, "their sum");
  }

  void draw_names(double from) {
    for (size_t i = 0; i < result_.placements.size(); ++i) {
      sheet_.text(middle(from, i), top + height + 16, name_at(i),
                  {.anchor = SvgSheet::Anchor::middle, .size = 10});
      if (!result_.placements[i].outcome.fits)
        sheet_.text(middle(from, i), top + height + 30, "out of memory",
                    {.anchor = SvgSheet::Anchor::middle, .size = 9, .colour = ink::soft});
    }
  }

  /// Shares of the baseline's step, stacked away from zero.
  double share(const Placement& placement, const Reason& reason) const {
    return 100 * placement.reason.*reason.seconds / base_.step_time;
  }

  void draw_reasons(double from) {
    double low = -0.5, high = 0.5;
    for (const Placement& placement : result_.placements) {
      double gained = 0, paid = 0;
      for (const Reason& reason : reasons)
        (share(placement, reason) < 0 ? gained : paid) += share(placement, reason);
      low = std::min(low, gained);
      high = std::max(high, paid);
    }
    PlotBox box{from, top, width(), height, axis_between(low, high, 5)};
    draw_axis(sheet_, box, "step time against baseline (%)");
    sheet_.line(box.left, box.y(0), box.right(), box.y(0), ink::soft);
    for (size_t i = 0; i < result_.placements.size(); ++i)
      draw_stack(box, result_.placements[i], middle(from, i));
    draw_names(from);
  }

  void draw_stack(const PlotBox& box, const Placement& placement, double x) {
    double gained = 0, paid = 0;
    for (const Reason& reason : reasons) {
      const double value = share(placement, reason);
      double& edge = value < 0 ? gained : paid;
      const double y1 = box.y(edge), y2 = box.y(edge + value);
      edge += value;
      sheet_.rect(x - bar / 2, std::min(y1, y2), bar, std::abs(y2 - y1), reason.colour,
                  fmt::format("{}: {:+.2f} %", reason.name, value));
    }
    const double sum = 100 * placement.reason.total() / base_.step_time;
    const double y = box.y(sum);
    sheet_.line(x - bar / 2 - 5, y, x + bar / 2 + 5, y, ink::black, 2);
    sheet_.text(x + bar / 2 + 7, y + 4, fmt::format("{:+.1f}", sum), {.size = 10});
  }

  std::vector<double> relative_efficiency() const {
    std::vector<double> values;
    for (const Placement& placement : result_.placements)
      values.push_back(100 * placement.outcome.samples_per_s_mj / base_.samples_per_s_mj);
    return values;
  }
  std::vector<double> gaps() const {
    std::vector<double> values;
    for (const Placement& placement : result_.placements)
      values.push_back(placement.outcome.gap);
    return values;
  }

  /// Points, since the axis does not begin at zero.
  void draw_bars(double from, const Panel& panel) {
    double low = 1e300, high = -1e300;
    for (size_t i = 0; i < panel.values.size(); ++i) {
      if (!result_.placements[i].outcome.fits) continue;
      low = std::min(low, panel.values[i]);
      high = std::max(high, panel.values[i]);
    }
    const double margin = std::max(0.1, 0.1 * (high - low));
    PlotBox box{from, top, width(), height, axis_between(low - margin, high + margin, 5)};
    draw_axis(sheet_, box, panel.name);
    for (size_t i = 0; i < panel.values.size(); ++i) {
      if (!result_.placements[i].outcome.fits) continue;
      const double x = middle(from, i), y = box.y(panel.values[i]);
      sheet_.marker(0, x, y, i == 0 ? ink::grey : ink::blue);
      sheet_.text(x + 8, y + 4, fmt::format("{:.1f}", panel.values[i]), {.size = 10});
    }
    draw_names(from);
  }

  const advise::PlaceResult& result_;
  const advise::PlacementOutcome& base_;
  SvgSheet sheet_;
};

}  // namespace

std::string placement_figure(const advise::PlaceResult& result, const std::string& title) {
  return Drawing(result, title).svg();
}

}  // namespace triplepoint::report
