// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/sweep.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "triplepoint/base/text.h"

#include "triplepoint/answers/quantities.h"

namespace triplepoint::app {
namespace {

/// "400 W" as 400 and "W".
Result<NumberAndRest> parse_amount(std::string_view text) {
  if (const auto amount = split_number(text)) return *amount;
  return error("\"{}\" is no number with a unit; try 400 W..700 W/50 W", text);
}

Result<std::vector<std::string>> values_of_range(std::string_view from, std::string_view to,
                                                 std::string_view by) {
  const NumberAndRest low = TPT_TRY(parse_amount(from)), high = TPT_TRY(parse_amount(to)),
                      step = TPT_TRY(parse_amount(by));
  const std::string_view unit_name = high.rest.empty() ? low.rest : high.rest;
  for (const NumberAndRest* each : {&low, &step})
    if (!each->rest.empty() && each->rest != unit_name)
      return error("{}..{}/{} has two units; write one, as in 400 W..700 W/50 W", from, to, by);
  const double count = (high.number - low.number) / step.number;
  if (!(step.number > 0) || !(count >= 0) || count > as_real(most_values))
    return error(
        "{}..{}/{} is no range of 1 to {} values; the first is the least, and the step is above 0",
        from, to, by, most_values);
  constexpr double rounding = 1e-9;
  std::vector<std::string> values;
  for (int i = 0; i <= count + rounding; ++i)
    values.push_back(
        std::string(trimmed(fmt::format("{:.12g} {}", low.number + i * step.number, unit_name))));
  return values;
}

std::string name_of(const std::vector<SweptFlag>& flags, const SweptJob& job) {
  const std::vector<std::string> words =
      numbered(flags.size(), [&](size_t f) { return flags[f].name + " " + job.values[f]; });
  return fmt::format("{}", fmt::join(words, ", "));
}

const metrics::Metrics* known(const SweptJob& job) {
  const metrics::Metrics& m = job.results.metrics;
  return job.problem.empty() && m.step_time && m.tokens_per_second ? &m : nullptr;
}

double seconds_of(const SweptJob& job) {
  return *job.results.metrics.step_time / unit::s;
}

/// Seconds of a token: steps of different batches or lengths compare by them.
double slowness(const SweptJob& job) {
  return 1 / *job.results.metrics.tokens_per_second;
}

/// "6.83 s a step"; where steps are not of as many tokens, "117,061 tokens/s".
class Speeds {
 public:
  explicit Speeds(const std::vector<SweptJob>& jobs) {
    constexpr double rounding = 1e-3;
    std::optional<double> first;
    for (const SweptJob& job : jobs)
      if (known(job)) {
        const double tokens = seconds_of(job) / slowness(job);
        same_ &= std::abs(tokens / first.value_or(tokens) - 1) < rounding;
        first = first.value_or(tokens);
      }
  }

  std::string text(const SweptJob& job) const {
    return same_ ? significant(seconds_of(job)) + " s a step"
                 : whole(std::llround(1 / slowness(job))) + " tokens/s";
  }
  const char* longer() const { return same_ ? "longer" : "longer for as many tokens"; }

 private:
  bool same_ = true;
};

/// The least of those that know it; null if none does.
template <class Value>
const SweptJob* least(const std::vector<SweptJob>& jobs, const Value& value) {
  const SweptJob* best = nullptr;
  for (const SweptJob& job : jobs)
    if (known(job) && value(job) && (!best || *value(job) < *value(*best))) best = &job;
  return best;
}

std::optional<double> energy_of(const SweptJob& job) {
  return job.results.metrics.joules_per_token;
}

/// Of how many nothing else is said; empty where that is none or all.
std::string idle_text(const std::vector<SweptJob>& jobs) {
  const auto idle = std::ranges::count(jobs, nullptr, known);
  if (idle == 0 || idle == std::ssize(jobs)) return "";
  return fmt::format(" Of {} jobs {} ran.", jobs.size(), std::ssize(jobs) - idle);
}

/// What is met and not chosen: there is no best of it.
bool is_condition(const SweptFlag& flag) {
  return flag.name == "ambient" || flag.name == "seed" || flag.name == "fault";
}

constexpr double noticeable = 5e-3;  // less is no difference worth naming

std::string speed_text(const std::vector<SweptFlag>& flags, const std::vector<SweptJob>& jobs,
                       const SweptJob& fast, const SweptJob& slow) {
  const Speeds speeds(jobs);
  const double range = slowness(slow) / slowness(fast) - 1;
  if (range < noticeable)
    return fmt::format("All that run are as fast within 0.5 %, {}", speeds.text(fast));
  if (std::ranges::all_of(flags, is_condition))
    return fmt::format("With {}: {}; with {}: {}, {} {}", name_of(flags, fast), speeds.text(fast),
                       name_of(flags, slow), speeds.text(slow), percent(range), speeds.longer());
  const auto near = std::ranges::count_if(jobs, [&](const SweptJob& job) {
    return known(job) && slowness(job) < (1 + noticeable) * slowness(fast);
  });
  return fmt::format(
      "Fastest: {}, {}{} (the slowest, {}, takes {} {})", name_of(flags, fast), speeds.text(fast),
      near == 1
          ? ""
          : fmt::format(", less than 0.5 % ahead of {} other{}", near - 1, near == 2 ? "" : "s"),
      name_of(flags, slow), percent(range), speeds.longer());
}

/// Beside the speed: what saves energy, or that the fastest does.
std::string energy_text(const std::vector<SweptFlag>& flags, const std::vector<SweptJob>& jobs,
                        const SweptJob& fast) {
  const SweptJob* thrifty = least(jobs, energy_of);
  if (!thrifty || !energy_of(fast)) return "";
  const SweptJob* hungry = least(jobs, [](const SweptJob& job) -> std::optional<double> {
    return energy_of(job) ? std::optional(-*energy_of(job)) : std::nullopt;
  });
  const auto scope = metrics::scope_text(thrifty->results.metrics.energy_scope);
  const double most = *energy_of(*hungry) / *energy_of(*thrifty) - 1;
  const double saved = 1 - *energy_of(*thrifty) / *energy_of(fast);
  if (most < noticeable) return fmt::format("; energy {} is the same within 0.5 %", scope);
  if (saved < noticeable || std::ranges::all_of(flags, is_condition))
    return fmt::format("; energy {} is least with {}, {} J/token, and {} more with {}", scope,
                       name_of(flags, *thrifty), significant(*energy_of(*thrifty)), percent(most),
                       name_of(flags, *hungry));
  return fmt::format("; least energy {}: {}, {} J/token, {} less in {} more time", scope,
                     name_of(flags, *thrifty), significant(*energy_of(*thrifty)), percent(saved),
                     percent(slowness(*thrifty) / slowness(fast) - 1));
}

std::string verdict_of(const std::vector<SweptFlag>& flags, const std::vector<SweptJob>& jobs) {
  const auto time = [](const SweptJob& job) { return std::optional(slowness(job)); };
  const SweptJob* fast = least(jobs, time);
  if (!fast) return "None of these jobs runs: " + jobs.front().problem;
  const SweptJob* slow =
      least(jobs, [](const SweptJob& job) { return std::optional(-slowness(job)); });
  if (jobs.size() > 1 && std::ranges::count(jobs, nullptr, known) == std::ssize(jobs) - 1)
    return fmt::format("Only {} runs, with {}.", name_of(flags, *fast), Speeds(jobs).text(*fast));
  const bool cools = fast->results.metrics.energy_scope == metrics::EnergyScope::site &&
                     holds(flags, "ambient", &SweptFlag::name);
  return speed_text(flags, jobs, *fast, *slow) + energy_text(flags, jobs, *fast) +
         (cools ? ". The PUE is the same at each temperature: what cooling takes there is not "
                  "modelled."
                : ".");
}

std::optional<double> value_of(std::string_view key, const SweptJob& job) {
  return answers::number_of(key, answers::result_of(job.results.run, job.results.metrics));
}

DataTable table_of(const std::vector<SweptFlag>& flags, const std::vector<SweptJob>& jobs) {
  DataTable table{.name = "sweep"};
  for (const SweptFlag& flag : flags)
    table.columns.push_back({.key = flag.name, .title = flag.name});
  std::vector<answers::JobColumn> columns(answers::job_columns().begin(),
                                          answers::job_columns().end());
  std::erase_if(columns, [](const answers::JobColumn& each) { return !each.in_sweeps; });
  for (const answers::JobColumn& column : columns)
    table.columns.push_back({.key = std::string(column.quantity().name),
                             .title = column.title(),
                             .scale = answers::shown_unit(column.quantity()).scale,
                             .digits = answers::digits_of_lists,
                             .significant = true});
  const auto energy = std::ranges::find(columns, "joules_per_token", &answers::JobColumn::key);
  const std::ptrdiff_t behind_energy = std::ssize(flags) + (energy - columns.begin()) + 1;
  table.columns.insert(table.columns.begin() + behind_energy, {"energy_scope", "energy of"});
  table.columns.insert(table.columns.end(),
                       {{"throttled_share", "throttled (%)", 0.01, 1}, {"problem", "problem"}});
  for (const SweptJob& job : jobs) {
    std::vector<DataCell> row(job.values.begin(), job.values.end());
    const char* why = job.problem.empty() ? "not known" : "does not run";
    const metrics::Metrics& m = job.results.metrics;
    for (const answers::JobColumn& column : columns)
      row.push_back(cell_of(value_of(column.key, job), why));
    const std::string scope(metrics::energy_scopes[as_size(m.energy_scope)]);
    row.insert(row.begin() + behind_energy, known(job) ? DataCell(scope) : DataCell(Missing{why}));
    row.insert(row.end(), {cell_of(metrics::throttled_share(m), why), job.problem});
    table.add(std::move(row));
  }
  return table;
}

/// A curve over the first flag for each combination of the others.
answers::Figure curve(const std::vector<SweptFlag>& flags, const std::vector<SweptJob>& jobs,
                      const char* id, std::string_view key, const std::string& scope = "") {
  const answers::Quantity& quantity = answers::quantity_of(key);
  answers::LineChart chart{
      .title = fmt::format("{}{} over {}", quantity.label, scope, flags[0].name),
      .x_name = flags[0].name,
      .y_unit = fmt::format("{}{} ({})", quantity.label, scope, answers::shown_unit(quantity).unit),
      .positions = flags[0].values,
      .from_zero = false};
  const size_t positions = flags[0].values.size();
  const size_t others = jobs.size() / positions;  // the last flag varies fastest
  for (size_t o = 0; o < others; ++o) {
    std::vector<std::string> name(jobs[o].values.begin() + 1, jobs[o].values.end());
    answers::Line line{.name = fmt::format("{}", fmt::join(name, ", ")),
                       .style = fmt::format("s{}", o % 5 + 1)};
    for (size_t p = 0; p < positions; ++p) {
      const SweptJob& job = jobs[p * others + o];
      line.values.push_back(known(job) ? value_of(key, job) : std::nullopt);
    }
    chart.lines.push_back(std::move(line));
  }
  return {.id = id, .title = chart.title, .chart = std::move(chart)};
}

}  // namespace

Result<SweptFlag> parse_swept(std::string_view text) {
  const size_t equals = text.find('=');
  SweptFlag flag;
  if (equals == std::string_view::npos || equals == 0)
    return error("--sweep {}: no flag with its values; try power-limit=400 W..700 W/50 W or tp=2|4",
                 text);
  flag.name = std::string(trimmed(text.substr(0, equals)));
  while (flag.name.starts_with('-'))
    flag.name.erase(0, 1);
  const std::string_view values = text.substr(equals + 1);
  const size_t dots = values.find(".."), slash = values.rfind('/');
  if (dots != std::string_view::npos && slash != std::string_view::npos && slash > dots) {
    flag.values =
        TPT_TRY(values_of_range(values.substr(0, dots), values.substr(dots + 2, slash - dots - 2),
                                values.substr(slash + 1)));
    return flag;
  }
  for (const std::string& value : split(values, '|'))
    flag.values.emplace_back(trimmed(value));
  if (dots != std::string_view::npos)
    return error("--sweep {}: a range has a step; try {}/STEP", text, text);
  return flag;
}

answers::Document sweep_answer(const std::vector<SweptFlag>& flags,
                               const std::vector<SweptJob>& jobs) {
  const std::vector<std::string> names = mapped(flags, &SweptFlag::name);
  std::set<std::string> models;  // the rest of a title may be swept
  for (const SweptJob& job : jobs)
    if (known(job)) models.insert(job.results.run.manifest.job->model.name);
  answers::Document answer{
      .kind = "sweep",
      .title = fmt::format("{} over {}", models.size() == 1 ? *models.begin() : "Jobs",
                           fmt::join(names, " and ")),
      .facts = fmt::format("{} jobs, one for each value.", jobs.size()),
      .verdict = verdict_of(flags, jobs) + idle_text(jobs)};
  const auto one = std::ranges::find_if(jobs, known);
  const std::string scope(
      one == jobs.end() ? "" : metrics::scope_text(one->results.metrics.energy_scope));
  const size_t curves = jobs.size() / flags[0].values.size();
  constexpr size_t most_curves = 10;
  answers::Section section{
      .id = "sweep", .title = "Every value", .tables = {table_of(flags, jobs)}};
  if (curves <= most_curves && flags[0].values.size() > 1)
    section.figures = {curve(flags, jobs, "steps", "step_time_s"),
                       curve(flags, jobs, "energy", "joules_per_token", " " + scope),
                       curve(flags, jobs, "heat", "temperature_c.peak")};
  answer.sections.push_back(std::move(section));
  return answer;
}

}  // namespace triplepoint::app
