// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/groups.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "triplepoint/report/labels.h"

namespace triplepoint::report {
namespace {

constexpr std::size_t longest_name = 28;  // what charts have room for
constexpr std::array<std::string_view, 6> variant_order = {
    "base", "recompute", "selective", "overlap", "recompute+overlap", "selective+overlap"};

std::size_t variant_rank(const StudyRow& row) {
  const std::string variant = variant_label(row.job);
  return static_cast<std::size_t>(std::find(variant_order.begin(), variant_order.end(), variant) -
                                  variant_order.begin());
}

std::string spelled_variant(const StudyRow& row) {
  const std::string variant = variant_label(row.job);
  if (variant == "base") return "";
  std::string text = " + ";
  for (char c : variant)
    text += c == '+' ? std::string(" + ") : std::string(1, c);
  return text;
}

std::string group_title(const StudyRow& row) {
  std::string title = group_label(row.job);
  if (row.job.task != spec::Task::pretrain)
    title += fmt::format(" ({})", spec::name_of(row.job.task));
  return title;
}

/// Layouts keep the order in which the study names them.
void sort_rows(std::vector<const StudyRow*>& rows) {
  std::vector<std::string> layouts;
  const auto place = [&](const StudyRow* row) {
    const std::string label = configuration_label(row->job);
    const auto found = std::find(layouts.begin(), layouts.end(), label);
    return found - layouts.begin();
  };
  for (const StudyRow* row : rows) {
    const std::string label = configuration_label(row->job);
    if (std::find(layouts.begin(), layouts.end(), label) == layouts.end()) layouts.push_back(label);
  }
  std::stable_sort(rows.begin(), rows.end(), [&](const StudyRow* a, const StudyRow* b) {
    if (place(a) != place(b)) return place(a) < place(b);
    if (variant_rank(*a) != variant_rank(*b)) return variant_rank(*a) < variant_rank(*b);
    return a->job.plan.micro_batch_size < b->job.plan.micro_batch_size;
  });
}

}  // namespace

std::vector<const StudyRow*> Group::that_ran() const {
  std::vector<const StudyRow*> ran;
  for (const StudyRow* row : rows)
    if (row->metrics) ran.push_back(row);
  return ran;
}

std::string identifier(std::string_view text) {
  std::string id;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      id += static_cast<char>(std::tolower(byte));
    else if (!id.empty() && id.back() != '-')
      id += '-';
  }
  return id;
}

std::vector<Group> groups_of(const Study& study) {
  std::vector<Group> groups;
  for (const StudyRow& row : study.rows) {
    const std::string title = group_title(row);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return g.title == title; });
    if (group == groups.end()) group = groups.insert(groups.end(), {identifier(title), title, {}});
    group->rows.push_back(&row);
  }
  for (Group& group : groups)
    sort_rows(group.rows);
  return groups;
}

std::string full_label(const StudyRow& row) {
  return fmt::format("{}{}, microbatch {}", configuration_label(row.job), spelled_variant(row),
                     row.job.plan.micro_batch_size);
}

std::string short_label(const StudyRow& row) {
  return fmt::format("{}{}, mbs {}", configuration_label(row.job), spelled_variant(row),
                     row.job.plan.micro_batch_size);
}

bool begins_layout(const StudyRow& row, const StudyRow* above) {
  return above == nullptr || configuration_label(row.job) != configuration_label(above->job);
}

std::string label_below(const StudyRow& row, const StudyRow* above) {
  const bool new_layout = begins_layout(row, above);
  // Alike in all that labels say (a sweep of NICs, of seeds): only the job's name tells them apart.
  if (!new_layout && variant_label(row.job) == variant_label(above->job) &&
      row.job.plan.micro_batch_size == above->job.plan.micro_batch_size) {
    return row.name.size() > longest_name ? row.name.substr(0, longest_name - 1) + "…" : row.name;
  }
  const bool new_variant = new_layout || variant_label(row.job) != variant_label(above->job);
  std::string label;
  if (new_layout) label = configuration_label(row.job);
  if (new_variant) label += spelled_variant(row);
  if (!new_layout && label.empty() && new_variant) label = "base";
  if (label.starts_with(" ")) label.erase(0, 1);
  if (row.job.plan.micro_batch_size != 1 || !new_variant) {
    label += fmt::format("{}mbs {}", label.empty() ? "" : " ", row.job.plan.micro_batch_size);
  }
  return label;
}

std::string variant_style(const StudyRow& row) {
  return fmt::format("v{}", std::min<std::size_t>(variant_rank(row), variant_order.size()));
}

}  // namespace triplepoint::report
