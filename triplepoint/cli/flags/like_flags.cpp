// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/like_flags.h"

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/flags/bind.h"
#include "triplepoint/store/store.h"

namespace triplepoint::cli {
namespace {

constexpr const char* group = "A measured run";

/// What the run's cluster emulates stays; what a core and its memory do is this machine's.
spec::Cluster on_machine(const spec::Cluster& run, spec::Cluster machine) {
  machine.num_nodes = run.num_nodes;
  machine.gpus_per_node = run.gpus_per_node;
  machine.scale_up.domain_size = run.scale_up.domain_size;
  const Seconds launch = machine.scale_out.launch;
  machine.scale_out = run.scale_out;
  machine.scale_out.launch = launch;
  // The trainer holds links to the rate of a message between two.
  machine.scale_out.efficiency = machine.scale_out.all_to_all_efficiency =
      run.scale_out.point_to_point_efficiency;
  machine.scale_out.half_size = {};
  return machine;
}

}  // namespace

Arguments LikeFlags::arguments() {
  return Arguments()
      .group(group)
      .flag("--like", "NAME.run", "simulate the job of this run", into(run_),
            {.words = Words::files})
      .flag("--machine", "FOLDER",
            "machine description from calibrate --this-machine (default: the cluster of the run)",
            into(machine_), {.words = Words::files});
}

Result<void> LikeFlags::check() const {
  if (machine_ && !run_)
    return error(
        "--machine belongs to --like (it is the machine on which that run's job is simulated); add "
        "--like NAME.run, or name the machine with --cluster FOLDER/cluster.toml");
  return {};
}

Result<spec::Job> LikeFlags::job(const spec::Library& library) const {
  const run::Run run = TPT_TRY(run::load(*run_));
  if (!run.manifest.job)
    return error(fmt::format(
        "{} has no job (it may be a recording of another program); name a job.toml instead",
        *run_));
  spec::Job job = *run.manifest.job;
  if (!machine_) return job;
  const Path folder = *machine_;
  job.cluster = on_machine(
      job.cluster, TPT_TRY(spec::load_cluster(library, (folder / "cluster.toml").string())));
  job.stack = TPT_TRY(spec::load_stack(library, (folder / "stack.toml").string()));
  return job;
}

}  // namespace triplepoint::cli
