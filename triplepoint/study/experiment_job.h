// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::study {

/// The job of an experiment after the configuration in its folder: a NeMo YAML, as its launcher
/// leaves one (of several that of the folder's name, else the first), or the hparams.yaml of NeMo's
/// logger, which does not say the nodes: they are those of `run`, the recording. The job's notes
/// name the file. Nothing where there is no configuration; an error where it cannot be read, is of
/// a job that could not run, or has fewer GPUs than the recording.
std::optional<Result<spec::Job>> configured_job(const spec::Library&, const Path& folder,
                                                const run::Run& run);

/// As many as the recording knows of.
int64_t ranks_of(const run::Run&);

/// An error where a recording is of more ranks than the job, which `source` names, has GPUs.
Result<void> require_ranks(const std::string& source, const spec::Job&, int64_t ranks);

/// Writes into the run of an experiment what its configuration says (describe_with_job); a note
/// says why not, where it cannot be the job's.
void join_job(run::Run& run, const Path& folder);

}  // namespace triplepoint::study
