// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/this_machine.h"

#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"

#include "triplepoint/app/training.h"
#include "triplepoint/system/process.h"

namespace triplepoint::app {
namespace {

constexpr int64_t ranks_of_study = 8;  // data/clusters/laptop.toml

/// The study `laptop` on this machine, where that has the ranks the study wants.
Result<void> write_study(const Path& folder, const spec::Cluster& cluster,
                         const spec::Library& library) {
  if (cluster.gpus_per_node != ranks_of_study) return {};
  std::string text = TPT_TRY(read_file(Path(library.root) / "studies" / "laptop.toml"));
  const std::string here = absolute_path(folder).string();
  for (const auto& [was, is] : {std::pair<std::string, std::string>{"\"laptop\"", "cluster"},
                                {"\"triplepoint-train\"", "stack"}}) {
    const size_t place = text.find(fmt::format("{} = {}", is, was));
    if (place == std::string::npos) return {};
    text.replace(place + is.size() + 3, was.size(), toml_text(fmt::format("{}/{}.toml", here, is)));
  }
  return write_file_atomically(folder / "laptop.toml", text);
}

Result<Json> measurement(const Path& folder, const std::optional<Path>& measured) {
  const Path file = measured ? *measured : folder / "measured.json";
  if (!measured) {
    const Path program = TPT_TRY(find_machine_program());
    const Path log = folder / "measured.log";
    const GroupEnd end = TPT_TRY(run_in_group({program.string(), "-o", file.string()}, log,
                                              600 * unit::s, [] { return false; }));
    if (end.how != GroupEnd::How::exited || end.code != 0)
      return error("{} did not end well (code {}); see {}", program.string(), end.code,
                   log.string());
  }
  return parse_json(TPT_TRY(read_file(file)), file.string());
}

}  // namespace

Result<Path> find_machine_program() {
  const Path program =
      TPT_TRY(find_trainer(process_environment())).parent_path() / "triplepoint-machine";
  if (path_exists(program)) return program;
  return error("{} is not there (it is built together with triplepoint-train); make build",
               program.string());
}

answers::Document machine_document(const calibrate::MachineFit& fit, const std::string& folder) {
  const spec::Cluster& cluster = fit.cluster;
  const double gflops = *cluster.gpu.peak_fp32 / (unit::FLOP / unit::s) / 1e9;
  DataTable table;
  table.name = "errors";
  table.columns = {{"rows_of", "rows of"},
                   {"rows", "rows"},
                   {"median_pct", "median %", 1, 1},
                   {"worst_pct", "worst %", 1, 1}};
  for (const calibrate::MachineError& each : fit.errors)
    table.add({each.rows_of, static_cast<int64_t>(each.rows), each.median_pct, each.worst_pct});
  answers::Section section{.id = "errors", .title = "", .tables = {std::move(table)}};
  section.remarks = {
      {fmt::format("written to {}: cluster.toml and stack.toml{}", folder,
                   cluster.gpus_per_node == ranks_of_study
                       ? ", and the study laptop.toml on them"
                       : fmt::format("; the study laptop is one of {} ranks", ranks_of_study))}};
  return {.kind = "machine",
          .title = fit.processor,
          .facts = fmt::format("{} ranks on {} cores; each has {:.0f} GFLOP/s, streams at {:.1f} "
                               "GB/s and talks at {:.1f} GB/s",
                               cluster.num_gpus(), cluster.shared_cores, gflops,
                               *cluster.gpu.hbm_bandwidth / (unit::GB / unit::s),
                               cluster.scale_up.bandwidth / (unit::GB / unit::s)),
          .sections = {std::move(section)},
          .numbers = {{"processor", fit.processor},
                      {"cores", cluster.shared_cores},
                      {"peak_gflops", gflops},
                      {"cluster", folder + "/cluster.toml"},
                      {"stack", folder + "/stack.toml"}}};
}

Result<calibrate::MachineFit> describe_this_machine(const Path& folder,
                                                    const std::optional<Path>& measured,
                                                    int64_t ranks, const spec::Library& library) {
  const Json rows = TPT_TRY(measurement(folder, measured));
  calibrate::MachineFit fit = TPT_TRY(calibrate::fit_machine(rows, ranks, library));
  TPT_TRY(write_file_atomically(folder / "cluster.toml", calibrate::cluster_toml(fit)));
  TPT_TRY(write_file_atomically(folder / "stack.toml", calibrate::stack_toml(fit)));
  TPT_TRY(write_study(folder, fit.cluster, library));
  return fit;
}

}  // namespace triplepoint::app
