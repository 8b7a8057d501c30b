// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/fit_report.h"

#include <set>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/calibrate/power_fit.h"
#include "triplepoint/calibrate/thermal_fit.h"

namespace triplepoint::calibrate {
namespace {

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

FitReport report_of(const KernelFit& fit, std::string toml) {
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

Residuals residuals_of(const FitErrors& errors) {
  return {errors.rows, errors.median, errors.p90};
}

FitReport report_of(const CoefficientFit& fit, std::string toml) {
  FitReport report{.subject = fit.gpu, .toml = std::move(toml)};
  if (fit.unit == "K") report.unit = "K";
  for (const FoundNumber& number : fit.numbers) {
    report.texts.push_back(number.text);
    report.numbers.push_back({.key = number.key, .value = number.value, .on_bound = number.bound});
  }
  report.lines = {{fit.gpu, fit.block, "all", residuals_of(fit.after), residuals_of(fit.held_out),
                   residuals_of(fit.before)}};
  return report;
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

/// The tables' names without their folders, for the source of a number.
std::string table_names(const FitRequest& request) {
  std::string names;
  for (const std::string& file : request.files)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", Path(file).filename().string());
  return names;
}

Result<std::vector<FitReport>> reports_of_kernels(const FitRequest& request,
                                                  const std::vector<CsvTable>& tables,
                                                  const spec::Library& library) {
  std::vector<KernelRow> rows;
  for (const CsvTable& table : tables) {
    const KernelRows read = TPT_TRY(read_kernel_rows(table));
    rows.insert(rows.end(), read.rows.begin(), read.rows.end());
  }
  std::set<std::string> gpus;
  for (const KernelRow& row : rows)
    gpus.insert(row.gpu);
  if (request.gpu) gpus = {*request.gpu};
  std::vector<FitReport> reports;
  for (const std::string& gpu : gpus) {
    const auto fit = fit_kernels(rows, library, gpu);
    if (!fit && gpus.size() > 1) continue;  // a GPU with a row or two has nothing to say
    if (!fit) return tl::unexpected(fit.error());
    reports.push_back(report_of(*fit, TPT_TRY(kernels_toml(*fit, library, table_names(request)))));
  }
  return reports;
}

Result<std::vector<FitReport>> reports_of_collectives(const FitRequest& request,
                                                      const std::vector<CsvTable>& tables,
                                                      const spec::Library& library) {
  std::vector<CollectiveRow> rows;
  for (const CsvTable& table : tables) {
    const CollectiveRows read = TPT_TRY(read_collective_rows(table));
    rows.insert(rows.end(), read.rows.begin(), read.rows.end());
  }
  std::set<std::string> clusters;
  for (const CollectiveRow& row : rows)
    if (row.nodes == 1) clusters.insert(row.cluster);
  if (request.cluster) clusters = {*request.cluster};
  std::vector<FitReport> reports;
  for (const std::string& cluster : clusters) {
    const auto fit = fit_collectives(rows, library, cluster);
    if (!fit && clusters.size() > 1) continue;
    if (!fit) return tl::unexpected(fit.error());
    reports.push_back(report_of(*fit, TPT_TRY(links_toml(*fit, library, table_names(request)))));
  }
  return reports;
}

Result<std::vector<FitReport>> reports_of_coefficients(const FitRequest& request,
                                                       const std::vector<CsvTable>& tables,
                                                       const spec::Library& library) {
  std::vector<FitReport> reports;
  for (const CsvTable& table : tables) {
    std::vector<CoefficientFit> fits;
    if (request.what == "power") {
      fits = TPT_TRY(fit_power(table, library));
    } else {
      for (const ThermalFit& fit : TPT_TRY(fit_thermal(table, library)))
        fits.push_back(fit.ladder);
    }
    for (const CoefficientFit& fit : fits) {
      if (request.gpu && fit.gpu != *request.gpu) continue;
      const std::string name = Path(table.name()).filename().string();
      reports.push_back(report_of(fit, TPT_TRY(fitted_toml(fit, library, name))));
    }
  }
  return reports;
}

}  // namespace

Result<std::vector<FitReport>> fit_tables(const FitRequest& request, const spec::Library& library) {
  std::vector<CsvTable> tables;
  for (const std::string& file : request.files) {
    std::string text = TPT_TRY(read_file(file));
    tables.push_back(TPT_TRY(CsvTable::parse(std::move(text), file)));
  }
  if (request.what == "kernels") return reports_of_kernels(request, tables, library);
  if (request.what == "collectives") return reports_of_collectives(request, tables, library);
  return reports_of_coefficients(request, tables, library);
}

Json fits_json(const std::vector<FitReport>& reports) {
  Json all = Json::array();
  for (const FitReport& report : reports)
    all.push_back(json_of(report));
  return all;
}

}  // namespace triplepoint::calibrate
