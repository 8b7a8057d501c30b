// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

enum class Verdict { ok, oom, shutdown, invalid };
std::string_view name_of(Verdict verdict);

/// One job of a study and what came of it.
struct StudyRow {
  std::string name;  // unique in its study
  spec::Job job;
  std::vector<spec::Diagnosis> diagnoses;
  Verdict verdict = Verdict::invalid;
  std::optional<metrics::Metrics> metrics;  // if it ran
  std::vector<run::MemoryUse> memory;       // per stage; of an invalid job, nothing
  std::optional<Bytes> memory_limit;
  int64_t gpus_per_node = 8;
  std::vector<int32_t> slots;     // of each device, in the order of the metrics' per-GPU lists
  std::vector<int32_t> nodes;     // the same
  std::vector<std::string> gpus;  // run::device_numbers()
  bool has_job = true;            // a recording of an unknown command has none: `job` says nothing
  std::string
      inferred_machine;  // what devices tell of one without a job: "32 x H200"; empty: nothing
  run::Origin origin = run::Origin::simulated;
  std::string page;       // relative link to the page of its run; empty: there is none
  std::string batch;      // ", batch 64" where others of its group have another
  std::string condition;  // what tells its room or machine from others' (conditions.h)
};

/// A study with its results: what tables and the page show.
struct Study {
  std::string name, title, about;
  std::string producer;  // "triplepoint 0.1.0"
  std::vector<StudyRow> rows;
  std::optional<metrics::SuiteScore> score = {};
};

/// A row of a job that was not simulated because it is invalid.
StudyRow invalid_row(const spec::StudyJob& job);
/// A row of a job and its run.
StudyRow result_row(const spec::StudyJob& job, const run::Run& run, metrics::Metrics metrics);

/// The stage that needs most memory; nothing for an invalid job.
std::optional<std::size_t> worst_stage(const StudyRow& row);

/// How many jobs came to what.
struct Summary {
  std::size_t jobs = 0, ok = 0, oom = 0, invalid = 0;
};
Summary summary_of(const Study& study);

/// The number that results.json has under a dotted key of the job's object ("power_w.mean"), from
/// the row itself; absent if the job does not know it. Throttle reasons are "throttle.<reason>",
/// purposes of energy "energy_ledger_j.<purpose>". All numbers of the catalogue
/// (answers/quantities.h) are known.
std::optional<double> number_at(const StudyRow& row, std::string_view key);

/// The same where it has been asked before.
double known_number(const StudyRow& row, std::string_view key);

}  // namespace triplepoint::report
