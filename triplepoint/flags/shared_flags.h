// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/flags/arguments.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/metrics/economics/bill.h"

namespace triplepoint::flags {

/// A whole number within bounds; others are errors of the command line.
Result<int64_t> read_count(std::string_view text, int64_t least, int64_t most);
template <class T>
Store into_count(T& target, int64_t least, int64_t most = 1'000'000) {
  return [&target, least, most](std::string_view text) -> Result<void> {
    target = static_cast<T>(TPT_TRY(read_count(text, least, most)));
    return {};
  };
}

/// A span of time within bounds. `target`: Seconds, or optional.
Result<Seconds> read_time(std::string_view text, Seconds least, Seconds most);
Store into_time(auto& target, Seconds least = {}, Seconds most = 8760 * unit::h) {
  return into(target,
              [least, most](std::string_view text) { return read_time(text, least, most); });
}

/// Limits of a simulation: less contains no step, and a month is steady.
inline constexpr Seconds shortest_play = 1 * unit::s, longest_play = 720 * unit::h;

/// --threads N, of the verbs that simulate or search.
class ThreadsFlag {
 public:
  explicit ThreadsFlag(std::string help) : help_(std::move(help)) {}

  Argument argument();
  /// As asked for; else all that there are.
  int count() const;
  int count_or(int64_t usual) const { return static_cast<int>(asked_.value_or(usual)); }
  /// For as long as the verb runs: nothing that it calls starts more threads.
  ThreadLimit limit() const { return ThreadLimit(count()); }

 private:
  std::string help_;
  std::optional<int64_t> asked_;
};

/// An error if a fault of the job comes or goes, as no steady state can show; `instead`: what to
/// do.
Result<void> require_lasting_faults(const spec::Job&, std::string_view instead);
/// Ranks that share cores have no power, heat or clock. `what`: "plan".
Result<void> require_power(const spec::Job&, std::string_view what);

/// What --clocks and a search for plans need: a training on GPUs, with sends of one microbatch.
Result<void> require_plannable(const spec::Job&, std::string_view what);

/// `simulate --fault`: what goes wrong while the job runs.
class FaultFlags {
 public:
  Arguments arguments();
  bool given() const { return !faults_.empty(); }
  /// Adds them to those of the job. `over_time`: a transient is asked for; in a steady state only
  /// faults that last have an effect, and others are refused.
  Result<void> apply(spec::Job& job, bool over_time) const;

 private:
  std::vector<std::string> faults_;
};

/// "15T", "300B", "1.4e12": a number of tokens.
Result<double> parse_tokens(std::string_view text);

/// --scope and --pue: where energy counts.
class ScopeFlags {
 public:
  Arguments arguments();
  metrics::EnergyScope scope() const { return scope_; }
  /// Power usage effectiveness: as given, else as the site states it, else `usual`; at least 1.
  Result<double> pue(const spec::Environment&, double usual) const;
  /// Gives the job's site the PUE that the scope needs.
  Result<void> count_energy(spec::Job&, double usual_pue) const;

 private:
  metrics::EnergyScope scope_ = metrics::EnergyScope::site;
  std::optional<double> pue_;
};

/// "every=20000h,factor=1.3,screen=2min[,interval=6h][,start=0.025]".
Result<metrics::SlowGpus> parse_slow_gpus(std::string_view text);

/// --tokens and what belongs to it: what a whole training costs. Rates that are not given are those
/// of data/economics.toml.
class BillFlags {
 public:
  Arguments arguments();
  bool given() const { return tokens_.has_value(); }
  /// Where nothing but a bill needs rates: refuses them without --tokens.
  Result<void> check_alone() const;
  /// By flags, else as the job's site states it, else of data/economics.toml.
  Result<metrics::BillRates> rates(const spec::Library&, const spec::Environment&) const;
  const ScopeFlags& energy() const { return energy_; }
  /// The bill of a job whose step takes so long, and whose devices and nodes draw so much on
  /// average.
  metrics::Bill bill(const spec::Job&, const metrics::BillRates&, Seconds step_time, Watts device,
                     Watts node) const;

 private:
  ScopeFlags energy_;
  std::optional<double> tokens_, price_, gpu_hour_, grid_;
  std::optional<Seconds> mtbf_, checkpoint_, interval_, restart_;
  std::optional<metrics::SlowGpus> slow_;
};

}  // namespace triplepoint::flags
