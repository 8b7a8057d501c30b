// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/commands/plan.h"

// Which plan should a job run, and why that one.

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/study/plan_search.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

class PlanCommand : public Command {
 public:
  explicit PlanCommand(const search::WorkerPool* pool) : pool_(pool) {}

  Arguments arguments() override {
    return flags_.arguments_without_layout()
        .add(search_.arguments())
        .group("Clocks instead of layouts")
        .toggle("--clocks",
                "keep the job's layout; plan clocks and power caps per GPU that use waiting time",
                clocks_)
        .flag("--slowdown", "SHARE", "allowed increase of step time, as in 2% (default 0)",
              into(slowdown_, parse_slowdown))
        .group("Output")
        .flag("--top", "N", "number of plans to show, each with another layout (default 5)",
              into_count(top_, 1))
        .toggle("--pareto",
                "show the Pareto front of time, energy, peak power and peak temperature", pareto_)
        .flag("--explain", "A,B",
              "compare two plans term by term: numbers in the ranking, or job files",
              into(explain_))
        .flag("-o,--output", "DIR",
              "write each plan as job.toml, Megatron arguments and NeMo YAML, and a page of "
              "all, report.html; NAME.html writes the page alone",
              into(output_), {.words = Words::folders})
        .add(threads_.argument())
        .add(format_.argument())
        .add(search_.spread_arguments())
        .add(bill_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    if (pool_ == nullptr) TPT_TRY(become_distributed_search());
    const spec::Library library = TPT_TRY(spec::require_library());
    if (slowdown_ && !clocks_)
      return error("--slowdown belongs to --clocks (layouts are not planned by it); add --clocks");
    if (clocks_) return plan_clocks(console, library);
    TPT_TRY(search_.check_spread(output_.has_value(), pool_ != nullptr));
    const metrics::BillRates rates = TPT_TRY(bill_.rates(library));
    const study::PlanQuestion asked = TPT_TRY(question(library, rates));
    const search::Space space = TPT_TRY(search_.space(asked.base));
    if (search_.shard()) {
      TPT_TRY(study::search_shard(console, space, asked, *search_.shard(), *output_));
      return interrupted() ? exit_interrupted : exit_ok;
    }
    const search::Ranking ranking =
        TPT_TRY(study::find_plans(console, space, asked, search_.merge()));
    if (ranking.ranked.empty()) {
      console.warn("triplepoint: interrupted before the first plan was found\n");
      return exit_interrupted;
    }
    const auto intervals = TPT_TRY(metrics::PredictionIntervals::load(library));
    const PlanOutcome outcome{asked,
                              space,
                              ranking,
                              rates,
                              intervals,
                              bill_,
                              flags_.has_file() ? own_plan(asked) : std::nullopt};
    std::vector<std::string> sentences;
    if (format_.is_table() || output_) sentences = plan_sentences(outcome);
    if (output_ && leads()) {
      const bool only_page = output_->ends_with(".html");
      if (!only_page) TPT_TRY(study::write_plans(console, library, asked, ranking, *output_));
      TPT_TRY(write_plan_page(only_page ? Path(*output_) : Path(*output_) / "report.html", outcome,
                              sentences));
    }
    TPT_TRY(print_outcome(console, library, outcome, sentences, format_, explain_));
    if (!interrupted()) return exit_ok;
    console.warn("triplepoint: interrupted; what is shown is the best found until then\n");
    return exit_interrupted;
  }

 private:
  Result<int> plan_clocks(tui::Console& console, const spec::Library& library) const {
    return plan_the_clocks(console, library, TPT_TRY(flags_.job(library)),
                           {.slowdown = slowdown_.value_or(0),
                            .format = format_.word(),
                            .output = output_,
                            .threads = threads_.count()});
  }

  Result<study::PlanQuestion> question(const spec::Library& library,
                                       const metrics::BillRates& rates) const {
    const spec::Job base = TPT_TRY(flags_.job(library));
    if (base.task != spec::Task::pretrain && base.task != spec::Task::lora)
      return error("plan supports only training (the job has another task); leave its task out");
    TPT_TRY(spec::require_valid(search::without_layout(base)));
    return study::PlanQuestion{.base = base,
                               .objective = search_.objective(base, rates),
                               .limits = search_.limits(base),
                               .fixed = search_.fixed(),
                               .pareto = pareto_,
                               .top = static_cast<size_t>(top_),
                               .threads = threads_.count(),
                               .pool = pool_,
                               .lifetime = TPT_TRY(metrics::load_lifetime_model(library))};
  }

  /// Of a pool, who prints and writes.
  bool leads() const { return pool_ == nullptr || pool_->rank == 0; }

  const search::WorkerPool* pool_;
  SearchFlags search_;
  JobFlags flags_;
  BillFlags bill_;
  FormatFlag format_{FormatFlag::Csv::yes};
  ThreadsFlag threads_{"threads to search (default: all cores)"};
  std::optional<std::string> explain_, output_;
  int64_t top_ = 5;
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
