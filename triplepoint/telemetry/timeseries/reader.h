// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

struct TimeSeriesOptions {
  std::optional<std::string> row;  // of several sets in one table: its config or snapshot_id
  int32_t gpus_per_node = 8;       // where no column says which node
};

/// Whether a file, or each table in a folder, holds readings that another sampler took: CSV of
/// nvidia-smi, rocm-smi, amd-smi, wandb, codecarbon or Zeus (PowerMonitor, its older monitor, the
/// windows of ZeusMonitor), tables of dcgmi dmon and nvidia-smi dmon, JSON of rocm-smi, amd-smi and
/// wandb, range queries of Prometheus. By its first lines; columns.h knows the titles.
bool looks_like_time_series(const Path& source);

/// Why a file that does look like readings is none of these, and what to give instead: the screen
/// of nvidia-smi, one scrape of an exporter, a table without titles or with titles that name no
/// quantity. Nothing of other files.
std::optional<std::string> why_no_time_series(const Path& source);

/// Such a recording as a run of origin `imported`, with the energy of each GPU; see Collector for
/// what is left out and told. Windows of ZeusMonitor are steps.
Result<run::Run> read_time_series(const Path& source, const TimeSeriesOptions& = {});

}  // namespace triplepoint::telemetry
