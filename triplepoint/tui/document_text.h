// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/answers/document.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// Title, verdict, key figures; then each section: its tables, and what is said of them.
void print_document(Console&, const answers::Document&);

/// Behind an empty line.
void print_section(Console&, const answers::Section&);

/// The key figures below each other.
std::string key_figures_text(const Console&, const std::vector<answers::KeyFigure>&);

/// What an analysis found: the answer, these of its tables, and what to know of them. Empty tables
/// are left out unless they were asked for.
void print_trace_report(Console&, const trace_report::TraceReport&,
                        const std::vector<const DataTable*>& tables, bool asked_for);

}  // namespace triplepoint::tui
