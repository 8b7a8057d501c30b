// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/app/recording_request.h"

namespace triplepoint::app {

/// A recording of the node by the process that trains, instead of around its command. Of several
/// ranks on a node one records; the others leave their marks in the same folder.
class OwnRecording {
 public:
  /// What it writes and where its marks go are open when this returns.
  static Result<std::unique_ptr<OwnRecording>> begin(const RecordingRequest&);
  OwnRecording(const OwnRecording&) = delete;
  OwnRecording& operator=(const OwnRecording&) = delete;
  OwnRecording(OwnRecording&&) = delete;
  OwnRecording& operator=(OwnRecording&&) = delete;
  ~OwnRecording();

  Path marks() const;
  /// The recording's file; empty where another rank of this node records.
  Path file() const;
  /// Ends it: a summary and remarks for people, or nothing where another rank records. The ranks
  /// beside this one are waited for.
  Result<std::vector<std::string>> finish();

 private:
  struct State;
  explicit OwnRecording(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace triplepoint::app
