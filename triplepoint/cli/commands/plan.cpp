// SPDX-License-Identifier: Apache-2.0
// Which plan should a job run, and why that one.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/number_text.h"

#include "triplepoint/spec/job_checks.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/cli/commands/plan_clocks.h"
#include "triplepoint/cli/commands/plan_in_pool.h"
#include "triplepoint/cli/commands/plan_report.h"
#include "triplepoint/cli/commands/start_search.h"
#include "triplepoint/cli/flags/bill_flags.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/flags/job_flags.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/cli/flags/spread_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/formats/read_job.h"
#include "triplepoint/report/job_name.h"
#include "triplepoint/search/finalists.h"
#include "triplepoint/search/limits.h"
#include "triplepoint/search/plan_tables.h"
#include "triplepoint/search/search_parts.h"
#include "triplepoint/tui/data_table_text.h"
#include "triplepoint/tui/search_bars.h"
#include "triplepoint/tui/text_table.h"

namespace triplepoint::cli {
namespace {

using search::Finalist;

constexpr size_t fewest_finalists = 8;

class PlanCommand : public Command {
 public:
  explicit PlanCommand(const search::WorkerPool* pool) : pool_(pool) {}

  std::vector<Argument> arguments() override {
    std::vector<Argument> all;
    for (Argument& argument : flags_.arguments())
      if (is_no_choice(argument)) all.push_back(std::move(argument));
    for (auto part : {&PlanCommand::search_arguments, &PlanCommand::clock_arguments,
                      &PlanCommand::output_arguments})
      for (Argument& argument : (this->*part)())
        all.push_back(std::move(argument));
    for (Argument& argument : spread_.arguments())
      all.push_back(std::move(argument));
    for (Argument& argument : bill_.arguments())
      all.push_back(std::move(argument));
    return all;
  }

  Result<int> run(tui::Console& console) override {
    if (pool_ == nullptr) TPT_TRY(become_distributed_search());
    const spec::Library library = TPT_TRY(spec::require_library());
    if (slowdown_ && !clocks_)
      return error("--slowdown belongs to --clocks (layouts are not planned by it); add --clocks");
    if (clocks_) return plan_clocks(console, library);
    TPT_TRY(spread_.check(output_.has_value(), pool_ != nullptr));
    const spec::Job base = TPT_TRY(base_job(library));
    const search::Space space(base, space_, TPT_TRY(search::parse_fixed(fix_)));
    if (space.size() == 0)
      return error(fmt::format(
          "no plan is left of the space (--fix {} and the sizes of {} on {} GPUs at batch {} "
          "exclude each other); fix less, or change the batch",
          fix_, base.model.name, base.world_size(), base.plan.global_batch_size));
    const metrics::BillRates rates = TPT_TRY(bill_.rates(library));
    objective_ = search::objective_of(*search::goal_named(goal_), base, rates);
    limits_.headroom = headroom_.of(*base.cluster.gpu.memory);
    lifetime_ = TPT_TRY(metrics::load_lifetime_model(library));
    if (spread_.shard) return search_shard(console, space);
    const search::Ranking ranking = TPT_TRY(find_plans(console, space));
    if (ranking.ranked.empty()) return explain_nothing(ranking);
    const auto intervals = TPT_TRY(metrics::PredictionIntervals::load(library));
    const PlanOutcome outcome{.base = base,
                              .space = space,
                              .ranking = ranking,
                              .rates = rates,
                              .intervals = intervals,
                              .bill = bill_,
                              .objective = objective_,
                              .search = search_options(),
                              .top = top()};
    if (output_ && leads()) TPT_TRY(write_plans(console, library, outcome, Path(*output_)));
    TPT_TRY(print(console, library, outcome));
    if (!interrupted()) return exit_ok;
    console.warn("triplepoint: interrupted; what is shown is the best found until then\n");
    return exit_interrupted;
  }

 private:
  /// Of the flags that describe a job, those that the search does not choose.
  static bool is_no_choice(const Argument& argument) {
    if (argument.names.starts_with("--mbs")) return false;
    return argument.group == "What runs where" || argument.group == "Batch and precision" ||
           argument.group == "Environment";
  }

  std::vector<Argument> search_arguments() {
    const std::string group = "Objective and constraints";
    return {
        {.names = "--objective",
         .value = "GOAL",
         .help = "quantity to optimize: time, energy, energy x time, or cost (default throughput)",
         .group = group,
         .choices = {"throughput", "energy", "edp", "cost"},
         .store = into(goal_)},
        {.names = "--max-temperature",
         .value = "TEMP",
         .help = "limit of the hottest die, as in \"80 C\"",
         .group = group,
         .store = into_quantity(limits_.temperature)},
        {.names = "--max-power",
         .value = "POWER",
         .help = "limits of peak GPU power and of mean node and cluster power: \"gpu=700 W,node=8 "
                 "kW,cluster=1 MW\"",
         .group = group,
         .store = [this](std::string_view text) { return search::parse_power(text, limits_); }},
        {.names = "--memory-headroom",
         .value = "SIZE",
         .help = "memory that stays free on each GPU, as in 4GB or 5%",
         .group = group,
         .store = [this](std::string_view text) -> Result<void> {
           headroom_ = TPT_TRY(search::parse_headroom(text));
           return {};
         }},
        {.names = "--fix",
         .value = "LIST",
         .help = "fixed dimensions, as in tp=8,mbs=1|2: tp pp vpp ep etp cp dp mbs sharding "
                 "recompute recompute-layers schedule sp overlap-tp overlap-dp overlap-pp uneven",
         .group = group,
         .store = into(fix_)},
        {.names = "--space",
         .value = "REACH",
         .help = "launchable: plans that Megatron and NeMo can start; everything: all modelled "
                 "plans (default launchable)",
         .group = group,
         .choices = {"launchable", "everything"},
         .store = [this](std::string_view text) -> Result<void> {
           space_ = text == "everything" ? search::Reach::everything : search::Reach::launchable;
           return {};
         }}};
  }

  std::vector<Argument> clock_arguments() {
    const std::string group = "Clocks instead of layouts";
    return {
        {.names = "--clocks",
         .help = "keep the job's layout; plan clocks and power caps per GPU that use waiting time",
         .group = group,
         .store = into_switch(clocks_)},
        {.names = "--slowdown",
         .value = "SHARE",
         .help = "allowed increase of step time, as in 2% (default 0)",
         .group = group,
         .store = [this](std::string_view text) -> Result<void> {
           slowdown_ = TPT_TRY(parse_slowdown(text));
           return {};
         }}};
  }

  Result<int> plan_clocks(tui::Console& console, const spec::Library& library) const {
    spec::Job job = TPT_TRY(flags_.job(library));
    if (job.name.empty()) job.name = report::default_name(job);
    return plan_the_clocks(console, library, job,
                           {.slowdown = slowdown_.value_or(0),
                            .format = format_.word(),
                            .output = output_,
                            .threads = threads_.count()});
  }

  std::vector<Argument> output_arguments() {
    const std::string group = "Output";
    return {{.names = "--top",
             .value = "N",
             .help = "number of plans to show, each with another layout (default 5)",
             .group = group,
             .store = into_count(top_, 1)},
            {.names = "--pareto",
             .help = "show the Pareto front of time, energy, peak power and peak temperature",
             .group = group,
             .store = into_switch(pareto_)},
            {.names = "--explain",
             .value = "A,B",
             .help = "compare two plans term by term: numbers in the ranking, or job files",
             .group = group,
             .store = into(explain_)},
            {.names = "-o,--output",
             .value = "DIR",
             .help = "write each plan as job.toml, Megatron arguments and NeMo YAML",
             .group = group,
             .words = Words::folders,
             .store = into(output_)},
            threads_.argument(group),
            format_.argument(group)};
  }

  Result<spec::Job> base_job(const spec::Library& library) {
    spec::Job job = TPT_TRY(flags_.job(library));
    if (job.task != spec::Task::pretrain && job.task != spec::Task::lora)
      return error("plan supports only training (the job has another task); leave its task out");
    TPT_TRY(spec::require_valid(search::without_layout(job)));
    return job;
  }

  search::SearchOptions search_options() const {
    search::SearchOptions options;
    options.threads = threads_.count();
    options.keep = std::max(fewest_finalists, top() + top() / 2);
    options.pool = pool_;
    options.stopped = [] { return interrupted(); };
    return options;
  }

  /// Plans that are thrifty alone widen the front.
  search::Found thrifty_plans(const search::Space& space,
                              const search::SearchOptions& options) const {
    if (!pareto_ || objective_.goal == search::Goal::energy) return {};
    search::Objective thrifty = objective_;
    thrifty.goal = search::Goal::energy;
    return search::search(space, thrifty, limits_, options);
  }

  Result<search::Ranking> find_plans(tui::Console& console, const search::Space& space) const {
    tui::SearchBars bars(console);
    search::FinalOptions options;
    options.top = top();
    options.lifetime = lifetime_;
    options.search = search_options();
    options.search.begin = [&](const char* what, size_t total) { bars.begin(what, total); };
    options.search.advance = [&] { bars.advance(); };
    if (!spread_.merge)
      return search::rank_plans(space, objective_, limits_, options,
                                thrifty_plans(space, options.search).best);
    std::vector<search::Found> parts, thrifty;
    for (search::SearchPart& part :
         TPT_TRY(search::read_parts(space, Path(*spread_.merge), question(space)))) {
      parts.push_back(std::move(part.found));
      thrifty.push_back(std::move(part.thrifty));
    }
    options.find = [&](const search::SearchOptions& asked) {
      return search::merge(parts, asked.keep);
    };
    return search::rank_plans(space, objective_, limits_, options,
                              search::merge(thrifty, options.search.keep).best);
  }

  std::string question(const search::Space& space) const {
    return search::digest_of_question(space, objective_, limits_,
                                      fmt::format("{} {} {}", fix_, pareto_, top()));
  }

  /// Finds the best plans of one part of the space and leaves the rest to who merges.
  Result<int> search_shard(tui::Console& console, const search::Space& space) const {
    search::SearchPart part;
    {
      tui::SearchBars bars(console);
      search::SearchOptions options = search_options();
      options.shard = spread_.shard->index;
      options.shards = spread_.shard->count;
      // Where limits may refuse plans, the merge may ask for as many as one search would.
      if (limits_.temperature || limits_.device_power || limits_.node_power || limits_.total_power)
        options.keep = std::max(options.keep, search::most_finalists);
      options.begin = [&](const char* what, size_t total) { bars.begin(what, total); };
      options.advance = [&] { bars.advance(); };
      part = {.shard = *spread_.shard,
              .question = question(space),
              .found = search::search(space, objective_, limits_, options),
              .thrifty = thrifty_plans(space, options)};
    }
    if (interrupted()) return exit_interrupted;
    const Path folder(*output_), file = folder / search::part_name(part.shard);
    if (auto made = make_folder(folder); !made) return tl::unexpected(made.error());
    if (auto written = write_file_atomically(file, search::write_part(part)); !written)
      return tl::unexpected(written.error());
    console.warn(
        fmt::format("{} plans in {}; with all {} parts there: triplepoint plan (the same "
                    "flags) --merge {}\n",
                    part.found.best.size(), file.string(), part.shard.count, folder.string()));
    return exit_ok;
  }

  /// Of a pool, who prints and writes.
  bool leads() const { return pool_ == nullptr || pool_->rank == 0; }

  static Result<int> explain_nothing(const search::Ranking& ranking) {
    if (interrupted()) return exit_interrupted;
    if (!ranking.refused.empty())
      return error(
          fmt::format("no plan keeps within the limits ({}, of the best one); raise the "
                      "limit, or lower --power-limit",
                      ranking.refused.front().refused));
    return error(
        fmt::format("none of {} plans fits in memory (states, activations and buffers of "
                    "every one are larger than a GPU's memory less headroom); use more "
                    "nodes, or a smaller batch",
                    ranking.counts.plans));
  }

  Result<void> print(tui::Console& console, const spec::Library& library,
                     const PlanOutcome& outcome) const {
    const DataTable table =
        search::ranking_table(outcome.base, outcome.ranking.ranked, top(), outcome.intervals);
    std::optional<DataTable> comparison;
    if (explain_) {
      const auto [a, b] = TPT_TRY(compared(library, outcome));
      comparison = search::comparison_table(a, b);
    }
    if (format_.is_json()) {
      print_json(console, plan_json(outcome, comparison));
    } else if (format_.is_csv()) {
      console.print(table_csv(comparison ? *comparison : table));
    } else {
      print_plan(console, outcome, table, pareto_);
      if (comparison) console.print("\n" + tui::table_text(*comparison, console));
    }
    return {};
  }

  /// The two plans of --explain: numbers of the ranking, or files.
  Result<std::pair<Finalist, Finalist>> compared(const spec::Library& library,
                                                 const PlanOutcome& outcome) const {
    const std::vector<std::string> names = TPT_TRY(split_list(*explain_));
    if (names.size() != 2)
      return error("--explain compares two plans (it was given another number); try --explain 1,2");
    Finalist a = TPT_TRY(named_plan(library, outcome, names[0]));
    Finalist b = TPT_TRY(named_plan(library, outcome, names[1]));
    return std::pair(std::move(a), std::move(b));
  }

  Result<Finalist> named_plan(const spec::Library& library, const PlanOutcome& outcome,
                              const std::string& name) const {
    const auto& ranked = outcome.ranking.ranked;
    if (const Result<int64_t> place = parse_count(name)) {
      if (*place >= 1 && *place <= static_cast<int64_t>(ranked.size()))
        return ranked[static_cast<size_t>(*place) - 1];
      return error(
          fmt::format("--explain: there is no plan {} (the ranking has {}); name one of "
                      "them, or a job file",
                      name, ranked.size()));
    }
    spec::Job job = outcome.base;
    job.plan = TPT_TRY(formats::read_job(library, name)).plan;
    job.plan.global_batch_size = outcome.base.plan.global_batch_size;
    if (auto valid = spec::require_valid(job); !valid) return tl::unexpected(valid.error());
    Finalist plan = search::simulate_in_full(job, objective_, lifetime_);
    if (plan.time == 0)
      return error(
          fmt::format("--explain: the plan of {} does not fit in memory (it has no step "
                      "to compare); save more, or use more nodes",
                      name));
    return plan;
  }

  size_t top() const { return static_cast<size_t>(top_.value_or(5)); }

  const search::WorkerPool* pool_;
  SpreadFlags spread_;
  JobFlags flags_;
  BillFlags bill_;
  search::Limits limits_;
  search::Objective objective_;
  search::Reach space_ = search::Reach::launchable;
  search::Headroom headroom_;
  std::optional<metrics::LifetimeModel> lifetime_;
  std::string goal_ = "throughput", fix_;
  FormatFlag format_{FormatFlag::Csv::yes};
  ThreadsFlag threads_{"threads to search (default: all cores)"};
  std::optional<std::string> explain_, output_;
  std::optional<int64_t> top_;
  std::optional<double> slowdown_;
  bool pareto_ = false, clocks_ = false;
};

}  // namespace

std::unique_ptr<Command> make_plan() {
  // Before the flags are read: one rank of a team prints what is wrong with them.
  (void)become_distributed_search();
  return std::make_unique<PlanCommand>(nullptr);
}

std::unique_ptr<Command> make_plan_in_pool(const search::WorkerPool& pool) {
  return std::make_unique<PlanCommand>(&pool);
}

}  // namespace triplepoint::cli
