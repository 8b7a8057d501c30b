// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/app/merge_recordings.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/system/process.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/tui/document_text.h"

namespace triplepoint::cli {
namespace {

struct Analysis {
  const char* word;
  Result<trace_report::TraceReport> (*run)(const trace_report::TraceOptions&);
};
Result<trace_report::TraceReport> merge(const trace_report::TraceOptions& options) {
  return app::are_recordings(options) ? app::merge_recordings(options)
                                      : trace_report::trace_merge(options);
}

constexpr std::array analyses = {Analysis{"breakdown", trace_report::trace_breakdown},
                                 Analysis{"comm", trace_report::trace_comm},
                                 Analysis{"stragglers", trace_report::trace_stragglers},
                                 Analysis{"operators", trace_report::trace_operators},
                                 Analysis{"critical-path", trace_report::trace_critical_path},
                                 Analysis{"diff", trace_report::trace_diff},
                                 Analysis{"merge", merge},
                                 Analysis{"join", trace_report::trace_join}};

/// From well before the knee to well behind it, so that axes are logarithmic, and as far as there
/// are points.
void add_roof(const trace_report::RoofLine& roof, answers::ScatterChart& chart) {
  const double knee = roof.peak / roof.bandwidth;
  double low = knee / 4, high = 4 * knee;
  for (const answers::Point& point : chart.points)
    low = std::min(low, point.x), high = std::max(high, point.x);
  const std::string hint =
      fmt::format("the roof of {}: {} TFLOP/s, {} TB/s", roof.type, significant(1e-12 * roof.peak),
                  significant(1e-12 * roof.bandwidth));
  for (const double x : {low, knee, high})
    chart.points.push_back(
        {x, 1e-12 * std::min(roof.peak, roof.bandwidth * x), {}, "", hint, "", true});
}

/// Operators that compute, over their flops per byte, longest first, that with its name; and
/// what the GPU could do in the data type of the longest. None where nothing computes.
std::vector<answers::Figure> roofline(const DataTable& operators,
                                      const std::optional<trace_report::RoofLine>& roof) {
  const auto cell = [&](const std::vector<DataCell>& row, const char* key) -> const DataCell& {
    return row[as_size(std::ranges::find(operators.columns, key, &DataColumn::key) -
                       operators.columns.begin())];
  };
  const auto text = [&](const std::vector<DataCell>& row, const char* key) {
    return std::get<std::string>(cell(row, key));
  };
  answers::ScatterChart chart{.title = "Operators against the roof",
                              .x_unit = "FLOP/B",
                              .y_unit = "TFLOP/s",
                              .colour_unit = "% of kernel time"};
  for (const std::vector<DataCell>& row : operators.rows) {
    const auto flop = number_in(cell(row, "flop")), bytes = number_in(cell(row, "bytes")),
               rate = number_in(cell(row, "flop_per_s")),
               share = number_in(cell(row, "share_percent")),
               of_roof = number_in(cell(row, "roof_percent"));
    if (!flop || !bytes || !rate || *bytes <= 0 || *rate <= 0) continue;
    const double y = *rate * 1e-12;
    const std::string name = text(row, "operator");
    const std::string hint =
        fmt::format("{} {} ({}): {} TFLOP/s{}", name, text(row, "shapes"), text(row, "direction"),
                    significant(y), of_roof ? ", " + percent(*of_roof / 100) + " of the roof" : "");
    chart.points.push_back({*flop / *bytes, y, share, "", hint, chart.points.empty() ? name : ""});
  }
  if (chart.points.empty()) return {};
  if (roof) add_roof(*roof, chart);
  return {{.id = "roofline",
           .title = chart.title,
           .note = "FLOP and bytes from shapes, each argument and result moved once." +
                   (roof ? fmt::format(" Line: the roof, of {}.", roof->type) : ""),
           .chart = std::move(chart)}};
}

/// What an analysis found, with these of its tables. Names in traces are not trusted.
answers::Document document_of(const trace_report::TraceReport& report,
                              const std::vector<const DataTable*>& tables,
                              const trace_report::TraceOptions& options) {
  answers::Section section{.id = options.analysis, .title = ""};
  const auto operators = std::ranges::find(report.tables, "operators", &DataTable::name);
  if (options.analysis == "operators" && operators != report.tables.end())
    section.figures = roofline(*operators, report.roof);
  const auto add = [&](const std::string& text) {
    section.remarks.push_back({tui::printable(text), answers::Remark::Kind::note});
  };
  for (const DataTable* table : tables) {
    section.tables.push_back(*table);
    if (options.show && table->rows.empty()) add(table->title + ": nothing");
  }
  for (const std::string& remark : report.remarks)
    add(remark);
  return {.kind = "trace " + options.analysis,
          .title =
              fmt::format("{} of {}", options.analysis, app::stem_of_source(options.files.front())),
          .facts = "",
          .verdict = tui::printable(joined(report.headlines)),
          .sections = {std::move(section)}};
}

std::vector<std::string> analysis_words() {
  return mapped<std::string>(analyses, &Analysis::word);
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
        .flag("--top", "N", "rows of tables by kernel name (default 10)",
              into_count(options_.top, 1))
        .flag("-o,--output", "FILE",
              "a page, .html; of merge: .pftrace, .json (Chrome), .run; one per rank: "
              ".pt.trace.json (PyTorch profiler)",
              into(options_.output), {.words = Words::files})
        .flag("--by", "WHAT", "join: how to divide a rank's time (default activity)",
              into(options_.by), {.choices = {"activity", "class", "collective", "step"}})
        .add(trace_flags(options_));
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const auto analysis = std::ranges::find(analyses, options_.analysis, &Analysis::word);
    if (const Result<void> fits = check_flags(); !fits) {
      console.warn("triplepoint: trace: " + fits.error().what + "\n");
      return exit_usage;
    }
    trace_report::TraceReport report = TPT_TRY(analysis->run(options_));
    const std::vector<const DataTable*> tables =
        TPT_TRY(trace_report::chosen_tables(report, options_));
    answers::Document answer = document_of(report, tables, options_);
    if (options_.output && options_.analysis != "merge") {
      TPT_TRY(require_other_file(*options_.output, options_.files));
      TPT_TRY(write_file_atomically(*options_.output, report::document_page(answer)));
      report.written.push_back(*options_.output);
    }
    if (options_.format == "json")
      print_json(console, trace_report::report_json(report, options_));
    else if (options_.format == "csv")
      console.print(tables.empty() ? "" : table_csv(*tables.front()));
    else {
      answer.title.clear();  // the words that were typed; the verdict is first
      tui::print_document(console, answer);
    }
    for (const std::string& file : report.written)
      if (options_.format == "table") console.print(fmt::format("wrote {}\n", file));
    return exit_ok;
  }

 private:
  Result<void> check_flags() const {
    if (options_.output && options_.analysis != "merge" && !options_.output->ends_with(".html"))
      return error("--output: {} writes a page; name it FILE.html", options_.analysis);
    if (options_.by && options_.analysis != "join") return error("--by goes with join only");
    return {};
  }

  trace_report::TraceOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_trace() {
  return std::make_unique<Trace>();
}

}  // namespace triplepoint::cli
