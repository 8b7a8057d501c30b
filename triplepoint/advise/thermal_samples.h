// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/advise/thermal_groups.h"

namespace triplepoint::advise {

/// What a run, simulated or recorded, shows of each device: means over its detailed steps.
std::vector<ThermalSample> thermal_samples(const run::Run&);

struct TableChoice {
  std::optional<std::string> row;  // of the tables in one file: its config or snapshot_id
  int64_t gpus_per_node = 8;       // where no column says which node
};

/// Samples of a table of temperatures, in either of two forms:
///
///  - a row per GPU (and time): a column of its index (index, gpu_index, gpu, device, local_rank),
///    any of temperature (temperature.gpu, temp_c, temperature_c, die_c), power (power.draw,
///    power_w), clock (clocks.sm, clocks.current.sm, sm_mhz, sm_clock_mhz), throttled (share), and
///    node (node, host, hostname); what nvidia-smi --query-gpu writes as CSV, units in titles and
///    cells included. Indices from gpus_per_node on count through the nodes;
///  - a row per configuration, a column per GPU (gpu0, gpu1, ...), and a column `panel` that says
///    what is in the row (a name with temp, throttl, clock or power); without it temperatures.
///    Rows of averages over the others ("Avg" in `config`) are left out.
///
/// Rows are told apart by `config` or `snapshot_id`. Tables with a row per GPU that hold several
/// sets ask for a choice; of the other form all sets count, as repeated samples.
Result<std::vector<ThermalSample>> read_thermal_table(const CsvTable&, const TableChoice& = {});

}  // namespace triplepoint::advise
