// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/learning.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/advise/gap.h"
#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/app/place_telemetry.h"
#include "triplepoint/app/recording.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/learn/priors.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/telemetry/timeseries/reader.h"

namespace triplepoint::app {
namespace {

/// The median step: the first of a training compile and fill caches, some write checkpoints.
std::optional<Seconds> usual_step_time(const run::Run& run) {
  std::vector<Seconds> times;
  for (const run::StepRecord& step : run.steps)
    if (step.end > step.begin) times.push_back(step.end - step.begin);
  if (times.empty()) return std::nullopt;
  return upper_median(std::move(times));
}

std::string jobless(const std::string& file) {
  return "it does not say which job it ran; name the job before it, as in `triplepoint calibrate "
         "--job job.toml " +
         file + "`";
}

/// Of a mean rank in a step, where they are enough of it to tell something: of ranks that stand for
/// all, in steps of which none is unusually long.
std::vector<std::pair<learn::TimeOf, double>> kernel_times(const run::Run& run,
                                                           const spec::Job& job,
                                                           const metrics::KernelSeconds& kernels,
                                                           Seconds step) {
  constexpr double least_share = 0.02, usual = 1.05;
  Seconds steps;
  for (const run::StepRecord& one : run.steps)
    steps += one.end - one.begin;
  const bool stand_for_all =
      job.plan.pipeline_parallel_size == 1 ||
      static_cast<int64_t>(run::ranks_of(run.timeline).size()) == job.world_size();
  if (!stand_for_all || steps > usual * as_real(run.steps.size()) * step) return {};
  std::vector<std::pair<learn::TimeOf, double>> times;
  if (kernels.compute > least_share * step)
    times.emplace_back(learn::TimeOf::compute, kernels.compute / unit::s);
  if (kernels.memory > least_share * step)
    times.emplace_back(learn::TimeOf::memory, kernels.memory / unit::s);
  return times;
}

void learn_of(const std::string& file, const spec::Job& job, std::optional<Seconds> time,
              const run::Run& run, calibrate::OwnRuns& own) {
  Telemetry seen;
  seen.samples = advise::thermal_samples(run);
  std::vector<learn::GpuHeat> heat = heat_of(seen);
  if (const auto note = busy_machine_note(run.numbers)) own.doubts.push_back({file, *note});
  if (const auto impossible = time ? calibrate::faster_than_peak(job, *time) : std::nullopt)
    own.skipped.push_back({file, *impossible});
  else if (time) {
    const metrics::Metrics seen_of = metrics::measure(run);
    own.runs.push_back({file, job, *time / unit::s, seen_of.power_mean_w,
                        kernel_times(run, job, seen_of.kernels, *time)});
  } else if (heat.empty())
    own.skipped.push_back({file, "it has no step and no temperature"});
  if (!heat.empty()) own.heat.push_back({job, std::move(heat)});
}

/// A recording, a training's log or traces, of the job that they name or that stands before them.
Result<void> add_run(const LearnInput& input, const spec::Library& library,
                     calibrate::OwnRuns& own) {
  const run::Run run = TPT_TRY(load_run_source({input.file}));
  std::optional<spec::Job> job = run.manifest.job;
  if (!job && input.job) job = TPT_TRY(formats::read_job(library, *input.job));
  const auto time = usual_step_time(run);
  run::Run asked;
  asked.manifest.job = job;
  const std::vector<std::string> apart = advise::unlike(run, asked);
  if (run.manifest.origin == run::Origin::simulated)
    own.skipped.push_back({input.file, "it is a simulation, in which nothing was measured"});
  else if (!job)
    own.skipped.push_back({input.file, jobless(input.file)});
  else if (!apart.empty())
    own.skipped.push_back(
        {input.file, fmt::format("it is not of its job ({})", fmt::join(apart, "; "))});
  else
    learn_of(input.file, *job, time, run, own);
  return {};
}

/// A table of a column per GPU.
Result<void> add_temperatures(const LearnInput& input, const spec::Library& library,
                              calibrate::OwnRuns& own) {
  const Telemetry seen = TPT_TRY(read_telemetry({input.file}, {}));
  if (!input.job)
    own.skipped.push_back({input.file, jobless(input.file)});
  else
    own.heat.push_back({TPT_TRY(formats::read_job(library, *input.job)), heat_of(seen)});
  if (std::ranges::any_of(seen.samples, [](const auto& s) { return s.clock_mhz || s.throttled; }))
    own.skipped.push_back(
        {input.file, "its clocks and throttling: only temperatures of such a table teach"});
  return {};
}

Result<void> add_input(const LearnInput& input, const spec::Library& library,
                       calibrate::OwnRuns& own) {
  const std::string& file = input.file;
  if (file.ends_with(".toml") && path_exists(file))
    return error("{} is a job, of which nothing was measured; name it as --job {}", file, file);
  if (!file.ends_with(".csv")) return add_run(input, library, own);
  const CsvTable table =
      TPT_TRY(CsvTable::parse(TPT_TRY(read_file(file)), file, CsvTable::BadRows::leave_out));
  if (advise::is_thermal_table(table)) return add_temperatures(input, library, own);
  if (telemetry::looks_like_time_series(file)) return add_run(input, library, own);
  for (const CsvTable::BadRow& row : table.left_out())
    own.skipped.push_back({fmt::format("{}:{}", file, row.line), row.what});
  return calibrate::add_own_runs(table, library, own);
}

std::string nothing_in(const calibrate::OwnRuns& own) {
  if (own.skipped.empty()) return "the tables hold no rows (one row is one measured run); add rows";
  return fmt::format(
      "nothing teaches anything ({}: {}); see docs/formats.md for the columns of tables",
      own.skipped.front().row_id, own.skipped.front().reason);
}

}  // namespace

Result<answers::Document> learn_from_files(const spec::Library& library,
                                           const std::vector<LearnInput>& inputs,
                                           const std::string& folder, int threads) {
  const learn::Priors priors = TPT_TRY(learn::load_priors(library));
  calibrate::OwnRuns own;
  for (const LearnInput& input : inputs)
    TPT_TRY(add_input(input, library, own));
  if (own.runs.empty() && own.heat.empty()) return error(nothing_in(own));
  const learn::Learned learned = TPT_TRY(learn::learn_from(priors, own.runs, own.heat, threads));
  TPT_TRY(learned.calibration.write(folder));
  answers::Document answer = calibration_answer(learned, own, folder);
  TPT_TRY(write_file_atomically(Path(folder) / "report.html", report::document_page(answer)));
  return answer;
}

namespace {

using answers::Remark;
using answers::Section;
using learn::Learned;
using learn::Posterior;

/// Of a logarithm, as a share.
double share(double log_factor) {
  return std::expm1(log_factor);
}

std::string percent(double log_factor) {
  return fmt::format("{:+.0f} %", std::round(100 * share(log_factor)) + 0.0);  // no -0
}

/// Median error of predicted step times.
double median_error(const std::vector<learn::RunCheck>& runs, double learn::RunCheck::*predicted) {
  return median(mapped(runs, [&](const learn::RunCheck& run) {
    return std::abs(run.*predicted / run.measured - 1);
  }));
}

/// Did a measurement say anything of it?
bool is_learned(double before, double after) {
  return after < 0.95 * before;
}

/// How much of a coefficient each run taught, by its step and its kernels.
std::map<std::string, double> taught_by_run(const Posterior& known, std::size_t k) {
  const std::vector<double> taught = known.taught(k);
  std::map<std::string, double> by_run;
  for (std::size_t i = 0; i < taught.size(); ++i)
    by_run[known.evidence()[i].run] += taught[i];
  return by_run;
}

/// The run that taught most of a coefficient.
std::string teacher(const Posterior& known, std::size_t k) {
  const auto by_run = taught_by_run(known, k);
  const auto most =
      std::ranges::max_element(by_run, {}, [](const auto& one) { return std::abs(one.second); });
  return most == by_run.end() ? "" : most->first;
}

/// A quantity before and after, as logarithms of factors.
struct Change {
  std::string_view name, what;
  double before = 0, mean = 0, after = 0;
  std::string teacher = {};
};

std::vector<Change> changes_of(const learn::Calibration& calibration) {
  std::vector<Change> changes;
  const Posterior& known = calibration.posterior();
  for (std::size_t k = 0; k < learn::coefficient_count; ++k)
    changes.push_back({learn::coefficients()[k].name, learn::coefficients()[k].what,
                       known.priors().spread[k], known.mean()[k], known.spreads()[k],
                       teacher(known, k)});
  changes.push_back({"unexplained", "unexplained, of the whole step",
                     known.priors().remainder.common, known.common(), known.common_spread()});
  const learn::LearnedPower& power = calibration.power();
  const learn::PowerFactors priors = {known.priors().power.energy, known.priors().power.idle};
  for (std::size_t k = 0; k < priors.size() && power.runs > 0; ++k)
    changes.push_back({learn::power_names[k], learn::power_meanings[k], priors[k], power.mean[k],
                       power.spread[k]});
  return changes;
}

answers::Figure change_figure(const std::vector<Change>& changes) {
  answers::RangeChart chart{.title = "Coefficients before and after",
                            .unit = "times what is shipped; one standard deviation"};
  for (const Change& one : changes)
    if (is_learned(one.before, one.after))
      chart.rows.push_back({.label = std::string(one.name),
                            .low = std::exp(one.mean - one.after),
                            .middle = std::exp(one.mean),
                            .high = std::exp(one.mean + one.after),
                            .band = {{std::exp(-one.before), std::exp(one.before)}},
                            .text = percent(one.mean),
                            .hint = std::string(one.what)});
  return {.id = "changes",
          .title = "What the runs moved; bands: what was believed before",
          .chart = std::move(chart),
          .wide = true};
}

}  // namespace

Section learned_coefficients(const learn::Calibration& calibration) {
  DataTable table{.name = "coefficients",
                  .title = "Times and power against what is shipped",
                  .columns = {{.key = "name", .title = "name", .optional = 1},
                              {.key = "what", .title = "what", .whole = true},
                              {"spread_before", "before ±%", 0.01, 0},
                              {"change", "learned %", 0.01, 0},
                              {"spread", "within ±%", 0.01, 0},
                              {.key = "taught_by", .title = "taught most by", .optional = 2}}};
  const std::vector<Change> changes = changes_of(calibration);
  int64_t unknown = 0;
  for (const Change& one : changes) {
    const bool learned = is_learned(one.before, one.after);
    if (!learned) ++unknown;
    const auto if_learned = [&](double value) {
      return learned ? DataCell(value) : Missing{"no run depends on it enough"};
    };
    table.add({std::string(one.name), std::string(one.what), share(one.before),
               if_learned(share(one.mean)), if_learned(share(one.after)),
               learned ? one.teacher : ""});
  }
  Section section{.id = "coefficients",
                  .title = "What was learned",
                  .figures = {change_figure(changes)},
                  .tables = {std::move(table)}};
  if (unknown > 0)
    section.remarks.push_back(
        {fmt::format("{} of {} are still unknown: no run depends on them enough. What runs of one "
                     "kind take longer or less without a known reason is nevertheless expected of "
                     "further runs of that kind.",
                     unknown, changes.size()),
         Remark::Kind::note});
  return section;
}

namespace {

/// Times of steps, or of kernels where recordings have them.
void add_times(const Learned& learned, bool of_steps, Section& section) {
  DataTable table{.name = of_steps ? "runs" : "kernels",
                  .title = of_steps ? "Predicted against measured step time"
                                    : "Kernels of a rank in it: compute (matrix products, "
                                      "attention) and memory (norms, elementwise, copies)",
                  .columns = {{"run", "run"},
                              {"measured_s", "measured s", 1, 3},
                              {"shipped_s", "as shipped", 1, 3},
                              {"learned_s", "learned", 1, 3},
                              {"left_out_s", "from the others", 1, 3}}};
  if (!of_steps) table.columns.insert(table.columns.begin() + 1, {"of", "kernels"});
  for (const learn::RunCheck& run : learned.runs) {
    if ((run.of == learn::TimeOf::step) != of_steps) continue;
    std::vector<DataCell> row = {
        run.name, run.measured, run.shipped, run.learned,
        learned.calibration.runs() > 1 ? DataCell(run.left_out) : Missing{"there are no others"}};
    if (!of_steps)
      row.insert(row.begin() + 1, std::string(learn::time_names[static_cast<size_t>(run.of)]));
    table.add(std::move(row));
  }
  if (!table.rows.empty()) section.tables.push_back(std::move(table));
}

Section runs(const Learned& learned) {
  Section section{.id = "runs", .title = "How your runs are predicted"};
  add_times(learned, true, section);
  add_times(learned, false, section);
  return section;
}

/// Slots and the boards that differ most.
Section room(const learn::Room& room, double board_spread) {
  DataTable slots{.name = "slots",
                  .title = "Coolant of each slot against what is shipped",
                  .columns = {{"slot", "slot"}, {"offset_k", "K", 1, 1}}};
  for (std::size_t s = 0; s < room.slots_k.size(); ++s)
    slots.add({static_cast<int64_t>(s), room.slots_k[s]});
  Section section{.id = "room",
                  .title = "The room",
                  .remarks = {{fmt::format(
                      "Temperatures of {} GPUs are met within {:.1f} K (rms; {:.1f} K as shipped): "
                      "the inlet is {:+.1f} K from what is shipped, unless a job states one.",
                      room.devices, room.after_k, room.before_k, room.inlet_k)}},
                  .tables = {std::move(slots)}};
  for (std::size_t d = 0; d < room.boards.size(); ++d)
    if (std::abs(room.boards[d] - 1) > 5 * board_spread)
      section.remarks.push_back(
          {fmt::format("GPU {} of node {}: {:.2f} times the thermal resistance of its slot{}.",
                       d % room.slots_k.size(), d / room.slots_k.size(), room.boards[d],
                       room.boards[d] > 1 ? "; check its heat sink" : ""),
           Remark::Kind::warning});
  return section;
}

Section warnings(const Learned& learned, const calibrate::OwnRuns& own) {
  Section section{.id = "warnings", .title = "What does not fit"};
  for (const learn::Contradiction& found : learned.contradictions)
    section.remarks.push_back(
        {fmt::format("{} are one job by what is known of them, and the longest took {:.2g} times "
                     "as long as the shortest; they teach no more than that, so check what "
                     "differed",
                     fmt::join(found.runs, ", "), found.ratio),
         Remark::Kind::warning});
  for (const calibrate::SkippedRow& row : own.doubts)
    section.remarks.push_back(
        {fmt::format("{}: {}", row.row_id, row.reason), Remark::Kind::warning});
  const auto left_out = [&](const std::string& run, const std::string& reason) {
    section.remarks.push_back(
        {fmt::format("{} is left out: {}", run, reason), Remark::Kind::warning});
  };
  for (const calibrate::SkippedRow& row : own.skipped)
    left_out(row.row_id, row.reason);
  for (const auto& [run, reason] : learned.left_out)
    left_out(run, reason);
  return section;
}

Section next(const Learned& learned) {
  DataTable table{.name = "next",
                  .title = "Runs that narrow forecasts most",
                  .columns = {{"of", "like"},
                              {"change", "but with"},
                              {"gpus", "GPUs"},
                              {"step_s", "step s", 1, 2},
                              {"narrowing", "narrower by %", 0.01, 0}}};
  for (const learn::NextRun& one : learned.next)
    table.add({one.of, one.change, one.gpus, one.seconds, 1 - std::sqrt(1 - one.narrowing)});
  return {.id = "next", .title = "What to measure next", .tables = {std::move(table)}};
}

std::string verdict_of(const Learned& learned) {
  std::string text;
  std::vector<learn::RunCheck> runs = learned.runs;
  std::erase_if(runs, [](const auto& run) { return run.of != learn::TimeOf::step; });
  if (runs.size() == 1)
    text =
        fmt::format("Learned from 1 run, whose steps take {:.0f} % {} than predicted as shipped.",
                    100 * std::abs(runs[0].measured / runs[0].shipped - 1),
                    runs[0].measured > runs[0].shipped ? "longer" : "less");
  if (runs.size() > 1) {
    constexpr double noticeable = 0.005;
    const double left_out = median_error(runs, &learn::RunCheck::left_out);
    const double shipped = median_error(runs, &learn::RunCheck::shipped);
    text = fmt::format(
        "Learned from {} runs: each is predicted from the others within {:.1f} % (median), as "
        "shipped within {:.1f} %{}.",
        runs.size(), 100 * left_out, 100 * shipped,
        shipped - left_out > noticeable
            ? ""
            : ": they teach little that the shipped numbers lack, see what to measure next");
  }
  if (const auto& room = learned.calibration.room())
    text += fmt::format(
        "{}Learned the heat of {} GPUs: temperatures are met within {:.1f} K, as "
        "shipped within {:.1f} K.",
        text.empty() ? "" : " ", room->devices, room->after_k, room->before_k);
  return text;
}

Json learned_numbers(const Learned& learned, const calibrate::OwnRuns& own,
                     const std::string& folder) {
  Json json = {{"schema", 1},
               {"folder", folder},
               {"power_runs", learned.calibration.power().runs},
               {"taught_by", Json::object()},
               {"contradictions", Json::array()},
               {"left_out", Json::array()}};
  const Posterior& known = learned.calibration.posterior();
  for (std::size_t k = 0; k < learn::coefficient_count; ++k)
    json["taught_by"][learn::coefficients()[k].name] = taught_by_run(known, k);
  for (const learn::Contradiction& found : learned.contradictions)
    json["contradictions"].push_back({{"runs", found.runs}, {"ratio", found.ratio}});
  for (const calibrate::SkippedRow& row : own.skipped)
    json["left_out"].push_back({{"run", row.row_id}, {"reason", row.reason}});
  for (const auto& [run, reason] : learned.left_out)
    json["left_out"].push_back({{"run", run}, {"reason", reason}});
  if (const auto& room = learned.calibration.room())
    json["room"] = {{"cluster", room->cluster},   {"inlet_k", room->inlet_k},
                    {"boards", room->boards},     {"devices", room->devices},
                    {"before_k", room->before_k}, {"after_k", room->after_k}};
  return json;
}

}  // namespace

answers::Document calibration_answer(const Learned& learned, const calibrate::OwnRuns& own,
                                     const std::string& folder) {
  answers::Document answer{.kind = "calibration",
                           .title = folder,
                           .verdict = verdict_of(learned),
                           .numbers = learned_numbers(learned, own, folder)};
  answer.sections.push_back(warnings(learned, own));
  if (!learned.runs.empty()) {
    answer.sections.push_back(runs(learned));
    answer.sections.push_back(learned_coefficients(learned.calibration));
  }
  if (const auto& known = learned.calibration.room())
    answer.sections.push_back(room(*known, learned.calibration.posterior().priors().room.board));
  if (!learned.next.empty()) answer.sections.push_back(next(learned));
  answer.sections.push_back(
      {.id = "use",
       .title = "Use it",
       .remarks = {{fmt::format("triplepoint simulate job.toml --with {}", folder),
                    Remark::Kind::command}}});
  return answer;
}

}  // namespace triplepoint::app
