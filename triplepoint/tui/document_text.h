// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/answers/document.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// Title, verdict, key figures; then each section: its tables, and what is said of them.
void print_document(Console&, const answers::Document&);

/// Behind an empty line.
void print_section(Console&, const answers::Section&);

/// The key figures below each other.
std::string key_figures_text(const Console&, const std::vector<answers::KeyFigure>&);

}  // namespace triplepoint::tui
