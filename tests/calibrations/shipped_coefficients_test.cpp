// SPDX-License-Identifier: Apache-2.0
// What lies in data/calibrations is what the fits find in the published tables. Skips without them.
#include <filesystem>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"

#include "triplepoint/calibrate/power_fit.h"
#include "triplepoint/calibrate/thermal_fit.h"

namespace triplepoint::calibrate {
namespace {

std::optional<CsvTable> shared_table(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(TPT_SHARED_DIR) / "data" / name;
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: no ", path.string(), " (public measurements are not part of the repository)");
    return std::nullopt;
  }
  return CsvTable::parse(read_file(path.string()).value(), path.string()).value();
}

/// The numbers of a file: what comes before its first source.
std::string numbers_in(const std::string& toml) {
  return toml.substr(0, toml.find("[[source]]"));
}

void check_shipped(const CoefficientFit& fit) {
  const spec::Library library = spec::default_library();
  const std::string path = library.root + "/calibrations/" + fit.gpu + "/" + fit.block + ".toml";
  INFO(path);
  CHECK(numbers_in(fitted_toml(fit, library, "table").value()) ==
        numbers_in(read_file(path).value()));
}

TEST_CASE("shipped power coefficients of locked clocks and rooflines are what the fit gives") {
  const auto table = shared_table("power_dvfs_calibration.csv");
  if (!table) return;
  const auto fits = fit_power(*table, spec::default_library());
  REQUIRE(fits);
  for (const CoefficientFit& fit : *fits)
    check_shipped(fit);
}

TEST_CASE("shipped thermal ladders are what the fit gives") {
  const auto table = shared_table("thermal_transients_calibration.csv");
  if (!table) return;
  const auto fits = fit_thermal(*table, spec::default_library());
  REQUIRE(fits);
  for (const ThermalFit& fit : *fits)
    check_shipped(fit.ladder);
}

}  // namespace
}  // namespace triplepoint::calibrate
