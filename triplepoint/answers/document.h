// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json.h"

#include "triplepoint/answers/figures.h"

namespace triplepoint::answers {

/// One sentence.
struct Remark {
  enum class Kind { finding, note, warning, command };
  std::string text;
  Kind kind = Kind::finding;
  std::string shown_by = {};  // id of the figure or section that shows why
};

/// Remarks, figures and tables about one thing. The name of a table is its key in JSON; a table
/// without a name is for people alone.
struct Section {
  std::string id, title;  // without a title what it holds stands by itself
  std::vector<Remark> remarks = {};
  std::vector<Figure> figures = {};
  std::vector<DataTable> tables = {};
  bool filtered = false;  // of its many jobs one wants to see some
};

/// What is said of a result, once. Text (tui/document_text.h), page (report/pages/document_page.h),
/// JSON and CSV are views of it: whatever one of them knows, the others know, but that only pages
/// draw figures and only programs read `numbers`.
struct Document {
  std::string kind;     // "plan": what was done
  std::string title;    // of what: "llama3-70b on 64 x H100, batch 512"
  std::string facts;    // how the answer was found, and what holds for all of it
  std::string verdict;  // what to do and what it gains, or that nothing is worth doing
  std::vector<KeyFigure> key_figures = {};
  std::vector<Section> sections = {};
  Json numbers = Json::object();  // more than people read, by key
};

/// `numbers`, the verdict, and the rows of each named table whose key `numbers` does not have.
Json document_json(const Document&);
/// The table of this name, or the first that has one; empty without it.
std::string document_csv(const Document&, std::string_view table = {});

}  // namespace triplepoint::answers
