// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "triplepoint/study/runner.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// Whose pages lie beside their runs, one click from the study's page: a page is up to a megabyte.
enum class RunPages { none, best, all };

/// The fastest, the thriftiest and the hottest job of each model on each machine.
std::vector<std::size_t> best_rows(const report::Study& study);

/// Writes runs/NAME.html for the runs of the results that are chosen, unless the page is there
/// already, and links every row to its page if there is one. `finished` is told after each page,
/// from any thread.
Result<void> write_run_pages(StudyResults& results, const Path& folder, RunPages which, int threads,
                             const std::function<void()>& finished);

/// The same, with a bar.
Result<void> write_run_pages(tui::Console&, StudyResults& results, const Path& folder,
                             RunPages which, int threads);

/// Links every row to the page of its run, where one lies beside it.
void link_run_pages(StudyResults& results, const Path& folder);

/// The page of a run's file.
Path page_of(Path run_file);

}  // namespace triplepoint::study
