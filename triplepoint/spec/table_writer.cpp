// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/table_writer.h"

namespace triplepoint::spec {

std::string TableWriter::text() const {
  if (path_.empty()) return lines_ + tables_;
  return fmt::format("\n[{}]\n{}{}", path_, lines_, tables_);
}

void TableWriter::write(std::string_view key, const std::array<double, op_class_count>& values) {
  std::string list;
  for (std::size_t i = 0; i < values.size(); ++i)
    list += fmt::format("{} = {}, ", enum_names<OpClass>[i], values[i]);
  list.resize(list.size() - 2);
  lines_ += fmt::format("{} = {{ {} }}\n", key, list);
}

std::string TableWriter::on_one_line() const {
  std::string result = lines_.substr(0, lines_.size() - 1);
  for (std::size_t at = result.find('\n'); at != std::string::npos; at = result.find('\n'))
    result.replace(at, 1, ", ");
  return result;
}

}  // namespace triplepoint::spec
