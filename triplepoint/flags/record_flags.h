// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/flags/arguments.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/study/recording_request.h"

namespace triplepoint::flags {

/// What a recording is asked besides the program and the file.
class RecordFlags {
 public:
  Arguments arguments();
  /// Without command and output.
  Result<study::RecordingRequest> request() const;

 private:
  Result<void> check() const;
  void set_steps(study::RecordingRequest& request) const;

  std::optional<Seconds> interval_;
  std::optional<std::string> steps_, job_file_;
  std::optional<int64_t> warmup_;
  bool strict_ = false, quiet_ = false;
  SensorFlags sensors_;
};

}  // namespace triplepoint::flags
