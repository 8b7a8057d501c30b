// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/this_machine_flags.h"

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/app/this_machine.h"
#include "triplepoint/calibrate/machine/this_machine.h"
#include "triplepoint/cli/flags/output_flags.h"
#include "triplepoint/flags/bind.h"

namespace triplepoint::cli {
namespace {

constexpr const char* group = "A description of this machine";

}  // namespace

Arguments ThisMachineFlags::arguments() {
  return Arguments()
      .group(group)
      .toggle("--this-machine",
              "measure this machine (30 s) and write its description as an emulated cluster: "
              "cluster.toml, stack.toml (-o, default this-machine)",
              given_)
      .flag("--measured", "JSON", "earlier output of triplepoint-machine, instead of measuring",
            into(measured_), {.words = Words::files})
      .flag("--nodes", "N", "emulated nodes (default 2)", into(nodes_))
      .flag("--ranks-per-node", "N", "of each (default 4)", into(ranks_));
}

Result<int> ThisMachineFlags::run(tui::Console& console, const std::string& folder,
                                  const FormatFlag& format) {
  calibrate::EmulatedCluster emulated;
  emulated.nodes = nodes_.value_or(emulated.nodes);
  emulated.ranks_per_node = ranks_.value_or(emulated.ranks_per_node);
  if (emulated.nodes < 1 || emulated.ranks_per_node < 1)
    return error(
        "--nodes and --ranks-per-node must be at least 1 (a cluster has ranks); try 2 and 4");
  const spec::Library library = TPT_TRY(spec::require_library());
  TPT_TRY(make_folder(folder));
  std::optional<Path> measured;
  if (measured_) measured = *measured_;
  if (!measured) {
    TPT_TRY(app::find_machine_program());
    console.warn("measuring this machine: products, attention, collectives, steps ...\n");
  }
  const calibrate::MachineFit fit =
      TPT_TRY(app::describe_this_machine(folder, measured, emulated, library));
  print_answer(console, app::machine_document(fit, folder), format);
  return exit_ok;
}

}  // namespace triplepoint::cli
