// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"

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
  return sum_of(trace, [](const Piece<Power>& piece) { return piece.duration; });
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

/// w = min(power_window, power_period): a driver that averages part of each period does not see the
/// rest.
Seconds window_of(const spec::SensorCoefficients&);

/// What a sensor shows of power that is `before` at first, then the pieces, then `after`, as a
/// function of the moment u at which its window ends:
///
///   R(u) = 1/w integral from u - w to u of P dt
///
/// while it differs from both; each reading stands for a sixteenth of a window.
std::vector<PowerPiece> readings_of(const spec::SensorCoefficients&, Watts before,
                                    std::vector<PowerPiece> pieces, Watts after);

/// The median of the highest reading of the driver's instant field. It looks once in a period T, at
/// moments that have no relation to what the device does, so its looks at readings above y are
/// Poisson's, and none in half of all cases where
///
///   | { u : R(u) > y } | = T ln 2,   y >= floor
///
/// readings: all that occur while the sensor is read, each for as long as it occurs. floor: a power
/// that lasts, so that it is certainly seen. The readings may be those of many devices, whose
/// sensors have no relation either: then it is the highest of any of them.
/// Holds for the instant field; NVML's average field is the mean over one second. A board's gain
/// error (5 %) is not in it.
/// Source: "Part-time Power Measurements", SC'24 (arXiv 2312.02741): 25 of 100 ms, A100 and H100.
Watts highest_reading(const spec::SensorCoefficients&, std::vector<PowerPiece> readings,
                      Watts floor);

}  // namespace triplepoint::power
