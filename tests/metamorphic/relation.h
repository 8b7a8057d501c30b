// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metamorphic {

/// What became of a job in thermal steady state.
struct Outcome {
  run::Run run;
  metrics::Metrics metrics;  // of a job that trained
  bool trained = false;      // neither memory nor heat forbade it
  const spec::Job& job() const { return *run.manifest.job; }
};
Outcome outcome_of(const spec::Job& job);

/// By how much a law is broken; at most zero: it holds. Nothing: it says nothing of these two.
using Excess = std::optional<double> (*)(const Outcome& before, const Outcome& after);

/// How much is allowed, in the unit of the excess.
struct Slack {
  double (*of)(const Outcome& before, const Outcome& after);
  const char* name;
};

/// What a change may and may not do to a job.
struct Law {
  const char* name;
  Excess excess;
  const Slack* slack = nullptr;  // absent: nothing is allowed
};

/// False: there is nothing to change in this job.
using Change = bool (*)(spec::Job&);

struct Relation {
  const char* change_name;
  Change change;
  std::vector<Law> laws;
  // Made in both jobs first, where the laws ask for it; false: they do not speak of this job.
  Change prepare = nullptr;
};

/// What holds of one job, or of the same question asked in another way.
struct Identity {
  const char* name;
  std::optional<double> (*excess)(const spec::Job&, const Outcome&);
  double tolerance = 0;
  const char* allowed = "";  // the tolerance in words
  uint64_t once_in = 1;      // an expensive one is checked on every n-th job
};

const std::vector<Relation>& room_relations();
const std::vector<Relation>& machine_relations();
const std::vector<Relation>& work_relations();
const std::vector<Relation>& layout_relations();
const std::vector<Relation>& spelling_relations();
const std::vector<Identity>& identities();
const std::vector<Identity>& other_ways();

/// One law, on all jobs that it says something of.
struct Tally {
  std::string name, allowed;
  int64_t jobs = 0;
  std::vector<std::string> violations;  // a sentence each, with the job's seed
};

/// Checks on the jobs of seeds 1 to `jobs`; in the order of the list.
std::vector<Tally> check_relations(const std::vector<Relation>&, uint64_t jobs);
std::vector<Tally> check_identities(const std::vector<Identity>&, uint64_t jobs);

/// A job that can be started and fits in memory, drawn with a seed: model, machine, software,
/// layout, sharding, recomputation, overlap, batch, room, limits, faults; four in five train, the
/// rest adapt or answer. Equal seeds give equal jobs.
spec::Job random_job(uint64_t seed);

}  // namespace triplepoint::metamorphic
