// SPDX-License-Identifier: Apache-2.0
// The numbers of the paper's figures as a table and as JSON.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"

#include "triplepoint/report/figures/paper_figures.h"

namespace triplepoint::report {
namespace {

Json place_json(const std::optional<int32_t>& place) {
  return place ? Json(*place) : Json();
}

std::string place_text(const std::optional<int32_t>& place) {
  return place ? fmt::format("{}", *place) : "";
}

/// What stands for the mean over the jobs.
PaperJob mean_job() {
  PaperJob mean;
  mean.layout = mean_row_label;
  return mean;
}

}  // namespace

Json figure_json(const PaperFigure& figure) {
  Json rows = Json::array();
  const PaperJob mean = mean_job();
  for (const FigureNumber& number : figure.numbers) {
    const PaperJob& job = number.job != nullptr ? *number.job : mean;
    rows.push_back({{"model", job.model},
                    {"task", job.task},
                    {"machine", job.machine},
                    {"layout", job.layout},
                    {"variant", job.variant},
                    {"microbatch", number.job != nullptr ? Json(job.microbatch) : Json()},
                    {"quantity", number.quantity},
                    {"stage", place_json(number.stage)},
                    {"gpu", place_json(number.gpu)},
                    {"value", number.value}});
  }
  return rows;
}

std::string figure_csv(std::string_view name, const PaperFigure& figure) {
  const std::vector<std::string> header = {"figure", "model",   "task",       "machine",
                                           "layout", "variant", "microbatch", "quantity",
                                           "stage",  "gpu",     "value"};
  CsvWriter csv(header);
  const PaperJob mean = mean_job();
  for (const FigureNumber& each : figure.numbers) {
    const PaperJob& job = each.job != nullptr ? *each.job : mean;
    csv.cell(name).cell(job.model).cell(job.task).cell(job.machine).cell(job.layout);
    csv.cell(job.variant);
    csv.cell(each.job != nullptr ? fmt::format("{}", job.microbatch) : "");
    csv.cell(each.quantity).cell(place_text(each.stage)).cell(place_text(each.gpu));
    csv.cell(each.value).end_row();
  }
  return csv.text();
}

}  // namespace triplepoint::report
