// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/lists.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/learn/posterior.h"

namespace triplepoint::learn {

/// A run that was not measured, and what it would be worth.
struct NextRun {
  std::string change;  // "pipeline_parallel_size 2 in the place of 1"
  std::string of;      // the run that it changes
  int64_t gpus = 0;
  double seconds = 0;    // of a step, as predicted
  double narrowing = 0;  // of the mean variance of forecasts of such runs: 0.4 takes 40 % away
};

/// A job that was measured, and how its time answers.
struct MeasuredJob {
  spec::Job job;
  Evidence evidence;
};

/// The run whose measurement would narrow the forecasts of the measured jobs and of their
/// neighbours most: jobs with microbatch, TP, PP or nodes doubled. First with at most as many GPUs
/// as were used, then, if it is worth more, with twice as many.
std::vector<NextRun> next_runs(const Posterior&, const std::vector<MeasuredJob>&, int threads);

/// What a place's own runs taught: a job on its machines, under its software.
class Calibration {
 public:
  explicit Calibration(Posterior posterior, LearnedPower power = {}, std::optional<Room> room = {})
      : posterior_(std::move(posterior)), power_(power), room_(std::move(room)) {}

  /// FOLDER/calibration.json, which needs no other file, or that file.
  static std::string file_of(const std::string& folder);
  static Result<Calibration> read(const std::string& folder);
  Result<void> write(const std::string& folder) const;

  const Posterior& posterior() const { return posterior_; }
  const LearnedPower& power() const { return power_; }
  std::size_t runs() const {  // whose steps were measured
    return as_size(std::ranges::count(posterior_.evidence(), TimeOf::step, &Evidence::of));
  }
  const std::optional<Room>& room() const { return room_; }
  /// What a job by this place rests on: how many runs taught times, what of the step they leave
  /// unexplained, and temperatures of how many GPUs.
  std::string about(const spec::Job&) const;
  /// The job as this place would run it: with the learned coefficients, and stretched by the
  /// remainder. Nothing measured changes no bit.
  spec::Job applied(const spec::Job&) const;
  /// Whether some run was of the job's GPU, stack and task. Of others, forecasts may profit, and
  /// are no surer than those for a place without measurements.
  bool knows(const spec::Job&) const;
  /// How the step time of a job that is applied() answers to what was learned; seconds: that time.
  Evidence forecast(const spec::Job& applied, double seconds) const;
  /// f, so that 80 of 100 measured step times lie between seconds / f and seconds x f.
  double interval_factor(const Evidence& forecast) const;
  double interval_factor(const spec::Job& applied, double seconds) const {
    return interval_factor(forecast(applied, seconds));
  }
  /// Probability that b really takes longer than a, at forecasts of these times.
  double probability_longer(const Evidence& b, double seconds_b, const Evidence& a,
                            double seconds_a) const;

 private:
  Posterior posterior_;
  LearnedPower power_;
  std::optional<Room> room_;
};

/// The planned job on a whole share of its nodes, each replica with as many sequences of a step:
/// the fewest nodes whose measured step narrows the forecast of the plan half as much as a step of
/// the plan itself. Jobs are applied(). Nothing where no fewer nodes do.
std::optional<NextRun> smaller_run(const Calibration&, const spec::Job& planned,
                                   const Evidence& forecast);

/// A run of a job whose step time was measured.
struct OwnRun {
  std::string name;
  spec::Job job;
  double seconds = 0;                                   // of a step
  std::optional<double> watts = std::nullopt;           // of a GPU, mean over steps
  std::vector<std::pair<TimeOf, double>> kernels = {};  // seconds of a mean rank in a step
};

/// How a time of a run was predicted, in seconds.
struct RunCheck {
  std::string name;
  TimeOf of = TimeOf::step;
  double measured = 0, shipped = 0, learned = 0;
  double left_out = 0;  // by what the other runs taught
};

/// One or several runs of a job that lie further apart than noise allows.
struct Contradiction {
  std::vector<std::string> runs;
  double ratio = 1;  // longest over shortest
};

struct Learned {
  Calibration calibration;
  std::vector<RunCheck> runs;
  std::vector<Contradiction> contradictions;
  std::vector<std::pair<std::string, std::string>> left_out;  // runs and why
  std::vector<NextRun> next;                                  // best first
};

/// Gauss-Newton: the posterior of the linearised problem, and slopes anew where its mean lies, up
/// to three times, until no job's time moves by 2 %. Where runs have power, that is learned at the
/// learned times, and then times again; temperatures last. `runs` must fit in memory. Equal input
/// gives equal bits for any number of threads. An error if nothing can be predicted.
Result<Learned> learn_from(const Priors&, const std::vector<OwnRun>& runs,
                           const std::vector<HeatRun>& heat, int threads);

}  // namespace triplepoint::learn
