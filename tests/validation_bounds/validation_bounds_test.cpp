// SPDX-License-Identifier: Apache-2.0
// Accuracy does not rot unnoticed: median and 90th percentile of the errors of each source of
// measured jobs are bounded.
#include <filesystem>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/calibrate/jobs/job_scores.h"
#include "triplepoint/calibrate/tables/score_summary.h"

namespace triplepoint::calibrate {
namespace {

constexpr double median_allowance = 1, p90_allowance = 2;  // percentage points

CsvTable table_at(const Path& path) {
  return must(CsvTable::parse(read_file(path).value(), path.string()));
}

std::map<std::string, ErrorSummary> errors_by_family() {
  const spec::Library library = spec::default_library();
  std::map<std::string, ErrorSummary> all;
  for (const auto& folder :
       std::filesystem::directory_iterator(Path(TPT_SOURCE_DIR) / "validation")) {
    const Path path = folder.path() / "jobs.csv";
    if (!std::filesystem::exists(path)) continue;
    const auto scores =
        must(score_job_table(table_at(path), {.library = library, .threads = available_threads()}));
    for (const auto& [family, summary] : summarize(scores).families)
      all[family] = summary;
  }
  return all;
}

TEST_CASE("no source of measured jobs is predicted worse than its bound") {
  const CsvTable bounds = table_at(Path(TPT_SOURCE_DIR) / "validation/bounds.csv");
  const auto errors = errors_by_family();
  const auto number = [&](std::size_t row, const char* title) {
    return bounds.number(row, bounds.require_column(title).value()).value().value();
  };
  CHECK(errors.size() == bounds.rows());
  for (std::size_t r = 0; r < bounds.rows(); ++r) {
    const std::string family(bounds.at(r, bounds.require_column("family").value()));
    CAPTURE(family);
    const auto found = errors.find(family);
    REQUIRE(found != errors.end());
    CHECK(as_real(found->second.rows) >= number(r, "rows"));
    CHECK(found->second.median_abs.value() <= number(r, "median_pct") + median_allowance);
    CHECK(found->second.p90_abs.value() <= number(r, "p90_pct") + p90_allowance);
  }
}

}  // namespace
}  // namespace triplepoint::calibrate
