// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/app/runner.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/system/process.h"

namespace triplepoint::cli {
namespace {

class Report : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("SOURCE",
              "a .run file, a folder from characterize, or traces (files, folders or tars of "
              "ranks) with their recording",
              into(sources_), {.words = Words::files, .required = true, .repeats = true})
        .flag("-o,--output", "FILE",
              "the page (default: beside the run, or report.html in the folder)", into(output_),
              {.words = Words::files})
        .add(format_.argument())
        .add(trace_flags(options_));
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const app::SourceKind kind =
        sources_.size() > 1 ? app::SourceKind::traces : app::kind_of_source(sources_.front());
    const Path page = output_ ? Path(*output_) : default_page();
    const std::string html =
        TPT_TRY(kind == app::SourceKind::study ? page_of_study() : page_of_run());
    return write_page(console, page, html);
  }

 private:
  Result<void> write(const Path& page, const std::string& text) const {
    std::vector<std::string> read = sources_;
    for (const std::string& source : sources_)
      for (const char* name : {app::study_plan_file, app::results_json_file, app::results_csv_file})
        read.push_back((Path(source) / name).string());
    TPT_TRY(require_other_file(page, read));
    return write_file_atomically(page, text);
  }

  Result<int> write_page(tui::Console& console, const Path& page, const std::string& html) const {
    TPT_TRY(write(page, html));
    if (format_.is_json())
      print_json(console, {{"source", sources_.front()}, {"page", page.string()}});
    else
      console.print(fmt::format("wrote {}\n", page.string()));
    return exit_ok;
  }

  /// Beside what it shows: "ranks.html" of ranks.tar.gz, "report.html" in a folder.
  Path default_page() const {
    const Path first(sources_[0]);
    if (is_folder(first)) return first / "report.html";
    return first.parent_path() / (app::stem_of_source(first) + ".html");
  }

  Result<std::string> page_of_study() const {
    if (options_.ranks || options_.step || options_.rules)
      return error(
          "{}: --ranks, --step and --rules select from a timeline (a study "
          "has one per job); report one of its runs",
          sources_[0]);
    return report::study_page(TPT_TRY(app::load_study_source(sources_[0])));
  }
  Result<std::string> page_of_run() const {
    return app::page_of_run(TPT_TRY(app::load_run_source(sources_, options_)));
  }

  std::vector<std::string> sources_;
  trace_report::TraceOptions options_;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_report() {
  return std::make_unique<Report>();
}

}  // namespace triplepoint::cli
