// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/system/process.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/tui/document_text.h"

namespace triplepoint::cli {
namespace {

struct Analysis {
  const char* word;
  Result<trace_report::TraceReport> (*run)(const trace_report::TraceOptions&);
};
/// Two tables of the breakdown.
Result<trace_report::TraceReport> overlap(const trace_report::TraceOptions& asked) {
  trace_report::TraceOptions options = asked;
  options.show = asked.show.value_or("ranks,overlap");
  trace_report::TraceReport report = TPT_TRY(trace_report::trace_breakdown(options));
  report.shown = {"ranks", "overlap"};
  return report;
}

constexpr std::array analyses = {Analysis{"breakdown", trace_report::trace_breakdown},
                                 Analysis{"overlap", overlap},
                                 Analysis{"comm", trace_report::trace_comm},
                                 Analysis{"stragglers", trace_report::trace_stragglers},
                                 Analysis{"operators", trace_report::trace_operators},
                                 Analysis{"critical-path", trace_report::trace_critical_path},
                                 Analysis{"diff", trace_report::trace_diff},
                                 Analysis{"merge", trace_report::trace_merge},
                                 Analysis{"join", trace_report::trace_join}};

std::vector<std::string> analysis_words() {
  std::vector<std::string> words;
  words.reserve(analyses.size());
  for (const Analysis& analysis : analyses)
    words.emplace_back(analysis.word);
  return words;
}

class Trace : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("ANALYSIS", "analysis to run", into(options_.analysis),
              {.choices = analysis_words(), .required = true})
        .word("FILE", "traces: files, folders or tars of ranks; or a .run", into(options_.files),
              {.words = Words::files, .required = true, .repeats = true})
        .flag("--format", "FORMAT", "output format (default table; csv prints one table)",
              into(options_.format), {.choices = {"table", "json", "csv"}})
        .flag("--show", "TABLES",
              "tables to print, comma-separated, or \"all\"; an unknown name lists them",
              into(options_.show))
        .flag("--top", "N", "rows of tables by kernel name (default 10)", into(options_.top))
        .flag("-o,--output", "FILE",
              "merge: what to write: .pftrace, .json (Chrome), .run; one per rank: "
              ".pt.trace.json (PyTorch profiler)",
              into(options_.output), {.words = Words::files})
        .flag("--by", "WHAT", "join: how to divide a rank's time (default activity)",
              into(options_.by), {.choices = {"activity", "class", "collective", "step"}})
        .add(trace_flags(options_));
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
    trace_report::TraceReport report = TPT_TRY(analysis->run(options_));
    const std::vector<const DataTable*> tables =
        TPT_TRY(trace_report::chosen_tables(report, options_));
    if (options_.format == "json")
      print_json(console, trace_report::report_json(report, options_));
    else if (options_.format == "csv") {
      if (!tables.empty()) console.print(table_csv(*tables.front()));
    } else
      tui::print_trace_report(console, report, tables, options_.show.has_value());
    return exit_ok;
  }

 private:
  Result<void> check_flags() const {
    const auto only = [&](bool given, const char* flag, const char* analysis) -> Result<void> {
      if (given && options_.analysis != analysis)
        return error(fmt::format("{} goes with {} only", flag, analysis));
      return {};
    };
    TPT_TRY(only(options_.output.has_value(), "--output", "merge"));
    TPT_TRY(only(options_.by.has_value(), "--by", "join"));
    if (options_.top && *options_.top < 1) return error("--top: at least 1");
    return check_trace_flags(options_);
  }

  trace_report::TraceOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_trace() {
  return std::make_unique<Trace>();
}

}  // namespace triplepoint::cli
