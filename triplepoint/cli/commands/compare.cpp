// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare/compare.h"

#include <algorithm>
#include <set>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/app/sources.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/system/process.h"

namespace triplepoint::cli {
namespace {

bool are_apart(const std::vector<std::string>& names) {
  return std::set<std::string>(names.begin(), names.end()).size() == names.size();
}

/// "job" and "job" become "before/job" and "after/job": folders are added while names are equal.
/// The same file twice becomes "job (1)" and "job (2)".
std::vector<std::string> names_of(const std::vector<std::string>& sources) {
  std::vector<Path> folders;
  std::vector<std::string> names, files;
  for (const std::string& source : sources) {
    names.push_back(app::stem_of_source(source));
    folders.push_back(absolute_path(source).lexically_normal().parent_path());
    files.push_back((folders.back() / names.back()).string());
  }
  while (!are_apart(names) && are_apart(files))
    for (std::size_t i = 0; i < names.size(); ++i) {
      names[i] = (folders[i].filename() / names[i]).string();
      folders[i] = folders[i].parent_path();
    }
  if (!are_apart(names))
    for (std::size_t i = 0; i < names.size(); ++i)
      names[i] += fmt::format(" ({})", i + 1);
  return names;
}

class Compare : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word(
            "SOURCE",
            "two or more: .run files and traces, or folders of studies; the first is the baseline",
            into(sources_), {.words = Words::files, .required = true, .repeats = true})
        .flag("-o,--output", "FILE.html", "also write the page", into(output_),
              {.words = Words::files})
        .flag("--names", "A,B", "names of the sources (default: their file names)", into(names_))
        .toggle("--all",
                "runs: every number, including equal ones, stages and steps; studies: every job",
                all_)
        .add(threads_.argument())
        .add(format_.argument("output format (default table; csv has one line per number)"));
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    const ThreadLimit limit = threads_.limit();
    if (sources_.size() < 2)
      return error(
          "only one source was named (there is nothing to compare it with); name two or more, or "
          "make its page with triplepoint report");
    if (output_) TPT_TRY(require_other_file(*output_, sources_));
    for (const std::string& source : sources_)
      if (const Path ending = Path(source).extension();
          ending == ".toml" || ending == ".yaml" || ending == ".sh")
        return error(
            "{0} is a job (compare takes runs); simulate it first, as in triplepoint "
            "simulate {0} -o {1}.run",
            source, Path(source).stem().string());
    const std::vector<std::string> names = TPT_TRY(chosen_names());
    for (const std::string& source : sources_)
      if (!path_exists(source)) return error("{}: no such file or folder", source);
    const auto studies = std::ranges::count_if(sources_, is_study);
    if (studies == 0) return finish(console, TPT_TRY(runs(names)));
    if (studies == static_cast<std::ptrdiff_t>(sources_.size()))
      return finish(console, TPT_TRY(all_studies(names)));
    return error(
        "{} is a study and {} is not (jobs are joined by name, runs one by one); name runs of the "
        "study, as in STUDY/runs/NAME.run",
        *std::ranges::find_if(sources_, is_study),
        *std::find_if_not(sources_.begin(), sources_.end(), is_study));
  }

 private:
  static bool is_study(const std::string& source) {
    return app::kind_of_source(source) == app::SourceKind::study;
  }

  Result<std::vector<std::string>> chosen_names() const {
    if (!names_) return names_of(sources_);
    const std::vector<std::string> names = TPT_TRY(split_list(*names_));
    if (names.size() != sources_.size())
      return error("--names has {} names for {} sources; give one for each", names.size(),
                   sources_.size());
    if (std::set<std::string>(names.begin(), names.end()).size() < names.size())
      return error(
          "--names gives one name twice (they could not be told apart); give each its own");
    return names;
  }

  Result<report::Comparison> runs(const std::vector<std::string>& names) const {
    std::vector<report::Side> sides;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const run::Run run = TPT_TRY(app::load_run_source({sources_[i]}));
      sides.push_back(report::side_of(run, metrics::measure(run), names[i]));
    }
    return report::compare_runs(std::move(sides));
  }

  Result<report::StudyComparison> all_studies(const std::vector<std::string>& names) const {
    std::vector<report::Study> studies;
    for (const std::string& source : sources_)
      studies.push_back(TPT_TRY(app::load_study_source(source)));
    return report::compare_studies(studies, names);
  }

  Result<int> finish(tui::Console& console, const auto& comparison) {
    if (format_.is_csv())
      console.print(report::comparison_csv(comparison));
    else
      print_answer(console, report::comparison_document(comparison, all_), format_);
    if (output_)
      TPT_TRY(write_file_atomically(
          *output_, report::document_page(report::comparison_document(comparison, true))));
    if (output_ && format_.is_table()) console.print(fmt::format("wrote {}\n", *output_));
    return exit_ok;
  }

  std::vector<std::string> sources_;
  std::optional<std::string> output_, names_;
  ThreadsFlag threads_{"files read in parallel (default: all cores)"};
  FormatFlag format_{FormatFlag::Csv::yes};
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> make_compare() {
  return std::make_unique<Compare>();
}

}  // namespace triplepoint::cli
