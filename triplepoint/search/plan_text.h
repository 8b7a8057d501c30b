// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/search/finalists.h"

namespace triplepoint::search {

/// "TP8 PP4 VPP6, mbs 2, ZeRO-1, recompute full (3), SP, overlap tp+dp".
std::string plan_text(const spec::Plan&, const Layout&);
/// The same, with the power limit that the plan needs: "..., 600 W".
std::string plan_text(const Finalist&);
/// "tp+dp"
std::string overlap_text(const spec::Plan&);

}  // namespace triplepoint::search
