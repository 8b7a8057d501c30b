// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/flags/arguments.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/search/plan_outcome.h"
#include "triplepoint/search/search.h"
#include "triplepoint/search/space.h"

namespace triplepoint::flags {

/// What is searched for: the goal, the limits, the space, and the part of the space.
class SearchFlags {
 public:
  Arguments arguments();
  Result<search::Space> space(const spec::Job& base) const;
  search::Objective objective(const spec::Job& base, const metrics::BillRates&,
                              metrics::EnergyScope) const;
  /// `margin`: share of a GPU's memory that stays free where no flag says how much.
  search::Limits limits(const spec::Job& base, metrics::EnergyScope, double margin) const;
  /// As by --fix.
  void fix(std::string_view list);

 private:
  std::string goal_ = "throughput", reach_ = "launchable", fix_;
  search::Limits limits_;
  std::optional<search::Headroom> headroom_;
};

/// What a search for plans is asked besides its job.
class PlanFlags {
 public:
  Arguments search() { return search_.arguments(); }
  Arguments ranking();
  Arguments bill() { return bill_.arguments(); }
  Argument threads() { return threads_.argument(); }

  SearchFlags& searched() { return search_; }
  const BillFlags& billed() const { return bill_; }
  int thread_count() const { return threads_.count(); }
  ThreadLimit thread_limit() const { return threads_.limit(); }
  /// The best plans of a job, with what their answer rests on. `top`: how many, in place of --top.
  Result<search::PlanOutcome> outcome(const spec::Library&, spec::Job base, const Watch&,
                                      std::optional<size_t> top = {}) const;

 private:
  Result<search::PlanQuestion> question(spec::Job base, const metrics::BillRates&,
                                        double memory_margin) const;

  SearchFlags search_;
  BillFlags bill_;
  ThreadsFlag threads_{"threads to search (default: all cores)"};
  int64_t top_ = 5;
  bool pareto_ = false;
};

}  // namespace triplepoint::flags
