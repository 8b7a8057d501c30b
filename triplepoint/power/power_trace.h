// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/power/power.h"

namespace triplepoint::power {

/// What a load draws on the boards of a type at one clock, but for their leakage (power.h):
///
///   P = fixed + d dynamic + l L(T, r)
///
/// Affine in the board's factor d, so the mean over several loads is the mean of both parts, and
/// one trace serves all boards.
struct BoardPower {
  Watts fixed, dynamic;
  friend BoardPower operator+(const BoardPower& a, const BoardPower& b) {
    return {a.fixed + b.fixed, a.dynamic + b.dynamic};
  }
  friend BoardPower operator*(double times, const BoardPower& power) {
    return {times * power.fixed, times * power.dynamic};
  }
};
BoardPower board_power(const spec::PowerCoefficients&, const spec::GpuLoad&, const ClockPoint&);

/// Constant power for a while; a trace is one after the other.
template <class Power>
struct Piece {
  Seconds duration;
  Power power;
};
using PowerTrace = std::vector<Piece<BoardPower>>;  // of all boards of a type
using PowerPiece = Piece<Watts>;                    // on one board

template <class Power>
Seconds length_of(const std::vector<Piece<Power>>&);

/// Window filter: the mean over `window` from each of these moments on, which do not fall, of what
/// lies inside of the trace.
template <class Power>
std::vector<Power> window_means(const std::vector<Piece<Power>>&, std::span<const Seconds> begins,
                                Seconds window);
/// Of the windows that lie inside of the trace, those of which one has the most energy on some
/// board. They begin where a piece does, or end where one does.
std::vector<BoardPower> highest_windows(const PowerTrace&, Seconds window);
/// Those that no other exceeds on every board.
std::vector<BoardPower> highest_of(std::vector<BoardPower>);

/// One board at one die temperature.
struct Board {
  double dynamic_energy = 1;
  Watts leakage;
  Watts power(const BoardPower& of) const {
    return of.fixed + dynamic_energy * of.dynamic + leakage;
  }
  Watts highest(const std::vector<BoardPower>&) const;
};
Board board_at(const spec::PowerCoefficients&, const ClockPoint&, Celsius die, const BoardFactors&);

/// The power below which pieces, in any order, are for this share of their time.
Watts quantile(std::vector<PowerPiece>, double share);

// Below: the bodies of templates.

template <class Power>
Seconds length_of(const std::vector<Piece<Power>>& trace) {
  Seconds length;
  for (const Piece<Power>& piece : trace)
    length += piece.duration;
  return length;
}

/// The sum of pieces, each times its seconds, from the begin up to times that do not fall.
template <class Power>
class SumUntil {
 public:
  explicit SumUntil(const std::vector<Piece<Power>>& trace) : trace_(trace) {}

  Power at(Seconds time) {
    for (; next_ < trace_.size() && begin_ + trace_[next_].duration <= time; ++next_) {
      before_ = before_ + (trace_[next_].duration / unit::s) * trace_[next_].power;
      begin_ += trace_[next_].duration;
    }
    if (next_ == trace_.size() || time <= begin_) return before_;
    return before_ + ((time - begin_) / unit::s) * trace_[next_].power;
  }

 private:
  const std::vector<Piece<Power>>& trace_;
  std::size_t next_ = 0;  // the piece that holds the last time
  Seconds begin_;         // of that piece
  Power before_{};
};

template <class Power>
std::vector<Power> window_means(const std::vector<Piece<Power>>& trace,
                                std::span<const Seconds> begins, Seconds window) {
  const Seconds length = length_of(trace);
  SumUntil<Power> head(trace), tail(trace);
  std::vector<Power> means;
  means.reserve(begins.size());
  for (const Seconds begin : begins) {
    const Seconds inside = std::min(length, begin + window) - std::max(Seconds(), begin);
    means.push_back((unit::s / inside) * (head.at(begin + window) + -1 * tail.at(begin)));
  }
  return means;
}

}  // namespace triplepoint::power
