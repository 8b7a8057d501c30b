// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"

namespace triplepoint::cli {

/// `simulate --like NAME.run [--machine FOLDER]`: the job of a run that was measured, on the
/// machine that `calibrate --this-machine` has described: as many nodes and ranks as the run had,
/// and its fabric.
class LikeFlags {
 public:
  Arguments arguments();
  bool given() const { return run_.has_value(); }
  Result<void> check() const;
  Result<spec::Job> job(const spec::Library&) const;

 private:
  std::optional<std::string> run_, machine_;
};

}  // namespace triplepoint::cli
