// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/commands/plan.h"

// What plan does beside a search: clock plans.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/library.h"

#include "triplepoint/advise/clock_answer.h"
#include "triplepoint/advise/clock_plan.h"
#include "triplepoint/app/place_telemetry.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags/output_flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
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
      {"clocks.sh", advise::clock_script(job, plan, point)},
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
  if (job.plan.sends && job.plan.sends->microbatches > 1)
    return error(
        "--clocks plans no sends of several microbatches (its slacks are those of single sends); "
        "leave out sends.microbatches");
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
  TPT_TRY(require_lasting_faults(job, "leave out its time"));
  TPT_TRY(app::run_at_rest(job));
  const advise::ClockOptions options;
  const ClockPlan plan =
      advise::plan_clocks(job, {.scope = request.scope,
                                .most_slowdown = std::max(options.most_slowdown, request.slowdown),
                                .threads = request.threads,
                                .watch = tui::watch_on(console)});
  const ClockPoint* chosen = advise::chosen_point(plan, request.slowdown);
  print_answer(console, advise::clock_answer(job, plan, chosen), request.format);
  if (request.output && chosen == nullptr)
    return error(
        fmt::format("nothing was written (no setting within --slowdown saves energy {}); allow "
                    "more, as in --slowdown 5%",
                    metrics::scope_text(plan.scope)));
  if (request.output)
    TPT_TRY(write_setting(console, library, job, plan, *chosen, Path(*request.output)));
  return interrupted() ? exit_interrupted : exit_ok;
}

}  // namespace triplepoint::cli
