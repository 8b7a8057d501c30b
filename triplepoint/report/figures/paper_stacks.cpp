// SPDX-License-Identifier: Apache-2.0
// Figures 3, 10 and 15: kernel seconds, stacked by class.
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/figures/paper_figures.h"

namespace triplepoint::report {
namespace {

using metrics::KernelSeconds;

constexpr double left = 64, top = 58, height = 260, step = 18, bar = 14, group_gap = 16;
constexpr double scale_gap = 76;      // between plots with their own scales
constexpr double own_scale_over = 6;  // a group higher than others by this factor

struct Class {
  const char *name, *quantity, *colour;
  Seconds (*of)(const KernelSeconds&);
};
constexpr Class classes[] = {
    {"compute", "kernel_compute_s", ink::blue, [](const KernelSeconds& k) { return k.compute; }},
    {"send/recv", "kernel_send_recv_s", ink::green,
     [](const KernelSeconds& k) { return k.send_recv; }},
    {"all-gather", "kernel_all_gather_s", ink::orange,
     [](const KernelSeconds& k) { return k.all_gather; }},
    {"reduce-scatter", "kernel_reduce_scatter_s", ink::vermilion,
     [](const KernelSeconds& k) { return k.reduce_scatter; }},
    {"all-reduce", "kernel_all_reduce_s", ink::yellow,
     [](const KernelSeconds& k) { return k.all_reduce; }},
    {"all-to-all", "kernel_all_to_all_s", ink::purple,
     [](const KernelSeconds& k) { return k.all_to_all; }},
    {"memory, elementwise", "kernel_memory_s", ink::sky,
     [](const KernelSeconds& k) { return k.memory; }},
    {"other", "kernel_other_s", ink::grey, [](const KernelSeconds& k) { return k.other; }}};

double highest_of(const KernelGroup& group) {
  double highest = 0;
  for (const KernelStack& stack : group.stacks)
    if (stack.kernels) highest = std::max(highest, stack.kernels->total() / unit::s);
  return highest;
}

void draw_stack(SvgSheet& sheet, const PlotBox& box, double x, const KernelStack& stack) {
  if (!stack.kernels) {
    sheet.rect(x - bar / 2, box.top, bar, box.height, ink::pale, "out of memory");
    sheet.text(
        x + 4, box.top + box.height / 2, "OOM",
        {.anchor = SvgSheet::Anchor::middle, .size = 10, .turned = -90, .colour = ink::soft});
    return;
  }
  double from = 0;
  for (const Class& part : classes) {
    const double value = part.of(*stack.kernels) / unit::s;
    if (value <= 0) continue;
    const double y = box.y(from + value);
    sheet.rect(x - bar / 2, y, bar, box.y(from) - y, part.colour,
               fmt::format("{}, {}: {} s", stack.label, part.name, significant(value)));
    from += value;
  }
}

/// At least as wide as the words below it.
double width_of(const KernelGroup& group) {
  return std::max({step * static_cast<double>(group.stacks.size()),
                   6.4 * static_cast<double>(group.title.size()),
                   6.8 * static_cast<double>(group.heading.size())}) +
         group_gap;
}

/// Where headings begin and end, so that neighbours share one.
struct Heading {
  std::string words;
  double begin = 0, end = 0;
};

void draw_headings(SvgSheet& sheet, const std::vector<Heading>& headings, double y) {
  for (const Heading& heading : headings) {
    if (heading.words.empty()) continue;
    sheet.line(heading.begin, y, heading.end, y, ink::soft);
    sheet.text((heading.begin + heading.end) / 2, y + 14, heading.words,
               {.anchor = SvgSheet::Anchor::middle, .size = 11.5, .bold = true});
  }
}

/// Groups on one scale, side by side; returns where the plot ends.
double draw_plot(SvgSheet& sheet, const std::vector<const KernelGroup*>& groups, double begin,
                 double foot) {
  double highest = 0, width = step / 2;
  for (const KernelGroup* group : groups) {
    highest = std::max(highest, highest_of(*group));
    width += width_of(*group);
  }
  const PlotBox box{begin, top, width, height, axis_from_zero(highest > 0 ? highest : 1)};
  draw_axis(sheet, box, "kernel seconds of a rank in one step");
  std::vector<Heading> headings;
  double from = begin + step / 2;
  for (const KernelGroup* group : groups) {
    const double room = width_of(*group) - group_gap;
    const double taken = step * static_cast<double>(group->stacks.size());
    double x = from + (room - taken) / 2 + step / 2;
    for (const KernelStack& stack : group->stacks) {
      draw_stack(sheet, box, x, stack);
      sheet.text(x + 4, box.bottom() + 8, stack.label,
                 {.anchor = SvgSheet::Anchor::end, .size = 10.5, .turned = -90});
      x += step;
    }
    sheet.line(from + 2, foot, from + room - 2, foot, ink::soft);
    sheet.text(from + room / 2, foot + 14, group->title,
               {.anchor = SvgSheet::Anchor::middle, .size = 10.5});
    if (headings.empty() || headings.back().words != group->heading)
      headings.push_back({group->heading, from, from});
    headings.back().end = from + room;
    from += room + group_gap;
  }
  draw_headings(sheet, headings, foot + 22);
  return box.right();
}

/// One step of the artifact's classifier may hold classes that never occur; those are not named.
void draw_legend(SvgSheet& sheet, const std::vector<KernelGroup>& groups) {
  double x = left;
  for (const Class& part : classes) {
    const bool occurs = std::any_of(groups.begin(), groups.end(), [&](const KernelGroup& group) {
      return std::any_of(group.stacks.begin(), group.stacks.end(), [&](const KernelStack& stack) {
        return stack.kernels && part.of(*stack.kernels) > Seconds();
      });
    });
    if (!occurs) continue;
    sheet.rect(x, 30, 10, 10, part.colour);
    sheet.text(x + 14, 39, part.name, {.size = 10.5});
    x += 26 + 5.8 * static_cast<double>(std::string_view(part.name).size());
  }
}

std::vector<FigureNumber> numbers_of(const std::vector<KernelGroup>& groups) {
  std::vector<FigureNumber> numbers;
  for (const KernelGroup& group : groups)
    for (const KernelStack& stack : group.stacks) {
      FigureNumber number{
          .job = stack.job, .quantity = out_of_memory_quantity, .stage = stack.stage};
      number.value = 1;
      if (!stack.kernels) numbers.push_back(number);
      if (!stack.kernels) continue;
      for (const Class& part : classes) {
        number.quantity = part.quantity;
        number.value = part.of(*stack.kernels) / unit::s;
        if (number.value > 0) numbers.push_back(number);
      }
    }
  return numbers;
}

}  // namespace

PaperFigure stacks_figure(const std::string& title, const std::vector<KernelGroup>& groups) {
  std::vector<double> heights;
  std::size_t longest = 4;
  for (const KernelGroup& group : groups) {
    heights.push_back(highest_of(group));
    for (const KernelStack& stack : group.stacks)
      longest = std::max(longest, stack.label.size());
  }
  std::sort(heights.begin(), heights.end());
  const double usual = heights[(heights.size() - 1) / 2];
  std::vector<const KernelGroup*> plots[2];
  for (const KernelGroup& group : groups)
    plots[highest_of(group) > own_scale_over * usual && usual > 0 ? 1 : 0].push_back(&group);
  SvgSheet sheet;
  sheet.text(left, 18, title, {.size = 14, .bold = true});
  draw_legend(sheet, groups);
  const double foot = top + height + 14 + 6.1 * static_cast<double>(longest);
  double end = left - scale_gap;
  for (const auto& plot : plots)
    if (!plot.empty()) end = draw_plot(sheet, plot, end + scale_gap, foot);
  return {sheet.svg(std::max(end + 30, 620.0), foot + 46, title), numbers_of(groups)};
}

}  // namespace triplepoint::report
