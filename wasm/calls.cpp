// SPDX-License-Identifier: Apache-2.0
#include "wasm/calls.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/run_figures.h"
#include "triplepoint/answers/run_findings.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/plan_flags.h"
#include "triplepoint/flags/request.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/flags/simulation_flags.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/formats/job_scripts.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/chassis_picture.h"
#include "triplepoint/report/compare/compare.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/model_flops.h"

/// What a search does and how far it is; the page's.
extern "C" [[clang::import_module("explore"), clang::import_name("progress")]] void tpt_progress(
    const char* what, std::size_t bytes, std::size_t done, std::size_t total);

namespace triplepoint::explore {
namespace {

using flags::FlagTexts;

// ---- requests

std::string text_at(const Json& request, const char* key) {
  const auto found = request.find(key);
  return found != request.end() && found->is_string() ? found->get<std::string>() : "";
}

/// {"--tp": "8", "--fault": ["a", "b"]}
Result<FlagTexts> flag_texts(const Json& request, const char* key) {
  FlagTexts texts;
  const auto found = request.find(key);
  if (found == request.end()) return texts;
  if (!found->is_object()) return error("\"{}\" is no object of flags and texts", key);
  for (const auto& [name, value] : found->items()) {
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& each : list) {
      if (!each.is_string())
        return error("{} is {} (flags are texts); give \"{}\"", name, each.dump(), each.dump());
      texts.emplace_back(name, each.get<std::string>());
    }
  }
  return texts;
}

/// A job, and what `simulate` is asked of it.
struct Asked {
  flags::JobRequest job;
  FlagTexts simulation;
};

Result<Asked> asked_of(const Json& request) {
  Asked asked{{text_at(request, "file"), text_at(request, "beginning"), {}}, {}};
  flags::SimulationFlags simulation;
  const flags::Arguments of_simulation = simulation.all();
  for (auto& each : TPT_TRY(flag_texts(request, "flags"))) {
    const bool is_of = std::ranges::any_of(of_simulation, [&](const flags::Argument& argument) {
      return flags::has_name(argument, each.first);
    });
    (is_of ? asked.simulation : asked.job.flags).push_back(std::move(each));
  }
  return asked;
}

/// With the faults that `simulate` is asked for.
Result<spec::Job> job_of(const Json& request) {
  Asked asked = TPT_TRY(asked_of(request));
  flags::FaultFlags faults;
  const flags::Argument fault = faults.arguments().front();
  bool over_time = false;
  for (const auto& [name, text] : asked.simulation) {
    if (flags::has_name(fault, name)) TPT_TRY(flags::store_text(fault, text));
    over_time |= name == "--duration" || name == "--steps";
  }
  spec::Job job = *TPT_TRY(flags::make_job(std::move(asked.job))).spec;
  TPT_TRY(faults.apply(job, over_time));
  TPT_TRY(spec::require_valid(job));
  return job;
}

// ---- the latest simulations, for pins and pages of them

using Results = std::shared_ptr<const flags::JobResults>;
constexpr std::size_t most_kept = 8;

Result<Results> results_of(const Json& request) {
  static std::list<std::pair<std::string, Results>> kept;
  const std::string key = json_text({{"flags", request.value("flags", Json())},
                                     {"file", text_at(request, "file")},
                                     {"beginning", text_at(request, "beginning")}},
                                    -1);
  const auto found = std::ranges::find(kept, key, &std::pair<std::string, Results>::first);
  if (found != kept.end()) {
    kept.splice(kept.begin(), kept, found);
    return kept.front().second;
  }
  const Asked asked = TPT_TRY(asked_of(request));
  const flags::RequestedJob job = TPT_TRY(flags::make_job(asked.job));
  kept.emplace_front(key, std::make_shared<const flags::JobResults>(
                              TPT_TRY(flags::simulate(job, asked.simulation))));
  if (kept.size() > most_kept) kept.pop_back();
  return kept.front().second;
}

// ---- answers

Json table_of(const flags::Arguments& arguments) {
  constexpr std::array words = {"",       "files",      "folders", "models",  "clusters",
                                "stacks", "optimizers", "records", "studies", "library"};
  Json table = Json::array();
  for (const flags::Argument& each : arguments)
    if (each.is_flag())
      table.push_back({{"names", split(each.names, ',')},
                       {"value", each.value},
                       {"help", each.help},
                       {"group", each.group},
                       {"choices", each.choices},
                       {"repeats", each.repeats},
                       {"words", words[as_size(each.words)]}});
  return table;
}

Result<Json> flag_tables(const Json&) {
  flags::JobFlags job;
  flags::SimulationFlags simulation;
  flags::PlanFlags plan;
  const spec::Library library = TPT_TRY(spec::require_library());
  return Json{{"version", program_version()},
              {"job", table_of(job.arguments())},
              {"simulation", table_of(simulation.all())},
              {"plan", table_of(flags::plan_arguments(plan))},
              {"library",
               {{"models", spec::list_models(library)},
                {"clusters", spec::list_clusters(library)},
                {"stacks", spec::list_stacks(library)},
                {"optimizers", spec::list_optimizers(library)},
                {"records", spec::list_records(library)}}}};
}

Json settings_of(const spec::Job& job) {
  Json settings = Json::object();
  for (const auto& [name, text] : flags::flags_of(job))
    settings[name] = text;
  return settings;
}

Json memory_json(const workload::MemoryVerdict& memory) {
  const workload::StageMemory& worst = memory.stages[as_size(memory.worst_stage)];
  return {{"peak_gib", worst.total() / unit::GiB},
          {"limit_gib", memory.limit / unit::GiB},
          {"stage", memory.worst_stage},
          {"fits", memory.fits()}};
}

Result<Json> step(const Json& request) {
  const spec::Job job = TPT_TRY(job_of(request));
  Json answer = {{"settings", settings_of(job)},
                 {"num_gpus", job.world_size()},
                 {"memory", memory_json(workload::estimate_memory(job))},
                 {"step_time_s", nullptr},
                 {"tokens_per_s", nullptr}};
  if (const auto time = sim::find_steady_step_time(job)) {
    answer["step_time_s"] = *time / unit::s;
    answer["tokens_per_s"] = as_real(workload::tokens_per_step(job)) / (*time / unit::s);
  }
  return answer;
}

std::string verdict_of(const flags::JobResults& results) {
  std::string text = answers::run_verdict(results.run).sentence();
  if (const auto fitting = flags::flags_that_fit(results); !fitting.flags.empty())
    text += " " + fitting.text() + ".";
  if (!results.metrics.bottlenecks.empty())
    text += " " + answers::run_findings(results.run, results.metrics).front().text;
  return text;
}

/// Time, energy, money and CO2 of a whole training. At a given power each is proportional to the
/// step time, and as sure as it.
std::vector<answers::KeyFigure> bill_figures(const flags::JobResults& results) {
  if (!results.bill) return {};
  const double step = *results.metrics.step_time / unit::s;
  const auto figure = [&](const char* label, double value, const std::string& unit) {
    const auto spread = answers::interval_of(results.run);
    return answers::KeyFigure{
        label, significant(value) + " " + unit,
        spread ? answers::interval_text({value * spread->low / step, value * spread->high / step})
               : ""};
  };
  const metrics::Bill& bill = *results.bill;
  return {figure("training", bill.total / unit::h / 24, "days"),
          figure("its energy", bill.energy / unit::MWh, "MWh"),
          figure("its cost", bill.money() / 1e6, "M " + results.rates.currency),
          figure("its CO2", bill.tonnes_co2, "t")};
}

Json key_figures_json(const flags::JobResults& results) {
  Json list = Json::array();
  if (!run::has_trained(results.run)) return list;
  std::vector<answers::KeyFigure> figures = answers::key_figures(results.run, results.metrics);
  std::ranges::move(bill_figures(results), std::back_inserter(figures));
  for (const answers::KeyFigure& figure : figures)
    list.push_back({{"label", figure.label}, {"value", figure.value}, {"remark", figure.remark}});
  return list;
}

Json figures_json(const flags::JobResults& results) {
  Json list = Json::array();
  for (const report::Drawing& figure : report::run_figures(results.run, results.metrics))
    list.push_back({{"id", figure.id}, {"html", report::html_figure(figure)}});
  return list;
}

Result<Json> simulate(const Json& request) {
  const Results results = TPT_TRY(results_of(request));
  const auto& [run, metrics] = std::tie(results->run, results->metrics);
  Json findings = mapped<Json>(answers::run_findings(run, metrics), &answers::Remark::text);
  return Json{
      {"title", answers::title_of(run)},
      {"ok", run::has_trained(run)},
      {"verdict", verdict_of(*results)},
      {"settings", settings_of(*run.manifest.job)},
      {"key_figures", key_figures_json(*results)},
      {"bill", results->bill ? Json(metrics::bill_text(*results->bill, results->rates)) : Json()},
      {"findings", std::move(findings)},
      {"figures", figures_json(*results)}};
}

Result<Json> results(const Json& request) {
  return flags::results_json(*TPT_TRY(results_of(request)));
}

/// What refuses the request's job; null: nothing.
Json refusal(const Json& request) {
  const auto job = job_of(request);
  return job ? Json() : Json(job.error().what);
}

/// What refuses the job with the flag at each of the values. Where no value helps against what
/// refuses the job as it is, another flag is to blame.
Json refusals(const Json& request, const std::string& flag, const Json& values, const Json& own) {
  Json list = Json::array();
  for (const Json& value : values) {
    Json changed = request;
    changed["flags"][flag] = value;
    list.push_back(refusal(changed));
  }
  if (std::ranges::count(list, own) == std::ssize(list)) std::ranges::fill(list, Json());
  return list;
}

Result<Json> legal(const Json& request) {
  Json answer = Json::object();
  const Json own = refusal(request);
  const Json candidates = request.value("values", Json::object());
  for (const auto& [flag, values] : candidates.items())
    answer[flag] = refusals(request, flag, values, own);
  return answer;
}

std::string sections_html(const answers::Document& document) {
  std::string html;
  for (const answers::Section& section : document.sections)
    html += report::section_html(section);
  return html;
}

Result<Json> plan(const Json& request) {
  const Asked asked = TPT_TRY(asked_of(request));
  const flags::RequestedJob job = TPT_TRY(flags::make_job(asked.job));
  std::string_view what;
  std::size_t done = 0, total = 0;
  const Watch watch{.begin =
                        [&](const char* name, std::size_t pieces) {
                          what = name;
                          done = 0;
                          total = pieces;
                        },
                    .advance = [&] { tpt_progress(what.data(), what.size(), ++done, total); }};
  const flags::FoundPlans found =
      TPT_TRY(flags::find_plans(job, TPT_TRY(flag_texts(request, "plan")), watch));
  Json answer{{"answer", answers::document_json(found.answer)},
              {"html", sections_html(found.answer)},
              {"plans", Json::array()}};
  for (const flags::RequestedJob& each : found.jobs)
    answer["plans"].push_back({{"name", each.spec->name}, {"settings", settings_of(*each.spec)}});
  return answer;
}

Result<Json> compare(const Json& request) {
  std::vector<report::Side> sides;
  for (const Json& side : request.value("sides", Json::array())) {
    const Results results = TPT_TRY(results_of(side));
    sides.push_back(report::side_of(results->run, results->metrics, text_at(side, "name")));
  }
  if (sides.size() < 2) return error("a comparison needs two jobs; pin one first");
  const answers::Document document =
      report::comparison_document(report::compare_runs(std::move(sides)), false);
  return Json{
      {"html", "<p><b>" + report::escape(document.verdict) + "</b></p>" + sections_html(document)}};
}

Result<Json> curve(const Json& request) {
  report::LineChart chart{.title = text_at(request, "title"),
                          .x_name = text_at(request, "x"),
                          .y_unit = text_at(request, "unit"),
                          .positions = request.value("positions", std::vector<std::string>()),
                          .lines = {{.name = "", .style = "s0"}}};
  for (const Json& value : request.value("values", Json::array()))
    chart.lines.front().values.push_back(value.is_number() ? std::optional(value.get<double>())
                                                           : std::nullopt);
  if (chart.positions.size() != chart.lines.front().values.size())
    return error("a curve needs as many values as positions");
  return Json{{"svg", report::line_chart_svg(chart)}};
}

/// A launch file, or why the other tool has none.
std::string launch_text(const formats::Exported& exported) {
  const std::string& refusal = exported.refused_by_launcher;
  return refusal.empty() ? exported.text : "# not written: " + refusal + "\n";
}

Result<Json> copy(const Json& request) {
  constexpr int64_t steps = 20;  // as `export` writes
  const spec::Job job = TPT_TRY(job_of(request));
  const spec::Library library = TPT_TRY(spec::require_library());
  std::string unsaid;
  for (const auto& [name, text] : TPT_TRY(asked_of(request)).simulation)
    unsaid += fmt::format("# not of a job: give {} {} to simulate\n", name, comment_text(text));
  Json texts{{"job.toml", unsaid + spec::write_job(job, library)},
             {"NeMo", launch_text(formats::export_nemo_yaml(job, steps))}};
  const auto of_training = [&](const char* tool, const auto& write) {
    const auto trains = spec::require_training(job, "this launch file is written");
    texts[tool] = trains ? launch_text(write()) : "# not written: " + trains.error().what + "\n";
  };
  of_training("Megatron-LM", [&] { return formats::export_megatron_args(job); });
  of_training("Megatron-Bridge", [&] { return formats::export_bridge_yaml(job); });
  of_training("torchtitan", [&] { return formats::export_torchtitan(job, steps); });
  return texts;
}

/// The job of a dropped file, as text that needs no other; a model alone runs where the job in hand
/// runs.
Result<Json> read(const Json& request) {
  flags::JobRequest asked{text_at(request, "file"), {}, {}};
  auto made = flags::make_job(asked);
  if (!made) {
    for (auto& each : TPT_TRY(flag_texts(request, "flags")))
      if (each.first == "--cluster" || each.first == "--nodes")
        asked.flags.push_back(std::move(each));
    if (auto on_these = flags::make_job(asked)) made = std::move(on_these);
  }
  return Json{{"beginning", spec::write_job(*TPT_TRY(std::move(made)).spec)}};
}

Result<Json> page(const Json& request) {
  const Results results = TPT_TRY(results_of(request));
  report::set_page_command(text_at(request, "command"));
  return Json{{"html", report::run_page(results->run, results->metrics)}};
}

Result<Json> gpu(const Json& request) {
  const Results results = TPT_TRY(results_of(request));
  const std::string svg = report::gpu_curves_svg(results->run, request.value("gpu", -1));
  if (svg.empty()) return error("the run has no series of this GPU");
  return Json{{"svg", svg}};
}

using Call = Result<Json> (*)(const Json&);
constexpr std::pair<std::string_view, Call> calls[] = {
    {"flags", flag_tables}, {"step", step},       {"simulate", simulate}, {"legal", legal},
    {"plan", plan},         {"compare", compare}, {"curve", curve},       {"copy", copy},
    {"page", page},         {"read", read},       {"results", results},   {"gpu", gpu}};

Result<Json> answer_to(std::string_view name, std::string_view text) {
  const auto found = std::ranges::find(calls, name, &std::pair<std::string_view, Call>::first);
  if (found == std::end(calls)) return error("\"{}\" is no call of this page", name);
  const Json request = Json::parse(text, nullptr, false);
  if (!request.is_object()) return error("the request is no JSON object");
  return found->second(request);
}

}  // namespace

std::string call(std::string_view name, std::string_view request) {
  const Result<Json> answer = answer_to(name, request);
  return json_text(answer ? *answer : Json{{"error", answer.error().what}}, -1);
}

}  // namespace triplepoint::explore
