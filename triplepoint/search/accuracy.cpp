// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/accuracy.h"

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::search {
namespace {

double number_of(const spec::TomlValue& table, const char* key) {
  const spec::TomlValue* found = table.find(key);
  if (found == nullptr) return 0;
  return found->is(spec::TomlValue::Kind::integer) ? static_cast<double>(found->integer)
                                                   : found->number;
}

}  // namespace

Result<ErrorBand> error_band(const spec::Library& library, std::string_view gpu) {
  const std::string path = library.root + "/calibrations/accuracy.toml";
  const std::string text = TPT_TRY(read_file(path));
  const spec::TomlValue root = TPT_TRY(spec::parse_toml(text, path));
  const spec::TomlValue* list = root.find("step_time");
  if (list == nullptr)
    return error(
        fmt::format("{}: no [[step_time]] (it says how far predictions were off); restore "
                    "the file",
                    path));
  ErrorBand band;
  for (const spec::TomlValue& item : list->items) {
    const spec::TomlValue* name = item.find("gpu");
    const bool all = name == nullptr || name->text == "all";
    if (!all && name->text != gpu) continue;
    band = {.median_pct = number_of(item, "median_pct"),
            .p90_pct = number_of(item, "p90_pct"),
            .rows = static_cast<int64_t>(number_of(item, "rows")),
            .of = all ? "all GPUs" : name->text};
    if (!all) break;
  }
  return band;
}

}  // namespace triplepoint::search
