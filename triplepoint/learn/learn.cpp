// SPDX-License-Identifier: Apache-2.0
// From measured runs to a calibration: Gauss-Newton, contradictions, and what to measure next.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "triplepoint/base/parallel.h"

#include "triplepoint/learn/calibration.h"

namespace triplepoint::learn {
namespace {

constexpr int rounds = 3;
constexpr double small_move = 0.02;  // of ln t by which no slope changes
constexpr double contradiction_ratio = 1.3;
// Measured over predicted, or the other way. Of 3,679 published rows the farthest is off by 43
// (validation/*/jobs.csv); milliseconds for seconds are off by 1,000.
constexpr double most_off = 100;
// Of kernels, beyond which a trace or the prediction books them otherwise: a spread of the widest
// prior of kernels (elementwise) is 1.5.
constexpr double most_off_kernels = 2;

/// A time of a run.
struct Measurement {
  const OwnRun* run = nullptr;
  std::string name;  // of the run; numbered where others have it, too
  TimeOf of = TimeOf::step;
  double seconds = 0;
  double doubt = 0;
  std::size_t place = 0;  // in jobs_
};

/// A time of a job, that one or several runs measured.
struct Measured {
  const OwnRun* run = nullptr;  // the first of them
  TimeOf of = TimeOf::step;
  double shipped = 0;  // ln t as it is shipped
  LogFactors at{};     // the coefficients of its GPU, as they are now
  double here = 0;     // ln t there
  LogFactors slopes{};
  bool predicted = false;
};

/// Equal for the model, whatever they are called.
bool same_job(const spec::Job& a, const spec::Job& b) {
  return a.task == b.task && a.model == b.model && a.cluster == b.cluster && a.stack == b.stack &&
         a.plan == b.plan && a.records == b.records && a.environment == b.environment;
}

class Learning {
 public:
  Learning(const Priors& priors, const std::vector<OwnRun>& runs, int threads)
      : priors_(priors), threads_(threads) {
    std::map<std::string, int> named;
    for (const OwnRun& run : runs) {
      const int before = named[run.name]++;
      const std::string name =
          before == 0 ? run.name : fmt::format("{} ({})", run.name, before + 1);
      add({.run = &run, .name = name, .seconds = run.seconds});
      for (const auto& [of, seconds] : run.kernels)
        add({.run = &run,
             .name = name,
             .of = of,
             .seconds = seconds,
             .doubt = priors.remainder.kernels});
    }
  }

  Learned learn() {
    predict_shipped();
    find_contradictions();
    Posterior posterior(priors_, {});
    for (int round = 0; round < rounds; ++round) {
      linearise(posterior);
      posterior = Posterior(priors_, evidence());
      if (largest_move(posterior) < small_move) break;
    }
    return result(posterior);
  }

 private:
  void add(Measurement measured) {
    const auto same = std::ranges::find_if(jobs_, [&](const Measured& known) {
      return known.of == measured.of && same_job(known.run->job, measured.run->job);
    });
    measured.place = as_size(same - jobs_.begin());
    if (same == jobs_.end()) jobs_.push_back({.run = measured.run, .of = measured.of});
    measured_.push_back(measured);
  }

  void predict_shipped() {
    parallel_for(jobs_.size(), threads_, [&](std::size_t j) {
      if (const auto time = log_time(jobs_[j].run->job, jobs_[j].of)) {
        jobs_[j].shipped = jobs_[j].here = *time;
        jobs_[j].predicted = true;
      }
    });
    std::set<const OwnRun*> left_out;  // a step stands before its kernels
    std::erase_if(measured_, [&](const Measurement& one) {
      if (left_out.contains(one.run)) return true;
      const std::string reason = why_not(one);
      if (reason.empty()) return false;
      if (one.of == TimeOf::step) left_out.insert(one.run);
      left_out_.emplace_back(
          one.of == TimeOf::step
              ? one.name
              : fmt::format("{} kernels of {}", time_names[static_cast<std::size_t>(one.of)],
                            one.name),
          reason);
      return true;
    });
  }

  std::string why_not(const Measurement& one) const {
    const Measured& job = jobs_[one.place];
    const double off = job.predicted ? std::abs(std::log(one.seconds) - job.shipped) : 0;
    if (one.of == TimeOf::step) {
      if (!job.predicted)
        return "it ran, and does not fit in memory by our estimate, so that there is no time to "
               "compare";
      if (off > std::log(most_off))
        return fmt::format(
            "{:.3g} s of a step were measured and {:.3g} s predicted, too far apart to be one job; "
            "check the unit of the time, and the job",
            one.seconds, std::exp(job.shipped));
    } else if (!job.predicted) {
      return fmt::format("they take {:.3g} s a step and none are predicted; the run's step counts",
                         one.seconds);
    } else if (!(off < std::log(most_off_kernels))) {
      return fmt::format(
          "they take {:.3g} s a step and {:.3g} s predicted, too far apart to be the same kernels; "
          "the run's step counts",
          one.seconds, std::exp(job.shipped));
    }
    return "";
  }

  /// Runs of one job that lie further apart than noise does teach no more than their spread.
  void find_contradictions() {
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      Contradiction found;
      double shortest = 0, longest = 0;
      for (const Measurement& one : measured_) {
        if (one.place != j || one.of != TimeOf::step) continue;
        shortest = found.runs.empty() ? one.seconds : std::min(shortest, one.seconds);
        longest = std::max(longest, one.seconds);
        found.runs.push_back(one.name);
      }
      if (found.runs.size() < 2 || longest < (1 - 1e-9) * contradiction_ratio * shortest) continue;
      found.ratio = longest / shortest;
      for (Measurement& one : measured_)
        if (one.place == j) one.doubt = std::log(found.ratio);
      contradictions_.push_back(std::move(found));
    }
  }

  /// Times and slopes where the coefficients are now. Where a job has no time there, as it had.
  enum class Slopes { anew, kept };
  void linearise(const Posterior& known, Slopes slopes = Slopes::anew) {
    parallel_for(jobs_.size(), threads_, [&](std::size_t j) {
      Measured& job = jobs_[j];
      if (!job.predicted) return;
      job.at = known.mean(knobs_of(job.run->job));
      const spec::Job there = scaled(job.run->job, job.at);
      const auto time = log_time(there, job.of);
      if (!time) return;
      job.here = *time;
      if (slopes == Slopes::anew) job.slopes = sensitivities(there, *time, job.of);
    });
  }

  /// By how much slopes move the time of some job from where it was looked at.
  double largest_move(const Posterior& known) const {
    double largest = 0;
    for (const Measured& job : jobs_) {
      const LogFactors to = known.mean(knobs_of(job.run->job));
      double move = 0;
      for (std::size_t k = 0; k < coefficient_count; ++k)
        move += std::abs(job.slopes[k] * (to[k] - job.at[k]));
      largest = std::max(largest, move);
    }
    return largest;
  }

  std::vector<Evidence> evidence() const {
    return mapped(measured_, [&](const Measurement& one) {
      const Measured& job = jobs_[one.place];
      double residual = std::log(one.seconds) - job.here;
      for (std::size_t k = 0; k < coefficient_count; ++k)
        residual += job.slopes[k] * job.at[k];
      return Evidence{.run = one.name,
                      .residual = residual,
                      .doubt = one.doubt,
                      .slopes = job.slopes,
                      .knobs = knobs_of(job.run->job),
                      .of = one.of};
    });
  }

  Learned result(Posterior posterior) {
    Learned learned{.calibration = Calibration(std::move(posterior)),
                    .contradictions = std::move(contradictions_),
                    .left_out = std::move(left_out_)};
    const Posterior& known = learned.calibration.posterior();
    linearise(known, Slopes::kept);
    const std::vector<double> errors = known.left_out();
    for (std::size_t i = 0; i < measured_.size(); ++i) {
      const Measurement& one = measured_[i];
      const Measured& job = jobs_[one.place];
      const double remainder = one.of == TimeOf::step ? known.remainder(knobs_of(job.run->job)) : 0;
      learned.runs.push_back({.name = one.name,
                              .of = one.of,
                              .measured = one.seconds,
                              .shipped = std::exp(job.shipped),
                              .learned = std::exp(job.here + remainder),
                              .left_out = one.seconds * std::exp(-errors[i])});
    }
    std::vector<MeasuredJob> measured;
    for (const Measured& job : jobs_) {
      if (!job.predicted || job.of != TimeOf::step) continue;
      measured.push_back(
          {.job = job.run->job,
           .evidence = {
               .run = job.run->name, .slopes = job.slopes, .knobs = knobs_of(job.run->job)}});
      measured.back().job.name = job.run->name;
    }
    learned.next = next_runs(known, measured, threads_);
    return learned;
  }

  const Priors& priors_;
  int threads_;
  std::vector<Measurement> measured_;
  std::vector<Measured> jobs_;
  std::vector<Contradiction> contradictions_;
  std::vector<std::pair<std::string, std::string>> left_out_;
};

/// Coefficients of times and power.
Learned learn_times(const Priors& priors, const std::vector<OwnRun>& runs, int threads) {
  Learned learned = Learning(priors, runs, threads).learn();
  std::vector<spec::Job> at_learned_times;
  std::vector<PowerRun> measured;
  at_learned_times.reserve(runs.size());
  for (const OwnRun& run : runs) {
    const bool is_left_out = std::ranges::any_of(
        learned.left_out, [&](const auto& one) { return one.first == run.name; });
    if (!run.watts || is_left_out) continue;
    at_learned_times.push_back(learned.calibration.applied(run.job));
    measured.push_back({&at_learned_times.back(), *run.watts});
  }
  const auto power = learn_power(priors.power, measured, threads);
  if (!power) return learned;
  std::vector<OwnRun> there = runs;
  for (OwnRun& run : there)
    run.job = with_power(std::move(run.job), power->mean);
  learned = Learning(priors, there, threads).learn();
  learned.calibration = Calibration(learned.calibration.posterior(), *power);
  return learned;
}

}  // namespace

Result<Learned> learn_from(const Priors& priors, const std::vector<OwnRun>& runs,
                           const std::vector<HeatRun>& heat, int threads) {
  Learned learned = learn_times(priors, runs, threads);
  std::vector<HeatRun> seen = heat;
  for (HeatRun& run : seen)
    run.job = learned.calibration.applied(run.job);
  learned.calibration = Calibration(learned.calibration.posterior(), learned.calibration.power(),
                                    learn_room(priors.room, seen));
  if (!learned.runs.empty() || learned.calibration.room()) return learned;
  return error(
      "nothing is learned (of {}: {}); check the jobs with triplepoint show",
      learned.left_out.empty() ? "temperatures" : learned.left_out[0].first,
      learned.left_out.empty() ? "the GPU's path of heat is unknown" : learned.left_out[0].second);
}

}  // namespace triplepoint::learn
