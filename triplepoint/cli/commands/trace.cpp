// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"

#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/metrics/trace_tables/analyses.h"
#include "triplepoint/metrics/trace_tables/report.h"
#include "triplepoint/tui/trace_text.h"

namespace triplepoint::cli {
namespace {

struct Analysis {
  const char* word;
  Result<metrics::TraceReport> (*run)(const metrics::TraceOptions&);
};
constexpr std::array analyses = {Analysis{"breakdown", metrics::trace_breakdown},
                                 Analysis{"overlap", metrics::trace_overlap},
                                 Analysis{"comm", metrics::trace_comm},
                                 Analysis{"stragglers", metrics::trace_stragglers},
                                 Analysis{"critical-path", metrics::trace_critical_path},
                                 Analysis{"diff", metrics::trace_diff},
                                 Analysis{"merge", metrics::trace_merge},
                                 Analysis{"join", metrics::trace_join}};

std::vector<std::string> analysis_words() {
  std::vector<std::string> words;
  words.reserve(analyses.size());
  for (const Analysis& analysis : analyses)
    words.emplace_back(analysis.word);
  return words;
}

class Trace : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = {
        {.names = "ANALYSIS",
         .help = "analysis to run",
         .choices = analysis_words(),
         .required = true,
         .store = into(options_.analysis)},
        {.names = "FILE",
         .help = "traces: files, folders or tars of ranks; or a .run",
         .words = Words::files,
         .required = true,
         .repeats = true,
         .store = into(options_.files)},
        {.names = "--format",
         .value = "FORMAT",
         .help = "output format (default table; csv prints one table)",
         .choices = {"table", "json", "csv"},
         .store = into(options_.format)},
        {.names = "--show",
         .value = "TABLES",
         .help = "tables to print, comma-separated, or \"all\"; an unknown name lists them",
         .store = into(options_.show)},
        {.names = "--top",
         .value = "N",
         .help = "rows of tables by kernel name (default 10)",
         .store = into(options_.top)},
        {.names = "-o,--output",
         .value = "FILE",
         .help = "merge: what to write: .pftrace, .json (Chrome), .run; one per rank: .et "
                 "(Chakra), .pt.trace.json (PyTorch profiler)",
         .words = Words::files,
         .store = into(options_.output)}};
    add_selection(all);
    add_reading(all);
    return all;
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const auto analysis = std::find_if(analyses.begin(), analyses.end(), [&](const Analysis& a) {
      return a.word == options_.analysis;
    });
    if (const Result<void> fits = check_flags(); !fits) {
      console.warn("triplepoint: trace: " + fits.error().what + "\n");
      return exit_usage;
    }
    const metrics::TraceReport report = TPT_TRY(analysis->run(options_));
    const std::vector<const DataTable*> tables = TPT_TRY(metrics::chosen_tables(report, options_));
    if (options_.format == "json")
      print_json(console, metrics::report_json(report, options_));
    else if (options_.format == "csv") {
      if (!tables.empty()) console.print(table_csv(*tables.front()));
    } else
      tui::print_trace_report(console, report, tables, options_.show.has_value());
    return exit_ok;
  }

 private:
  void add_selection(std::vector<Argument>& all) {
    const std::string group = "Selection";
    all.push_back({.names = "--ranks",
                   .value = "LIST",
                   .help = "only these: 0,2,8-15",
                   .group = group,
                   .store = into(options_.ranks)});
    all.push_back({.names = "--step",
                   .value = "STEP",
                   .help = "only this one: a number from 1, or a name",
                   .group = group,
                   .store = into(options_.step)});
    all.push_back({.names = "--rules",
                   .value = "RULES",
                   .help = "kernel classes: default, upstream (the paper's artifact), or a file "
                           "like data/rules/default.toml",
                   .group = group,
                   .words = Words::files,
                   .store = into(options_.rules)});
    all.push_back(
        {.names = "--align",
         .value = "WHEN",
         .help =
             "align the clocks of ranks at the ends of collectives (default auto: if they differ)",
         .group = group,
         .choices = {"auto", "always", "never"},
         .store = into(options_.align)});
    all.push_back({.names = "--kernel-gap",
                   .value = "TIME",
                   .help = "longest gap attributed to the device (default 30 us)",
                   .group = group,
                   .store = into_quantity(options_.kernel_gap)});
    all.push_back({.names = "--by",
                   .value = "WHAT",
                   .help = "join: how to divide a rank's time (default activity)",
                   .group = group,
                   .choices = {"activity", "class", "collective", "step"},
                   .store = into(options_.by)});
    all.push_back({.names = "--sensor-window",
                   .value = "TIME",
                   .help = "join: averaging window of a power reading (default: from its signal)",
                   .group = group,
                   .store = into_quantity(options_.window)});
  }
  void add_reading(std::vector<Argument>& all) {
    const std::string group = "Reading";
    all.push_back({.names = "-j,--threads",
                   .value = "N",
                   .help = "files read in parallel (default: all cores)",
                   .group = group,
                   .store = into(options_.threads)});
    all.push_back({.names = "--memory",
                   .value = "SIZE",
                   .help = "memory limit; host spans are dropped first: 4 GB",
                   .group = group,
                   .store = into_quantity(options_.memory)});
    all.push_back({.names = "--no-cache",
                   .help = "do not read or write the trace cache",
                   .group = group,
                   .store = into_switch(options_.no_cache)});
  }

  Result<void> check_flags() const {
    const auto only = [&](bool given, const char* flag, const char* analysis) -> Result<void> {
      if (given && options_.analysis != analysis)
        return error(fmt::format("{} goes with {} only", flag, analysis));
      return {};
    };
    TPT_TRY(only(options_.output.has_value(), "--output", "merge"));
    TPT_TRY(only(options_.by.has_value(), "--by", "join"));
    TPT_TRY(only(options_.window.has_value(), "--sensor-window", "join"));
    if (options_.top && *options_.top < 1) return error("--top: at least 1");
    if (options_.threads && (*options_.threads < 1 || *options_.threads > 4096))
      return error("--threads: between 1 and 4096");
    return {};
  }

  metrics::TraceOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_trace() {
  return std::make_unique<Trace>();
}

}  // namespace triplepoint::cli
