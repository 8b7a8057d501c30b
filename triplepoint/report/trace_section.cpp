// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/trace_section.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/run/trace_tracks.h"

#include "triplepoint/metrics/lateness.h"
#include "triplepoint/report/trace_figures.h"

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
std::string collectives_section(const metrics::CollectiveMatch& match,
                                const metrics::LateRanks& late) {
  std::string said, drawings;
  if (!late.starts.empty()) {
    for (const std::string& sentence : metrics::lateness_sentences(late))
      said += paragraph(sentence);
    drawings += html_figure(lateness_figure(late));
  }
  for (const std::string& remark : match.remarks)
    said += paragraph("Note: " + remark + ".");
  drawings += html_figure(collectives_figure(match.collectives));
  if (!late.starts.empty()) drawings += html_figure(late_starts_figure(late, match));
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
      in_unit(static_cast<double>(path.length()), unit), in_unit(static_cast<double>(whole), unit),
      unit.name);
}

/// Waits, causes and chains of dependencies, of a timeline without instances.
TraceSection across_ranks(const run::Run& run, const run::Timeline& timeline,
                          const std::string& breakdown) {
  const metrics::CollectiveMatch match = metrics::match_collectives(timeline);
  const metrics::CriticalPath path = metrics::critical_path(timeline);
  std::string drawings = breakdown;
  drawings += path_part(timeline, path);
  TraceSection answer{section("time-went", "Where the time went", figures(drawings))};
  const metrics::LateRanks late =
      metrics::find_late_ranks(timeline, match, run.series.empty() ? nullptr : &run);
  answer.names_stragglers = !late.starts.empty();
  answer.straggler = metrics::lateness_sentences(late).front();
  if (!match.collectives.empty()) answer.html += collectives_section(match, late);
  return answer;
}

}  // namespace

TraceSection trace_section(const run::Run& run) {
  const std::vector<metrics::RankBreakdown> ranks = metrics::breakdown_of_ranks(run.timeline);
  if (ranks.empty()) return {};
  const std::string breakdown = html_figure(breakdown_figure(ranks));
  if (run::count_spans(run.timeline) > most_spans)
    return {section("time-went", "Where the time went",
                    paragraph("More than a million spans: collectives, late ranks and the critical "
                              "path are left out; triplepoint trace answers them.") +
                        figures(breakdown))};
  if (run.timeline.instances.empty()) return across_ranks(run, run.timeline, breakdown);
  return across_ranks(run, run::expand(run.timeline), breakdown);
}

}  // namespace triplepoint::report
