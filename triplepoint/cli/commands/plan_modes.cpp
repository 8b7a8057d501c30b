// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/commands/plan.h"

// What plan does beside one search on this machine: the search of several processes, clock plans,
// and the flags of the space.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/advise/clock_plan.h"
#include "triplepoint/advise/clock_tables.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

/// How many processes an MPI launcher says it started: Open MPI, MPICH and its like.
long launched_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* value = std::getenv(name)) return std::strtol(value, nullptr, 10);
  return 1;
}

/// The words this process was started with.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');)
    words.push_back(std::move(word));
  return words;
}

}  // namespace

Result<void> become_distributed_search() {
  if (launched_processes() < 2) return {};
  std::vector<std::string> words = own_words();
  if (words.size() < 2 || words[1] != "plan") return {};
  std::error_code ignored;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path search = own.parent_path() / "triplepoint-search";
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(search.c_str(), pointers.data());
  return error(fmt::format(
      "plan was started by mpirun, but {} cannot be run (it is built where MPI is found); install "
      "it (apt install libopenmpi-dev openmpi-bin, then build), or use --shard and --merge",
      search.string()));
}

namespace {

using advise::ClockPlan;
using advise::ClockPoint;

Result<bool> write_setting(tui::Console& console, const spec::Library& library,
                           const spec::Job& job, const ClockPlan& plan, const ClockPoint& point,
                           const Path& folder) {
  TPT_TRY(make_folder(folder));
  spec::Job limited = job;
  limited.environment.device_clock_limits = point.clocks;
  const std::pair<const char*, std::string> files[] = {
      {"clocks.csv", advise::clock_csv(job, plan, point)},
      {"clocks.sh", advise::clock_script(job, point)},
      {"job.toml", spec::write_job(limited, library)}};
  for (const auto& [name, text] : files)
    TPT_TRY(write_file_atomically(folder / name, text));
  console.warn(
      fmt::format("clocks.csv (per rank), clocks.sh (to read, then to run on each node) and "
                  "job.toml (with these limits) in {}\n",
                  folder.string()));
  return true;
}

Result<void> require_clocks(const spec::Job& job) {
  TPT_TRY(spec::require_valid(job));
  if (job.task == spec::Task::pretrain || job.task == spec::Task::lora) return {};
  return error("--clocks supports only training (the job has another task); leave its task out");
}

}  // namespace

Result<double> parse_slowdown(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string number(text.substr(0, text.size() - (percent ? 1 : 0)));
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(value >= 0) || value > (percent ? 100 : 1))
    return error(
        fmt::format("--slowdown {} is not a share (it is the allowed increase of step time); "
                    "try --slowdown 2%",
                    text));
  return percent ? value / 100 : value;
}

Result<int> plan_the_clocks(tui::Console& console, const spec::Library& library,
                            const spec::Job& job, const ClockRequest& request) {
  TPT_TRY(require_clocks(job));
  ClockPlan plan;
  {
    tui::SearchBars bars(console);
    advise::ClockOptions options;
    options.most_slowdown = std::max(options.most_slowdown, request.slowdown);
    options.threads = request.threads;
    options.begin = [&](const char* what, size_t total) { bars.begin(what, total); };
    options.advance = [&] { bars.advance(); };
    options.stopped = [] { return interrupted(); };
    plan = advise::plan_clocks(job, options);
  }
  if (!plan.fits)
    return error(
        fmt::format("{} does not fit in memory (there is no step to plan clocks for); triplepoint "
                    "simulate prints the memory breakdown",
                    job.name));
  const ClockPoint* chosen = advise::chosen_point(plan, request.slowdown);
  const DataTable frontier = advise::clock_frontier_table(job, plan),
                  stages = advise::clock_stage_table(job, plan, chosen);
  if (request.format == "json") {
    print_json(console, advise::clocks_json(job, plan, frontier, stages, chosen));
  } else if (request.format == "csv") {
    console.print(table_csv(frontier));
  } else {
    console.print(tui::table_text(frontier, console));
    if (!plan.nothing.empty()) tui::print_wrapped(console, plan.nothing);
    console.print("\n" + tui::table_text(stages, console));
    if (chosen != nullptr) tui::print_wrapped(console, advise::chosen_clocks_text(*chosen));
  }
  if (request.output && chosen == nullptr)
    return error(
        "nothing was written (no setting within --slowdown saves energy); allow more, as "
        "in --slowdown 5%");
  if (request.output)
    TPT_TRY(write_setting(console, library, job, plan, *chosen, Path(*request.output)));
  return interrupted() ? exit_interrupted : exit_ok;
}

Arguments SearchFlags::arguments() {
  return Arguments()
      .group("Objective and constraints")
      .flag("--objective", "GOAL",
            "quantity to optimize: time, energy, energy x time, or cost (default throughput)",
            into(goal_), {.choices = {"throughput", "energy", "edp", "cost"}})
      .flag("--max-temperature", "TEMP", "limit of the hottest die, as in \"80 C\"",
            into_quantity(limits_.temperature))
      .flag("--max-power", "POWER",
            "limits of peak GPU power and of mean node and cluster power: \"gpu=700 W,node=8 "
            "kW,cluster=1 MW\"",
            [this](std::string_view text) { return search::parse_power(text, limits_); })
      .flag("--memory-headroom", "SIZE", "memory that stays free on each GPU, as in 4GB or 5%",
            into(headroom_, search::parse_headroom))
      .flag("--fix", "LIST",
            "fixed dimensions, as in tp=8,mbs=1|2: tp pp vpp ep etp cp dp mbs sharding "
            "recompute recompute-layers schedule sp overlap-tp overlap-dp overlap-pp overlap-ep "
            "uneven power-cap",
            into(fix_))
      .flag("--space", "REACH",
            "launchable: plans that Megatron and NeMo can start; everything: all modelled "
            "plans (default launchable)",
            into(reach_), {.choices = {"launchable", "everything"}});
}

Arguments SearchFlags::spread_arguments() {
  return Arguments()
      .group("A search on many machines")
      .flag("--shard", "I/N", "search part I of N (0 to N-1) and write the result to -o DIR",
            into(shard_, search::parse_shard))
      .flag("--merge", "DIR", "continue from the parts in DIR", into(merge_),
            {.words = Words::folders});
}

Result<void> SearchFlags::check_spread(bool has_output, bool has_pool) const {
  if (shard_ && merge_)
    return error(
        "--shard and --merge were both given (one searches, the other joins what was "
        "found); keep one");
  if (shard_ && !has_output)
    return error(
        "--shard was given without -o (the result of the part must be stored); add -o FOLDER");
  if ((shard_ || merge_) && has_pool)
    return error(
        "mpirun and --shard or --merge were used together (either spreads the search); "
        "keep one");
  return {};
}

Result<search::Space> SearchFlags::space(const spec::Job& base) const {
  const auto reach = reach_ == "everything" ? search::Reach::everything : search::Reach::launchable;
  search::Space space(base, reach, TPT_TRY(search::parse_fixed(fix_)));
  if (space.size() > 0) return space;
  return error(fmt::format(
      "no plan is left of the space (--fix {} and the sizes of {} on {} GPUs at batch {} "
      "exclude each other); fix less, or change the batch",
      fix_, base.model.name, base.world_size(), base.plan.global_batch_size));
}

search::Objective SearchFlags::objective(const spec::Job& base,
                                         const metrics::BillRates& rates) const {
  return search::objective_of(*search::goal_named(goal_), base, rates);
}

search::Limits SearchFlags::limits(const spec::Job& base) const {
  search::Limits limits = limits_;
  limits.headroom = headroom_.of(*base.cluster.gpu.memory);
  return limits;
}

}  // namespace triplepoint::cli
