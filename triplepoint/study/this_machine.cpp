// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/this_machine.h"

#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"

#include "triplepoint/study/training.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {
namespace {

/// The study `laptop` on this machine, where that has the ranks the study wants.
Result<void> write_study(const Path& folder, const spec::Cluster& cluster,
                         const spec::Library& library) {
  const spec::Cluster laptop = TPT_TRY(spec::load_cluster(library, "laptop"));
  if (cluster.num_nodes != laptop.num_nodes || cluster.gpus_per_node != laptop.gpus_per_node)
    return {};
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
      return error(fmt::format("{} did not end well (code {}); see {}", program.string(), end.code,
                               log.string()));
  }
  return parse_json(TPT_TRY(read_file(file)), file.string());
}

}  // namespace

Result<Path> find_machine_program() {
  const Path program =
      TPT_TRY(find_trainer(process_environment())).parent_path() / "triplepoint-machine";
  if (path_exists(program)) return program;
  return error(
      fmt::format("{} is not there (it is built together with triplepoint-train); make "
                  "build",
                  program.string()));
}

Json machine_json(const calibrate::MachineFit& fit, const std::string& folder) {
  Json errors = Json::array();
  for (const calibrate::MachineError& each : fit.errors)
    errors.push_back({{"rows_of", each.rows_of},
                      {"rows", each.rows},
                      {"median_pct", each.median_pct},
                      {"worst_pct", each.worst_pct}});
  return {{"processor", fit.processor},
          {"cores", fit.cluster.shared_cores},
          {"peak_gflops", *fit.cluster.gpu.peak_fp32 / (unit::FLOP / unit::s) / 1e9},
          {"cluster", folder + "/cluster.toml"},
          {"stack", folder + "/stack.toml"},
          {"errors", errors}};
}

void print_machine(tui::Console& console, const calibrate::MachineFit& fit,
                   const std::string& folder) {
  const spec::Cluster& cluster = fit.cluster;
  console.print(fmt::format(
      "{}: {} ranks on {} cores; each has {:.0f} GFLOP/s, streams at {:.1f} GB/s and talks at "
      "{:.1f} GB/s\n\n",
      fit.processor, cluster.num_gpus(), cluster.shared_cores,
      *cluster.gpu.peak_fp32 / (unit::FLOP / unit::s) / 1e9,
      *cluster.gpu.hbm_bandwidth / (unit::GB / unit::s),
      cluster.scale_up.bandwidth / (unit::GB / unit::s)));
  DataTable table = text_table({{"rows of", Align::left}, {"rows"}, {"median %"}, {"worst %"}});
  for (const calibrate::MachineError& each : fit.errors)
    table.add({each.rows_of, std::to_string(each.rows), fmt::format("{:.1f}", each.median_pct),
               fmt::format("{:.1f}", each.worst_pct)});
  console.print(tui::table_text(table, console));
  console.print(
      fmt::format("\nwritten to {}: cluster.toml, stack.toml, measured.json, and the study "
                  "laptop.toml on them\n",
                  folder));
}

Result<calibrate::MachineFit> describe_this_machine(const Path& folder,
                                                    const std::optional<Path>& measured,
                                                    const calibrate::EmulatedCluster& emulated,
                                                    const spec::Library& library) {
  const Json rows = TPT_TRY(measurement(folder, measured));
  calibrate::MachineFit fit = TPT_TRY(calibrate::fit_machine(rows, emulated, library));
  TPT_TRY(write_file_atomically(folder / "cluster.toml", calibrate::cluster_toml(fit)));
  TPT_TRY(write_file_atomically(folder / "stack.toml", calibrate::stack_toml(fit)));
  TPT_TRY(write_study(folder, fit.cluster, library));
  return fit;
}

}  // namespace triplepoint::study
