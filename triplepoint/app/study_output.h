// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/watch.h"

#include "triplepoint/app/runner.h"

namespace triplepoint::app {

/// Whose pages lie beside their runs, one click from the study's page: a page is up to a megabyte.
enum class RunPages { none, best, all };

/// The fastest, the thriftiest and the hottest job of each model on each machine.
std::vector<std::size_t> best_rows(const report::Study& study);

/// Writes runs/NAME.html for the runs of the results that are chosen, unless the page is there
/// already, and links every row to its page if there is one.
Result<void> write_run_pages(const Watch&, StudyResults& results, const Path& folder,
                             RunPages which, int threads);

/// What jobs ask for in vain or against themselves: each once, with a job.
std::vector<std::string> warnings_of(const report::Study& study);

}  // namespace triplepoint::app
