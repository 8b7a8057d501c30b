// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// A study with made-up but plausible results, for tests of pages and tables. Four layouts, four
/// variants, a microbatch sweep, jobs without room, and an invalid job.
Study sample_study();

/// One job of it with series over time, for tests of the run page.
run::Run sample_run();

}  // namespace triplepoint::report
