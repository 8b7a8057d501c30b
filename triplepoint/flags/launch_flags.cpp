// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/launch_flags.h"

#include "triplepoint/base/text.h"

#include "triplepoint/flags/bind.h"
#include "triplepoint/formats/script_run.h"

namespace triplepoint::flags {

Arguments LaunchFlags::arguments() {
  return Arguments()
      .flag("--ignore", "KEY,...", "unknown keys of the file to leave out",
            [this](std::string_view text) -> Result<void> {
              for (std::string& key : TPT_TRY(split_list(text)))
                ignored_.push_back(std::move(key));
              return {};
            })
      .toggle("--run-script",
              "run a launch script in a sandbox (bubblewrap) and read what it launches",
              run_script_)
      .flag("--env", "NAME=VALUE", "environment variable for a launch script; may be repeated",
            into(environment_))
      .word("ARGS", "arguments of a launch script, after --", into(arguments_), {.repeats = true});
}

Result<void> LaunchFlags::add_to(formats::ImportHints& hints) const {
  hints.ignored.insert(ignored_.begin(), ignored_.end());
  hints.script.arguments = arguments_;
  for (const std::string& each : environment_) {
    const std::size_t equals = each.find('=');
    if (equals == 0 || equals == each.npos)
      return error("--env {} sets nothing; write NAME=VALUE", each);
    hints.script.variables[each.substr(0, equals)] = each.substr(equals + 1);
  }
  if (run_script_)
    hints.run_script = [](const std::string& path, const formats::ScriptWorld& world) {
      return formats::run_script(path, world);
    };
  return {};
}

}  // namespace triplepoint::flags
