// SPDX-License-Identifier: Apache-2.0
// Which plan should a job run, and why that one.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/advise/clock_plan.h"
#include "triplepoint/answers/labels.h"
#include "triplepoint/app/library_text.h"
#include "triplepoint/app/place_telemetry.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/plan_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/learn/calibration.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/search/plan_outcome.h"
#include "triplepoint/search/size_answer.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

Result<void> write_setting(tui::Console& console, const spec::Library& library,
                           const spec::Job& job, const advise::ClockPlan& plan,
                           const advise::ClockPoint& point, const Path& folder) {
  TPT_TRY(make_folder(folder));
  spec::Job limited = job;
  limited.environment.device_clock_limits = point.clocks;
  const std::pair<const char*, std::string> files[] = {
      {"clocks.csv", advise::clock_csv(job, plan, point)},
      {"clocks.sh", advise::clock_script(job, plan, point)},
      {"job.toml", spec::write_job(limited, library)}};
  for (const auto& [name, text] : files)
    TPT_TRY(write_file_atomically(folder / name, text));
  console.warn(
      fmt::format("clocks.csv (per rank), clocks.sh (to read, then to run on each node) and "
                  "job.toml (with these limits) in {}\n",
                  folder.string()));
  return {};
}

/// "2%" or "0.02".
Result<double> parse_slowdown(std::string_view text) {
  const auto split = split_number(text);
  const double share = split ? split->number / (split->rest == "%" ? 100 : 1) : -1;
  if (split && (split->rest == "%" || split->rest.empty()) && share >= 0 && share <= 1)
    return share;
  return error(
      "--slowdown {} is not a share (it is the allowed increase of step time); try --slowdown 2%",
      text);
}

/// The best plans as 1-job.toml, 1-megatron.sh, 1-nemo.yaml, 2-... in a folder; a text that says
/// so.
Result<std::string> write_plans(const spec::Library& library, const search::PlanQuestion& asked,
                                const search::Ranking& ranking, const Path& folder) {
  TPT_TRY(make_folder(folder));
  const size_t count = std::min(ranking.ranked.size(), asked.top);
  std::string remarks;
  for (size_t i = 0; i < count; ++i) {
    spec::Job job = search::job_of(asked.base, ranking.ranked[i]);
    job.name = answers::default_name(job);
    remarks += TPT_TRY(formats::write_job_files(library, job, folder / std::to_string(i + 1)));
  }
  if (const Path more = folder / fmt::format("{}-job.toml", count + 1); path_exists(more))
    remarks += fmt::format("plans from {} on are of an earlier search; remove their files\n",
                           more.string());
  return fmt::format("{} plan{} as job.toml, megatron.sh and nemo.yaml in {}\n{}", count,
                     count == 1 ? "" : "s", folder.string(), remarks);
}

/// A plan that --explain names: by its number in the ranking, or as a job file.
Result<search::Finalist> named_plan(const spec::Library& library, const search::PlanOutcome& found,
                                    const std::string& name) {
  const auto& ranked = found.ranking.ranked;
  if (const Result<int64_t> place = parse_count(name)) {
    if (*place >= 1 && *place <= static_cast<int64_t>(ranked.size()))
      return ranked[as_size(*place) - 1];
    return error(
        "--explain: there is no plan {} (the ranking has {}); name one of them, or a job file",
        name, ranked.size());
  }
  spec::Job job = found.asked.base;
  spec::StatedJob stated = TPT_TRY(formats::read_stated_job(library, name, {}));
  stated.job.cluster = job.cluster;
  const auto batch = job.plan.global_batch_size;
  job.plan = TPT_TRY(spec::with_defaults(library, std::move(stated))).plan;
  job.plan.global_batch_size = batch;
  TPT_TRY(spec::require_valid(job));
  search::Finalist plan = search::simulate_in_full(job, found.asked.objective);
  if (plan.time > 0) return plan;
  return error(
      "--explain: the plan of {} does not fit in memory (it has no step to compare); "
      "save more, or use more nodes",
      name);
}

Result<std::vector<search::Finalist>> explained_plans(const spec::Library& library,
                                                      const search::PlanOutcome& found,
                                                      const std::string& text) {
  std::vector<search::Finalist> plans;
  const std::vector<std::string> names = TPT_TRY(split_list(text));
  if (names.size() != 2)
    return error("--explain compares two plans ({} {} given); try --explain 1,2", names.size(),
                 names.size() == 1 ? "was" : "were");
  for (const std::string& name : names)
    plans.push_back(TPT_TRY(named_plan(library, found, name)));
  return plans;
}

class PlanCommand : public Command {
 public:
  Arguments arguments() override {
    Arguments job =
        flags_.arguments_of_search([this](const auto& name, auto text) { fix_layout(name, text); });
    take_ranges(job);
    job.add(plan_.search())
        .group("Clocks instead of layouts")
        .toggle("--clocks",
                "keep the job's layout; plan clocks and power caps per GPU that use waiting time",
                clocks_)
        .flag("--slowdown", "SHARE",
              "allowed increase of step time, as in 2% (least and default 0.1%)",
              into(slowdown_, parse_slowdown))
        .add(plan_.ranking())
        .group("Output")
        .flag("--explain", "A,B",
              "compare two plans term by term: numbers in the ranking, or job files",
              into(explain_))
        .flag("-o,--output", "DIR",
              "write each plan as job.toml, Megatron arguments and NeMo YAML, and a page of "
              "all, report.html; NAME.html writes the page alone",
              into(output_), {.words = Words::folders})
        .add(plan_.threads())
        .add(format_.argument())
        .add(plan_.bill())
        .group("Which machines: --nodes 8..512 (doubled; 8..64/8 in steps), --cluster A,B")
        .flag("--within", "TIME", "most time that training on --tokens may take, as in 30days",
              [this](std::string_view text) -> Result<void> {
                const bool in_days = text.ends_with("days");
                const std::string time = in_days
                                             ? std::string(text.substr(0, text.size() - 4)) + "d"
                                             : std::string(text);
                size_limits_.time = TPT_TRY(parse_quantity<Seconds>(time));
                return {};
              })
        .flag("--budget", "MONEY", "most that it may cost, as in 3MUSD",
              into(size_limits_.money, search::parse_money));
    note_flags_of_search(job);
    return job;
  }

  Result<int> run(tui::Console& console) override {
    const ThreadLimit limit = plan_.thread_limit();
    if (!searched_flag_.empty() && !clocks_)
      return error(
          "{} was given, but plan searches for it; hold it with --fix, as in --fix "
          "sp=on,overlap-dp=on (triplepoint plan --help lists its names), or plan the clocks of "
          "the job's layout with --clocks",
          searched_flag_);
    const spec::Library library = TPT_TRY(spec::require_library());
    if (slowdown_ && !clocks_)
      return error("--slowdown belongs to --clocks (layouts are not planned by it); add --clocks");
    if (clocks_ && !of_search_.empty())
      return error(
          "{} belongs to the search for layouts (--clocks keeps the job's layout and "
          "has no use for it); leave out one of them",
          of_search_);
    if (clocks_) return plan_clocks(console, library);
    if (size_limits_.time || size_limits_.money || nodes_.size() > 1 || clusters_.size() > 1)
      return plan_sizes(console, library);
    const spec::Job base = TPT_TRY(job(console, library));
    if (const std::string own = app::own_model_text(library, base);
        !own.empty() && !format_.is_json())
      console.print(own + "\n");
    search::PlanOutcome outcome = TPT_TRY(plan_.outcome(library, base, tui::watch_on(console)));
    const search::PlanQuestion& asked = outcome.asked;
    const search::Ranking& ranking = outcome.ranking;
    if (ranking.ranked.empty()) {
      console.warn("triplepoint: interrupted before the first plan was found\n");
      return exit_interrupted;
    }
    const std::optional<learn::Calibration> learned = TPT_TRY(flags_.own_runs());
    if (learned && learned->knows(asked.base))
      outcome.own_runs = own_runs(*learned, asked, outcome.first());
    if (flags_.has_file()) outcome.own = search::own_plan(asked);
    if (outcome.own && !interrupted())
      outcome.changes = search::best_changes(asked.base, asked.objective, asked.limits);
    if (explain_ && !interrupted())
      outcome.explained = TPT_TRY(explained_plans(library, outcome, *explain_));
    if (output_ && !interrupted())
      outcome.others = search::neighbours_of(search::job_of(asked.base, ranking.ranked[0]),
                                             asked.objective, asked.limits);
    const answers::Document answer = search::plan_answer(outcome);
    print_answer(console, answer, format_, outcome.explained.empty() ? "plans" : "explain");
    if (output_) {
      const bool only_page = output_->ends_with(".html");
      if (!only_page) console.warn(TPT_TRY(write_plans(library, asked, ranking, *output_)));
      TPT_TRY(write_file_atomically(only_page ? Path(*output_) : Path(*output_) / "report.html",
                                    report::document_page(answer, page_data(outcome, !only_page))));
    }
    if (!interrupted()) return exit_ok;
    console.warn("triplepoint: interrupted; what is shown is the best found until then\n");
    return exit_interrupted;
  }

 private:
  /// A card of each plan, with the way to its job's file where it has one.
  static Json page_data(const search::PlanOutcome& outcome, bool has_files) {
    Json jobs = Json::array();
    const auto& ranked = outcome.ranking.ranked;
    const size_t files = has_files ? outcome.asked.top : 0;
    for (size_t i = 0; i < ranked.size(); ++i)
      jobs.push_back({{"name", fmt::format("plan {}", i + 1)},
                      {"model", outcome.asked.base.model.name},
                      {"machine", outcome.asked.base.cluster.name},
                      {"layout", search::plan_text(ranked[i])},
                      {"variant", ""},
                      {"microbatch", ranked[i].candidate.plan.micro_batch_size},
                      {"verdict", significant(ranked[i].time) + " s a step"},
                      {"page", i < files ? fmt::format("{}-job.toml", i + 1) : ""}});
    return {{"jobs", std::move(jobs)}};
  }

  /// Forecasts of plans are made once each: a derivative is a simulation for every coefficient.
  static search::OwnRuns own_runs(const learn::Calibration& learned,
                                  const search::PlanQuestion& asked,
                                  const search::Finalist& first) {
    auto made = std::make_shared<std::map<std::pair<std::string, double>, learn::Evidence>>();
    const auto forecast = [made, &learned, &asked](const search::Finalist& plan) {
      const std::pair key(search::plan_text(plan), plan.time);
      if (const auto found = made->find(key); found != made->end()) return found->second;
      return (*made)[key] = learned.forecast(search::job_of(asked.base, plan), plan.time);
    };
    std::optional<search::NextMeasurement> measure;
    if (const auto next =
            learn::smaller_run(learned, search::job_of(asked.base, first), forecast(first)))
      measure = {.on = next->change,
                 .gpus = next->gpus,
                 .step_time_s = next->seconds,
                 .narrowing = next->narrowing};
    return {.runs = static_cast<int64_t>(learned.runs()),
            .factor =
                [=, &learned](const auto& plan) { return learned.interval_factor(forecast(plan)); },
            .longer =
                [=, &learned](const auto& plan, const auto& than) {
                  return learned.probability_longer(forecast(plan), plan.time, forecast(than),
                                                    than.time);
                },
            .next = measure};
  }

  /// So that --clocks refuses what it would not heed.
  void note_flags_of_search(Arguments& all) {
    for (Argument& each : all)
      for (const char* name :
           {"--objective", "--max-temperature", "--max-power", "--memory-headroom", "--fix",
            "--space", "--top", "--pareto", "--explain", "--tokens", "--within", "--budget"})
        if (has_name(each, name))
          each.store = [this, name, store = each.store](std::string_view text) {
            of_search_ = name;
            return store(text);
          };
  }

  /// Of a range of nodes and a list of clusters each is tried; what is stored is the first.
  void take_ranges(Arguments& job) {
    for (Argument& each : job) {
      if (has_name(each, "--nodes"))
        each.store = [this, store = each.store](std::string_view text) -> Result<void> {
          nodes_ = TPT_TRY(search::parse_nodes(text));
          if (nodes_.size() > 1) of_search_ = "a range of --nodes";
          store_nodes_ = store;
          return store(std::to_string(nodes_.front()));
        };
      if (has_name(each, "--cluster"))
        each.store = [this, store = each.store](std::string_view text) -> Result<void> {
          clusters_ = TPT_TRY(split_list(text));
          if (clusters_.size() > 1) of_search_ = "a list of --cluster";
          store_cluster_ = store;
          return store(clusters_.front());
        };
    }
  }

  /// The best plan of a job's size, or why there is none.
  search::Sized sized(const spec::Library& library, spec::Job base, const Watch& watch) const {
    search::Sized size{.base = base};
    const auto outcome = plan_.outcome(library, std::move(base), watch, 1);
    if (!outcome) {
      size.problem = outcome.error().what;
    } else if (!outcome->ranking.ranked.empty()) {
      size.base = outcome->asked.base;
      size.plan = outcome->ranking.ranked.front();
      size.bill = outcome->bill(size.plan);
      size.step_time =
          outcome->intervals.step_time(search::job_of(size.base, size.plan), size.plan.time);
    }
    return size;
  }

  Result<int> plan_sizes(tui::Console& console, const spec::Library& library) {
    if (!plan_.billed().given())
      return error(
          "--within, --budget, ranges of --nodes and lists of --cluster are of a whole training "
          "(its length is missing); add --tokens 15T");
    if (output_ && !output_->ends_with(".html"))
      return error(
          "{}: sizes have no job files; -o NAME.html writes the page, and plan "
          "with one --cluster and --nodes the files",
          *output_);
    if (clusters_.empty()) clusters_.emplace_back();
    if (nodes_.empty()) nodes_.push_back(0);
    std::vector<search::Sized> sizes;
    size_t asked = 0;
    const auto try_sizes = [&](const std::vector<int64_t>& all) -> Result<void> {
      asked += clusters_.size() * all.size();
      for (const std::string& cluster : clusters_)
        for (const int64_t nodes : all) {
          if (interrupted()) return {};
          if (!cluster.empty()) TPT_TRY(store_cluster_(cluster));
          if (nodes > 0) TPT_TRY(store_nodes_(std::to_string(nodes)));
          search::Sized next = sized(library, TPT_TRY(flags_.job(library)), tui::watch_on(console));
          if (interrupted()) return {};  // its search did not end
          sizes.push_back(std::move(next));
        }
      return {};
    };
    TPT_TRY(try_sizes(nodes_));
    if (!std::ranges::any_of(sizes,
                             [&](const auto& each) { return search::keeps(each, size_limits_); }))
      TPT_TRY(try_sizes(search::between_doubled(nodes_)));
    std::ranges::stable_sort(sizes, {}, [](const search::Sized& each) {
      return std::pair(each.base.cluster.name, each.base.cluster.num_nodes);
    });
    if (sizes.empty()) {
      console.warn("triplepoint: interrupted before the first size was searched\n");
      return exit_interrupted;
    }
    if (const std::string& first = sizes.front().problem;
        !first.empty() &&
        std::ranges::all_of(sizes, [&](const auto& each) { return each.problem == first; }))
      return error(first);
    const metrics::BillRates rates =
        TPT_TRY(plan_.billed().rates(library, sizes.front().base.environment));
    const answers::Document answer =
        search::size_answer(std::move(sizes), size_limits_, rates, asked);
    print_answer(console, answer, format_, "sizes");
    if (output_) TPT_TRY(write_file_atomically(Path(*output_), report::document_page(answer)));
    return interrupted() ? exit_interrupted : exit_ok;
  }

  /// In a search --tp 8 is --fix tp=8; flags that --fix does not name are those of --clocks alone.
  void fix_layout(const std::string& flag, std::string_view text) {
    constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"--tp", "tp"},
        {"--pp", "pp"},
        {"--ep", "ep"},
        {"--expert-tensor-parallel-size", "etp"},
        {"--cp", "cp"},
        {"--vpp", "vpp"},
        {"--mbs", "mbs"},
        {"--sharding", "sharding"},
        {"--recompute", "recompute"},
        {"--rank-order", "rank-order"}};
    const auto* found =
        std::ranges::find_if(names, [&](const auto& entry) { return entry.first == flag; });
    if (found == std::end(names))
      searched_flag_ = flag;
    else
      plan_.searched().fix(fmt::format("{}={}", found->second, text));
  }

  Result<spec::Job> job(tui::Console& console, const spec::Library& library) const {
    spec::Job job = TPT_TRY(flags_.job(library));
    print_warnings(console, app::warnings_of(job));
    return job;
  }

  /// Clocks and power caps of each device of a job, from no slowdown on: the frontier, the stages
  /// with their slack, and, in a folder, what an operator needs to set them.
  Result<int> plan_clocks(tui::Console& console, const spec::Library& library) const {
    spec::Job job = TPT_TRY(this->job(console, library));
    const ScopeFlags& energy = plan_.billed().energy();
    TPT_TRY(energy.count_energy(job, TPT_TRY(metrics::load_bill_rates(library)).pue));
    TPT_TRY(spec::require_valid(job));
    TPT_TRY(require_plannable(job, "--clocks"));
    TPT_TRY(require_lasting_faults(job, "leave out its time"));
    TPT_TRY(app::run_at_rest(job));
    const double slowdown = slowdown_.value_or(0);
    advise::ClockOptions options;
    options.scope = energy.scope();
    options.most_slowdown = std::max(options.most_slowdown, slowdown);
    options.threads = plan_.thread_count();
    options.watch = tui::watch_on(console);
    const advise::ClockPlan plan = advise::plan_clocks(job, options);
    const advise::ClockPoint* chosen = advise::chosen_point(plan, slowdown);
    const answers::Document answer = advise::clock_answer(job, plan, chosen);
    print_answer(console, answer, format_);
    if (output_ && output_->ends_with(".html"))
      TPT_TRY(write_file_atomically(Path(*output_), report::document_page(answer)));
    else if (output_ && chosen)
      TPT_TRY(write_setting(console, library, job, plan, *chosen, Path(*output_)));
    else if (output_ && !plan.interrupted)
      return error(
          "nothing was written (no setting within --slowdown saves energy {}); allow "
          "more, as in --slowdown 5%",
          metrics::scope_text(plan.scope));
    return interrupted() ? exit_interrupted : exit_ok;
  }

  PlanFlags plan_;
  JobFlags flags_;
  FormatFlag format_{FormatFlag::Csv::yes};
  std::optional<std::string> explain_, output_;
  std::optional<double> slowdown_;
  std::vector<int64_t> nodes_;         // to try; those given
  std::vector<std::string> clusters_;  // likewise
  Store store_nodes_, store_cluster_;
  search::SizeLimits size_limits_;
  std::string searched_flag_;  // of the layout, which --fix does not name
  std::string of_search_;      // a flag of the search that was given
  bool clocks_ = false;
};

}  // namespace

std::unique_ptr<Command> make_plan() {
  return std::make_unique<PlanCommand>();
}

}  // namespace triplepoint::cli
