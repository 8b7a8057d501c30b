// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/finding.h"

#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/pages/html.h"

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

Term term_of(const StudyRow& row, std::string_view key) {
  return {row.name, std::string(key)};
}

}  // namespace

std::string formula_of(const Evidence& evidence) {
  const std::string above = product_of(evidence.above), below = product_of(evidence.below);
  const std::string quotient = below.empty() ? above : above + " / " + below;
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

Finding& Finding::gpu(const StudyRow& row, int32_t index) {
  return name(row, fmt::format("GPU {}", index));
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
  return add(
      {Form::value, {term_of(row, key)}, {}, value, with_unit(significant(value, digits), unit)});
}

Finding& Finding::share(const StudyRow& row, std::string_view key) {
  const double value = known_number(row, key);
  return add({Form::value, {term_of(row, key)}, {}, value, percent(value)});
}

Finding& Finding::share_of(const StudyRow& row, std::string_view key, std::string_view whole) {
  const double value = known_number(row, key) / known_number(row, whole);
  return add({Form::value, {term_of(row, key)}, {term_of(row, whole)}, value, percent(value)});
}

Finding& Finding::instead(const StudyRow& row, const StudyRow& other, std::string_view key,
                          std::string_view unit) {
  constexpr int most_digits = 5;
  const double value = known_number(row, key), before = known_number(other, key);
  for (int digits = 3; digits <= most_digits; ++digits)
    if (significant(value, digits) != significant(before, digits))
      return number(row, key, "", digits).say(" instead of ").number(other, key, unit, digits);
  return say("the same ").number(row, key, unit);
}

Finding& Finding::ratio(std::vector<Term> above, std::vector<Term> below, double value,
                        const RatioWords& words) {
  const Form form = value >= 2 ? Form::value : value >= 1 ? Form::more : Form::less;
  const double shown = form == Form::value ? value : std::abs(value - 1);
  add({form, std::move(above), std::move(below), shown,
       form == Form::value ? significant(shown) + " times" : percent(shown)});
  return say(form == Form::value ? words.times : form == Form::more ? words.more : words.less);
}

Finding& Finding::change(const StudyRow& row, const StudyRow& over, std::string_view key,
                         const RatioWords& words) {
  return ratio({term_of(row, key)}, {term_of(over, key)},
               known_number(row, key) / known_number(over, key), words);
}

Finding& Finding::difference(const StudyRow& row, std::string_view key, const StudyRow& from,
                             std::string_view other, std::string_view unit) {
  const double value = known_number(row, key) - known_number(from, other);
  return add({Form::difference,
              {term_of(row, key)},
              {term_of(from, other)},
              value,
              with_unit(significant(value, 2), unit)});
}

void add_energy_change(Finding& finding, const StudyRow& from, const StudyRow& to,
                       std::string_view key) {
  const bool counts_alike = energy_scope_of(from) == energy_scope_of(to);
  const double ratio = counts_alike ? ratio_at(to, from, key).value_or(1) : 1;
  if (std::abs(ratio - 1) < 0.005) return;
  finding.say(", ").change(to, from, key, {" the ", " more ", " less "});
  finding.say(key == "node_energy_j" ? "node energy" : energy_scope_of(to) + " energy a token");
}

void add_heat_change(Finding& finding, const StudyRow& from, const StudyRow& to) {
  constexpr std::string_view heat = "temperature_c.peak";
  const auto before = number_at(from, heat), after = number_at(to, heat);
  if (!before || !after || std::abs(*after - *before) <= 0.5) return;
  const bool hotter = *after > *before;
  const StudyRow &high = hotter ? to : from, &low = hotter ? from : to;
  finding.say(", ")
      .difference(high, heat, low, heat, "°C")
      .say(hotter ? " hotter at its peak" : " cooler at its peak");
}

}  // namespace triplepoint::report
