// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/search/finalists.h"

namespace triplepoint::study {

/// What is varied: of both clusters the bandwidth of a NIC, the batch, or the nodes (the other
/// cluster's in proportion); or the nodes of the other cluster alone.
enum class Varied { nic_bandwidth, batch, nodes, against_nodes };
std::optional<Varied> varied_named(std::string_view);
std::string_view name_of(Varied);

/// "200 Gb/s", or "256".
Result<double> parse_varied(Varied, std::string_view text);
std::string varied_text(Varied, double value);

/// Two jobs that differ in their cluster, and the values at which both are planned, ascending.
struct CrossoverQuestion {
  spec::Job base, against;
  Varied over = Varied::nic_bandwidth;
  std::vector<double> values;
  int halvings = 4;  // of the interval around a crossover of a continuous quantity
};

/// 100 to 800 Gb/s; a quarter to four times the batch; half to four times the nodes, as far as they
/// are whole numbers.
std::vector<double> usual_values(const CrossoverQuestion&);

/// The two jobs at a value; an error where nodes in proportion are no whole number.
struct JobPair {
  spec::Job base, against;
};
Result<JobPair> jobs_at(const CrossoverQuestion&, double value);

/// The best plan of one cluster at one value, or why it has none.
struct PlannedSide {
  spec::Job job;
  std::optional<search::Finalist> plan;
  std::string why_none;
};
PlannedSide without_plan(const spec::Job& job, const Error& why);

/// Both clusters at one value.
struct CrossoverPoint {
  double value = 0;
  PlannedSide base, against;
  bool halved = false;  // found between two of the asked values

  /// Objective of `against` over that of `base`: above 1 where base is better. A side without a
  /// plan loses; absent where neither has one.
  std::optional<double> advantage() const;
};

/// Between two neighbouring values the better cluster changes; between them both may be equal.
struct Crossover {
  double low = 0, high = 0;
  bool base_leads_above = false;  // beyond it, base is the better one
};

struct CrossoverAnswer {
  std::vector<CrossoverPoint> points;  // ascending
  std::vector<Crossover> crossovers;
};

/// Plans both clusters at each value, each distinct job once, and halves the interval of every
/// crossover of a continuous quantity at its geometric mean.
///
/// A crossover lies between two neighbouring values with another sign of log(advantage), of those
/// that have one; more than one between two asked values are seen as one or none.
/// `best_plan`: gives the best plan of a job, or says why there is none. An error of it ends all.
Result<CrossoverAnswer> find_crossovers(
    const CrossoverQuestion&, const std::function<Result<PlannedSide>(const spec::Job&)>& best_plan,
    const std::function<bool()>& stopped);

}  // namespace triplepoint::study
