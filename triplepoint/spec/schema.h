// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {

/// The kinds of input file that have a schema: "job", "study", "model", ...
std::vector<std::string> schema_kinds();

/// JSON Schema (draft 07) of one of these kinds of file, made from the lists of fields.h, which
/// reader and writer walk as well; descriptions are the comments of the structs.
///
/// It refuses what the reader refuses by form: unknown keys, values of a wrong kind, unknown words,
/// missing keys, quantities of another dimension. The reader alone checks ranges, whether values
/// agree, and in a study, whose jobs are joined of several tables, missing keys. Names that the
/// library has are offered, others allowed: a file may be named as well.
Json file_schema(const Library&, std::string_view kind);

}  // namespace triplepoint::spec
