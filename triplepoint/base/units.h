// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "triplepoint/base/lists.h"

namespace triplepoint {

constexpr std::size_t as_size(auto number) {
  return static_cast<std::size_t>(number);
}
constexpr double as_real(auto number) {
  return static_cast<double>(number);
}

/// The word of an enumerator. One for each, in the enum's order; the last one has to be `last`'s.
template <auto last, std::size_t N>
constexpr const char* word_for(const char* const (&words)[N], decltype(last) value) {
  static_assert(N == as_size(last) + 1);
  return as_size(value) < N ? words[as_size(value)] : "";
}

/// What a number measures, as powers of second, joule, byte, flop, kelvin and metre.
struct Dim {
  int time = 0, energy = 0, data = 0, work = 0, heat = 0, length = 0;
  friend constexpr bool operator==(Dim, Dim) = default;
};

constexpr Dim operator+(Dim a, Dim b) {
  return {a.time + b.time, a.energy + b.energy, a.data + b.data,
          a.work + b.work, a.heat + b.heat,     a.length + b.length};
}
constexpr Dim operator-(Dim a, Dim b) {
  return {a.time - b.time, a.energy - b.energy, a.data - b.data,
          a.work - b.work, a.heat - b.heat,     a.length - b.length};
}

/// A number that knows what it measures: Watts * Seconds is Joules, Watts + Seconds is an error.
///
/// Multiply by a unit to make one (`700 * unit::W`), divide by a unit to read it (`heat /
/// unit::W`).
template <Dim D>
class Quantity {
 public:
  static constexpr Dim dim = D;

  constexpr Quantity() = default;
  explicit constexpr Quantity(double in_base_units) : base_(in_base_units) {}
  constexpr double in_base_units() const { return base_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr bool operator==(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.base_ + b.base_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.base_ - b.base_);
  }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.base_); }
  friend constexpr Quantity operator*(double s, Quantity a) { return Quantity(s * a.base_); }
  friend constexpr Quantity operator*(Quantity a, double s) { return Quantity(a.base_ * s); }
  friend constexpr Quantity operator/(Quantity a, double s) { return Quantity(a.base_ / s); }
  constexpr Quantity& operator+=(Quantity b) { return *this = *this + b; }
  constexpr Quantity& operator-=(Quantity b) { return *this = *this - b; }
  constexpr Quantity& operator*=(double s) { return *this = *this * s; }
  constexpr Quantity& operator/=(double s) { return *this = *this / s; }

 private:
  double base_ = 0;
};

template <Dim A, Dim B>
constexpr auto operator*(Quantity<A> a, Quantity<B> b) {
  return Quantity<A + B>(a.in_base_units() * b.in_base_units());
}
template <Dim A, Dim B>
constexpr auto operator/(Quantity<A> a, Quantity<B> b) {
  return Quantity<A - B>(a.in_base_units() / b.in_base_units());
}
template <Dim D>
constexpr double operator/(Quantity<D> a, Quantity<D> b) {  // like over like: a plain ratio
  return a.in_base_units() / b.in_base_units();
}

using Seconds = Quantity<Dim{.time = 1}>;
using Hertz = Quantity<Dim{.time = -1}>;
using Joules = Quantity<Dim{.energy = 1}>;
using Watts = Quantity<Dim{.time = -1, .energy = 1}>;
using Bytes = Quantity<Dim{.data = 1}>;
using BytesPerSecond = Quantity<Dim{.time = -1, .data = 1}>;
using Flops = Quantity<Dim{.work = 1}>;
using FlopsPerSecond = Quantity<Dim{.time = -1, .work = 1}>;
using Kelvins = Quantity<Dim{.heat = 1}>;  // a temperature difference, never a reading
using KelvinsPerWatt = Quantity<Dim{.time = 1, .energy = -1, .heat = 1}>;
using JoulesPerKelvin = Quantity<Dim{.energy = 1, .heat = -1}>;
using WattsPerKelvin = Quantity<Dim{.time = -1, .energy = 1, .heat = -1}>;
using JoulesPerFlop = Quantity<Dim{.energy = 1, .work = -1}>;
using JoulesPerByte = Quantity<Dim{.energy = 1, .data = -1}>;
using FlopsPerByte = Quantity<Dim{.data = -1, .work = 1}>;  // arithmetic intensity
using Meters = Quantity<Dim{.length = 1}>;
using CubicMeters = Quantity<Dim{.length = 3}>;
using CubicMetersPerSecond = Quantity<Dim{.time = -1, .length = 3}>;
using JoulesPerCubicMeterKelvin = Quantity<Dim{.energy = 1, .heat = -1, .length = -3}>;  // rho cp

/// A reading on the temperature scale. Two readings differ by Kelvins; they never add.
class Celsius {
 public:
  constexpr Celsius() = default;
  explicit constexpr Celsius(double degrees) : degrees_(degrees) {}
  constexpr double degrees() const { return degrees_; }

  friend constexpr auto operator<=>(Celsius, Celsius) = default;
  friend constexpr bool operator==(Celsius, Celsius) = default;
  friend constexpr Kelvins operator-(Celsius a, Celsius b) {
    return Kelvins(a.degrees_ - b.degrees_);
  }
  friend constexpr Celsius operator+(Celsius a, Kelvins d) {
    return Celsius(a.degrees_ + d.in_base_units());
  }
  friend constexpr Celsius operator-(Celsius a, Kelvins d) { return a + -d; }

 private:
  double degrees_ = 0;
};

namespace unit {  // NOLINTBEGIN(readability-identifier-naming): the SI symbols
inline constexpr Seconds s(1), ms(1e-3), us(1e-6), ns(1e-9), min(60), h(3600);
inline constexpr Hertz Hz(1), kHz(1e3), MHz(1e6), GHz(1e9);
inline constexpr Joules J(1), mJ(1e-3), kJ(1e3), MJ(1e6), Wh(3600), kWh(3.6e6), MWh(3.6e9);
inline constexpr Watts W(1), mW(1e-3), kW(1e3), MW(1e6);
inline constexpr Bytes B(1), kB(1e3), MB(1e6), GB(1e9), TB(1e12);
inline constexpr Bytes KiB(1024), MiB(1048576), GiB(1073741824), TiB(1099511627776);
inline constexpr Bytes bit(0.125), Mb(1e6 / 8), Gb(1e9 / 8), Tb(1e12 / 8);
inline constexpr Flops FLOP(1), MFLOP(1e6), GFLOP(1e9), TFLOP(1e12), PFLOP(1e15), EFLOP(1e18);
inline constexpr Kelvins K(1);
inline constexpr Meters m(1), mm(1e-3);
inline constexpr CubicMeters m3(1), L(1e-3);
inline constexpr CubicMetersPerSecond cfm(0.028316846592 / 60);  // cubic foot per minute
// NOLINTEND(readability-identifier-naming)
}  // namespace unit

template <Dim D>
constexpr auto operator/(double a, Quantity<D> b) {  // 1 / Seconds is Hertz
  return Quantity<Dim{} - D>(a / b.in_base_units());
}

template <Dim D>
constexpr Quantity<D> abs(Quantity<D> a) {
  return a < Quantity<D>() ? -a : a;
}

/// A point on a run's time line: whole nanoseconds since the run's epoch.
///
/// Records keep integers, so that equal time stamps are equal and 292 years fit; Instant - Instant
/// is Seconds.
class Instant {
 public:
  constexpr Instant() = default;
  explicit constexpr Instant(std::int64_t nanoseconds) : nanoseconds_(nanoseconds) {}
  constexpr std::int64_t nanoseconds() const { return nanoseconds_; }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr bool operator==(Instant, Instant) = default;
  friend constexpr Seconds operator-(Instant a, Instant b) {
    return as_real(a.nanoseconds_ - b.nanoseconds_) * unit::ns;
  }
  friend Instant operator+(Instant a, Seconds d) {
    return Instant(a.nanoseconds_ + std::llround(d / unit::ns));
  }
  friend Instant operator-(Instant a, Seconds d) { return a + -d; }

 private:
  std::int64_t nanoseconds_ = 0;
};

/// The instant that lies `since_epoch` after the run's epoch, to the nearest nanosecond.
inline Instant instant_at(Seconds since_epoch) {
  return Instant() + since_epoch;
}

}  // namespace triplepoint
