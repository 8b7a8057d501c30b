// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// What a folder of launch files holds: a row a file, with what is wrong and what was assumed.
Json import_json(const formats::FolderImport&);
void print_import(tui::Console&, const formats::FolderImport&);

}  // namespace triplepoint::study
