// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace triplepoint::report {

/// The page around a report: style sheet and script of web/, bundled when the program was built.
/// Has the marks {{title}}, {{body}} and {{data}}, each once.
std::string_view page_template();

}  // namespace triplepoint::report
