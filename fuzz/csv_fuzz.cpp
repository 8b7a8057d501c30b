// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/expect.h"

using triplepoint::CsvTable;
using triplepoint::CsvWriter;

/// Whatever is read as a table is written and read back as the same table.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto table =
      CsvTable::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!table) return 0;
  CsvWriter writer(table->header());
  for (std::size_t row = 0; row < table->rows(); ++row) {
    for (std::size_t column = 0; column < table->header().size(); ++column) {
      (void)table->number(row, column);
      writer.cell(table->at(row, column));
    }
    writer.end_row();
  }
  const auto again = CsvTable::parse(writer.text(), "again");
  TPT_ENSURE(again && again->rows() == table->rows() && again->header() == table->header());
  for (std::size_t row = 0; row < table->rows(); ++row)
    for (std::size_t column = 0; column < table->header().size(); ++column)
      TPT_ENSURE(again->at(row, column) == table->at(row, column));
  return 0;
}
