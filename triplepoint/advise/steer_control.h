// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/advise/steer.h"
#include "triplepoint/advise/steer_track.h"

namespace triplepoint::advise {

/// What the last looks show of a machine that may flap: the last one if it agrees with the one
/// before, else, after four, their mean. Nothing as long as neither is known.
class Eye {
 public:
  std::optional<SteerReadings> see(const SteerReadings& look);
  void forget() { looks_.clear(); }

 private:
  std::vector<SteerReadings> looks_;
};

/// The controller of a simulated job. See steer().
class Controller {
 public:
  Controller(const spec::Job& base, const SteerOptions& options);

  spec::Job job() const { return job_with(base_, present_); }
  const SteerPolicy& policy() const { return policy_; }
  const SteerSetting& initial() const { return initial_; }

  /// One look at what was recorded since the last one. Changes the machine if something is to be
  /// gained.
  void look(Track& track, const std::optional<SteerReadings>& look,
            std::vector<Decision>& decisions);

 private:
  struct Outlook {
    Forecast leave;
    std::vector<Candidate> candidates;
    std::vector<Forecast> forecasts;
    std::vector<SteerOption> options;
  };

  void tune();
  std::string diagnosis_change(Seconds now);
  bool is_news(const SteerReadings& seen) const;
  std::optional<int64_t> node_at_fault() const;
  Seconds next_checkpoint(Seconds now) const;
  bool after_checkpoint(Seconds now) const;
  Outlook look_ahead(const Track& track, const SteerReadings& seen, Seconds horizon) const;
  Decision think(Track& track, const SteerReadings& seen);
  void act(Track& track, const Outlook& outlook, std::size_t which, Decision& decision);

  const spec::Job& base_;
  const SteerOptions& options_;
  SteerSetting present_, initial_;
  SteerPolicy policy_;
  Eye eye_;
  std::vector<spec::Fault> diagnosis_;   // at the last look
  std::optional<SteerReadings> before_;  // at the last thought
  std::vector<SteerReadings> thoughts_;  // of this episode and setting
  std::optional<Seconds> episode_;       // since when something is different
  Seconds next_thought_;
  std::string seen_words_;
};

/// What the alternatives of an outlook come to, best first.
std::vector<Considered> considered_of(const std::vector<Candidate>&, const std::vector<Forecast>&,
                                      const std::vector<SteerOption>&);

}  // namespace triplepoint::advise
