// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// "gpt3-175b on 32 x H200", with the task if it is no pretraining; "32 GPUs, job not known" of
/// recordings.
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

/// Whether the row has another layout than the one above.
bool begins_layout(const StudyRow& row, const StudyRow* above);

/// Class of the style sheet that colours a variant.
std::string variant_style(const StudyRow& row);

/// Lower-case letters, digits and dashes.
std::string identifier(std::string_view text);

}  // namespace triplepoint::report
