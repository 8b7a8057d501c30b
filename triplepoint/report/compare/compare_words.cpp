// SPDX-License-Identifier: Apache-2.0
// Differences as people say them.
#include <algorithm>
#include <cmath>
#include <functional>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/compare/compare.h"

namespace triplepoint::report {
namespace {

using Value = std::optional<double>;

constexpr double min_relative_change =
    1e-3;  // relative; below, two numbers are the same to a reader

bool is_same(const ComparedRow& row, const Difference& by) {
  if (by.relative) return std::abs(*by.relative) < min_relative_change;
  return std::abs(by.absolute / row.scale) < min_relative_change;
}

/// Both values of a row with their unit: "3.21 s against 3.65 s".
std::string against(const ComparedRow& row, std::size_t side) {
  const std::string unit_name = row.unit.empty() ? "" : " " + row.unit;
  return fmt::format("{}{} against {}{}", row.value_text(side), unit_name, row.value_text(0),
                     unit_name);
}

/// "12 %" or "4.1 °C": a difference without its sign.
std::string size_text(const ComparedRow& row, std::size_t side) {
  const auto by = difference(row, side);
  if (row.says == ChangeForm::relative && by->relative) {
    const double ratio = 1 + *by->relative;
    if (ratio >= 2) return significant(ratio, 2) + " times";
    return significant(100 * std::abs(*by->relative), 2) + " %";
  }
  return significant(std::abs(by->absolute) / row.scale, 2) +
         (row.unit == "%" ? " points" : " " + row.unit);
}

bool is_known(const ComparedRow* row, std::size_t side) {
  return row != nullptr && difference(*row, side).has_value();
}

/// "x is 12 % faster than y", or twice as fast, or equally fast.
std::string faster_words(const ComparedRow& row, std::size_t side, const Comparison& c) {
  const std::string& name = c.sides[side].name;
  const std::string& base = c.sides[0].name;
  if (!differs(&row, side)) return fmt::format("{} is as fast as {}", name, base);
  if (judgement(row, side) < 0)
    return fmt::format("{} reaches {} fewer {} than {}", name, size_text(row, side), row.unit,
                       base);
  if (1 + *difference(row, side)->relative >= 2)
    return fmt::format("{} is {} as fast as {}", name, size_text(row, side), base);
  return fmt::format("{} is {} faster than {}", name, size_text(row, side), base);
}

/// "a step of x takes 12 % longer than one of y: 4.1 s against 3.7 s".
std::string step_words(const ComparedRow& step, std::size_t side, const Comparison& c) {
  const double relative = difference(step, side)->relative.value_or(0);
  const std::string size = !differs(&step, side) ? "as long as"
                           : relative >= 1       ? size_text(step, side) + " as long as"
                           : relative > 0        ? size_text(step, side) + " longer than"
                                                 : size_text(step, side) + " less than";
  return fmt::format("a step of {} takes {} one of {}: {}", c.sides[side].name, size,
                     c.sides[0].name, against(step, side));
}

/// Of a run over time the number of all of it, where a comparison has one.
const ComparedRow* find_of_run(const Comparison& c, const std::string& key) {
  const ComparedRow* whole = c.find("whole_" + key);
  return whole != nullptr ? whole : c.find(key);
}

/// Whether it trains another model: a token of it is other work.
bool has_other_model(const Comparison& c, std::size_t side) {
  const StudyRow &a = c.sides[0].row, &b = c.sides[side].row;
  return a.has_job && b.has_job && a.job.model.name != b.job.model.name;
}

/// The number that says how fast a run is, among those that both sides know.
const ComparedRow* speed_row(const Comparison& c, std::size_t side) {
  if (has_other_model(c, side)) return c.find("model_tflops_per_gpu");
  for (const char* key : {"tokens_per_s", "samples_per_s"})
    if (const ComparedRow* row = find_of_run(c, key); is_known(row, side)) return row;
  return nullptr;
}

/// Tokens of a step over those of the first side; 1 where they are not known, or not the job's.
double tokens_ratio(const Comparison& c, std::size_t side) {
  if (c.sides[0].unmarked_job_tokens() || c.sides[side].unmarked_job_tokens()) return 1;
  const ComparedRow* speed = c.find("tokens_per_s");
  const ComparedRow* step = c.find("step_time_s");
  if (!is_known(speed, side) || !is_known(step, side)) return 1;
  const double ratio =
      *speed->values[side] * *step->values[side] / (*speed->values[0] * *step->values[0]);
  return std::abs(ratio - 1) < min_relative_change || !(ratio > 0) ? 1 : ratio;
}

std::string speed_sentence(const Comparison& c, std::size_t side) {
  const ComparedRow* row = speed_row(c, side);
  if (has_other_model(c, side))
    return (is_known(row, side) ? faster_words(*row, side, c) +
                                      " in model FLOPs a GPU: " + against(*row, side) + ". "
                                : "") +
           fmt::format("Tokens and steps do not compare: {} trains {}, {} {}.", c.sides[side].name,
                       c.sides[side].row.job.model.name, c.sides[0].name,
                       c.sides[0].row.job.model.name);
  const ComparedRow* step = find_of_run(c, "step_time_s");
  if (row == nullptr && !is_known(step, side)) return "";
  // Slower by a share of the speed is longer by another share of the step.
  const bool of_step = row == nullptr || (is_known(step, side) && judgement(*row, side) < 0 &&
                                          tokens_ratio(c, side) == 1);
  std::string text = of_step ? step_words(*step, side, c)
                             : faster_words(*row, side, c) + ": " + against(*row, side);
  if (of_step && row != nullptr)
    text += fmt::format(" ({})", against(*row, side));
  else if (!of_step && is_known(step, side))
    text += fmt::format(" (step time {})", against(*step, side));
  if (c.find("whole_step_time_s") != nullptr) text = "over the whole run, " + text;
  if (of_step || text.starts_with("over")) text = answers::capitalized(std::move(text));
  const ComparedRow* gpus = c.find("num_gpus");
  const ComparedRow* each = c.find("tokens_per_s_per_gpu");
  if (differs(gpus, side) && is_known(each, side))
    text += fmt::format(
        "; it has {} GPUs instead of {}, each {}", gpus->value_text(side), gpus->value_text(0),
        differs(each, side) ? fmt::format("with {} {} tokens/s", size_text(*each, side),
                                          judgement(*each, side) > 0 ? "more" : "fewer")
                            : std::string("as fast"));
  return text + ".";
}

/// Two standard errors of the mean step, over it. Steps are taken as independent.
Value error_of_mean(const Side& side) {
  const auto count = as_real(side.step_s.size());
  if (count < 5) return std::nullopt;
  const double middle = mean(side.step_s);
  const double squares =
      sum_of(side.step_s, [&](double step) { return (step - middle) * (step - middle); });
  return 2 * std::sqrt(squares / (count - 1) / count) / middle;
}

std::string noise_sentence(const Comparison& c, std::size_t side) {
  const ComparedRow* step = c.find("step_time_s");
  if (!differs(step, side) || c.find("whole_step_time_s") != nullptr) return "";
  const auto by = difference(*step, side);
  if (!by->relative) return "";
  const double error =
      std::hypot(error_of_mean(c.sides[0]).value_or(0), error_of_mean(c.sides[side]).value_or(0));
  if (std::abs(*by->relative) >= error) return "";
  return fmt::format(
      " That is within the error of the two means, {} (twice the standard error), so not "
      "significant.",
      percent(error));
}

/// How sure a predicted difference of two layouts of one job is; settings of the room or of limits
/// err alike, so that nothing is said of them.
std::string prediction_sentence(const Comparison& c, std::size_t side) {
  const StudyRow &a = c.sides[0].row, &b = c.sides[side].row;
  const bool predicted = !c.sides[0].is_recorded() && !c.sides[side].is_recorded();
  const ComparedRow* step = c.find("step_time_s");
  if (!predicted || !a.has_job || !b.has_job || a.job.model != b.job.model ||
      a.job.task != b.job.task || a.job.cluster != b.job.cluster || a.job.plan == b.job.plan ||
      !differs(step, side))
    return "";
  const Result<spec::Library> library = spec::require_library();
  if (!library) return "";
  const auto intervals = metrics::PredictionIntervals::load(*library);
  if (!intervals) return "";
  const double longer =
      intervals->probability_longer(*step->values[side] / tokens_ratio(c, side), *step->values[0]);
  const double sure = std::max(longer, 1 - longer);
  return metrics::is_tie(longer) ? " That is within the error of predictions: a tie."
                                 : fmt::format(
                                       " Of two layouts so far apart the predicted order is right "
                                       "with a probability of {}.",
                                       percent(sure));
}

/// Of three sides or more.
std::string fastest_sentence(const Comparison& c) {
  const ComparedRow* row = find_of_run(c, "tokens_per_s");
  if (c.sides.size() < 3 || row == nullptr || !row->values[0]) return "";
  std::size_t fastest = 0, slowest = 0;
  for (std::size_t i = 1; i < c.sides.size(); ++i) {
    if (!row->values[i] || has_other_model(c, i)) return "";
    if (*row->values[i] > *row->values[fastest]) fastest = i;
    if (*row->values[i] < *row->values[slowest]) slowest = i;
  }
  if (*row->values[fastest] < (1 + min_relative_change) * *row->values[slowest])
    return fmt::format("All {} are equally fast.", c.sides.size());
  return fmt::format("{} is the fastest of {} with {} {}, {} the slowest with {}.",
                     c.sides[fastest].name, c.sides.size(), row->value_text(fastest), row->unit,
                     c.sides[slowest].name, row->value_text(slowest));
}

std::string energy_sentence(const Comparison& c, std::size_t side) {
  for (const char* key : {"whole_gpu_joules_per_token", "joules_per_token", "energy_j"}) {
    const ComparedRow* row = c.find(key);
    if (!is_known(row, side)) continue;
    const bool of_step = row->key == "energy_j";
    const char* what = of_step ? "step" : "token";
    const auto scope =
        metrics::scope_text(row->key == "joules_per_token" ? c.sides[side].metrics().energy_scope
                                                           : metrics::EnergyScope::gpu);
    if (!differs(row, side)) return fmt::format("A {} costs the same energy {}.", what, scope);
    const double ratio = *row->values[side] / *row->values[0];
    if (ratio >= 2)
      return fmt::format("A {} costs {} the energy {}: {}.", what, size_text(*row, side), scope,
                         against(*row, side));
    return fmt::format("A {} costs {} {} energy {}: {}.", what, size_text(*row, side),
                       ratio < 1 ? "less" : "more", scope, against(*row, side));
  }
  return "";
}

std::string heat_sentence(const Comparison& c, std::size_t side) {
  const ComparedRow* whole = c.find("whole_temperature_peak_c");
  const ComparedRow* row = whole != nullptr ? whole : c.find("hottest_gpu_c");
  if (!differs(row, side)) return "";
  std::string text = fmt::format(
      "Its hottest {} is {} {}: {}", whole != nullptr ? "die" : "GPU", size_text(*row, side),
      judgement(*row, side) > 0 ? "cooler" : "hotter", against(*row, side));
  if (whole == nullptr)
    text += row->whose[side] == row->whose[0]
                ? fmt::format(" on average ({})", row->whose[0])
                : fmt::format(" on average ({} against {})", row->whose[side], row->whose[0]);
  const ComparedRow* clock = c.find("sm_clock_mean_mhz");
  if (whole == nullptr && differs(clock, side))
    text += fmt::format("; the mean clock is {} {}: {}", size_text(*clock, side),
                        judgement(*clock, side) > 0 ? "higher" : "lower", against(*clock, side));
  return text + ".";
}

/// A collective's kernel runs while it waits for a late peer: its seconds then tell nothing of the
/// network.
std::string waiting_text(const Comparison& c, std::size_t side) {
  const ComparedRow* waiting = c.find("kernel_waiting_s");
  if (!differs(waiting, side)) return "";
  const double by = difference(*waiting, side)->absolute;
  return fmt::format(" Of it, waiting for late peers: {}{} s.", by > 0 ? "+" : "−",
                     significant(std::abs(by)));
}

/// What a recording does not hold, or counts in another way than its job.
std::string recording_sentence(const Side& side, bool names_no_gpu) {
  if (!side.is_recorded()) return "";
  std::string text;
  if (side.row.slots.empty() && !names_no_gpu)
    text = fmt::format("{} recorded no GPU: its power, heat and clocks are not known. ", side.name);
  if (const auto tokens = side.unmarked_job_tokens())
    text += fmt::format(
        "Steps of {} are marked with {} tokens, a batch of its job has {}: its speed is that of "
        "what was marked.",
        side.name,
        whole(std::llround(*side.metrics().tokens_per_second *
                           (*side.metrics().step_time / unit::s))),
        whole(std::llround(*tokens)));
  return std::string(trimmed(text));
}

/// The parts that add up to a step where both sides know them, else classes of kernels.
std::vector<ComparedRow> rows_of_time(const Comparison& c, std::size_t side, bool of_parts) {
  std::vector<ComparedRow> rows;
  if (!of_parts) {
    for (const ComparedSection& section : c.sections)
      for (const ComparedRow& row : section.rows)
        if (section.name == "kernels" && row.key != "kernel_total_s" &&
            row.key != "kernel_waiting_s" && is_known(&row, side))
          rows.push_back(row);
    return rows;
  }
  using Parts = metrics::StepParts;
  constexpr std::pair<const char*, Seconds Parts::*> parts[] = {
      {"computing", &Parts::computing},
      {"copying", &Parts::copying},
      {"exposed communication", &Parts::exposed_communication},
      {"waiting for late peers", &Parts::waiting},
      {"the pipeline's bubble", &Parts::bubble},
      {"gaps between kernels", &Parts::gaps}};
  for (const auto& [title, part] : parts) {
    ComparedRow& row = rows.emplace_back();
    row.title = title, row.unit = "s", row.values.resize(c.sides.size());
    for (const std::size_t i : {std::size_t{0}, side})
      row.values[i] = *c.sides[i].metrics().parts.*part / unit::s;
  }
  return rows;
}

bool knows_parts(const Side& side) {
  const metrics::Metrics& m = side.metrics();
  return m.parts && (!side.is_recorded() || m.kernels.compute > Seconds());
}

/// What accounts for a step's change, the largest three; where a step has another number of tokens,
/// at as many.
std::string time_sentence(const Comparison& c, std::size_t side) {
  const double tokens = tokens_ratio(c, side);
  const bool of_parts = knows_parts(c.sides[0]) && knows_parts(c.sides[side]);
  std::vector<ComparedRow> rows = rows_of_time(c, side, of_parts);
  for (ComparedRow& row : rows)
    *row.values[side] /= tokens;
  const auto change = [&](const ComparedRow& row) { return difference(row, side)->absolute; };
  std::erase_if(rows, [&](const ComparedRow& row) { return !differs(&row, side); });
  std::ranges::stable_sort(rows, std::greater(),
                           [&](const ComparedRow& row) { return std::abs(change(row)); });
  constexpr double least_named = 0.05;  // of the largest
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, rows.size()); ++i) {
    const double by = change(rows[i]);
    if (std::abs(by) < least_named * std::abs(change(rows[0]))) break;
    list += fmt::format("{}{} {}{} s", list.empty() ? "" : ", ", rows[i].title, by > 0 ? "+" : "−",
                        significant(std::abs(by)));
    if (difference(rows[i], side)->relative)
      list += fmt::format(" ({})", difference_text(rows[i], side));
  }
  if (list.empty()) return "";
  return fmt::format(
      "{}{} change most in: {}.{}",
      of_parts ? "The parts of a step, mean of the ranks in the timeline,"
               : "Kernel seconds of a GPU",
      tokens == 1 ? "" : fmt::format(" for as many tokens as in {}", c.sides[0].name), list,
      tokens == 1 && !of_parts ? waiting_text(c, side) : "");
}

std::string settings_sentence(const Comparison& c, std::size_t side) {
  std::string list;
  bool by_chance = false;
  for (const auto& [name, values] : c.settings) {
    const auto &here = values[side], &first = values[0];
    // A digest of the data says nothing to people; the table has it.
    if (!here || !first || here == first || name == "num_microbatches" || name == "num_nodes" ||
        name == "numbers")
      continue;
    list += fmt::format("{}{} {} instead of {}", list.empty() ? "" : ", ", name, *here, *first);
    by_chance |= name == "seed";
  }
  if (list.empty()) return "";
  return fmt::format("{} has {}.{}", c.sides[side].name, list,
                     by_chance ? " Another seed draws other boards: that part is chance." : "");
}

/// Who slows this side, as on its page.
std::vector<std::string> bottleneck_sentences(const Comparison& c, std::size_t side) {
  const metrics::Metrics& m = c.sides[side].metrics();
  return mapped(m.bottlenecks, [&](const run::Bottleneck& bottleneck) {
    return fmt::format(
        "In {}: {}", c.sides[side].name,
        metrics::bottleneck_sentence(bottleneck, m.step_time, c.sides[side].row.gpus));
  });
}

}  // namespace

std::string ComparedRow::value_text(std::size_t side) const {
  if (!values[side]) return "–";
  if (unit.empty() && *values[side] == std::floor(*values[side]))
    return whole(static_cast<int64_t>(*values[side]));  // a count
  return significant(*values[side] / scale, says == ChangeForm::relative ? 4 : 3);
}

std::optional<Difference> difference(const ComparedRow& row, std::size_t side) {
  const Value base = row.values[0], value = row.values[side];
  if (!base || !value) return std::nullopt;
  Difference answer{*value - *base, std::nullopt};
  if (*base != 0) answer.relative = answer.absolute / std::abs(*base);
  return answer;
}

bool differs(const ComparedRow* row, std::size_t side) {
  if (row == nullptr) return false;
  const auto by = difference(*row, side);
  return by && !is_same(*row, *by);
}

std::string difference_text(const ComparedRow& row, std::size_t side) {
  const auto by = difference(row, side);
  if (!by) return "–";
  if (is_same(row, *by)) return "same";
  const char* sign = by->absolute > 0 ? "+" : "−";
  if (row.says == ChangeForm::relative && by->relative) {
    const double size = std::abs(*by->relative);
    if (size >= 2) return fmt::format("×{}", significant(1 + *by->relative));
    return fmt::format("{}{} %", sign, significant(100 * size, size < 1 ? 2 : 3));
  }
  const std::string number = significant(std::abs(by->absolute) / row.scale, 2);
  if (row.unit == "%") return fmt::format("{}{} points", sign, number);
  return fmt::format("{}{}{}{}", sign, number, row.unit.empty() ? "" : " ", row.unit);
}

DataCell difference_cell(const ComparedRow& row, std::size_t side) {
  const int good = judgement(row, side);
  return {difference_text(row, side), good > 0   ? Style::good
                                      : good < 0 ? Style::bad
                                                 : Style::plain};
}

int judgement(const ComparedRow& row, std::size_t side) {
  if (row.better == answers::Better::neither || !differs(&row, side)) return 0;
  return (difference(row, side)->absolute > 0) == (row.better == answers::Better::higher) ? 1 : -1;
}

DataTable section_table(const Comparison& c, const ComparedSection& section) {
  std::vector<TextColumn> columns = {{"number", Align::left}};
  for (std::size_t i = 0; i < c.sides.size(); ++i) {
    columns.push_back({c.sides[i].name});
    if (i > 0) columns.push_back({"difference"});
  }
  DataTable table = text_table(std::move(columns));
  table.title = section.title;
  for (const ComparedRow& row : section.rows) {
    std::vector<DataCell> cells = {row.unit.empty() ? row.title
                                                    : fmt::format("{} ({})", row.title, row.unit)};
    for (std::size_t i = 0; i < c.sides.size(); ++i) {
      const bool has_owner = !row.whose.empty() && !row.whose[i].empty();
      cells.emplace_back(row.value_text(i) + (has_owner ? ", " + row.whose[i] : ""));
      if (i > 0) cells.push_back(difference_cell(row, i));
    }
    table.add(std::move(cells));
  }
  return table;
}

std::vector<std::string> sentences_of(const Comparison& c) {
  std::vector<std::string> sentences;
  const auto add = [&](std::string sentence) {
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  };
  for (const Side& side : c.sides) {
    if (side.row.verdict != Verdict::oom) continue;
    const auto memory = number_at(side.row, "memory_gib.total");
    add(fmt::format("{} does not fit in memory{}: only its memory can be compared.", side.name,
                    memory ? fmt::format(" ({} GiB)", significant(*memory)) : ""));
  }
  bool any_ended = false;
  for (const Side& side : c.sides) {
    if (side.ended.empty()) continue;
    any_ended = true;
    add(fmt::format("{}: {}. Numbers of it are of its last step before.", side.name, side.ended));
  }
  if (!any_ended) add(fastest_sentence(c));
  for (std::size_t i = 1; i < c.sides.size(); ++i) {
    const bool compares = !has_other_model(c, i);
    if (!any_ended)
      add(speed_sentence(c, i) + (compares ? noise_sentence(c, i) : "") +
          prediction_sentence(c, i));
    if (i == 1) {
      const bool no_gpu = std::ranges::all_of(
          c.sides, [](const Side& s) { return s.is_recorded() && s.row.slots.empty(); });
      if (no_gpu) add("No GPU was recorded: power, heat and clocks are not known.");
      for (const Side& side : c.sides)
        add(recording_sentence(side, no_gpu));
      for (std::string& sentence : bottleneck_sentences(c, 0))
        add(std::move(sentence));
    }
    if (any_ended) {  // nothing is gained by a job that heat ends
      add(settings_sentence(c, i));
      continue;
    }
    for (std::string& sentence : bottleneck_sentences(c, i))
      add(std::move(sentence));
    add(settings_sentence(c, i));
    if (compares) add(energy_sentence(c, i));
    add(heat_sentence(c, i));
    if (compares) add(time_sentence(c, i));
  }
  return sentences;
}

}  // namespace triplepoint::report
