// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/unit_text.h"

namespace csv_target {

/// What the writer makes of a text: a formula gets an apostrophe in front.
std::string written(std::string_view cell) {
  return (triplepoint::is_formula(cell) ? "'" : "") + std::string(cell);
}

/// Whatever is read as a table is written and read back as the same table.
extern "C" int fuzz_csv(const std::uint8_t* data, std::size_t size) {
  const auto table =
      triplepoint::CsvTable::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!table) return 0;
  triplepoint::CsvWriter writer(table->header());
  for (std::size_t row = 0; row < table->rows(); ++row) {
    for (std::size_t column = 0; column < table->header().size(); ++column) {
      (void)table->number(row, column);
      writer.cell(table->at(row, column));
    }
    writer.end_row();
  }
  const auto again = triplepoint::CsvTable::parse(writer.text(), "again");
  TPT_ENSURE(again && again->rows() == table->rows());
  for (std::size_t column = 0; column < table->header().size(); ++column)
    TPT_ENSURE(again->header()[column] == written(table->header()[column]));
  for (std::size_t row = 0; row < table->rows(); ++row)
    for (std::size_t column = 0; column < table->header().size(); ++column)
      TPT_ENSURE(again->at(row, column) == written(table->at(row, column)));
  return 0;
}

}  // namespace csv_target

/// Whatever is read as JSON is written as JSON.
extern "C" int fuzz_json(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = triplepoint::parse_json(text, "fuzz");
  if (json) TPT_ENSURE(triplepoint::parse_json(triplepoint::json_text(*json), "again"));
  return 0;
}

namespace unit_text_target {

namespace tpt = triplepoint;

/// Whatever is read as a quantity is printed and read back as the same quantity.
extern "C" int fuzz_unit_text(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)tpt::parse_quantity<tpt::Celsius>(text);
  const tpt::Result<tpt::Measured> measured = tpt::parse_measured(text);
  if (!measured) return 0;
  const std::string printed = tpt::exact_text(measured->in_base_units, measured->dim);
  TPT_ENSURE(tpt::parse_in_base_units(printed, measured->dim) == measured->in_base_units);
  return 0;
}

}  // namespace unit_text_target
