// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "triplepoint/run/run.h"
#include "triplepoint/run/store_database.h"

namespace triplepoint::run {

// The plain tables of a run file: everything but spans and series. Each pair is one table, or a few
// that belong together.

Result<bool> write_manifest(const Database&, const Run&);
Result<bool> read_manifest(const Database&, Run&);

Result<bool> write_devices(const Database&, const Run&);  // devices, summaries
Result<bool> read_devices(const Database&, Run&);

// Where series come from, names of nodes, clock anchors. Runs of before have none.
Result<bool> write_sources(const Database&, const Run&);
Result<bool> read_sources(const Database&, Run&);

Result<bool> write_steps(const Database&, const Run&);  // steps, memory
Result<bool> read_steps(const Database&, Run&);

Result<bool> write_metrics(const Database&, const std::map<std::string, double>&);
Result<std::map<std::string, double>> read_metrics(const Database&);

}  // namespace triplepoint::run
