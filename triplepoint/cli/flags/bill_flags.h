// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/metrics/economics/bill.h"

namespace triplepoint::cli {

/// "15T", "300B", "1.4e12": a number of tokens.
Result<double> parse_tokens(std::string_view text);

/// --tokens and what belongs to it: what a whole training costs. Rates that are not given are those
/// of data/economics.toml.
class BillFlags {
 public:
  Arguments arguments();
  bool given() const { return tokens_.has_value(); }
  /// Where nothing but a bill needs rates: refuses them without --tokens.
  Result<void> check_alone() const;
  Result<metrics::BillRates> rates(const spec::Library&) const;
  /// The bill of a job whose step takes so long and whose devices draw so much on average.
  metrics::Bill bill(const spec::Job&, const metrics::BillRates&, Seconds step_time,
                     Watts device_power) const;

 private:
  std::optional<double> tokens_, price_, gpu_hour_, pue_, grid_;
  std::optional<Seconds> mtbf_, checkpoint_, interval_, restart_;
};

}  // namespace triplepoint::cli
