// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/lifetime_use.h"

#include <fmt/format.h>

#include "triplepoint/spec/library.h"

namespace triplepoint::study {

std::optional<metrics::RunLifetimeUse> run_lifetime_use(const run::Run& run,
                                                        const metrics::Metrics& metrics) {
  const Result<spec::Library> library = spec::require_library();
  if (!library) return std::nullopt;
  const Result<metrics::LifetimeModel> model = metrics::load_lifetime_model(*library);
  if (!model) return std::nullopt;
  return metrics::lifetime_use_of(run, metrics, *model);
}

std::vector<std::string> lifetime_use_columns() {
  return {"lifetime_use_mean", "lifetime_use_peak", "lifetime_gpu_h_per_mtoken"};
}

std::vector<std::string> lifetime_use_cells(const std::optional<metrics::RunLifetimeUse>& use) {
  if (!use) return {"", "", ""};
  std::vector<std::string> cells = {fmt::format("{}", use->mean), fmt::format("{}", use->highest),
                                    ""};
  if (use->gpu_hours_per_million_tokens)
    cells[2] = fmt::format("{}", *use->gpu_hours_per_million_tokens);
  return cells;
}

}  // namespace triplepoint::study
