// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/finding.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/number_text.h"

#include "triplepoint/report/groups.h"
#include "triplepoint/report/html.h"
#include "triplepoint/report/keys.h"

namespace triplepoint::report {
namespace {

using Form = Evidence::Form;

std::string product_of(const std::vector<Term>& terms) {
  std::string text;
  for (const Term& term : terms) {
    if (!text.empty()) text += " x ";
    text += term.job.empty() ? term.key : term.key + " of " + term.job;
  }
  return text;
}

std::string with_unit(std::string number, std::string_view unit) {
  if (unit.empty()) return number;
  return number + " " + std::string(unit);
}

}  // namespace

std::string formula_of(const Evidence& evidence) {
  const std::string above = product_of(evidence.above), below = product_of(evidence.below);
  std::string quotient = below.empty() ? above : above + " / " + below;
  switch (evidence.form) {
    case Form::value:
      return quotient;
    case Form::more:
      return quotient + " - 1";
    case Form::less:
      return "1 - " + quotient;
    case Form::difference:
      return above + " - " + below;
  }
  return quotient;
}

Finding& Finding::say(std::string_view words) {
  text_ += words;
  html_ += escape(words);
  return *this;
}

Finding& Finding::name(const StudyRow& row, std::string_view as) {
  text_ += as;
  const std::string label = escape(as), job = escape(row.name);
  html_ += row.page.empty() ? fmt::format("<span data-job=\"{}\">{}</span>", job, label)
                            : fmt::format("<a class=\"run\" href=\"{}\" data-job=\"{}\">{}</a>",
                                          escape(row.page), job, label);
  names_.push_back({std::string(as), row.name});
  return *this;
}

Finding& Finding::name(const StudyRow& row) {
  return name(row, full_label(row));
}

Finding& Finding::group(const StudyRow& row) {
  const std::string title = group_title(row);
  text_ += title;
  html_ += escape(title);
  names_.push_back({title, row.name});
  return *this;
}

Finding& Finding::group_and_name(const StudyRow& row) {
  return group(row).say(", ").name(row);
}

Finding& Finding::add(Evidence evidence) {
  text_ += evidence.printed;
  html_ += fmt::format("<data value=\"{}\" title=\"{}\">{}</data>", evidence.value,
                       escape(formula_of(evidence)), escape(evidence.printed));
  evidence_.push_back(std::move(evidence));
  return *this;
}

Finding& Finding::number(const StudyRow& row, std::string_view key, std::string_view unit,
                         int digits) {
  const double value = known_number(row, key);
  return add({Form::value,
              {{row.name, std::string(key)}},
              {},
              value,
              with_unit(significant(value, digits), unit)});
}

Finding& Finding::share(const StudyRow& row, std::string_view key) {
  const double value = known_number(row, key);
  return add({Form::value, {{row.name, std::string(key)}}, {}, value, percent(value)});
}

Finding& Finding::compare(Form form, Term above, Term below, double value) {
  const std::string printed = form == Form::value ? significant(value) + " times" : percent(value);
  return add({form, {std::move(above)}, {std::move(below)}, value, printed});
}

Finding& Finding::times(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const std::string name(key);
  return compare(Form::value, {row.name, name}, {over.name, name},
                 known_number(row, key) / known_number(over, key));
}

Finding& Finding::more(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const std::string name(key);
  return compare(Form::more, {row.name, name}, {over.name, name},
                 known_number(row, key) / known_number(over, key) - 1);
}

Finding& Finding::less(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const std::string name(key);
  return compare(Form::less, {row.name, name}, {over.name, name},
                 1 - known_number(row, key) / known_number(over, key));
}

Finding& Finding::difference(const StudyRow& row, const StudyRow& from, std::string_view key,
                             std::string_view unit) {
  const double value = known_number(row, key) - known_number(from, key);
  const std::string name(key);
  return add({Form::difference,
              {{row.name, name}},
              {{from.name, name}},
              value,
              with_unit(significant(value, 2), unit)});
}

Finding& Finding::share_of(const StudyRow& row, std::string_view key, std::string_view whole) {
  const double value = known_number(row, key) / known_number(row, whole);
  return add({Form::value,
              {{row.name, std::string(key)}},
              {{row.name, std::string(whole)}},
              value,
              percent(value)});
}

Finding& Finding::more_than(const StudyRow& row, std::string_view key, std::string_view other) {
  return compare(Form::more, {row.name, std::string(key)}, {row.name, std::string(other)},
                 known_number(row, key) / known_number(row, other) - 1);
}

Finding& Finding::less_than(const StudyRow& row, std::string_view key, std::string_view other) {
  return compare(Form::less, {row.name, std::string(key)}, {row.name, std::string(other)},
                 1 - known_number(row, key) / known_number(row, other));
}

}  // namespace triplepoint::report
