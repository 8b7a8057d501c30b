// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/advise/gap.h"

namespace triplepoint::advise {
namespace {

constexpr size_t most_told = 3;       // parts in sentences; the table has all
constexpr double least_told = 0.005;  // of the step
constexpr size_t most_points = 60;    // of the chart of steps
constexpr size_t label_every = 10;

/// How much more is done in the same time without this part.
std::string gain_of(const Gap& gap, const GapPart& part) {
  const double ratio = gap.measured / std::max(gap.measured - part.cost, 1e-3 * gap.measured);
  return ratio < 2 ? percent(ratio - 1) + " more speed"
                   : significant(ratio, 2) + " times the speed";
}

/// "rank order" of rank_order.
std::string cause_words(std::string cause) {
  std::ranges::replace(cause, '_', ' ');
  return cause;
}

std::string first_sentence(const Gap& gap) {
  const Seconds over = gap.measured - gap.base;
  std::string takes = gap.is_whole_trace
                          ? "The traces mark no steps; what they show of a rank takes "
                          : "A step takes ";
  takes += time_of(gap.measured);
  if (!gap.unlike.empty())
    takes = fmt::format(
        "This is not the training that it is compared with ({}), so the difference is not "
        "explained: a step takes {}",
        fmt::join(gap.unlike, "; "), time_of(gap.measured));
  if (!gap.predicted && gap.parts.empty())
    return takes + ", and nothing in what was given says that it is slow.";
  if (!gap.predicted) {
    Seconds seen;
    for (const GapPart& part : gap.parts)
      if (part.cause != unknown_cause) seen += part.cost;
    if (seen == Seconds()) return takes + ".";
    return fmt::format("{}; {} ({}) of it have a cause that can be seen.", takes, time_of(seen),
                       percent(seen / gap.measured));
  }
  const std::string base =
      time_of(gap.base) + (gap.predicted_of.empty() ? "" : ", " + gap.predicted_of);
  const char* const reference = gap.against_recording ? "in the other recording" : "predicted";
  if (abs(over) < 0.01 * gap.measured)
    return fmt::format("{}, as {} ({}).", takes, reference, base);
  std::string text = fmt::format("{}, {} {} than {} ({})", takes, time_of(abs(over)),
                                 over > Seconds() ? "more" : "less", reference, base);
  const bool is_part =
      std::ranges::any_of(gap.parts, [](const GapPart& part) { return part.cause == "settings"; });
  if (!gap.set_up.empty() && !is_part)
    text += fmt::format("; the two are set up differently: {}", fmt::join(gap.set_up, "; "));
  return text + ".";
}

std::string part_sentence(const Gap& gap, const GapPart& part) {
  std::string text = fmt::format("{}{} ({}): {}", part.at_most ? "At most " : "",
                                 time_of(part.cost), percent(part.cost / gap.measured), part.what);
  if (!part.advice.empty()) {
    std::string advice = part.advice;
    advice.front() = lower_case(advice.front());
    text += fmt::format("; {} (up to {})", advice, gain_of(gap, part));
  }
  return text + ".";
}

DataTable parts_table(const Gap& gap) {
  DataTable table{.name = "parts", .title = "Where the time of a mean step goes"};
  const bool is_short = gap.measured < 0.5 * unit::s;
  table.columns = {{"cause", "cause"},
                   {"cost_s", is_short ? "ms" : "s", is_short ? 1e-3 : 1, 3},
                   {"share", "% of step", 0.01, 1},
                   {.key = "probability", .title = "p", .digits = 2, .optional = 5},
                   {.key = "seen_in", .title = "seen in", .optional = 4},
                   {"evidence", "evidence", 1, 0, false, Align::left, 0, true},
                   {"advice", "what to do", 1, 0, false, Align::left, 0, true},
                   {"gain", "gain", 1, 0, false, Align::left, 1, true},
                   {"confirm", "a sensor would show", 1, 0, false, Align::left, 3, true}};
  const auto share = [&](Seconds cost) { return cost / gap.measured; };
  const auto add = [&](const char* cause, Seconds cost, const char* evidence) {
    table.add({std::string(cause), cost / unit::s, share(cost), "", "", std::string(evidence), "",
               "", ""});
  };
  add("base", gap.base,
      !gap.predicted          ? "the step without the parts below"
      : gap.against_recording ? "the step of the other recording"
                              : "the predicted step");
  for (const GapPart& part : gap.parts)
    table.add({part.cause, part.cost / unit::s, share(part.cost),
               part.probability ? DataCell(*part.probability) : DataCell(""), part.seen_in,
               part.what, part.advice, gain_of(gap, part), part.confirm});
  add("unexplained", gap.unexplained, "");
  return table;
}

/// Colours of the parts, from the largest on.
constexpr std::array styles = {"k-memory",    "k-allreduce", "k-sendrecv",
                               "k-allgather", "k-alltoall",  "k-reducescatter"};

answers::Figure parts_figure(const Gap& gap) {
  answers::Bar bar{.label = "step", .text = time_of(gap.measured)};
  answers::Figure figure{
      .id = "gap",
      .title = "A step, and what it loses",
      .note = "Parts are disjoint; with what is unexplained they are the measured step."};
  const auto add = [&](Seconds time, std::string style, const std::string& name) {
    if (time < least_told * gap.measured) return;
    bar.parts.push_back({time / unit::s, style, name + " " + time_of(time)});
    figure.legend.push_back({std::move(style), name});
  };
  add(gap.base, "k-compute",
      !gap.predicted          ? "undisturbed"
      : gap.against_recording ? "other recording"
                              : "predicted");
  for (size_t i = 0; i < gap.parts.size(); ++i)
    add(gap.parts[i].cost, styles[i % styles.size()], cause_words(gap.parts[i].cause));
  add(gap.unexplained, "k-other", "unexplained");
  figure.chart = answers::BarChart{
      .title = figure.title, .unit = "seconds of a step", .bars = {std::move(bar)}};
  return figure;
}

/// Medians of as many neighbouring steps as make sixty points. First steps that take much longer
/// would leave the others no height.
answers::Figure steps_figure(const run::Run& run, const metrics::StepHistory& history) {
  answers::LineChart chart{.title = "Step times", .x_name = "step", .y_unit = "step (s)"};
  answers::Line middle{.name = "median", .style = "k-compute"},
      longest{.name = "longest", .style = "k-memory"};
  const metrics::StepPattern* const start = history.find(metrics::StepPattern::Kind::start);
  const size_t first = start == nullptr ? 0 : as_size(start->count);
  const size_t each = (run.steps.size() - first + most_points - 1) / most_points;
  if (each == 1) middle.name = "step";
  DataTable table = titled_table({"from step", "median s"});
  for (size_t from = first; from < run.steps.size(); from += each) {
    std::vector<double> times;
    for (size_t i = from; i < std::min(run.steps.size(), from + each); ++i)
      times.push_back((run.steps[i].end - run.steps[i].begin) / unit::s);
    const std::string number = fmt::format("{}", from + 1);
    chart.positions.push_back(chart.positions.size() % label_every == 0 ? number : "");
    longest.values.emplace_back(*std::ranges::max_element(times));
    middle.values.emplace_back(median(std::move(times)));
    table.add({number, significant(middle.values.back(), 4)});
  }
  if (each > 1) chart.lines.push_back(std::move(longest));
  chart.lines.push_back(std::move(middle));  // drawn last, so on top
  std::vector<answers::LegendEntry> legend;
  for (const answers::Line& line : chart.lines)
    legend.push_back({line.style, line.name});
  std::string note = each > 1 ? fmt::format("A point is {} steps. ", each) : "";
  if (first == 1) note += fmt::format("The first, {} longer, is left out.", time_of(start->excess));
  if (first > 1)
    note +=
        fmt::format("The first {}, {} longer each, are left out.", first, time_of(start->excess));
  return {.id = "steps",
          .title = "Step times",
          .note = std::move(note),
          .chart = std::move(chart),
          .legend = std::move(legend),
          .table = std::move(table)};
}

DataTable levels_table(const metrics::StepPattern& pattern) {
  DataTable table{.name = "levels", .title = "Levels of the step time"};
  table.columns = {{"first_step", "first step"},
                   {"steps", "steps"},
                   {"begin_s", "from s", 1, 0},
                   {"step_time_s", "step s", 1, 3}};
  for (const metrics::StepLevel& level : pattern.levels)
    table.add({level.first + 1, level.steps, level.begin / unit::s, level.time / unit::s});
  return table;
}

}  // namespace

std::vector<std::string> gap_sentences(const Gap& gap) {
  std::vector<std::string> sentences = {first_sentence(gap)};
  for (const GapPart& part : gap.parts)
    if (sentences.size() <= most_told && part.cost > least_told * gap.measured)
      sentences.push_back(part_sentence(gap, part));
  if (gap.predicted && abs(gap.unexplained) >= 0.01 * gap.measured)
    sentences.push_back(
        gap.unexplained > Seconds()
            ? time_of(gap.unexplained) + " remain unexplained."
            : fmt::format("The step is {} faster than prediction and causes add up to.",
                          time_of(abs(gap.unexplained))));
  return sentences;
}

namespace {

/// What is left where no pattern is clear: "why 5 of 23 steps take more than 1.5 times the median".
std::string slow_steps_text(const run::Run& run) {
  std::vector<double> times = mapped(
      run.steps, [&](const run::StepRecord& step) { return (step.end - step.begin) / unit::s; });
  if (times.size() < 3) return "";
  constexpr double clear = 1.5;
  const double usual = median(times);
  const auto slow = std::ranges::count_if(times, [&](double time) { return time > clear * usual; });
  if (slow == 0) return "";
  return fmt::format("why {} of {} steps take more than {} times the median ({}): {}", slow,
                     times.size(), clear, time_of(usual * unit::s),
                     run.devices.empty()
                         ? "record such steps, or trace them"
                         : "triplepoint report shows power, heat and clocks meanwhile");
}

}  // namespace

answers::Document why_answer(const Gap& gap, const run::Run& measured, std::string title) {
  answers::Document answer{
      .kind = "why", .title = std::move(title), .facts = "", .verdict = joined(gap_sentences(gap))};
  if (measured.shutdown) answer.verdict += fmt::format(" {}.", run::shutdown_text(measured));
  answer.key_figures = {{"measured step", time_of(gap.measured),
                         gap.history.steps > 1 ? fmt::format("mean of {} steps", gap.history.steps)
                         : gap.history.steps == 1 ? "one step"
                                                  : "of the traces"}};
  if (gap.predicted)
    answer.key_figures.push_back(
        {gap.against_recording ? "step of the other recording" : "predicted step",
         time_of(*gap.predicted), ""});
  if (!gap.parts.empty())
    answer.key_figures.push_back(
        {"largest cause", time_of(gap.parts.front().cost), cause_words(gap.parts.front().cause)});
  if (gap.predicted || !gap.parts.empty())
    answer.key_figures.push_back(
        {"unexplained",
         abs(gap.unexplained) < 1e-5 * gap.measured ? "none" : time_of(gap.unexplained), ""});
  answers::Section parts{.id = "parts", .title = "Where the time goes"};
  parts.tables = {parts_table(gap)};
  parts.figures = {parts_figure(gap)};
  constexpr double much = 0.1;
  const std::string slow =
      gap.unexplained > much * gap.measured ? slow_steps_text(measured) : std::string();
  if (!slow.empty()) parts.remarks.push_back({"not known: " + slow, answers::Remark::Kind::note});
  for (const std::string& what : gap.untold)
    parts.remarks.push_back({"not known: " + what, answers::Remark::Kind::note});
  if (measured.manifest.origin != run::Origin::simulated)  // such as that the machine was busy
    for (const std::string& note : measured.manifest.notes)
      parts.remarks.push_back({note, answers::Remark::Kind::note});
  answer.sections.push_back(std::move(parts));
  if (measured.steps.size() > 1) {
    answers::Section steps{.id = "steps", .title = "Steps over time"};
    steps.figures = {steps_figure(measured, gap.history)};
    for (const metrics::StepPattern& pattern : gap.history.patterns)
      if (pattern.levels.size() > 1) steps.tables.push_back(levels_table(pattern));
    answer.sections.push_back(std::move(steps));
  }
  const auto seconds = [](Seconds time) { return time / unit::s; };
  answer.numbers["measured_s"] = seconds(gap.measured);
  answer.numbers["base_s"] = seconds(gap.base);
  answer.numbers["predicted_s"] = gap.predicted ? Json(seconds(*gap.predicted)) : Json();
  answer.numbers["unexplained_s"] = seconds(gap.unexplained);
  answer.numbers["steps"] = gap.history.steps;
  answer.numbers["scatter_s"] = seconds(gap.history.scatter);
  answer.numbers["unknown"] = gap.untold;
  answer.numbers["unlike"] = gap.unlike;
  answer.numbers["set_up_apart"] = gap.set_up;
  return answer;
}

}  // namespace triplepoint::advise
