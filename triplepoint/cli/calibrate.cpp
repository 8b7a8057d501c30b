// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/calibrate/collective_fit.h"
#include "triplepoint/calibrate/kernel_fit.h"
#include "triplepoint/calibrate/power_fit.h"
#include "triplepoint/calibrate/thermal_fit.h"
#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/cli/this_machine.h"
#include "triplepoint/cli/verbs.h"

namespace triplepoint::cli {
namespace {

using calibrate::ClassFit;
using calibrate::CoefficientFit;
using calibrate::FittedNumber;
using calibrate::LinkFit;
using calibrate::Residuals;

/// One line of the result: a class of rows, and how far predictions of it are off.
struct FitLine {
  std::string subject, part, rows_of;
  Residuals seen, held_out, without;
};

/// What a fit says, whatever it is a fit of.
struct FitReport {
  std::string subject;  // "h100", "dgx-a100"
  std::vector<FittedNumber> numbers;
  std::vector<std::string> texts;  // the numbers as they stand in the file
  std::vector<FitLine> lines;
  std::string unit = "%";
  std::string toml;
};

std::string text_of(const FittedNumber& number) {
  return number.is_time_us ? fmt::format("{} us", number.value) : fmt::format("{}", number.value);
}

void add_numbers(FitReport& report, const std::string& prefix,
                 const std::vector<FittedNumber>& numbers) {
  for (FittedNumber number : numbers) {
    report.texts.push_back(text_of(number));
    number.key = prefix + number.key;
    report.numbers.push_back(std::move(number));
  }
}

FitReport report_of(const calibrate::KernelFit& fit, std::string toml) {
  FitReport report{.subject = fit.gpu, .toml = std::move(toml)};
  for (const ClassFit& c : fit.classes) {
    add_numbers(report, c.name + ": ", c.numbers);
    report.lines.push_back(
        {fit.gpu, c.name, "100 us and more", c.large, c.held_out_large, c.other_gpus_large});
    report.lines.push_back(
        {fit.gpu, c.name, "shorter", c.small, c.held_out_small, c.other_gpus_small});
  }
  return report;
}

FitReport report_of(const LinkFit& fit, std::string toml) {
  FitReport report{.subject = fit.cluster, .toml = std::move(toml)};
  add_numbers(report, "", fit.numbers);
  report.lines = {
      {fit.cluster, fit.software, "above 16 MB", fit.large, fit.held_out_large, fit.others_large},
      {fit.cluster, fit.software, "between", fit.between, fit.held_out_between, fit.others_between},
      {fit.cluster, fit.software, "below 1 MB", fit.small, fit.held_out_small, fit.others_small}};
  return report;
}

Residuals residuals_of(const calibrate::FitErrors& errors) {
  return {errors.rows, errors.median, errors.p90};
}

FitReport report_of(const CoefficientFit& fit, std::string toml) {
  FitReport report{.subject = fit.gpu, .toml = std::move(toml)};
  if (fit.unit == "K") report.unit = "K";
  for (const calibrate::FoundNumber& number : fit.numbers) {
    report.texts.push_back(number.text);
    report.numbers.push_back({.key = number.key, .value = number.value, .on_bound = number.bound});
  }
  report.lines = {{fit.gpu, fit.block, "all", residuals_of(fit.after), residuals_of(fit.held_out),
                   residuals_of(fit.before)}};
  return report;
}

std::string cell(const Residuals& residuals) {
  if (residuals.rows == 0) return "";
  return fmt::format("{:.1f} / {:.1f}", residuals.median_pct, residuals.p90_pct);
}

Json json_of(const Residuals& residuals) {
  if (residuals.rows == 0) return nullptr;
  return {{"rows", residuals.rows}, {"median", residuals.median_pct}, {"p90", residuals.p90_pct}};
}

Json json_of(const FitReport& report) {
  Json numbers = Json::array(), lines = Json::array();
  for (std::size_t i = 0; i < report.numbers.size(); ++i)
    numbers.push_back({{"key", report.numbers[i].key},
                       {"value", report.texts[i]},
                       {"on_bound", report.numbers[i].on_bound}});
  for (const FitLine& line : report.lines)
    lines.push_back({{"class", line.part},
                     {"rows_of", line.rows_of},
                     {"seen", json_of(line.seen)},
                     {"held_out", json_of(line.held_out)},
                     {"without_this_subject", json_of(line.without)}});
  return {{"subject", report.subject},
          {"unit", report.unit},
          {"numbers", numbers},
          {"residuals", lines}};
}

void print_report(Console& console, const FitReport& report, bool before) {
  TextTable numbers(
      {{report.subject, TextTable::Align::left}, {"value"}, {"", TextTable::Align::left}});
  for (std::size_t i = 0; i < report.numbers.size(); ++i)
    numbers.add_row({report.numbers[i].key, report.texts[i],
                     report.numbers[i].on_bound ? "at the end of its range" : ""});
  console.print(numbers.text(console) + "\n");
  console.print(fmt::format("Errors in {}, median / 90th percentile\n", report.unit));
  TextTable lines({{"class", TextTable::Align::left},
                   {"rows of", TextTable::Align::left},
                   {"rows"},
                   {"fitted"},
                   {"held out"},
                   {before ? "before" : "without"}});
  for (const FitLine& line : report.lines)
    if (line.seen.rows > 0)
      lines.add_row({line.part, line.rows_of, std::to_string(line.seen.rows), cell(line.seen),
                     cell(line.held_out), cell(line.without)});
  console.print(lines.text(console) + "\n");
}

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

  Result<int> run(Console& console) override {
    let_interrupts_end_us();
    if (this_machine_.given() != what_.empty())
      return error(
          "say either which block is fitted to tables, or --this-machine (one thing at a time); "
          "try kernels, collectives, power or thermal");
    if (this_machine_.given())
      return this_machine_.run(console, output_.value_or("this-machine"), format_.is_json());
    const spec::Library library = TPT_TRY(require_library());
    if (like_) return derive(console, library);
    if (files_.empty())
      return error("no table is given (a fit needs measurements); try --from rows.csv");
    const std::vector<FitReport> reports = TPT_TRY(fit(library));
    if (output_ && reports.size() != 1)
      return error(
          fmt::format("{} fits for one file (-o takes the file of one GPU or cluster); "
                      "choose one with --gpu or --cluster",
                      reports.size()));
    if (output_) TPT_TRY(write_file_atomically(*output_, reports[0].toml));
    print(console, reports);
    return exit_ok;
  }

 private:
  Result<int> derive(Console& console, const spec::Library& library) {
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

  Result<std::vector<FitReport>> fit(const spec::Library& library) const {
    std::vector<CsvTable> tables;
    for (const std::string& file : files_) {
      std::string text = TPT_TRY(read_file(file));
      tables.push_back(TPT_TRY(CsvTable::parse(std::move(text), file)));
    }
    if (what_ == "kernels") return fit_kernels(tables, library);
    if (what_ == "collectives") return fit_collectives(tables, library);
    return fit_coefficients(tables, library);
  }

  /// The tables' names without their folders, for the source of a number.
  std::string table_names() const {
    std::string names;
    for (const std::string& file : files_)
      names += fmt::format("{}{}", names.empty() ? "" : ", ", Path(file).filename().string());
    return names;
  }

  Result<std::vector<FitReport>> fit_kernels(const std::vector<CsvTable>& tables,
                                             const spec::Library& library) const {
    std::vector<calibrate::KernelRow> rows;
    for (const CsvTable& table : tables) {
      const calibrate::KernelRows read = TPT_TRY(calibrate::read_kernel_rows(table));
      rows.insert(rows.end(), read.rows.begin(), read.rows.end());
    }
    std::set<std::string> gpus;
    for (const calibrate::KernelRow& row : rows)
      gpus.insert(row.gpu);
    if (gpu_) gpus = {*gpu_};
    std::vector<FitReport> reports;
    for (const std::string& gpu : gpus) {
      const auto fit = calibrate::fit_kernels(rows, library, gpu);
      if (!fit && gpus.size() > 1) continue;  // a GPU with a row or two has nothing to say
      if (!fit) return tl::unexpected(fit.error());
      reports.push_back(
          report_of(*fit, TPT_TRY(calibrate::kernels_toml(*fit, library, table_names()))));
    }
    return reports;
  }

  Result<std::vector<FitReport>> fit_collectives(const std::vector<CsvTable>& tables,
                                                 const spec::Library& library) const {
    std::vector<calibrate::CollectiveRow> rows;
    for (const CsvTable& table : tables) {
      const calibrate::CollectiveRows read = TPT_TRY(calibrate::read_collective_rows(table));
      rows.insert(rows.end(), read.rows.begin(), read.rows.end());
    }
    std::set<std::string> clusters;
    for (const calibrate::CollectiveRow& row : rows)
      if (row.nodes == 1) clusters.insert(row.cluster);
    if (cluster_) clusters = {*cluster_};
    std::vector<FitReport> reports;
    for (const std::string& cluster : clusters) {
      const auto fit = calibrate::fit_collectives(rows, library, cluster);
      if (!fit && clusters.size() > 1) continue;
      if (!fit) return tl::unexpected(fit.error());
      reports.push_back(
          report_of(*fit, TPT_TRY(calibrate::links_toml(*fit, library, table_names()))));
    }
    return reports;
  }

  Result<std::vector<FitReport>> fit_coefficients(const std::vector<CsvTable>& tables,
                                                  const spec::Library& library) const {
    std::vector<FitReport> reports;
    for (const CsvTable& table : tables) {
      std::vector<CoefficientFit> fits;
      if (what_ == "power") {
        fits = TPT_TRY(calibrate::fit_power(table, library));
      } else {
        for (const calibrate::ThermalFit& fit : TPT_TRY(calibrate::fit_thermal(table, library)))
          fits.push_back(fit.ladder);
      }
      for (const CoefficientFit& fit : fits) {
        if (gpu_ && fit.gpu != *gpu_) continue;
        const std::string name = Path(table.name()).filename().string();
        reports.push_back(report_of(fit, TPT_TRY(calibrate::fitted_toml(fit, library, name))));
      }
    }
    return reports;
  }

  void print(Console& console, const std::vector<FitReport>& reports) const {
    if (format_.is_json()) {
      Json all = Json::array();
      for (const FitReport& report : reports)
        all.push_back(json_of(report));
      print_json(console, all);
      return;
    }
    const bool before = what_ == "power" || what_ == "thermal";
    for (const FitReport& report : reports)
      print_report(console, report, before);
    if (!before)
      console.print(
          "held out: by shape or size, in 5 folds; without: with the numbers fitted on "
          "others\n");
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
