// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/calibrate/fit_report.h"
#include "triplepoint/calibrate/kernel_fit.h"
#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/format_flag.h"
#include "triplepoint/cli/flags/this_machine_flags.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/tui/fit_text.h"

namespace triplepoint::cli {
namespace {

/// A command that fits one block of data/ to tables of measurements.
class Calibrate : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = arguments_of_tables();
    for (Argument& argument : this_machine_.arguments())
      all.push_back(std::move(argument));
    return all;
  }

  std::vector<Argument> arguments_of_tables() {
    return {
        {.names = "WHAT",
         .help = "which block of data is fitted",
         .choices = {"kernels", "collectives", "power", "thermal"},
         .store = into(what_)},
        {.names = "--from",
         .value = "CSV",
         .help = "tables of measurements, with commas between them",
         .words = Words::files,
         .store = [this](std::string_view text) -> Result<void> {
           files_ = TPT_TRY(split_list(text));
           return {};
         }},
        {.names = "-o,--output",
         .value = "FILE",
         .help = "write the whole TOML file of the one GPU or cluster",
         .words = Words::files,
         .store = into(output_)},
        {.names = "--gpu",
         .value = "NAME",
         .help = "only this GPU (kernels, power, thermal; default: all of the tables)",
         .store = into(gpu_)},
        {.names = "--cluster",
         .value = "NAME",
         .help = "the cluster whose links are fitted (collectives)",
         .words = Words::clusters,
         .store = into(cluster_)},
        {.names = "--like",
         .value = "GPU",
         .help = "kernels without a table: take the numbers fitted on this relative",
         .group = "GPUs without a table",
         .store = into(like_)},
        {.names = "--peak-share",
         .value = "SHARE",
         .help = "times this, for shares of a peak (default 1)",
         .group = "GPUs without a table",
         .store = [this](std::string_view text) -> Result<void> {
           peak_share_ = std::strtod(std::string(text).c_str(), nullptr);
           if (peak_share_ > 0) return {};
           return error(fmt::format("'{}' is no share above 0 (it scales rates); try 0.94", text));
         }},
        {.names = "--keep",
         .value = "KEYS",
         .help = "but keep these of its own, with commas between them",
         .group = "GPUs without a table",
         .store = [this](std::string_view text) -> Result<void> {
           keep_ = TPT_TRY(split_list(text));
           return {};
         }},
        {.names = "--reason",
         .value = "TEXT",
         .help = "why that holds; becomes part of the source",
         .group = "GPUs without a table",
         .store = into(reason_)},
        format_.argument()};
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    if (this_machine_.given() != what_.empty())
      return error(
          "say either which block is fitted to tables, or --this-machine (one thing at a time); "
          "try kernels, collectives, power or thermal");
    if (this_machine_.given())
      return this_machine_.run(console, output_.value_or("this-machine"), format_.is_json());
    const spec::Library library = TPT_TRY(spec::require_library());
    if (like_) return derive(console, library);
    if (files_.empty())
      return error("no table is given (a fit needs measurements); try --from rows.csv");
    const std::vector<calibrate::FitReport> reports =
        TPT_TRY(calibrate::fit_tables({what_, files_, gpu_, cluster_}, library));
    if (output_ && reports.size() != 1)
      return error(
          fmt::format("{} fits for one file (-o takes the file of one GPU or cluster); "
                      "choose one with --gpu or --cluster",
                      reports.size()));
    if (output_) TPT_TRY(write_file_atomically(*output_, reports[0].toml));
    if (format_.is_json())
      print_json(console, calibrate::fits_json(reports));
    else
      tui::print_fits(console, reports, what_ == "power" || what_ == "thermal");
    return exit_ok;
  }

 private:
  Result<int> derive(tui::Console& console, const spec::Library& library) {
    if (what_ != "kernels" || !gpu_ || reason_.empty())
      return error(
          "--like needs kernels, --gpu and --reason (a number without a table says whose it "
          "is and why); try --gpu gb200 --like b200 --reason \"the same die\"");
    const std::string toml = TPT_TRY(calibrate::sibling_toml(
        {.gpu = *gpu_, .like = *like_, .peak_share = peak_share_, .reason = reason_, .keep = keep_},
        library));
    if (!output_) {
      console.print(toml);
      return exit_ok;
    }
    TPT_TRY(write_file_atomically(*output_, toml));
    return exit_ok;
  }

  std::string what_, reason_;
  std::vector<std::string> files_, keep_;
  std::optional<std::string> output_, gpu_, cluster_, like_;
  double peak_share_ = 1;
  FormatFlag format_;
  ThisMachineFlags this_machine_;
};

}  // namespace

std::unique_ptr<Command> make_calibrate() {
  return std::make_unique<Calibrate>();
}

}  // namespace triplepoint::cli
