// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare/compare.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/page_source.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/report/compare/compare_page.h"

namespace triplepoint::cli {
namespace {

using report::ComparedRow;
using report::ComparedSection;
using report::Comparison;
using report::StudyComparison;
using Align = TextTable::Align;

/// "job" and "job" become "before/job" and "after/job": folders are added while names are equal.
std::vector<std::string> names_of(const std::vector<std::string>& sources) {
  std::vector<Path> folders;
  std::vector<std::string> names;
  for (const std::string& source : sources) {
    names.push_back(stem_of_source(source));
    folders.push_back(std::filesystem::absolute(source).lexically_normal().parent_path());
  }
  const auto are_apart = [&] {
    return std::set<std::string>(names.begin(), names.end()).size() == names.size();
  };
  for (int tries = 0; tries < 8 && !are_apart(); ++tries)
    for (std::size_t i = 0; i < names.size(); ++i) {
      names[i] = folders[i].filename().string() + "/" + names[i];
      folders[i] = folders[i].parent_path();
    }
  for (std::size_t i = 0; i < names.size() && !are_apart(); ++i)
    names[i] += fmt::format(" ({})", i + 1);  // the same file twice
  return names;
}

Style style_of(const ComparedRow& row, std::size_t side) {
  const int judgement = report::judgement(row, side);
  return judgement > 0 ? Style::good : judgement < 0 ? Style::bad : Style::plain;
}

TextTable table_for(const std::vector<std::string>& names, const char* first) {
  std::vector<TextTable::Column> columns = {{first, Align::left}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    columns.push_back({names[i], Align::right});
    if (i > 0) columns.push_back({"difference", Align::right});
  }
  return TextTable(std::move(columns));
}

void add_values(std::vector<TextTable::Cell>& cells, const ComparedRow& row) {
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    std::string value = row.value_text(i);
    if (row.values[i] && !row.unit.empty()) value += " " + row.unit;
    cells.emplace_back(std::move(value));
    if (i > 0) cells.emplace_back(report::difference_text(row, i), style_of(row, i));
  }
}

void print_sentences(Console& console, const std::vector<std::string>& sentences) {
  const std::size_t width = console.abilities().width.value_or(100);
  for (const std::string& sentence : sentences)
    console.print(wrap("- " + sentence, width, "  ") + "\n");
  console.print("\n");
}

class Compare : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {
        {.names = "SOURCE",
         .help = "two or more: .run files and traces, or folders of studies; the first is what "
                 "the others are compared with",
         .words = Words::files,
         .required = true,
         .repeats = true,
         .store = into(sources_)},
        {.names = "-o,--output",
         .value = "FILE.html",
         .help = "write the page, too",
         .words = Words::files,
         .store = into(output_)},
        {.names = "--names",
         .value = "A,B",
         .help = "what to call them (default: after their files)",
         .store = into(names_)},
        {.names = "--all",
         .value = "",
         .help = "runs: every section, also stages, steps and where energy went; studies: "
                 "every job",
         .store = into_switch(all_)},
        format_.argument("Options", "what is printed (default table); csv: one line per number")};
  }

  Result<int> run(Console& console) override {
    let_interrupts_end_us();
    if (sources_.size() < 2)
      return error(
          "only one source was named (there is nothing to compare it with); name two or more, or "
          "make its page with triplepoint report");
    const std::vector<std::string> names = TPT_TRY(chosen_names());
    const auto studies = std::count_if(sources_.begin(), sources_.end(), is_study);
    if (studies == 0) return finish(console, TPT_TRY(runs(names)));
    if (studies == static_cast<std::ptrdiff_t>(sources_.size()))
      return finish(console, TPT_TRY(all_studies(names)));
    return error(fmt::format(
        "{} is a study and {} is not (jobs are joined by name, runs one by one); name runs of the "
        "study, as in STUDY/runs/NAME.run",
        *std::find_if(sources_.begin(), sources_.end(), is_study),
        *std::find_if_not(sources_.begin(), sources_.end(), is_study)));
  }

 private:
  static bool is_study(const std::string& source) {
    return kind_of_source(source) == SourceKind::study;
  }

  Result<std::vector<std::string>> chosen_names() const {
    if (!names_) return names_of(sources_);
    const std::vector<std::string> names = TPT_TRY(split_list(*names_));
    if (names.size() != sources_.size())
      return error(fmt::format("--names has {} names for {} sources; give one for each",
                               names.size(), sources_.size()));
    return names;
  }

  Result<Comparison> runs(const std::vector<std::string>& names) const {
    std::vector<report::Side> sides;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const run::Run run = TPT_TRY(load_run_source({sources_[i]}, {}));
      sides.push_back(report::side_of(run, metrics::measure(run), names[i]));
    }
    return report::compare_runs(std::move(sides));
  }

  Result<StudyComparison> all_studies(const std::vector<std::string>& names) const {
    std::vector<report::Study> studies;
    for (const std::string& source : sources_)
      studies.push_back(TPT_TRY(load_study_source(source)));
    return report::compare_studies(studies, names);
  }

  template <class Compared>
  Result<int> finish(Console& console, const Compared& comparison) {
    if (output_) TPT_TRY(write_file_atomically(*output_, report::compare_page(comparison)));
    if (format_.is_json()) {
      print_json(console, report::comparison_json(comparison));
    } else if (format_.is_csv()) {
      console.print(report::comparison_csv(comparison));
    } else {
      print_sentences(console, report::sentences_of(comparison));
      print_table(console, comparison);
      if (output_) console.print(fmt::format("wrote {}\n", *output_));
    }
    return exit_ok;
  }

  bool is_shown(const ComparedSection& section) const {
    return all_ || (section.name != "stages" && section.name != "steps" &&
                    section.name != "ledger" && section.name != "throttle");
  }

  void print_table(Console& console, const Comparison& comparison) const {
    std::vector<std::string> names;
    for (const report::Side& side : comparison.sides)
      names.push_back(side.name);
    TextTable table = table_for(names, "");
    const std::size_t columns = 2 * names.size();
    for (const ComparedSection& section : comparison.sections) {
      if (!is_shown(section)) continue;
      std::vector<TextTable::Cell> heading(columns, TextTable::Cell(""));
      heading[0] = TextTable::Cell(section.title, Style::bold);
      table.add_row(std::move(heading));
      for (const ComparedRow& row : section.rows) {
        std::vector<TextTable::Cell> cells = {"  " + row.title};
        add_values(cells, row);
        table.add_row(std::move(cells));
      }
    }
    console.print(table.text(console));
  }

  /// Jobs with most change first, unless all are asked for.
  void print_table(Console& console, const StudyComparison& comparison) const {
    constexpr std::size_t most_rows = 20;
    std::vector<std::pair<double, const report::ComparedJob*>> jobs;
    for (const report::ComparedJob& job : comparison.jobs) {
      const ComparedRow* row = job.numbers.find("step_time_s");
      const auto by = row != nullptr ? report::difference(*row, 1) : std::nullopt;
      jobs.emplace_back(by && by->relative ? std::abs(*by->relative) : -1, &job);
    }
    const std::size_t shown = all_ ? jobs.size() : std::min(most_rows, jobs.size());
    if (!all_)
      std::stable_sort(jobs.begin(), jobs.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
    TextTable table = table_for(comparison.names, "job, step time");
    for (std::size_t i = 0; i < shown; ++i) {
      std::vector<TextTable::Cell> cells = {jobs[i].second->name};
      const ComparedRow* row = jobs[i].second->numbers.find("step_time_s");
      if (row != nullptr)
        add_values(cells, *row);
      else
        add_verdicts(cells, jobs[i].second->verdicts);
      table.add_row(std::move(cells));
    }
    console.print(table.text(console));
    if (shown < jobs.size())
      console.print(
          fmt::format("({} more jobs changed less; --all shows them)\n", jobs.size() - shown));
  }

  static void add_verdicts(std::vector<TextTable::Cell>& cells,
                           const std::vector<std::string>& verdicts) {
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      cells.emplace_back(verdicts[i].empty() ? "not there" : verdicts[i], Style::dim);
      if (i > 0) cells.emplace_back("");
    }
  }

  std::vector<std::string> sources_;
  std::optional<std::string> output_, names_;
  FormatFlag format_{FormatFlag::Csv::yes};
  bool all_ = false;
};

}  // namespace

std::unique_ptr<Command> make_compare() {
  return std::make_unique<Compare>();
}

}  // namespace triplepoint::cli
