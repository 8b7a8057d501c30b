// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <set>
#include <string>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/tables/score_summary.h"
#include "triplepoint/calibrate/tables/table_kind.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/report/pages/validation_page.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

using calibrate::TableScores;
using calibrate::ValidatedFile;

class Validate : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("ROWS.csv", "tables of measurements (the columns determine the kind)", into(files_),
              {.words = Words::files, .required = true, .repeats = true})
        .add(format_.argument("output format (default table; csv has one line per prediction)"))
        .flag("--leave-out", "SOURCE",
              "use the coefficients fitted without this source of training jobs", into(leave_out_))
        .toggle("--sensitivities",
                "add to each row of JSON how its time changes with what calibrate can learn",
                sensitivities_)
        .flag("--with", "FOLDER", "predict training jobs with what triplepoint calibrate learned",
              into(with_), {.words = Words::folders})
        .flag("-o,--output", "FILE.html", "write a page with every row", into(output_),
              {.words = Words::files})
        .add(threads_.argument());
  }

  Result<int> run(tui::Console& console) override {
    const ThreadLimit limit = threads_.limit();
    let_interrupts_end_us();
    spec::Library library = TPT_TRY(spec::require_library());
    if (leave_out_) library = TPT_TRY(spec::without_source(library, *leave_out_));
    if (with_) own_ = TPT_TRY(learn::Calibration::read(*with_));
    std::vector<ValidatedFile> validated;
    for (const std::string& file : files_)
      validated.push_back(TPT_TRY(validate(console, library, file)));
    if (format_.is_csv())
      console.print(calibrate::validation_csv(validated));
    else
      print_answer(console, report::validation_document(validated, 5), format_);
    if (own_) warn_of_taught(console, validated);
    if (output_) TPT_TRY(write_file_atomically(*output_, report::validation_page(validated, 20)));
    return exit_ok;
  }

 private:
  /// Errors of rows that taught the calibration say nothing of others.
  void warn_of_taught(tui::Console& console, const std::vector<ValidatedFile>& files) const {
    std::set<std::string> all, taught;
    for (const ValidatedFile& file : files)
      for (const calibrate::ScoredRow& row : file.scores.scored)
        all.insert(row.row_id);
    for (const learn::Evidence& run : own_->posterior().evidence())
      if (all.contains(run.run)) taught.insert(run.run);
    if (!taught.empty())
      console.warn(fmt::format("triplepoint: {} of these {} rows taught {}: errors are in-sample\n",
                               taught.size(), all.size(), *with_));
  }

  Result<ValidatedFile> validate(tui::Console& console, const spec::Library& library,
                                 const std::string& file) const {
    const calibrate::ScoreContext context{.library = library,
                                          .threads = threads_.count(),
                                          .own = own_ ? &*own_ : nullptr,
                                          .sensitivities = sensitivities_,
                                          .watch = tui::watch_on(console)};
    TableScores scores = TPT_TRY(score_file(file, context));
    return ValidatedFile{file, std::move(scores)};
  }

  Result<TableScores> score_file(const std::string& file,
                                 const calibrate::ScoreContext& context) const {
    std::string text = TPT_TRY(read_file(file));
    CsvTable table = TPT_TRY(CsvTable::parse(std::move(text), file, CsvTable::BadRows::leave_out));
    const std::vector<CsvTable::BadRow> left_out = table.left_out();
    TableScores scores = TPT_TRY(calibrate::score_table(table, context));
    for (const CsvTable::BadRow& row : left_out)
      scores.skipped.push_back({fmt::format("line {}", row.line), row.what});
    scores.rows += static_cast<int64_t>(left_out.size());
    return scores;
  }

  std::vector<std::string> files_;
  FormatFlag format_{FormatFlag::Csv::yes};
  ThreadsFlag threads_{"rows in parallel (default: all cores)"};
  std::optional<std::string> leave_out_, output_, with_;
  std::optional<learn::Calibration> own_;
  bool sensitivities_ = false;
};

}  // namespace

std::unique_ptr<Command> make_validate() {
  return std::make_unique<Validate>();
}

}  // namespace triplepoint::cli
