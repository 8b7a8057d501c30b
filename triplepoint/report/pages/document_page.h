// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/json.h"

#include "triplepoint/answers/document.h"

namespace triplepoint::report {

/// The page of an answer. `data`: for the page's script.
std::string document_page(const answers::Document&, const Json& data = Json::object());

/// The drawing with its legend.
std::string drawing_of(const answers::Figure&);

}  // namespace triplepoint::report
