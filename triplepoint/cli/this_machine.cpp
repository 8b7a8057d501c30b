// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/this_machine.h"

#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/calibrate/machine/this_machine.h"
#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/group_process.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/cli/train_launch.h"

namespace triplepoint::cli {
namespace {

constexpr const char* group = "A description of this machine";

Result<Path> find_machine_program() {
  const Path program =
      TPT_TRY(find_trainer(process_surroundings())).parent_path() / "triplepoint-machine";
  if (std::filesystem::exists(program)) return program;
  return error(
      fmt::format("{} is not there (it is built together with triplepoint-train); make "
                  "build",
                  program.string()));
}

Json json_of(const calibrate::MachineFit& fit, const std::string& folder) {
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

void print_fit(Console& console, const calibrate::MachineFit& fit, const std::string& folder) {
  const spec::Cluster& cluster = fit.cluster;
  console.print(fmt::format(
      "{}: {} cores of {:.0f} GFLOP/s, streams at {:.1f} GB/s, ranks talk at {:.1f} GB/s\n\n",
      fit.processor, cluster.shared_cores, *cluster.gpu.peak_fp32 / (unit::FLOP / unit::s) / 1e9,
      *cluster.gpu.hbm_bandwidth / (unit::GB / unit::s),
      cluster.scale_up.bandwidth / (unit::GB / unit::s)));
  TextTable table({{"rows of", TextTable::Align::left}, {"rows"}, {"median %"}, {"worst %"}});
  for (const calibrate::MachineError& each : fit.errors)
    table.add_row({each.rows_of, std::to_string(each.rows), fmt::format("{:.1f}", each.median_pct),
                   fmt::format("{:.1f}", each.worst_pct)});
  console.print(table.text(console));
  console.print(
      fmt::format("\nwritten to {}: cluster.toml, stack.toml, measured.json, and the study "
                  "laptop.toml on them\n",
                  folder));
}

/// The study `laptop` on this machine, where that has the ranks the study wants.
Result<void> write_study(const Path& folder, const spec::Cluster& cluster,
                         const spec::Library& library) {
  const spec::Cluster laptop = TPT_TRY(spec::load_cluster(library, "laptop"));
  if (cluster.num_nodes != laptop.num_nodes || cluster.gpus_per_node != laptop.gpus_per_node)
    return {};
  std::string text = TPT_TRY(read_file(Path(library.root) / "studies" / "laptop.toml"));
  const std::string here = std::filesystem::absolute(folder).string();
  for (const auto& [was, is] : {std::pair<std::string, std::string>{"\"laptop\"", "cluster"},
                                {"\"triplepoint-train\"", "stack"}}) {
    const size_t place = text.find(fmt::format("{} = {}", is, was));
    if (place == std::string::npos) return {};
    text.replace(place + is.size() + 3, was.size(), fmt::format("\"{}/{}.toml\"", here, is));
  }
  return write_file_atomically(folder / "laptop.toml", text);
}

}  // namespace

std::vector<Argument> ThisMachineFlags::arguments() {
  return {
      {.names = "--this-machine",
       .help = "measure this machine (half a minute) and write a folder that describes it as an "
               "emulated cluster: cluster.toml, stack.toml (-o, default this-machine)",
       .group = group,
       .store = into_switch(given_)},
      {.names = "--measured",
       .value = "JSON",
       .help = "what triplepoint-machine has written before, instead of measuring",
       .group = group,
       .words = Words::files,
       .store = into(measured_)},
      {.names = "--nodes",
       .value = "N",
       .help = "emulated nodes (default 2)",
       .group = group,
       .store = into(nodes_)},
      {.names = "--ranks-per-node",
       .value = "N",
       .help = "of each (default 4)",
       .group = group,
       .store = into(ranks_)},
      {.names = "--fabric-bandwidth",
       .value = "RATE",
       .help = "of a node's NIC (default 1 Gb/s)",
       .group = group,
       .store = into_quantity(bandwidth_)},
      {.names = "--fabric-latency",
       .value = "TIME",
       .help = "between nodes (default 50 us)",
       .group = group,
       .store = into_quantity(latency_)}};
}

Result<Json> ThisMachineFlags::measurement(Console& console, const std::string& folder) const {
  const Path file = measured_ ? Path(*measured_) : Path(folder) / "measured.json";
  if (!measured_) {
    const Path program = TPT_TRY(find_machine_program());
    console.warn("measuring this machine: products, attention, collectives, steps ...\n");
    const Path log = Path(folder) / "measured.log";
    const GroupEnd end = TPT_TRY(run_in_group({program.string(), "-o", file.string()}, log,
                                              600 * unit::s, [] { return false; }));
    if (end.how != GroupEnd::How::exited || end.code != 0)
      return error(fmt::format("{} did not end well (code {}); see {}", program.string(), end.code,
                               log.string()));
  }
  return parse_json(TPT_TRY(read_file(file)), file.string());
}

Result<int> ThisMachineFlags::run(Console& console, const std::string& folder, bool json) {
  calibrate::EmulatedCluster emulated;
  emulated.nodes = nodes_.value_or(emulated.nodes);
  emulated.ranks_per_node = ranks_.value_or(emulated.ranks_per_node);
  emulated.fabric_bandwidth = bandwidth_.value_or(emulated.fabric_bandwidth);
  emulated.fabric_latency = latency_.value_or(emulated.fabric_latency);
  if (emulated.nodes < 1 || emulated.ranks_per_node < 1)
    return error("--nodes and --ranks-per-node are 1 or more (somebody must train); try 2 and 4");
  const spec::Library library = TPT_TRY(require_library());
  TPT_TRY(make_folder(folder));
  const Json rows = TPT_TRY(measurement(console, folder));
  const calibrate::MachineFit fit = TPT_TRY(calibrate::fit_machine(rows, emulated, library));
  const Path there = folder;
  TPT_TRY(write_file_atomically(there / "cluster.toml", calibrate::cluster_toml(fit)));
  TPT_TRY(write_file_atomically(there / "stack.toml", calibrate::stack_toml(fit)));
  TPT_TRY(write_study(there, fit.cluster, library));
  if (json)
    print_json(console, json_of(fit, folder));
  else
    print_fit(console, fit, folder);
  return exit_ok;
}

}  // namespace triplepoint::cli
