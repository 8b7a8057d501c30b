// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/trace_figures.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/trace_tracks.h"

#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/trace/device_order.h"
#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/report/charts/charts.h"

namespace triplepoint::report {
namespace {

constexpr int64_t most_spans = 1'000'000;  // beyond, chains of dependencies take too long

std::string section(const std::string& id, const std::string& heading, const std::string& inside) {
  return "<section aria-labelledby=\"" + id + "\"><h2 id=\"" + id + "\">" + heading + "</h2>" +
         inside + "</section>\n";
}

std::string paragraph(const std::string& sentence) {
  return "<p>" + escape(sentence) + "</p>";
}

std::string figures(const std::string& inside) {
  return "<div class=\"figures\">" + inside + "</div>";
}

/// Collectives, and who was last into them where that is known.
std::string collectives_section(const metrics::SpanList& spans,
                                const metrics::CollectiveMatch& match,
                                const metrics::LateRanks& late, const run::Run& run,
                                const metrics::Metrics& metrics) {
  std::string said, drawings;
  if (!late.starts.empty()) {
    for (const std::string& sentence :
         metrics::lateness_sentences(run, late, metrics.bottlenecks, metrics.step_time))
      said += paragraph(sentence);
    drawings += html_figure(lateness_figure(late));
  } else if (!match.mismatch.empty()) {
    said += paragraph(match.mismatch);
  }
  for (const std::string& remark : match.remarks)
    said += paragraph("Note: " + remark + ".");
  drawings += html_figure(collectives_figure(match, spans));
  return section("late", late.starts.empty() ? "Collectives" : "Collectives, and who was late",
                 said + figures(drawings));
}

/// A path that loses itself early would be taken for the whole: it is left out, and that is said.
std::string path_part(const run::Timeline& timeline, const metrics::CriticalPath& path) {
  if (path.shares.empty()) return "";
  if (path.is_whole()) return html_figure(path_figure(path, !timeline.details.empty()));
  const int64_t whole = path.length() + path.not_followed;
  const TimeUnit unit = time_unit(whole);
  return fmt::format(
      "<p class=\"note\">The critical path is left out: it can be followed back over {0} {2} of "
      "{1} {2} only, as the timeline does not hold what its first piece waited for.</p>",
      in_unit(as_real(path.length()), unit), in_unit(as_real(whole), unit), unit.name);
}

/// Where the time went, by rank: of a simulated run the parts of its step, as everywhere on its
/// page; else what the traces tell, with the waits that `match` knows.
std::string breakdown_part(const run::Run& run, const std::vector<metrics::RankBreakdown>& ranks,
                           const metrics::CollectiveMatch* match) {
  if (run.manifest.origin == run::Origin::simulated)
    if (const auto parts = metrics::step_parts_of_ranks(run); !parts.empty())
      return html_figure(step_parts_figure(parts));
  if (match == nullptr) return html_figure(breakdown_figure(ranks));
  if (run.timeline.instances.empty())
    return html_figure(breakdown_figure(ranks, metrics::exposed_waits(run.timeline, *match)));
  return html_figure(
      breakdown_figure(ranks, metrics::exposed_waits(run::expand(run.timeline), *match)));
}

metrics::CriticalPath path_of(const metrics::SpanList& spans,
                              const metrics::CollectiveMatch& match) {
  const run::Timeline& timeline = spans.timeline();
  if (metrics::DeviceOrder::holds(timeline)) return metrics::critical_path(spans, match);
  if (timeline.instances.empty()) return metrics::critical_path(timeline);
  return metrics::critical_path(run::expand(timeline));
}

/// Waits, causes and chains of dependencies.
std::string across_ranks(const run::Run& run, const metrics::Metrics& metrics,
                         const std::vector<metrics::RankBreakdown>& ranks) {
  const metrics::SpanList spans(run.timeline);
  const metrics::CollectiveMatch match =
      metrics::match_collectives(spans, metrics::job_ranks_of(run));
  const std::string drawings =
      breakdown_part(run, ranks, &match) + path_part(run.timeline, path_of(spans, match));
  std::string html = section("time-went", "Where the time went", figures(drawings));
  if (match.collectives.empty() && match.alone.empty()) return html;
  const metrics::LateRanks late = metrics::find_late_ranks(spans, match);
  return html + collectives_section(spans, match, late, run, metrics);
}

}  // namespace

std::string trace_section(const run::Run& run, const metrics::Metrics& metrics) {
  const std::vector<metrics::RankBreakdown> ranks = metrics::breakdown_of_ranks(run.timeline);
  if (const auto hang = metrics::find_hang(run.timeline); hang && ranks.empty()) {
    std::string said;
    for (const std::string& sentence : metrics::hang_sentences(run.timeline, *hang))
      said += paragraph(sentence);
    return section("time-went", "What ranks wait in", said);
  }
  if (ranks.empty()) return {};
  if (run::count_spans(run.timeline) > most_spans)
    return section("time-went", "Where the time went",
                   paragraph("More than a million spans: collectives, late ranks and the critical "
                             "path are omitted; use triplepoint trace.") +
                       figures(breakdown_part(run, ranks, nullptr)));
  return across_ranks(run, metrics, ranks);
}

namespace {

constexpr std::size_t most_bars = 64, most_of_each = 8;

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : as_real(part) / as_real(whole);
}

std::string lateness_title(const metrics::LateRanks& late) {
  int64_t caused = 0, worst = 0;  // caused: not in first collectives, which tell no lateness
  for (const metrics::RankLateness& rank : late.ranks) {
    caused += rank.caused;
    if (late.straggler == rank.rank) worst = rank.blamed;
  }
  if (caused == 0 && late.straggler)
    return fmt::format("The others wait for delays of rank {}", *late.straggler);
  if (caused == 0 && std::ranges::any_of(late.starts, [](const metrics::LateStart& start) {
        return start.is_first && start.start_spread > 0;
      }))
    return "Ranks wait in their first collectives only, which tell no lateness";
  if (caused == 0) return "No rank is waited for";
  return late.straggler ? fmt::format("{} of all waiting comes from delays of rank {}",
                                      percent(ratio(worst, late.waits())), *late.straggler)
                        : "Waiting, by the rank that began last";
}

DataTable lateness_table(const metrics::LateRanks& late, const TimeUnit& unit) {
  DataTable table =
      titled_table({"rank", "collectives", "times last", "others waited", "later than the second",
                    "waited itself", "in communication kernels"});
  for (std::size_t i = 3; i < table.columns.size(); ++i)
    table.columns[i].title += fmt::format(" ({})", unit.name);
  const auto cell = [&](int64_t ns) { return in_unit(as_real(ns), unit); };
  for (const metrics::RankLateness& rank : late.ranks)
    table.rows.push_back({std::to_string(rank.rank), std::to_string(rank.collectives),
                          std::to_string(rank.times_last), cell(rank.caused), cell(rank.alone),
                          cell(rank.waited), cell(rank.in_communication)});
  return table;
}

std::string path_title(const metrics::CriticalPath& path, bool knows_launches) {
  if (path.shares.empty()) return "The critical path";
  const metrics::PathShare& most = path.shares[0];
  const TimeUnit unit = time_unit(path.length());
  std::string title = fmt::format("{} of the critical path is {}",
                                  percent(ratio(most.on_path, path.length())), most.label);
  if (knows_launches)
    title += fmt::format("; without it what is traced would be {} {} shorter",
                         in_unit(as_real(most.saved_if_free), unit), unit.name);
  return title;
}

std::vector<BarPart> path_parts(const metrics::PathShare& share, const TimeUnit& unit,
                                bool knows_launches) {
  const auto on_path = as_real(share.on_path);
  const auto saved = as_real(share.saved_if_free);
  if (!knows_launches)
    return {{on_path / unit.ns, "t-compute",
             fmt::format("{} {} on the path", in_unit(on_path, unit), unit.name)}};
  return {{saved / unit.ns, "t-compute",
           fmt::format("saved if free: {} {}", in_unit(saved, unit), unit.name)},
          {std::max(0.0, on_path - saved) / unit.ns, "t-next",
           "on the path; another chain is equally long"}};
}

constexpr double label = 58, width = 640, row = 16, gap = 4, foot = 30;
constexpr std::size_t most_stages = 32, most_passes = 4000;

/// One pass of a stage: microseconds from the beginning of what is drawn.
struct Pass {
  double begin = 0, end = 0;
  std::string_view style;
  int32_t microbatch = -1;
};

std::string_view style_of(std::string_view pattern) {
  if (contains(pattern, "forward")) return "p-forward";
  return contains(pattern, "weight") ? "p-weight" : "p-backward";
}

/// Of the first rank that works on a stage.
std::map<int32_t, std::vector<Pass>> passes_of(const run::Timeline& timeline) {
  std::map<int32_t, int32_t> rank_of;
  std::map<int32_t, std::vector<Pass>> stages;
  for (const run::PatternInstance& instance : timeline.instances) {
    if (instance.stage < 0) continue;
    if (rank_of.try_emplace(instance.stage, instance.rank).first->second != instance.rank) continue;
    const run::Pattern& pattern = timeline.patterns[as_size(instance.pattern)];
    const double begin = as_real(instance.begin.nanoseconds()) * 1e-9;
    stages[instance.stage].push_back(
        {begin, begin + pattern.length() / unit::s, style_of(pattern.name), instance.microbatch});
  }
  return stages;
}

std::string bar_of(const Pass& pass, double from, double scale, double y) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\"/>", pass.style,
      label + (pass.begin - from) * scale, y, std::max(0.2, (pass.end - pass.begin) * scale - 0.3),
      row);
}

}  // namespace

std::string drawn_note(std::size_t drawn, std::size_t all) {
  if (drawn == all) return "";
  return fmt::format(
      " {} of {} ranks are drawn, the {} worst, the {} around the median and the {} best; the "
      "table has all.",
      drawn, all, most_of_each, most_of_each, most_of_each);
}

std::vector<std::size_t> drawn_of(const std::vector<double>& amounts) {
  std::vector<std::size_t> order(amounts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.size() <= most_bars) return order;
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return amounts[a] > amounts[b]; });
  const std::size_t middle = order.size() / 2 - most_of_each / 2;
  std::vector<std::size_t> drawn;
  for (const std::size_t first : {std::size_t{0}, middle, order.size() - most_of_each})
    for (std::size_t i = 0; i < most_of_each; ++i)
      drawn.push_back(order[first + i]);
  std::ranges::sort(drawn);
  return drawn;
}

Drawing lateness_figure(const metrics::LateRanks& late) {
  int64_t longest = 0;
  std::vector<double> caused;
  for (const metrics::RankLateness& rank : late.ranks) {
    longest = std::max({longest, rank.caused, rank.in_communication});
    caused.push_back(as_real(rank.caused));
  }
  const TimeUnit unit = time_unit(longest);
  BarChart chart{.title = lateness_title(late),
                 .unit = fmt::format("total waiting time of the other ranks ({})", unit.name),
                 .cuts = false};
  for (const std::size_t i : drawn_of(caused)) {
    const metrics::RankLateness& rank = late.ranks[i];
    chart.bars.push_back(
        {.label = fmt::format("rank {}", rank.rank),
         .parts = {{caused[i] / unit.ns, "t-communication",
                    fmt::format("last into {} of {}", rank.times_last, rank.collectives)}},
         .text = significant(caused[i] / unit.ns)});
  }
  return {"late-ranks", chart.title,
          "Waiting in a collective is attributed to the rank that began last, but not in its first "
          "one, before which its profiler may have begun later." +
              drawn_note(chart.bars.size(), late.ranks.size()),
          bar_chart_svg(chart), lateness_table(late, unit)};
}

Drawing path_figure(const metrics::CriticalPath& path, bool knows_launches) {
  const TimeUnit unit = time_unit(path.length());
  BarChart chart{.title = path_title(path, knows_launches),
                 .unit = fmt::format("time on the critical path ({})", unit.name),
                 .cuts = false};
  DataTable table =
      titled_table({"class", fmt::format("on the path ({})", unit.name), "share of the path",
                    "pieces", fmt::format("saved if free ({})", unit.name), "saved of the path"});
  for (const metrics::PathShare& share : path.shares) {
    const std::string of_path = percent(ratio(share.on_path, path.length()));
    chart.bars.push_back({.label = std::string(share.label),
                          .parts = path_parts(share, unit, knows_launches),
                          .text = of_path});
    table.rows.push_back(
        {std::string(share.label), in_unit(as_real(share.on_path), unit), of_path,
         std::to_string(share.pieces),
         knows_launches ? in_unit(as_real(share.saved_if_free), unit) : "–",
         knows_launches ? percent(ratio(share.saved_if_free, path.length())) : "–"});
  }
  const std::string legend =
      knows_launches ? html_legend({{"t-compute", "saved if it were free"},
                                    {"t-next", "on the path; another chain is equally long"}})
                     : "";
  const std::string note = fmt::format(
      "The longest chain of dependencies: {} {} in {} pieces. Waiting in collectives is on no "
      "path.",
      in_unit(as_real(path.length()), unit), unit.name, path.pieces.size());
  return {"critical-path", chart.title, note, legend + bar_chart_svg(chart), std::move(table)};
}

Drawing pipeline_figure(const run::Run& run) {
  const auto stages = passes_of(run.timeline);
  double from = 1e300, to = 0;
  std::size_t passes = 0;
  for (const auto& [stage, list] : stages)
    for (const Pass& pass : list) {
      from = std::min(from, pass.begin);
      to = std::max(to, pass.end);
      ++passes;
    }
  if (stages.size() < 2 || stages.size() > most_stages || passes > most_passes || to <= from)
    return {};
  const double scale = (width - label - 8) / (to - from);
  DataTable table = titled_table({"stage", "passes", "busy (s)", "busy share"});
  std::string inner;
  double y = 2;
  for (const auto& [stage, list] : stages) {
    double busy = 0;
    inner += fmt::format("<text class=\"label\" x=\"{}\" y=\"{:.1f}\">stage {}</text>", label - 6,
                         y + row - 4, stage);
    for (const Pass& pass : list) {
      busy += pass.end - pass.begin;
      inner += bar_of(pass, from, scale, y);
    }
    table.add({std::to_string(stage), std::to_string(list.size()), significant(busy),
               percent(busy / (to - from))});
    y += row + gap;
  }
  const Axis axis = axis_from_zero(to - from);
  for (const double tick : axis.ticks)
    if (tick <= to - from)
      inner += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                           label + tick * scale, y + 11, axis.tick_text(tick));
  inner += fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{:.1f}\">time in the step (s)</text>",
                       label + (width - label) / 2, y + 26);
  const std::string title = "Passes of each pipeline stage in one step";
  return {"pipeline",
          title,
          "One rank of each stage; between passes it waits, or sends and receives.",
          html_legend({{"p-forward", "forward"},
                       {"p-backward", "backward"},
                       {"p-weight", "weight gradients"}}) +
              svg_begin(width, y + foot, title) + inner + "</svg>",
          std::move(table),
          true};
}

}  // namespace triplepoint::report
