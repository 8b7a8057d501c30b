// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

namespace triplepoint::study {

/// A job's file, and beside it the trainer's numbers; both are gone when this is.
class JobFile {
 public:
  static Result<JobFile> write(const Path& folder, const std::string& text);
  JobFile(JobFile&& other) noexcept : path_(std::exchange(other.path_, Path())) {}
  JobFile& operator=(JobFile&&) = delete;
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  ~JobFile();
  const Path& path() const { return path_; }
  /// Where the trainer leaves its numbers.
  Path report() const;

 private:
  explicit JobFile(Path path) : path_(std::move(path)) {}
  Path path_;
};

/// Adds what the trainer left in `report` to a recording. An error leaves the recording as it is.
Result<void> add_report_of_trainer(const Path& recording, const Path& report);

/// Each node recorded NAME.HOST.run; together they are NAME.run.
Result<void> merge_nodes(const Path& output);

}  // namespace triplepoint::study
