// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "triplepoint/learn/coefficients.h"
#include "triplepoint/learn/priors.h"
#include "triplepoint/thermal/dense.h"

namespace triplepoint::learn {

/// One measured time, beside how the prediction answers to the coefficients.
struct Evidence {
  std::string run;      // what people call it
  double residual = 0;  // ln(measured / predicted) at what was learned + slopes x what was learned
  double doubt = 0;     // noise of it beyond that of any measurement, as a standard deviation
  LogFactors slopes{};
  Knobs knobs;
  TimeOf of = TimeOf::step;  // kernels have no part in c and r
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

/// What measurements say of coefficients and of what they leave unexplained.
///
///   e = J x + c + r + noise;   x_k ~ (0, spread_k),  c ~ (0, common),
///   r ~ Gaussian process (0, near^2 likeness);   noise ~ Student's t
///   S = J T J' + common^2 + K + N,   x = T J' S^-1 e;   T = diag(spread^2), N = diag(noise^2)
///
/// Of runs on GPUs of two kinds J T J' and common^2 count times other_gpu, of two models times
/// other_model: kernels are others, the software and the site are the same. Of seconds of kernels,
/// which are measurements like those of steps, c and r are zero, and noise has their doubt on top.
///
/// Student's t, of noise and of coefficients: each variance s^2 becomes s^2 (nu + (v/s)^2) / (nu +
/// 1) with its present value v, repeated (iteratively reweighted least squares). Where measurements
/// of n runs lie further out than the priors let expect, forecasts are less sure by as much:
///
///   spread^2 *= (nu + min(e' S0^-1 e, 6 n)) / (nu + n),   S0: S before reweighting, nu: surprise
///
/// Holds near the coefficients at which slopes were taken. Source: Rasmussen and Williams, Gaussian
/// Processes for Machine Learning, 2006, section 2.7 (explicit basis functions); Lange, Little and
/// Taylor 1989.
class Posterior {
 public:
  Posterior(const Priors&, std::vector<Evidence>);

  const Priors& priors() const { return priors_; }
  const std::vector<Evidence>& evidence() const { return evidence_; }
  /// Of the GPU of the first run, and of a job's.
  const LogFactors& mean() const { return mean_; }
  LogFactors mean(const Knobs&) const;
  const LogFactors& spreads() const { return spreads_; }
  double common() const { return common_; }
  double common_spread() const { return common_spread_; }

  /// ln(time) of a job beyond its prediction with the learned coefficients: what none explains.
  double remainder(const Knobs&) const;
  /// Standard deviation of ln(time), measured, around a prediction that has all that.
  double spread(const Evidence&) const;
  /// Of ln(time of a / time of b) around what is predicted of both: what they share cancels.
  ///
  ///   var = surprise (C(a, a) + C(b, b) - 2 C(a, b)),  C: covariance once all is measured
  double spread_of_ratio(const Evidence& a, const Evidence& b) const;
  /// How far each measurement is from what those of other runs foretell of it, in ln: measured over
  /// it. B: the measurements of its run.
  ///
  ///   ((S^-1)_BB)^-1 (S^-1 e)_B
  std::vector<double> left_out() const;
  /// How much of a coefficient each measurement taught; they add up to its mean.
  std::vector<double> taught(std::size_t coefficient) const;
  /// By how much the variance of the first job's forecast falls once the second is measured.
  double narrowed(const Evidence& of, const Evidence& measured) const;

 private:
  double carried(const Knobs&, const Knobs&) const;
  double common(const Knobs&) const;
  std::vector<std::size_t> measured_with(std::size_t) const;
  /// Covariance of a coefficient, on the GPU of the first run, with each measurement.
  std::vector<double> with_coefficient(std::size_t) const;
  void solve();
  void reweight();
  double covariance(const Evidence&, const Evidence&) const;
  std::vector<double> with_evidence(const Evidence&) const;
  double remaining(double before, const std::vector<double>& with_a,
                   const std::vector<double>& with_b) const;
  double covariance_after(const Evidence& a, const Evidence& b) const;
  void find_surprise();
  void find_spreads();

  Priors priors_;
  std::vector<Evidence> evidence_;
  LogFactors variance_{};          // of the coefficients, before
  std::vector<double> noise_;      // variances of the measurements
  double surprise_ = 1;            // factor of the variance of forecasts
  thermal::Matrix inverse_;        // of S
  std::vector<double> explained_;  // S^-1 e
  LogFactors mean_{}, spreads_{};
  double common_ = 0, common_spread_ = 0;
};

}  // namespace triplepoint::learn
