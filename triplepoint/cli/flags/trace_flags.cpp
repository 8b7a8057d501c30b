// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/trace_flags.h"

#include "triplepoint/flags/bind.h"

namespace triplepoint::cli {

Arguments trace_flags(trace_report::TraceOptions& options) {
  return Arguments()
      .group("Traces")
      .flag("--ranks", "LIST", "only these: 0,2,8-15; or where names say it: 'trace_{rank}.json'",
            into(options.ranks))
      .flag("--step", "STEP", "only this one: a number from 1, or a name", into(options.step))
      .flag("--rules", "RULES", "kernel classes: default, or a file like data/rules/default.toml",
            into(options.rules), {.words = Words::files})
      .flag("--align", "WHEN",
            "align the clocks of ranks at the ends of collectives (default auto: if they differ)",
            into(options.align), {.choices = {"auto", "always", "never"}})
      .flag("-j,--threads", "N", "files read in parallel (default: all cores)",
            into(options.threads))
      .flag("--memory", "SIZE", "memory limit; host spans are dropped first: 4 GB",
            into_quantity(options.memory))
      .toggle("--no-cache", "do not read or write the trace cache", options.no_cache);
}

Result<void> check_trace_flags(const trace_report::TraceOptions& options) {
  if (options.threads && (*options.threads < 1 || *options.threads > 4096))
    return error("--threads: between 1 and 4096");
  return {};
}

}  // namespace triplepoint::cli
