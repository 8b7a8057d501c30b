// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::trainer {

/// What must be the same for a training to go on as if nothing had happened. The layout may change,
/// and the learning rate.
struct TrainIdentity {
  uint64_t seed = 1;
  std::string data;                      // data_identity()
  std::map<std::string, int64_t> batch;  // global_batch_size, sequence_length
  std::map<std::string, int64_t> model;  // sizes by the name that job.toml gives them
};

TrainIdentity identity_of(const spec::Job&, uint64_t seed, std::string data);

/// "synthetic", or size and checksum of the file's begin and end: a file may be moved.
Result<std::string> data_identity(const std::string& data);

/// Names the files of a checkpoint; its text contains its own checksum.
struct Manifest {
  int64_t step = 0;
  double loss = 0;
  TrainIdentity identity;
  std::vector<uint64_t> checksums;  // of the ranks' files, by rank
};

inline constexpr const char* manifest_name = "manifest.json";

std::string manifest_text(const Manifest&);

/// Of a folder step-NNNNNNNN. Refused by name: another format, a changed text, another step than
/// the folder's.
Result<Manifest> read_manifest(const Path& folder);

/// Refuses to go on with other weights, data or batches than the checkpoint's.
Result<void> check_identity(const Path& folder, const TrainIdentity& saved,
                            const TrainIdentity& now);

/// FNV-1a over words of eight bytes, then over the rest.
uint64_t checksum(std::string_view text);

}  // namespace triplepoint::trainer
