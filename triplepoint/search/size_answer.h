// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/search/finalists.h"

namespace triplepoint::search {

/// "8" is one number of nodes; "8..512" doubles from 8 on and ends with 512; "8..64/8" has a step.
Result<std::vector<int64_t>> parse_nodes(std::string_view text);

/// "3 MUSD", "250k": money.
Result<double> parse_money(std::string_view text);

/// What a whole training may take.
struct SizeLimits {
  std::optional<Seconds> time;
  std::optional<double> money;
};

/// The best plan of a training on some machines, and what all of the training takes with it.
struct Sized {
  spec::Job base;       // on these machines
  std::string problem;  // why there is no plan; empty: there is
  Finalist plan = {};
  metrics::Bill bill = {};
  std::optional<metrics::Interval> step_time = {};
  bool on_front = false;  // nothing takes less time, money, energy and power

  double site_watts() const;
  /// Of a step's, of all of the training.
  std::optional<metrics::Interval> days() const;
};

/// Marks the front and says which machines to take: of those that keep the limits the cheapest;
/// without any the one that is nearest to keeping them. `asked`: sizes, with those that an
/// interrupt left out; then nothing is concluded.
/// Whether a size has a plan and keeps all limits.
bool keeps(const Sized&, const SizeLimits&);
/// Of a list of doubled numbers of nodes those halfway between two.
std::vector<int64_t> between_doubled(const std::vector<int64_t>& nodes);

answers::Document size_answer(std::vector<Sized>, const SizeLimits&, const metrics::BillRates&,
                              size_t asked);

}  // namespace triplepoint::search
