// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/suggest.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/trace_analyses.h"
#include "triplepoint/cli/verbs.h"

namespace triplepoint::cli {
namespace {

struct Analysis {
  const char* word;
  Result<TraceReport> (*run)(const TraceOptions&);
};
constexpr std::array analyses = {Analysis{"breakdown", trace_breakdown},
                                 Analysis{"overlap", trace_overlap},
                                 Analysis{"comm", trace_comm},
                                 Analysis{"stragglers", trace_stragglers},
                                 Analysis{"critical-path", trace_critical_path},
                                 Analysis{"diff", trace_diff},
                                 Analysis{"merge", trace_merge},
                                 Analysis{"join", trace_join}};

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
         .help = "which question",
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
         .help = "what is printed (default table; csv prints one table)",
         .choices = {"table", "json", "csv"},
         .store = into(options_.format)},
        {.names = "--show",
         .value = "TABLES",
         .help = "which tables, with commas; \"all\"; a wrong name lists them",
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

  Result<int> run(Console& console) override {
    let_interrupts_end_us();
    const auto analysis = std::find_if(analyses.begin(), analyses.end(), [&](const Analysis& a) {
      return a.word == options_.analysis;
    });
    if (const Result<void> fits = check_flags(); !fits) {
      console.warn("triplepoint: trace: " + fits.error().what + "\n");
      return exit_usage;
    }
    const TraceReport report = TPT_TRY(analysis->run(options_));
    const std::vector<const DataTable*> tables = TPT_TRY(chosen_tables(report));
    if (options_.format == "json")
      print_json(console, whole_json(report));
    else if (options_.format == "csv")
      print_csv(console, tables);
    else
      print_tables(console, report, tables);
    return exit_ok;
  }

 private:
  void add_selection(std::vector<Argument>& all) {
    const std::string group = "What is looked at";
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
    all.push_back({.names = "--align",
                   .value = "WHEN",
                   .help = "bring the clocks of ranks into line by the ends of collectives "
                           "(default auto: where they differ)",
                   .group = group,
                   .choices = {"auto", "always", "never"},
                   .store = into(options_.align)});
    all.push_back({.names = "--kernel-gap",
                   .value = "TIME",
                   .help = "longest gap that is the device's own (default 30 us)",
                   .group = group,
                   .store = into_quantity(options_.kernel_gap)});
    all.push_back({.names = "--by",
                   .value = "WHAT",
                   .help = "join: how a rank's time is divided (default activity)",
                   .group = group,
                   .choices = {"activity", "class", "collective", "step"},
                   .store = into(options_.by)});
    all.push_back({.names = "--sensor-window",
                   .value = "TIME",
                   .help = "join: what a power reading averages over, if not as its signal says",
                   .group = group,
                   .store = into_quantity(options_.window)});
  }
  void add_reading(std::vector<Argument>& all) {
    const std::string group = "Reading";
    all.push_back({.names = "-j,--threads",
                   .value = "N",
                   .help = "files read at once (default: all cores)",
                   .group = group,
                   .store = into(options_.threads)});
    all.push_back({.names = "--memory",
                   .value = "SIZE",
                   .help = "give up host spans rather than take more: 4 GB",
                   .group = group,
                   .store = into_quantity(options_.memory)});
    all.push_back({.names = "--no-cache",
                   .help = "neither read nor write what is kept beside a trace",
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

  Result<std::vector<const DataTable*>> chosen_tables(const TraceReport& report) const {
    std::vector<std::string> names = report.shown, known;
    for (const DataTable& table : report.tables)
      known.push_back(table.name);
    if (options_.show)
      names = *options_.show == "all" ? known : TPT_TRY(split_list(*options_.show));
    std::vector<const DataTable*> chosen;
    for (const std::string& name : names) {
      const auto found = std::find_if(report.tables.begin(), report.tables.end(),
                                      [&](const DataTable& t) { return t.name == name; });
      if (found == report.tables.end())
        return error(fmt::format("--show: {} has no table \"{}\"; it has {}", options_.analysis,
                                 name, fmt::join(known, ", ")));
      chosen.push_back(&*found);
    }
    return chosen;
  }

  /// All tables, whatever is shown: who reads JSON takes what he needs.
  Json whole_json(const TraceReport& report) const {
    Json tables = Json::object();
    for (const DataTable& table : report.tables)
      tables[table.name] = table_json(table);
    return {{"schema", 1},
            {"analysis", options_.analysis},
            {"files", options_.files},
            {"headlines", report.headlines},
            {"tables", std::move(tables)},
            {"written", report.written},
            {"remarks", report.remarks}};
  }

  static void print_csv(Console& console, const std::vector<const DataTable*>& tables) {
    if (!tables.empty()) console.print(table_csv(*tables.front()));
  }

  void print_tables(Console& console, const TraceReport& report,
                    const std::vector<const DataTable*>& tables) const {
    for (const std::string& line : report.headlines)
      console.print(line + "\n");
    bool first = report.headlines.empty();
    for (const DataTable* table : tables) {
      if (table->rows.empty() && !options_.show) continue;
      if (!first) console.print("\n");
      first = false;
      console.print(table->rows.empty() ? table->title + ": nothing\n"
                                        : table_text(*table, console));
    }
    for (const std::string& file : report.written)
      console.print(fmt::format("wrote {}\n", file));
    for (const std::string& remark : report.remarks)
      console.print("note: " + remark + "\n");
  }

  TraceOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_trace() {
  return std::make_unique<Trace>();
}

}  // namespace triplepoint::cli
