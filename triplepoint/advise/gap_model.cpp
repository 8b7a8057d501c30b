// SPDX-License-Identifier: Apache-2.0
// Which variants, together, leave the marks that are seen?
//
// Every variant is simulated alone. Least squares over these marks, one and two variants at a time,
// say which are worth a second look; those are simulated as they would be, both at once and with
// their degrees corrected, as marks do not add: a reduction hides behind a longer backward pass.
#include "triplepoint/advise/gap_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

using spec::Job;

constexpr double least_explained = 0.65;   // of what is seen
constexpr double ambiguous = 1.3;          // of what the best leaves, another leaves at most
constexpr double least_difference = 0.02;  // of the step
constexpr double least_for_two = 0.15;     // of what is seen, that one leaves: then two are tried,
constexpr double better_by_two = 0.5;      // if they leave less than this of that
constexpr size_t most_looked_at = 6;       // of one, and of two
constexpr int corrections = 3;             // of degrees
constexpr double least_change = 0.25, most_change = 4;  // of a degree, in one correction

double along(const Marks& a, const Marks& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

double size_of(const Marks& marks) {
  return sum_of(marks, [](const double mark) { return std::abs(mark); });
}

/// A variant at its first degree, and what it adds to the marks.
struct Candidate {
  JobVariant variant;
  Marks marks;
};

/// Some candidates with their degrees, and what they leave of what is seen.
struct Fit {
  std::vector<const Candidate*> of;
  std::vector<double> degrees;
  double left = 0;

  std::set<std::string_view> causes() const {
    std::set<std::string_view> all;
    for (const Candidate* one : of)
      all.insert(one->variant.cause);
    return all;
  }
};

void sort_by_left(std::vector<Fit>& fits) {
  std::ranges::stable_sort(fits, {}, &Fit::left);
}

/// By how much of its candidate's marks each degree is to grow, so that `rest` becomes least: least
/// squares, one after the other. What has no degree stays.
std::vector<double> corrections_of(const Fit& fit, Marks rest) {
  constexpr int rounds = 20;
  std::vector<double> more(fit.of.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t c = 0; c < fit.of.size(); ++c) {
      const Candidate& one = *fit.of[c];
      const double length = along(one.marks, one.marks);
      if (!one.variant.has_degree() || !(length > 0)) continue;
      const double step = along(rest, one.marks) / length;
      more[c] += step;
      for (size_t i = 0; i < rest.size(); ++i)
        rest[i] -= step * one.marks[i];
    }
  return more;
}

/// Degrees moved along these corrections, within reason.
std::vector<double> corrected(const Fit& fit, const std::vector<double>& more) {
  std::vector<double> degrees = fit.degrees;
  for (size_t c = 0; c < degrees.size(); ++c)
    if (fit.of[c]->variant.has_degree())
      degrees[c] = std::clamp(degrees[c] + more[c] * fit.of[c]->variant.degree,
                              least_change * degrees[c], most_change * degrees[c]);
  return degrees;
}

class Matcher {
 public:
  Matcher(const Job& job, const Marks& plain, const Marks& seen)
      : job_(job), plain_(plain), seen_(seen) {
    std::vector<JobVariant> variants = variants_of(job);
    std::vector<Marks> marks(variants.size());
    parallel_for(variants.size(), available_threads(),
                 [&](size_t i) { marks[i] = added_by(variants[i].of(job, variants[i].degree)); });
    for (size_t i = 0; i < variants.size(); ++i)
      if (!marks[i].empty()) all_.push_back({std::move(variants[i]), std::move(marks[i])});
  }

  std::vector<Fit> fits_of_one() const {
    std::vector<Fit> fits = mapped(all_, [&](const Candidate& one) { return linear({&one}); });
    return simulated(std::move(fits));
  }

  std::vector<Fit> fits_of_two() const {
    std::vector<Fit> fits;
    for (size_t i = 0; i < all_.size(); ++i)
      for (size_t j = i + 1; j < all_.size(); ++j)
        if (all_[i].variant.cause != all_[j].variant.cause)
          fits.push_back(linear({&all_[i], &all_[j]}));
    return simulated(std::move(fits));
  }

 private:
  /// Empty where it does not run.
  Marks added_by(const Job& job) const {
    const Marks marks = marks_of(simulated_metrics(job));
    return marks.size() == plain_.size() ? difference_of(marks, plain_) : Marks();
  }

  /// As if marks added, and grew with degrees.
  Fit linear(std::vector<const Candidate*> of) const {
    Fit fit{.of = std::move(of)};
    Marks rest = seen_;
    for (const Candidate* one : fit.of) {
      fit.degrees.push_back(one->variant.degree);
      rest = difference_of(rest, one->marks);
    }
    const std::vector<double> more = corrections_of(fit, rest);
    fit.degrees = corrected(fit, more);
    for (size_t c = 0; c < fit.of.size(); ++c) {
      const Candidate& one = *fit.of[c];
      const double share = one.variant.has_degree() ? fit.degrees[c] / one.variant.degree - 1 : 0;
      for (size_t i = 0; i < rest.size(); ++i)
        rest[i] -= share * one.marks[i];
    }
    fit.left = size_of(rest);
    return fit;
  }

  /// The best of them simulated, with degrees corrected by what that leaves.
  std::vector<Fit> simulated(std::vector<Fit> fits) const {
    sort_by_left(fits);
    fits.resize(std::min(fits.size(), most_looked_at));
    parallel_for(fits.size(), available_threads(), [&](size_t i) { correct(fits[i]); });
    sort_by_left(fits);
    return fits;
  }

  void correct(Fit& fit) const {
    const bool has_degree =
        std::ranges::any_of(fit.of, [](const Candidate* one) { return one->variant.has_degree(); });
    Fit tried = fit;
    fit.left = std::numeric_limits<double>::infinity();
    for (int turn = 0; turn <= (has_degree ? corrections : 0); ++turn) {
      Job job = job_;
      for (size_t c = 0; c < tried.of.size(); ++c)
        tried.of[c]->variant.change(job, tried.degrees[c]);
      const Marks marks = added_by(job);
      if (marks.empty()) return;
      const Marks rest = difference_of(seen_, marks);
      tried.left = size_of(rest);
      if (tried.left < fit.left) fit = tried;
      tried.degrees = corrected(tried, corrections_of(tried, rest));
    }
  }

  const Job& job_;
  const Marks &plain_, &seen_;
  std::vector<Candidate> all_;
};

/// The first, without the candidates whose cause another one that is nearly as good does not need.
std::vector<Match> certain_part(const std::vector<Fit>& sorted) {
  const Fit& best = sorted.front();
  std::set<std::string_view> certain = best.causes();
  for (const Fit& fit : sorted)
    if (fit.left < ambiguous * best.left) {
      const std::set<std::string_view> causes = fit.causes();
      std::erase_if(certain, [&](std::string_view cause) { return !causes.contains(cause); });
    }
  std::vector<Match> matches;
  for (size_t c = 0; c < best.of.size(); ++c)
    if (certain.contains(best.of[c]->variant.cause))
      matches.push_back({best.of[c]->variant, best.degrees[c]});
  return matches;
}

}  // namespace

metrics::Metrics simulated_metrics(const Job& job) {
  return metrics::measure(sim::simulate(job, {.timeline = true, .causes = false}));
}

Marks marks_of(const metrics::Metrics& m) {
  if (!m.parts) return {};
  constexpr double by_kind = 0.25;  // waits are part of kinds, and no setting's
  const metrics::KernelSeconds& k = m.kernels;
  const metrics::StepParts& p = *m.parts;
  // Where boards differ, the mean rank computes less and waits for the slowest.
  Marks marks;
  for (const Seconds time : {k.compute + p.waiting, k.memory, k.other, p.exposed_communication,
                             k.communication() - k.waiting, p.copying, p.gaps + p.bubble})
    marks.push_back(time / unit::s);
  for (const Seconds time :
       {k.send_recv, k.all_gather, k.reduce_scatter, k.all_reduce, k.all_to_all})
    marks.push_back(by_kind * (time / unit::s));
  return marks;
}

Marks difference_of(const Marks& a, const Marks& b) {
  Marks difference = a;
  for (size_t i = 0; i < a.size(); ++i)
    difference[i] -= b[i];
  return difference;
}

std::vector<Match> matching_variants(const Job& job, const Marks& plain, const Marks& seen,
                                     Seconds step) {
  const double apart = size_of(seen), least = least_difference * (step / unit::s);
  if (apart < least) return {};
  const Matcher matcher(job, plain, seen);
  std::vector<Fit> fits = matcher.fits_of_one();
  if (fits.empty()) return {};
  if (fits.front().left > std::max(least_for_two * apart, least)) {
    std::vector<Fit> pairs = matcher.fits_of_two();
    if (!pairs.empty() && pairs.front().left < better_by_two * fits.front().left)
      fits = std::move(pairs);
  }
  if (fits.front().left > (1 - least_explained) * apart) return {};
  return certain_part(fits);
}

std::vector<Seconds> costs_of(const Job& job, const std::vector<JobChange>& changes) {
  const uint64_t all = (uint64_t{1} << changes.size()) - 1;
  std::map<uint64_t, Seconds> steps = {{0, {}}, {all, {}}};  // by the changes that are made
  for (size_t i = 0; i < changes.size(); ++i)
    steps[uint64_t{1} << i] = steps[all ^ (uint64_t{1} << i)] = {};
  for (auto& [made, step] : steps) {
    Job changed = job;
    for (size_t i = 0; i < changes.size(); ++i)
      if (made >> i & 1) changes[i](changed);
    step = sim::find_steady_step_time(changed).value_or(Seconds());
  }
  std::vector<Seconds> costs;
  Seconds sum;
  for (size_t i = 0; i < changes.size(); ++i) {
    const uint64_t own = uint64_t{1} << i;
    costs.push_back(0.5 * (steps[own] - steps[0] + steps[all] - steps[all ^ own]));
    sum += costs.back();
  }
  if (sum > Seconds())
    for (Seconds& cost : costs)
      cost = (steps[all] - steps[0]) / sum * cost;
  return costs;
}

}  // namespace triplepoint::advise
