// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/answers/document.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::app {

/// What a folder of launch files holds: a row a file, with what is wrong and what was assumed.
answers::Document import_document(const formats::FolderImport&);

}  // namespace triplepoint::app
