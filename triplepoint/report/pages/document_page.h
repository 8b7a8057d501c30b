// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/json.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {

/// The page of an answer. `data`: for the page's script.
std::string document_page(const answers::Document&, const Json& data = Json::object());

/// Its parts: title, facts and key figures; a section.
std::string head_html(const answers::Document&);
std::string section_html(const answers::Section&);

/// With its drawing and legend.
Drawing drawn(const answers::Figure&, bool in_wide_card = false);

}  // namespace triplepoint::report
