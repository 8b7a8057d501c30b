// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/wear.h"

#include <fmt/format.h>

#include "triplepoint/spec/library.h"

namespace triplepoint::study {

std::optional<metrics::RunWear> run_wear(const run::Run& run, const metrics::Metrics& metrics) {
  const Result<spec::Library> library = spec::require_library();
  if (!library) return std::nullopt;
  const Result<metrics::AgeingModel> model = metrics::load_ageing_model(*library);
  if (!model) return std::nullopt;
  return metrics::wear_of(run, metrics, *model);
}

std::vector<std::string> wear_columns() {
  return {"wear_mean", "wear_peak", "wear_gpu_h_per_mtoken"};
}

std::vector<std::string> wear_cells(const std::optional<metrics::RunWear>& wear) {
  if (!wear) return {"", "", ""};
  std::vector<std::string> cells = {fmt::format("{}", wear->mean), fmt::format("{}", wear->highest),
                                    ""};
  if (wear->gpu_hours_per_million_tokens)
    cells[2] = fmt::format("{}", *wear->gpu_hours_per_million_tokens);
  return cells;
}

}  // namespace triplepoint::study
