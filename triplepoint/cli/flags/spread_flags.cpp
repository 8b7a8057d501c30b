// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/spread_flags.h"

#include "triplepoint/cli/flags/bind.h"

namespace triplepoint::cli {

std::vector<Argument> SpreadFlags::arguments() {
  const std::string group = "A search on many machines";
  return {{.names = "--shard",
           .value = "I/N",
           .help = "search part I of N (0 to N-1) and write the result to -o DIR",
           .group = group,
           .store = [this](std::string_view text) -> Result<void> {
             shard = TPT_TRY(search::parse_shard(text));
             return {};
           }},
          {.names = "--merge",
           .value = "DIR",
           .help = "continue from the parts in DIR",
           .group = group,
           .words = Words::folders,
           .store = into(merge)}};
}

Result<void> SpreadFlags::check(bool has_output, bool has_team) const {
  if (shard && merge)
    return error(
        "--shard and --merge were both given (one searches, the other joins what was "
        "found); keep one");
  if (shard && !has_output)
    return error(
        "--shard was given without -o (the result of the part must be stored); add -o FOLDER");
  if ((shard || merge) && has_team)
    return error(
        "mpirun and --shard or --merge were used together (either spreads the search); "
        "keep one");
  return {};
}

}  // namespace triplepoint::cli
