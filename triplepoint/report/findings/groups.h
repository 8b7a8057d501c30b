// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// Jobs that may be compared: the same model and task on the same machines.
struct Group {
  std::string id;                     // for anchors: "gpt3-175b-32-h200"
  std::string title;                  // "gpt3-175b on 32 x H200"
  std::vector<const StudyRow*> rows;  // by layout, then variant, then microbatch size

  std::vector<const StudyRow*> that_ran() const;
};

/// In the order in which the study names them. Rows point into the study.
std::vector<Group> groups_of(const Study& study);

/// "gpt3-175b on 32 x H200", with the task if it is no pretraining; "32 x H200, job not known"
/// of a recording that tells no model.
std::string group_title(const StudyRow& row);
/// What the group of the row runs on, "32 x H200", and what runs there, "gpt3-175b".
std::string machine_title(const StudyRow& row);
std::string model_title(const StudyRow& row);

/// The layout, "TP8-PP4"; of a recording of an unknown job its name.
std::string layout_label(const StudyRow& row);
/// "recompute + overlap"; empty if nothing was switched on.
std::string options_label(const StudyRow& row);

/// "TP8-PP4 + recompute, microbatch 2": the row among those of its group.
std::string full_label(const StudyRow& row);
/// "TP8-PP4 + recompute, mbs 2", for tables.
std::string short_label(const StudyRow& row);

/// The same, short, and without what the row above has already said.
std::string label_below(const StudyRow& row, const StudyRow* above);

/// "GPU", "node" or "site": where its joules per token are counted.
std::string energy_scope_of(const StudyRow& row);

/// What a planted fault does is not laid on heat.
bool has_fault(const StudyRow& row);

/// A predicted job that leaves less memory free than predictions of memory err by.
bool is_tight(const StudyRow& row);

/// "microbatch 2"; "TP8-PP4 + recompute".
std::string microbatch_name(const StudyRow& row);
std::string layout_with_options(const StudyRow& row);
/// Whether it hides any communication behind computing.
bool overlaps(const StudyRow& row);

/// Whether the row has another layout than the one above.
bool begins_layout(const StudyRow& row, const StudyRow* above);

/// Class of the style sheet that colours a variant.
std::string variant_style(const StudyRow& row);

/// Lower-case letters, digits and dashes.
std::string identifier(std::string_view text);
/// "kernels-gpt3-175b-on-32-x-h200": the chart of this kind about the row's group.
std::string anchor_of(std::string_view chart, const StudyRow& row);

/// What one may turn to make a job another one.
enum class PlanSetting { layout, microbatch, recompute, overlap, placement, sends };

/// Two jobs of a group that differ in one setting and in nothing else.
struct Pair {
  const StudyRow *from = nullptr, *to = nullptr;
  PlanSetting setting = PlanSetting::layout;
};

/// All ordered pairs of a group. Both are valid; they ran or did not fit.
std::vector<Pair> pairs_of(const Group& group);
/// The same over all groups, of one setting, both ran.
std::vector<Pair> pairs_that_ran(const std::vector<Group>& groups, PlanSetting setting);

/// The pair with the highest value; pairs without one are passed over.
using PairValue = std::function<std::optional<double>(const Pair&)>;
std::optional<Pair> strongest(const std::vector<Pair>& pairs, const PairValue& value);

/// The one's number over the other's; absent where either is not known or not above zero.
std::optional<double> ratio_at(const Pair& pair, std::string_view key);
std::optional<double> ratio_at(const StudyRow& row, const StudyRow& over, std::string_view key);

/// The job with the highest (or lowest) number among those that know it; null if none does.
const StudyRow* highest(const std::vector<const StudyRow*>& rows, std::string_view key);
const StudyRow* lowest(const std::vector<const StudyRow*>& rows, std::string_view key);

/// Sets each row's `condition`: what tells its machine or room from those of other rows with as
/// many of the same GPUs ("inlet 18 °C", "liquid", "4 x 400 Gb/s"). What differs on one machine is
/// named for all, so that a sentence about two says the same of both. Empty where nothing differs.
void label_conditions(Study& study);

}  // namespace triplepoint::report
