// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// One thing, and every number of its file.
struct LibraryEntry {
  std::string kind, about;
  std::vector<spec::Provenance> numbers;
};

Json shown_json(const LibraryEntry&);
void print_shown(tui::Console&, const std::string& name, const LibraryEntry&);

/// A study with its jobs.
Json study_json(const spec::StudyPlan&);
void print_study(tui::Console&, const spec::StudyPlan&);

}  // namespace triplepoint::study
