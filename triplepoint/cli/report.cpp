// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/page_source.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/report/run_page.h"
#include "triplepoint/report/study_page.h"

namespace triplepoint::cli {
namespace {

class Report : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {{.names = "SOURCE",
             .help = "a .run file, a folder that characterize made, or traces: files, folders or "
                     "tars of ranks, and the recording taken meanwhile",
             .words = Words::files,
             .required = true,
             .repeats = true,
             .store = into(sources_)},
            {.names = "-o,--output",
             .value = "FILE.html",
             .help = "the page (default: beside the run, or report.html in the folder)",
             .words = Words::files,
             .store = into(output_)},
            {.names = "--ranks",
             .value = "LIST",
             .help = "of a timeline, only these: 0,2,8-15",
             .store = into(options_.ranks)},
            {.names = "--step",
             .value = "STEP",
             .help = "of a timeline, only this one: a number from 1, or a name",
             .store = into(options_.step)},
            {.names = "--rules",
             .value = "RULES",
             .help = "which kernel is what: a name or a file (docs/traces.md)",
             .words = Words::files,
             .store = into(options_.rules)},
            format_.argument()};
  }

  Result<int> run(Console& console) override {
    const SourceKind kind =
        sources_.size() > 1 ? SourceKind::traces : kind_of_source(sources_.front());
    const Path page = output_ ? Path(*output_) : default_page();
    const std::string html = TPT_TRY(kind == SourceKind::study ? page_of_study() : page_of_run());
    TPT_TRY(write_file_atomically(page, html));
    if (format_.is_json()) {
      print_json(console, {{"source", sources_.front()}, {"page", page.string()}});
    } else {
      console.print(fmt::format("wrote {}\n", page.string()));
    }
    return exit_ok;
  }

 private:
  /// Beside what it shows: "ranks.html" of ranks.tar.gz, "report.html" in a folder.
  Path default_page() const {
    const Path first(sources_[0]);
    std::error_code ignored;
    if (std::filesystem::is_directory(first, ignored)) return first / "report.html";
    return first.parent_path() / (stem_of_source(first) + ".html");
  }

  Result<std::string> page_of_study() const {
    if (options_.ranks || options_.step || options_.rules)
      return error(
          fmt::format("{}: --ranks, --step and --rules select from a timeline (a study "
                      "has one per job); report one of its runs",
                      sources_[0]));
    return report::study_page(TPT_TRY(load_study_source(sources_[0])));
  }
  Result<std::string> page_of_run() const {
    const run::Run run = TPT_TRY(load_run_source(sources_, options_));
    return report::run_page(run, metrics::measure(run), numbers_of(run));
  }

  std::vector<std::string> sources_;
  TraceOptions options_;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_report() {
  return std::make_unique<Report>();
}

}  // namespace triplepoint::cli
