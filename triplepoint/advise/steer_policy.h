// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "triplepoint/base/units.h"

namespace triplepoint::advise {

/// What a controller is allowed.
struct SteerRules {
  Seconds dwell = 120 * unit::s;  // least time between two moves
  double margin = 0.005;          // least predicted gain of a move
  double restart_margin = 0.02;   // of one that restarts the job
  int most_moves = 8;
  int most_restarts = 1;
};

/// One thing to do, and what it is predicted to be worth.
struct SteerOption {
  std::string setting;  // what the job is then; equal texts are equal settings
  bool restarts = false;
  double ratio = 1;  // of the objective over leaving everything as it is, costs included; < 1 gains
};

/// Picks the best option that the rules allow.
///
/// A move needs: a gain above the margin; the dwell time since the last move; budget. A setting
/// that was left before may come back only after dwell x 2^n, n: how often it was left. So no
/// A -> B -> A happens within the dwell time, a disturbance that flaps for ever is followed less
/// and less (at most 1 + log2(T / dwell) times into each setting), and there are never more moves
/// than asked for.
class SteerPolicy {
 public:
  SteerPolicy(SteerRules rules, std::string setting)
      : rules_(rules), setting_(std::move(setting)) {}

  struct Verdict {
    std::optional<std::size_t> option;  // absent: leave it
    std::string why;                    // it is left
  };
  Verdict choose(Seconds now, std::span<const SteerOption> options) const;
  void moved(Seconds now, const SteerOption& option);

  const std::string& setting() const { return setting_; }
  const SteerRules& rules() const { return rules_; }
  int moves() const { return moves_; }
  int restarts() const { return restarts_; }

 private:
  std::string refusal(Seconds now, const SteerOption& option) const;

  struct Left {
    Seconds when;
    int times = 0;
  };
  SteerRules rules_;
  std::string setting_;
  std::map<std::string, Left> left_;
  std::optional<Seconds> last_move_;
  int moves_ = 0, restarts_ = 0;
};

}  // namespace triplepoint::advise
