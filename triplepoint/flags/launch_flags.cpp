// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/launch_flags.h"

#include "triplepoint/base/text.h"

#include "triplepoint/flags/bind.h"
#include "triplepoint/study/script_run.h"

namespace triplepoint::flags {

Arguments LaunchFlags::arguments() {
  return Arguments()
      .flag("--ignore", "KEY,...", "keys of the file that do not matter, though they are not known",
            [this](std::string_view text) -> Result<void> {
              for (std::string& key : TPT_TRY(split_list(text)))
                ignored_.push_back(std::move(key));
              return {};
            })
      .toggle("--run-script",
              "run a launch script in a sandbox (bubblewrap) and read what it launches",
              run_script_)
      .flag("--env", "NAME=VALUE", "variable of the script that runs; may be repeated",
            into(environment_))
      .word("ARGS", "of the script that runs, after --", into(arguments_), {.repeats = true});
}

Result<void> LaunchFlags::add_to(formats::ImportHints& hints) const {
  hints.ignored.insert(ignored_.begin(), ignored_.end());
  if (!run_script_ && !(arguments_.empty() && environment_.empty()))
    return error(
        "arguments or --env of a script were given, but it is read, not run; add --run-script");
  if (run_script_)
    hints.run_script = [how = study::ScriptRun{arguments_, environment_}](const std::string& path) {
      return study::run_script(path, how);
    };
  return {};
}

}  // namespace triplepoint::flags
