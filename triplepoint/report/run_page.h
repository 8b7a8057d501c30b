// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

/// The page of one run: key figures, kernel seconds and memory by stage, a map of the devices,
/// power, temperature and clock over time. One HTML file that needs no network.
std::string run_page(const run::Run& run, const metrics::Metrics& metrics);

}  // namespace triplepoint::report
