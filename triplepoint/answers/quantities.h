// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/answers/run_objects.h"

namespace triplepoint::answers {

/// What the value of a quantity is. per_gpu: a list with one value per GPU, or one such list per
/// reason; left out of runs of more than `metrics::most_listed_devices`. object: lists and objects
/// whose keys `about` describes.
enum class Type { text, count, number, truth, per_gpu, object };

/// Which direction is good news.
enum class Better { lower, higher, neither };

/// One quantity of a run: its only description. JSON, CSV, tables, comparisons, charts, the
/// columns of the Python package, the JSON Schema and the reference page are made from it.
struct Quantity {
  std::string_view key;    // path in the object of a run: "power_w.mean"
  std::string_view name;   // flat: "power_mean_w"; empty: only in JSON
  std::string_view unit;   // of the stored number; "share": 0 to 1
  std::string_view label;  // for people: "power of a GPU, mean"; empty: not shown by itself
  std::string_view about;  // its sentence of documentation, if the label is not enough
  Json (*value)(const RunResult&);  // null: not known
  Type type = Type::number;
  Better better = Better::neither;
  int digits = 3;              // significant ones, as people read it
  bool only_compared = false;  // its name is a key of comparisons alone

  /// Of results.csv and of the Python package.
  bool is_column() const { return !name.empty() && !only_compared; }
};

/// When the keys of a group are in the object. A key that is there and not known is null.
enum class Given {
  always,
  of_jobs,       // the job is known
  of_simulated,  // of what the simulation was given
  with_memory,   // the memory of the stages is known
  with_kernels,  // a timeline is known
  with_parts,    // the parts of the step are known
  if_trained,
  if_known,  // null is left out
};

struct QuantityGroup {
  std::string_view name, title;  // "speed", "Speed"
  Given given = Given::if_trained;
  std::span<const Quantity> quantities;
};
/// All quantities of a run, in the order of results.csv.
std::span<const QuantityGroup> quantity_groups();

/// By key or by name; null if there is none.
const Quantity* find_quantity(std::string_view key_or_name);
/// One that exists.
const Quantity& quantity_of(std::string_view key_or_name);
/// Whether the quantities of the group may be asked for.
bool is_given(const QuantityGroup&, const RunResult&);
/// The number of a quantity that exists; absent: not known.
std::optional<double> number_of(std::string_view key_or_name, const RunResult&);

/// How people read it: a share in per cent, energy of a step in MJ, bytes in GiB.
struct ShownUnit {
  std::string_view unit;
  double scale = 1;  // shown = stored / scale
};
ShownUnit shown_unit(const Quantity&);
/// "612 W" of a stored number; a share as `percent` has it.
std::string text_of(const Quantity&, double stored);
/// Lists of numbers, and what compares neighbours, have as many digits.
inline constexpr int digits_of_lists = 4;

/// A column of the tables of jobs: "peak (°C)", "tokens/s".
struct JobColumn {
  std::string_view key, head;  // an empty head: the unit says it
  bool in_sweeps = false;
  int optional = 0;  // as in DataColumn

  const Quantity& quantity() const { return quantity_of(key); }
  std::string title() const;
};
/// What stands at the top of a run; without a headline it has its label.
struct Headline {
  std::string_view key, headline;
};
// What views show that have no room for all quantities, in their order. Lists of all numbers and
// comparisons have every one with a label.
std::span<const JobColumn> job_columns();
std::span<const Headline> headlines();

}  // namespace triplepoint::answers
