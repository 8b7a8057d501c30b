// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/answers/quantities.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// A run as one side of a comparison.
struct Side {
  std::string name;
  StudyRow row;                                      // what is known of it
  std::string fidelity = {};                         // in words
  std::string ended = {};                            // by heat: shutdown_text() of its run
  std::vector<double> step_s = {};                   // length of every step the run knows
  std::map<std::string, std::string> settings = {};  // of its job, in words
  std::optional<answers::WholeRun> whole = {};       // of a run over time

  const metrics::Metrics& metrics() const;  // without values for one that did not run
  bool is_recorded() const { return row.origin != run::Origin::simulated; }
  /// Tokens of the job's batch that marks of a recording do not count; nothing where they agree, or
  /// it is not known.
  std::optional<double> unmarked_job_tokens() const;
};
Side side_of(const run::Run&, metrics::Metrics, std::string name);

/// How a difference is best said: 12 % of a time, 4 degrees of a temperature, 2 points of a share.
enum class ChangeForm { relative, absolute };

/// One number of every side. Absent: that side does not know it.
struct ComparedRow {
  std::string key;        // "step_time_s": the unit is in it; keys are unique in a comparison
  std::string title;      // "step time"
  std::string unit = {};  // as printed: "s", "%"
  double scale = 1;       // printed = value / scale
  answers::Better better = answers::Better::neither;
  ChangeForm says = ChangeForm::relative;
  std::vector<std::optional<double>> values = {};
  std::vector<std::string> whose = {};  // of extremes: "GPU 11 (GPU 3 of node 1)"; else empty

  std::string value_text(std::size_t side) const;
};

/// Side minus base (the first side), and that over the base. Absent where either is unknown;
/// relative also where the base is zero.
struct Difference {
  double absolute = 0;
  std::optional<double> relative;
};
std::optional<Difference> difference(const ComparedRow&, std::size_t side);
/// Whether both are known and apart by one part in a thousand or more.
bool differs(const ComparedRow*, std::size_t side);
/// "+12 %", "-4.1 °C", "same" below one part in a thousand; "–" where it is not known.
std::string difference_text(const ComparedRow&, std::size_t side);
/// The same in the colour of its judgement.
DataCell difference_cell(const ComparedRow&, std::size_t side);
/// 1: good news; -1: bad news; 0: neither, or within a part in a thousand.
int judgement(const ComparedRow&, std::size_t side);

struct ComparedSection {
  std::string name, title;
  std::vector<ComparedRow> rows;  // those that at least one side knows
};

/// Runs side by side. The first one is what the others are compared with.
struct Comparison {
  std::vector<Side> sides;
  std::vector<ComparedSection> sections;
  /// Those that differ, of each side; nothing where it does not know its own.
  std::vector<std::pair<std::string, std::vector<std::optional<std::string>>>> settings;

  const ComparedRow* find(const std::string& key) const;
};
Comparison compare_runs(std::vector<Side> sides);

/// Rows as people read them: title and unit, the value of each side, and the difference.
DataTable section_table(const Comparison&, const ComparedSection&);

/// What changed, in sentences; most important first. A difference which is smaller than what steps
/// of one run differ among themselves is said to be so.
std::vector<std::string> sentences_of(const Comparison&);

/// One job of several studies.
struct ComparedJob {
  std::string name;
  std::vector<std::optional<run::Origin>> origins;
  std::vector<std::string> verdicts;  // "ok", "oom", "invalid", ..., or "" where the study lacks it
  Comparison numbers;                 // of sides that ran; may be empty
};

/// Studies side by side, joined by the names of jobs, in the order of the first study.
struct StudyComparison {
  std::vector<std::string> names;
  std::vector<ComparedJob> jobs;
  std::vector<std::string> scores;  // of suites, in sentences

  /// Geometric mean of side over base of one number, over the jobs that both know.
  struct Mean {
    double ratio = 1;
    int64_t jobs = 0;
  };
  std::optional<Mean> mean_ratio(const std::string& key, std::size_t side) const;
};
StudyComparison compare_studies(const std::vector<Study>&, std::vector<std::string> names);
std::vector<std::string> sentences_of(const StudyComparison&);
/// Jobs with their verdicts and the numbers that one looks at first; of more than `most`, those
/// whose step changed most.
DataTable jobs_table(const StudyComparison&, std::size_t most);

/// The same numbers for machines; docs/report.md has the schema.
Json comparison_json(const Comparison&);
Json comparison_json(const StudyComparison&);
/// One row per number (and job): key, unit, value of each side, differences.
std::string comparison_csv(const Comparison&);
std::string comparison_csv(const StudyComparison&);

/// What changed in sentences, then as charts, then number by number. `all`: also the numbers that
/// are seldom looked at, and every job of studies.
answers::Document comparison_document(const Comparison&, bool all);
answers::Document comparison_document(const StudyComparison&, bool all);

/// How well one study foretold the step times of another, over the jobs that ran in both.
///
///   error of a job = |predicted / measured - 1|
struct PredictionScore {
  std::size_t jobs = 0;
  double median_error = 0, largest_error = 0;
  std::string worst;                       // the job of the largest error
  std::optional<double> rank_correlation;  // Spearman's
};

/// Of the first study and side `side`, if one of them was simulated and the other measured, and at
/// least three jobs ran in both.
std::optional<PredictionScore> score_prediction(const StudyComparison&, std::size_t side);

std::string sentence_of(const PredictionScore& score, const StudyComparison&, std::size_t side);

}  // namespace triplepoint::report
