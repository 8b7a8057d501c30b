// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

namespace triplepoint {

/// A number and what it measures, in base units.
struct Measured {
  double in_base_units = 0;
  Dim dim;
};

/// Reads "<number> <unit>": "700 W", "3.35TB/s", "0.026 K/W", "10min". Spaces between the two are
/// optional.
///
/// A unit is symbols joined by * and /, read from left to right: "J/m3/K" is joule per cubic metre
/// and kelvin. GB is 10^9 bytes, GiB is 2^30, Gb and Gbit are 10^9 bits. A bare number is an error.
Result<Measured> parse_measured(std::string_view text);

/// The same, where only one dimension will do; the error says what the text measures instead.
Result<double> parse_in_base_units(std::string_view text, Dim expected);

/// Reads "30 C", "30 °C", "30 degC" or "86 F": a point on the scale. Kelvins are differences and
/// are refused.
Result<Celsius> parse_celsius(std::string_view text);

template <class T>
struct QuantityText;  // which of the functions above reads a T

template <Dim D>
struct QuantityText<Quantity<D>> {
  static Result<Quantity<D>> parse(std::string_view text) {
    return Quantity<D>(TPT_TRY(parse_in_base_units(text, D)));
  }
};
template <>
struct QuantityText<Celsius> {
  static Result<Celsius> parse(std::string_view text) { return parse_celsius(text); }
};

/// parse_quantity<Watts>("700 W"), parse_quantity<Celsius>("30 C").
template <class T>
Result<T> parse_quantity(std::string_view text) {
  return QuantityText<T>::parse(text);
}

/// The shortest text which reads back as the same bits: "700 W", "3.35 TB/s", "143771 MiB".
std::string exact_text(double in_base_units, Dim dim);

/// For display: `digits` significant digits, in the largest decimal unit that leaves at least one
/// before the point.
std::string rounded_text(double in_base_units, Dim dim, int significant_digits);

template <Dim D>
std::string to_text(Quantity<D> quantity) {
  return exact_text(quantity.in_base_units(), D);
}
template <Dim D>
std::string to_text(Quantity<D> quantity, int significant_digits) {
  return rounded_text(quantity.in_base_units(), D, significant_digits);
}
std::string to_text(Celsius reading);
std::string to_text(Celsius reading, int decimals);

/// What a dimension is called: "power", "time"; "a quantity in K/W" where it has no name.
std::string dimension_name(Dim dim);

/// The units it is printed in, as people list them: "mW, W, kW, MW, GW".
std::string usual_units(Dim dim);

/// Regular expressions (ECMAScript) of the texts that parse_in_base_units and parse_celsius read.
/// Units are symbols of the dimension, or where it has none, quotients of two: "3.35 TB/s".
std::string quantity_pattern(Dim dim, bool may_be_negative);
std::string celsius_pattern();

}  // namespace triplepoint
