// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/chassis_picture.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/answers/plots.h"
#include "triplepoint/answers/run_findings.h"
#include "triplepoint/report/charts/charts.h"

namespace triplepoint::report {
namespace {

constexpr double slot_width = 74, slot_height = 36, slot_gap = 12;
constexpr double column_gap = 34, margin = 12, side = 46;  // side: where air comes in and goes out
constexpr double head = 22, foot = 18;
constexpr std::size_t most_nodes = 8;

/// Every device of one node, by slot.
struct Node {
  int32_t index = 0;
  std::vector<std::optional<std::size_t>> device_of_slot;
  double mean_c = 0;
};

struct Picture {
  const run::Run& run;
  const metrics::Metrics& metrics;
  const spec::Chassis& chassis;
  const ChassisOptions& options;
  std::vector<int32_t> depth;
  std::vector<double> row;  // of each slot, in slots from the top
  double columns = 1, rows = 1;
  Axis axis;

  double width() const {
    return 2 * side + columns * slot_width + (columns - 1) * column_gap + 2 * margin;
  }
  double height() const { return head + rows * (slot_height + slot_gap) + slot_gap + foot; }
  double x(std::size_t slot) const {
    return side + margin + depth[slot] * (slot_width + column_gap);
  }
  double y(std::size_t slot) const {
    return head + slot_gap + row[slot] * (slot_height + slot_gap);
  }
  bool is_liquid() const { return chassis.cooling == spec::Cooling::liquid; }
};

/// A slot with one slot before it stands in its row, so that a loop in series is a straight line;
/// others fill their column from the top.
std::vector<double> rows_of(const spec::Chassis& chassis, const std::vector<int32_t>& depth) {
  std::vector<double> row(depth.size(), 0);
  std::vector<double> next(as_size(answers::highest_depth(depth)) + 1, 0);
  for (std::size_t slot = 0; slot < depth.size(); ++slot) {
    std::vector<std::size_t> before;
    for (std::size_t other = 0; other < depth.size(); ++other)
      if (depth[other] == depth[slot] - 1 && answers::lies_behind(chassis, slot, other))
        before.push_back(other);
    double& free = next[as_size(depth[slot])];
    row[slot] = before.size() == 1 && before[0] < slot ? std::max(free, row[before[0]]) : free;
    free = row[slot] + 1;
  }
  return row;
}

/// Of the slots that are known; 0 if none is.
double mean_of(const Node& node, const std::vector<double>& values) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& device : node.device_of_slot) {
    if (!device || !std::isfinite(values[*device])) continue;
    sum += values[*device];
    ++count;
  }
  return count > 0 ? sum / as_real(count) : 0;
}

std::vector<Node> nodes_of(const run::Run& run, const metrics::Metrics& metrics,
                           std::size_t slots) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < run.devices.size(); ++i) {
    const run::Device& device = run.devices[i];
    if (device.node < 0 || device.slot < 0 || as_size(device.slot) >= slots) continue;
    while (nodes.size() <= as_size(device.node)) {
      nodes.push_back({static_cast<int32_t>(nodes.size()), {}, 0});
      nodes.back().device_of_slot.resize(slots);
    }
    nodes[as_size(device.node)].device_of_slot[as_size(device.slot)] = i;
  }
  for (Node& node : nodes)
    node.mean_c = mean_of(node, metrics.temperature_per_gpu_c);
  return nodes;
}

/// The hottest four, two in the middle and the coolest two; by number.
std::vector<Node> shown_of(std::vector<Node> nodes) {
  if (nodes.size() <= most_nodes) return nodes;
  std::ranges::stable_sort(nodes, std::greater(), &Node::mean_c);
  const std::size_t middle = nodes.size() / 2, end = nodes.size();
  std::vector<Node> shown;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                              middle - 1, middle, end - 2, end - 1})
    shown.push_back(nodes[i]);
  std::ranges::sort(shown, {}, &Node::index);
  return shown;
}

/// What flows from left to right behind the slots of each row, warmer on its way.
std::string flow(const Picture& picture, const std::string& gradient) {
  std::string svg;
  const double begin = 6, end = picture.width() - 12;
  for (int row = 0; row < static_cast<int>(picture.rows); ++row) {
    const double y = head + slot_gap + (row + 0.5) * (slot_height + slot_gap) - slot_gap / 2;
    const double thick = picture.is_liquid() ? 6 : 15;
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}H{:.1f}v{}l12 {}l-12 {}v{}H{:.1f}z\" fill=\"url(#{})\"/>", begin,
        y - thick / 2, end - 6, -4, thick / 2 + 4, thick / 2 + 4, -4, begin, gradient);
  }
  return svg;
}

std::string gradient_of(const std::string& id, bool is_liquid) {
  return fmt::format(
      "<linearGradient id=\"{}\"><stop offset=\"0\" stop-color=\"#56b4e9\" stop-opacity=\"{}\"/>"
      "<stop offset=\"1\" stop-color=\"#d55e00\" stop-opacity=\"{}\"/></linearGradient>",
      id, is_liquid ? 0.9 : 0.45, is_liquid ? 0.9 : 0.6);
}

std::string words_of(const Picture& picture, std::size_t device) {
  const run::Device& d = picture.run.devices[device];
  std::string text =
      fmt::format("GPU {}: GPU {} of node {}, slot {}", device, d.local, d.node, d.slot);
  if (d.rank) text += fmt::format(", rank {}", *d.rank);
  text += fmt::format("; {} °C", significant(picture.metrics.temperature_per_gpu_c[device]));
  const auto add = [&](const std::vector<double>& values, const char* unit_name) {
    if (device < values.size() && std::isfinite(values[device]))
      text += fmt::format(", {} {}", significant(values[device], 4), unit_name);
  };
  add(picture.metrics.power_per_gpu_w, "W");
  add(picture.metrics.sm_clock_per_gpu_mhz, "MHz");
  return text;
}

std::string slot_box(const Picture& picture, const Node& node, std::size_t slot) {
  const auto device = node.device_of_slot[slot];
  const double x = picture.x(slot), y = picture.y(slot);
  if (!device || !std::isfinite(picture.metrics.temperature_per_gpu_c[*device]))
    return fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"4\" "
        "style=\"fill:var(--card);stroke:var(--rule)\"/>",
        x, y, slot_width, slot_height);
  const double temperature = picture.metrics.temperature_per_gpu_c[*device];
  const double share = picture.axis.share(temperature);
  const char* ink = share > 0.55 ? "#000000" : "#ffffff";
  std::string second;
  if (*device < picture.options.slot_words.size())
    second = picture.options.slot_words[*device];
  else if (*device < picture.metrics.power_per_gpu_w.size())
    second = fmt::format("{} W", significant(picture.metrics.power_per_gpu_w[*device]));
  return fmt::format(
             "<g data-gpu=\"{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" "
             "height=\"{}\" rx=\"4\" fill=\"{}\"/>",
             *device, escape(words_of(picture, *device)), x, y, slot_width, slot_height,
             heat_colour(share)) +
         fmt::format(
             "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
             "style=\"fill:{};font-weight:650\">{}: {} °C</text>",
             x + slot_width / 2, y + 15, ink, picture.run.devices[*device].local,
             significant(temperature)) +
         fmt::format(
             "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
             "style=\"fill:{}\">{}</text></g>",
             x + slot_width / 2, y + 29, ink, second);
}

/// What the node's own inlet was on average, where the run knows it.
std::string inlet_text(const Picture& picture, const Node& node) {
  if (const run::Series* series = run::find_series(picture.run, "inlet_c", node.index, true))
    if (!series->values.empty())
      return fmt::format("in {} °C", significant(run::statistics(*series).time_weighted_mean));
  return "in";
}

std::string node_drawing(const Picture& picture, const Node& node) {
  const std::string gradient = fmt::format("{}-flow-{}", picture.options.id, node.index);
  const std::string host = as_size(node.index) < picture.run.manifest.hosts.size()
                               ? picture.run.manifest.hosts[as_size(node.index)]
                               : fmt::format("node {}", node.index);
  const std::string name = fmt::format("{}: {} °C mean", host, significant(node.mean_c));
  std::string svg = svg_begin(picture.width(), picture.height() + 4, name) + "<defs>" +
                    gradient_of(gradient, picture.is_liquid()) + "</defs>";
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"8\" "
      "style=\"fill:none;stroke:var(--soft)\"/>",
      side, head, picture.width() - 2 * side, picture.height() - head - foot + 4);
  svg += fmt::format("<text x=\"{:.1f}\" y=\"14\" style=\"font-weight:650\">{}</text>", side,
                     escape(name));
  svg += flow(picture, gradient);
  for (std::size_t slot = 0; slot < picture.depth.size(); ++slot)
    svg += slot_box(picture, node, slot);
  svg += fmt::format("<text class=\"tick start\" x=\"2\" y=\"{:.1f}\">{}</text>",
                     picture.height() - 2, inlet_text(picture, node));
  svg += fmt::format(
      "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" style=\"text-anchor:end\">out</text>",
      picture.width() - 4, picture.height() - 2);
  return svg + "</svg>";
}

std::string scale(const Picture& picture) {
  constexpr int shades = 40;
  constexpr double left = 14, length = 260, y = 4;
  std::string svg = svg_begin(320, 32, "colours of temperatures");
  for (int i = 0; i < shades; ++i)
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"9\" fill=\"{}\"/>",
        left + length * i / shades, y, length / shades + 0.4, heat_colour((i + 0.5) / shades));
  for (const double tick : picture.axis.ticks)
    svg +=
        fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                    left + length * picture.axis.share(tick), y + 21, picture.axis.tick_text(tick));
  return svg +
         fmt::format("<text class=\"unit start\" x=\"{:.1f}\" y=\"{:.1f}\">°C</text>",
                     left + length + 12, y + 9) +
         "</svg>";
}

/// Nodes beside each other, as many as there is room for.
std::string drawing(const Picture& picture, const std::vector<Node>& nodes) {
  std::string html = fmt::format(
      "<div class=\"nodes\" style=\"grid-template-columns:repeat(auto-fit,minmax({:.0f}px,1fr))\">",
      0.92 * picture.width());
  for (const Node& node : nodes)
    html += node_drawing(picture, node);
  html += "</div><div class=\"nodes scale\">" + scale(picture) + "</div>";
  if (!picture.options.curves) return html;
  for (const Node& node : nodes)
    for (const auto& device : node.device_of_slot)
      if (device)
        html += fmt::format("<template data-gpu=\"{}\">{}</template>", *device,
                            gpu_curves_svg(picture.run, static_cast<int32_t>(*device)));
  return html;
}

DataTable table_of(const Picture& picture, const std::vector<Node>& nodes) {
  DataTable table = titled_table({"GPU", "node", "local", "slot", "from the inlet",
                                  "temperature (°C)", "power (W)", "SM clock (MHz)"});
  for (const Node& node : nodes)
    for (std::size_t slot = 0; slot < node.device_of_slot.size(); ++slot) {
      if (!node.device_of_slot[slot]) continue;
      const std::size_t i = *node.device_of_slot[slot];
      const auto cell = [&](const std::vector<double>& values) {
        return i < values.size() ? significant(values[i], 4) : std::string("–");
      };
      table.rows.push_back(
          {std::to_string(i), std::to_string(node.index),
           std::to_string(picture.run.devices[i].local), std::to_string(slot),
           std::to_string(picture.depth[slot] + 1), cell(picture.metrics.temperature_per_gpu_c),
           cell(picture.metrics.power_per_gpu_w), cell(picture.metrics.sm_clock_per_gpu_mhz)});
    }
  return table;
}

std::string title_of(const Picture& picture) {
  if (!picture.options.title.empty()) return picture.options.title;
  const auto gap = answers::depth_gap(picture.run, picture.metrics);
  if (!gap) return "Temperature of every slot";
  const char* where = picture.is_liquid() ? "GPUs later in the loop" : "GPUs in the rear";
  const char* other = picture.is_liquid() ? "those before them" : "those in front";
  return fmt::format("{} run {} °C {} than {}: {} against {} °C", where,
                     significant(std::abs(gap->rear_c - gap->front_c)),
                     gap->rear_c >= gap->front_c ? "hotter" : "cooler", other,
                     significant(gap->rear_c), significant(gap->front_c));
}

}  // namespace

std::string gpu_curves_svg(const run::Run& run, int32_t device) {
  constexpr double width = 320, plot_height = 46, pitch = 64, plot_head = 16;
  constexpr std::size_t points = 60;  // more cannot be told apart at this width
  const std::vector<answers::Plot> plots = answers::plots_of(run, points, device);
  if (plots.empty()) return "";
  const auto count = as_real(plots.size());
  std::string svg =
      svg_begin(width, count * pitch + 16,
                fmt::format("GPU {} over the run", run::device_number(run, as_size(device))));
  double y = 0;
  for (const answers::Plot& plot : plots) {
    const auto extremes = answers::extremes_of(plot).value_or(answers::Extremes{});
    const double range = std::max(extremes.highest - extremes.lowest, 1e-9);
    const auto& values = plot.curves.front().values;
    std::string path;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i]) continue;
      const double x = width * as_real(i) / as_real(values.size());
      const double height = plot_height * (*values[i] - extremes.lowest) / range;
      path += fmt::format("{}{:.0f} {:.0f}", i > 0 && values[i - 1] ? "L" : "M", x,
                          y + plot_head + plot_height - height);
    }
    svg += fmt::format(
        "<text class=\"unit start\" x=\"0\" y=\"{:.0f}\">{}: {} to {}</text>"
        "<path class=\"line s0\" d=\"{}\"/>",
        y + 11, escape(plot.unit), significant(extremes.lowest), significant(extremes.highest),
        path);
    y += pitch;
  }
  const std::vector<double>& times = plots.front().times;
  svg += fmt::format(
      "<text class=\"tick start\" x=\"0\" y=\"{0:.0f}\">{1} s</text>"
      "<text class=\"tick\" x=\"{2}\" y=\"{0:.0f}\" style=\"text-anchor:end\">{3} s</text>",
      y + 12, significant(times.front()), width, significant(times.back()));
  return svg + "</svg>";
}

Drawing chassis_figure(const run::Run& run, const metrics::Metrics& metrics,
                       const ChassisOptions& options) {
  if (!run.manifest.job || metrics.temperature_per_gpu_c.size() != run.devices.size()) return {};
  const spec::Chassis chassis = run.manifest.job->chassis();
  if (chassis.slots.empty() || run.devices.empty()) return {};
  Picture picture{run, metrics, chassis, options, answers::slot_depths(chassis), {}, 1, 1, {}};
  picture.row = rows_of(chassis, picture.depth);
  picture.columns = 1 + answers::highest_depth(picture.depth);
  picture.rows = 1 + *std::ranges::max_element(picture.row);
  const auto& all = metrics.temperature_per_gpu_c;
  std::vector<double> known;
  std::ranges::copy_if(all, std::back_inserter(known),
                       [](double value) { return std::isfinite(value); });
  if (known.empty()) return {};
  const auto [low, high] = std::minmax_element(known.begin(), known.end());
  picture.axis = options.range ? axis_between(options.range->first, options.range->second, 5)
                               : axis_between(*low, *high, 5);
  const std::vector<Node> nodes = nodes_of(run, metrics, chassis.slots.size());
  if (nodes.empty()) return {};
  const std::vector<Node> shown = shown_of(nodes);
  const std::string title = title_of(picture);
  std::string note = picture.is_liquid() ? "Coolant flows from left to right through cold plates."
                                         : "Air flows from left (front) to right (rear); the order "
                                           "of heating is the cluster's description.";
  if (shown.size() < nodes.size())
    note +=
        fmt::format(" The hottest four, two middle and the coolest two of {} nodes.", nodes.size());
  return {options.id, title, note, drawing(picture, shown), table_of(picture, shown), true};
}

}  // namespace triplepoint::report
