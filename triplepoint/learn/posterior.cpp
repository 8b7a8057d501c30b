// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/posterior.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace triplepoint::learn {
namespace {

constexpr int reweightings = 12;

double squared(double x) {
  return x * x;
}

/// The variance of a normal distribution that weighs `value` as Student's t does.
double student(double variance, double value, double tails) {
  return variance * (tails + squared(value) / variance) / (tails + 1);
}

}  // namespace

Posterior::Posterior(const Priors& priors, std::vector<Evidence> evidence)
    : priors_(priors), evidence_(std::move(evidence)) {
  for (std::size_t k = 0; k < coefficient_count; ++k)
    variance_[k] = squared(priors_.spread[k]);
  for (const Evidence& one : evidence_)
    noise_.push_back(squared(priors_.remainder.noise) + squared(one.doubt));
  solve();
  find_surprise();
  for (int i = 0; i < reweightings && !evidence_.empty(); ++i)
    reweight();
  find_spreads();
}

double Posterior::covariance(const Evidence& a, const Evidence& b) const {
  double explained = 0;
  for (std::size_t k = 0; k < coefficient_count; ++k)
    explained += a.slopes[k] * variance_[k] * b.slopes[k];
  if (a.of != TimeOf::step || b.of != TimeOf::step) return carried(a.knobs, b.knobs) * explained;
  return squared(priors_.remainder.near) * priors_.distance.likeness(a.knobs, b.knobs) +
         carried(a.knobs, b.knobs) * (squared(priors_.remainder.common) + explained);
}

/// How far coefficients of one job, and what all runs share, hold for another.
double Posterior::carried(const Knobs& a, const Knobs& b) const {
  constexpr auto gpu = std::ranges::find(word_knobs, "gpu") - word_knobs.begin();
  constexpr auto model = std::ranges::find(word_knobs, "model") - word_knobs.begin();
  const Remainder& rest = priors_.remainder;
  return (a.words[gpu] == b.words[gpu] ? 1 : rest.other_gpu) *
         (a.words[model] == b.words[model] ? 1 : rest.other_model);
}

double Posterior::common(const Knobs& knobs) const {
  double sum = 0;
  for (std::size_t i = 0; i < evidence_.size(); ++i)
    if (evidence_[i].of == TimeOf::step)
      sum += squared(priors_.remainder.common) * carried(knobs, evidence_[i].knobs) * explained_[i];
  return sum;
}

LogFactors Posterior::mean(const Knobs& knobs) const {
  LogFactors mean{};
  for (std::size_t i = 0; i < evidence_.size(); ++i)
    for (std::size_t k = 0; k < coefficient_count; ++k)
      mean[k] += variance_[k] * evidence_[i].slopes[k] * carried(knobs, evidence_[i].knobs) *
                 explained_[i];
  return mean;
}

std::vector<double> Posterior::with_coefficient(std::size_t k) const {
  return mapped(evidence_, [&](const Evidence& one) {
    return variance_[k] * one.slopes[k] * carried(evidence_.front().knobs, one.knobs);
  });
}

std::vector<double> Posterior::with_evidence(const Evidence& of) const {
  return mapped(evidence_, [&](const Evidence& one) { return covariance(of, one); });
}

void Posterior::solve() {
  const auto n = static_cast<int64_t>(evidence_.size());
  thermal::Matrix all(n, n), errors(n, 1);
  for (int64_t i = 0; i < n; ++i) {
    const Evidence& one = evidence_[as_size(i)];
    const std::vector<double> row = with_evidence(one);
    for (int64_t j = 0; j < n; ++j)
      all(i, j) = row[as_size(j)];
    all(i, i) += noise_[as_size(i)];
    errors(i, 0) = one.residual;
  }
  inverse_ = thermal::solve(std::move(all), thermal::identity(n));
  const thermal::Matrix explained = thermal::multiply(inverse_, errors);
  explained_.assign(explained.column(0), explained.column(0) + n);
  if (evidence_.empty()) return;
  mean_ = mean(evidence_.front().knobs);
  common_ = common(evidence_.front().knobs);
}

void Posterior::reweight() {
  const Remainder& rest = priors_.remainder;
  for (std::size_t i = 0; i < evidence_.size(); ++i) {
    const double unexplained = noise_[i] * explained_[i];
    noise_[i] =
        student(squared(rest.noise) + squared(evidence_[i].doubt), unexplained, rest.noise_tails);
  }
  for (std::size_t k = 0; k < coefficient_count; ++k)
    if (priors_.spread[k] > 0)
      variance_[k] = student(squared(priors_.spread[k]), mean_[k], rest.coefficient_tails);
  solve();
}

std::vector<double> Posterior::taught(std::size_t coefficient) const {
  std::vector<double> parts = with_coefficient(coefficient);
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] *= explained_[i];
  return parts;
}

/// Prior covariance less what the measurements take away.
double Posterior::remaining(double before, const std::vector<double>& with_a,
                            const std::vector<double>& with_b) const {
  double taken = 0;
  for (std::size_t i = 0; i < with_a.size(); ++i)
    for (std::size_t j = 0; j < with_b.size(); ++j)
      taken += with_a[i] * inverse_(static_cast<int64_t>(i), static_cast<int64_t>(j)) * with_b[j];
  return before - taken;
}

double Posterior::covariance_after(const Evidence& a, const Evidence& b) const {
  return remaining(covariance(a, b), with_evidence(a), with_evidence(b));
}

void Posterior::find_surprise() {
  constexpr double most = 6;  // for each run
  const double nu = priors_.remainder.surprise, n = as_real(evidence_.size());
  double sum = 0;
  for (std::size_t i = 0; i < evidence_.size(); ++i)
    sum += evidence_[i].residual * explained_[i];
  surprise_ = (nu + std::min(sum, most * n)) / (nu + n);
}

void Posterior::find_spreads() {
  for (std::size_t k = 0; k < coefficient_count; ++k) {
    const std::vector<double> with = with_coefficient(k);
    spreads_[k] = std::sqrt(std::max(0., remaining(variance_[k], with, with)));
  }
  const double common = squared(priors_.remainder.common);
  std::vector<double> with;
  for (const Evidence& one : evidence_)
    with.push_back(one.of == TimeOf::step ? common * carried(evidence_.front().knobs, one.knobs)
                                          : 0);
  common_spread_ = std::sqrt(std::max(0., remaining(common, with, with)));
}

double Posterior::remainder(const Knobs& knobs) const {
  double sum = common(knobs);
  for (std::size_t i = 0; i < evidence_.size(); ++i)
    if (evidence_[i].of == TimeOf::step)
      sum += squared(priors_.remainder.near) * explained_[i] *
             priors_.distance.likeness(knobs, evidence_[i].knobs);
  return sum;
}

double Posterior::spread(const Evidence& one) const {
  return std::sqrt(surprise_ *
                   (std::max(0., covariance_after(one, one)) + squared(priors_.remainder.noise)));
}

double Posterior::spread_of_ratio(const Evidence& a, const Evidence& b) const {
  const double variance =
      covariance_after(a, a) + covariance_after(b, b) - 2 * covariance_after(a, b);
  return std::sqrt(surprise_ * std::max(0., variance));
}

std::vector<double> Posterior::left_out() const {
  return numbered(evidence_.size(), [&](std::size_t i) {
    const std::vector<std::size_t> together = measured_with(i);
    const auto n = static_cast<int64_t>(together.size());
    thermal::Matrix block(n, n), explained(n, 1);
    for (int64_t a = 0; a < n; ++a) {
      explained(a, 0) = explained_[together[as_size(a)]];
      for (int64_t b = 0; b < n; ++b)
        block(a, b) = inverse_(static_cast<int64_t>(together[as_size(a)]),
                               static_cast<int64_t>(together[as_size(b)]));
    }
    return thermal::solve(std::move(block), std::move(explained))(0, 0);
  });
}

/// Itself first.
std::vector<std::size_t> Posterior::measured_with(std::size_t i) const {
  std::vector<std::size_t> all = {i};
  for (std::size_t j = 0; j < evidence_.size(); ++j)
    if (j != i && evidence_[j].run == evidence_[i].run) all.push_back(j);
  return all;
}

double Posterior::narrowed(const Evidence& of, const Evidence& measured) const {
  return squared(surprise_ * covariance_after(of, measured) / spread(measured));
}

}  // namespace triplepoint::learn
