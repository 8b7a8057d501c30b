// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/unit_text.h"

#include <cmath>
#include <regex>
#include <type_traits>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint {
namespace {

TEST_CASE("watts times seconds are joules") {
  const Joules energy = 700 * unit::W * (2 * unit::s);
  CHECK(energy / unit::kJ == doctest::Approx(1.4));
}

TEST_CASE("like over like is a plain number") {
  static_assert(std::is_same_v<decltype(unit::W / unit::kW), double>);
  CHECK(unit::kW / unit::W == 1000);
}

TEST_CASE("two readings of temperature differ by kelvins") {
  CHECK((Celsius(35) - Celsius(25)) / unit::K == 10);
  CHECK(Celsius(25) + 10 * unit::K == Celsius(35));
}

TEST_CASE("heat carried by an air stream over its heat capacity is its rise in kelvins") {
  const auto rho_cp = 1200 * unit::J / unit::m3 / unit::K;
  const CubicMetersPerSecond flow = 0.5 * unit::m3 / unit::s;
  const Kelvins rise = 6 * unit::kW / (rho_cp * flow);
  CHECK(rise / unit::K == doctest::Approx(10));
}

TEST_CASE("a gigabyte is 10^9 bytes, a gibibyte is 2^30, eight gigabits are one gigabyte") {
  CHECK(unit::GB / unit::B == 1e9);
  CHECK(unit::GiB / unit::MiB == 1024);
  CHECK(8 * unit::Gb == unit::GB);
}

TEST_CASE("one over a time is a frequency") {
  const Hertz rate = 1.0 / (2 * unit::ms);
  CHECK(rate / unit::Hz == doctest::Approx(500));
}

TEST_CASE("an instant plus the difference to another is that other") {
  const Instant a(1'000'000'007);
  const Instant b(5'000'000'009);
  CHECK(a + (b - a) == b);
  CHECK(instant_at(2 * unit::us) == Instant(2000));
}

using doctest::Approx;

template <class T>
std::string complaint(std::string_view text) {
  const Result<T> result = parse_quantity<T>(text);
  REQUIRE(!result);
  return result.error().what;
}

TEST_CASE("a quantity is read in the unit it is written in") {
  CHECK(parse_quantity<Watts>("700 W") == 700 * unit::W);
  CHECK(parse_quantity<BytesPerSecond>("3.35 TB/s").value() / (unit::GB / unit::s) == Approx(3350));
  CHECK(parse_quantity<FlopsPerSecond>("989 TFLOP/s").value() / (unit::TFLOP / unit::s) ==
        Approx(989));
  CHECK(parse_quantity<KelvinsPerWatt>("0.026 K/W").value() / (unit::K / unit::W) == Approx(0.026));
  CHECK(parse_quantity<JoulesPerKelvin>("400 J/K").value() / (unit::J / unit::K) == Approx(400));
  CHECK(parse_quantity<JoulesPerFlop>("1.08 J/TFLOP").value() / (unit::J / unit::TFLOP) ==
        Approx(1.08));
  CHECK(parse_quantity<JoulesPerByte>("0.085 J/GB").value() / (unit::J / unit::GB) ==
        Approx(0.085));
  CHECK(parse_quantity<Hertz>("1980 MHz") == 1980 * unit::MHz);
  CHECK(parse_quantity<Celsius>("30 C") == Celsius(30));
  CHECK(parse_quantity<Celsius>("95F").value().degrees() == Approx(35));
  CHECK(parse_quantity<Celsius>("-5.5 °C") == Celsius(-5.5));
  CHECK(parse_quantity<CubicMetersPerSecond>("0.4 m3/s") == 0.4 * unit::m3 / unit::s);
}

TEST_CASE("spaces between number and unit are optional, signs and exponents are numbers") {
  CHECK(parse_quantity<Seconds>("10min") == 600 * unit::s);
  CHECK(parse_quantity<Seconds>("  5   us ") == 5 * unit::us);
  CHECK(parse_quantity<Watts>("-1.5e2W") == -150 * unit::W);
  CHECK(parse_quantity<Flops>("2EFLOP") == 2 * unit::EFLOP);
  CHECK(parse_quantity<Quantity<Dim{.heat = -1}>>("0.5 %/K").value() / (1 / unit::K) ==
        Approx(0.005));
}

TEST_CASE("eight bits are a byte, GB and GiB are not the same") {
  CHECK(parse_quantity<BytesPerSecond>("100 Gb/s") == parse_quantity<BytesPerSecond>("12.5 GB/s"));
  CHECK(parse_quantity<Bytes>("1 GiB").value() / parse_quantity<Bytes>("1 GB").value() ==
        Approx(1.073741824));
  CHECK(parse_quantity<Bytes>("143771 MiB") == 143771 * unit::MiB);
}

TEST_CASE("a bare number is an error that says how to write it") {
  CHECK(complaint<Watts>("700") ==
        "\"700\" has no unit (power could be in any of mW, W, kW, MW, GW); write one of them "
        "behind it");
  CHECK(
      complaint<Seconds>("soon") ==
      "\"soon\" is not a quantity (it does not begin with a number); write a number and one of ns, "
      "us, ms, s, min, h, d");
  CHECK(complaint<Celsius>("30").ends_with("write \"30 C\""));
}

TEST_CASE("a quantity of another kind is an error that names both kinds") {
  CHECK(complaint<Watts>("700 s") ==
        "\"700 s\" is the wrong kind of quantity (it measures time, not power); "
        "units that fit are mW, W, kW, MW, GW");
}

TEST_CASE("kelvins are no reading and a reading is no difference") {
  CHECK(complaint<Celsius>("30 K").find("difference") != std::string::npos);
  CHECK(complaint<Kelvins>("30 C").find("unknown unit") != std::string::npos);
}

TEST_CASE("a misspelt unit is answered with the right one") {
  CHECK(complaint<FlopsPerSecond>("989 TFLOPS").ends_with("did you mean \"TFLOP\"?"));
  CHECK(complaint<Watts>("700 w").ends_with("did you mean \"W\"?"));
}

TEST_CASE("what is no quantity is an error") {
  for (const char* text : {"", " ", "W", "W 700", "700 W/", "700 /", "700 W//s", "inf W", "nan W",
                           "1e999 W", "--5 W", "1e308 TB", "700 W;", "0x10 W", "- W"})
    CHECK_FALSE(parse_quantity<Watts>(text));
}

TEST_CASE("the patterns of quantities match what the readers read") {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    return std::regex_match(text, std::regex(pattern));
  };
  for (const char* text : {"700 W", "0.7kW", " 1e3  mW ", "700", "700 K", "W", "7.5.1 W", "700 w",
                           "nan W", "700 W s", "3 GB/s", ".5 MW", "+2 GW", ""}) {
    CAPTURE(text);
    CHECK(matches(quantity_pattern(Watts::dim, false), text) ==
          parse_quantity<Watts>(text).has_value());
    CHECK(matches(quantity_pattern(BytesPerSecond::dim, false), text) ==
          parse_quantity<BytesPerSecond>(text).has_value());
    CHECK(matches(quantity_pattern(Kelvins::dim, true), text) ==
          parse_quantity<Kelvins>(text).has_value());
  }
  for (const char* text : {"30 C", "-5.5 °C", "95F", "30 K", "30", "C", "25 degC", "25 degrees"}) {
    CAPTURE(text);
    CHECK(matches(celsius_pattern(), text) == parse_celsius(text).has_value());
  }
  CHECK(!matches(quantity_pattern(Watts::dim, false), "-1 W"));
  CHECK(matches(quantity_pattern(Kelvins::dim, true), "-1 K"));
  CHECK(matches(quantity_pattern(KelvinsPerWatt::dim, false), "0.026 K/W"));
  CHECK(usual_units(Watts::dim) == "mW, W, kW, MW, GW");
}

TEST_CASE("a quantity is printed in the shortest exact way") {
  CHECK(to_text(700 * unit::W) == "700 W");
  CHECK(to_text(parse_quantity<BytesPerSecond>("3.35 TB/s").value()) == "3.35 TB/s");
  CHECK(to_text(143771 * unit::MiB) == "143771 MiB");
  CHECK(to_text(141 * unit::GB) == "141 GB");
  CHECK(to_text(0.5 * unit::s) == "500 ms");
  CHECK(to_text(80 * unit::GiB) == "80 GiB");
  CHECK(to_text(0 * unit::W) == "0 W");
  CHECK(to_text(parse_quantity<KelvinsPerWatt>("0.026 K/W").value()) == "0.026 K/W");
  CHECK(to_text(parse_quantity<JoulesPerFlop>("1.08 J/TFLOP").value()) == "1.08 J/TFLOP");
  CHECK(to_text(parse_quantity<JoulesPerByte>("0.085 J/GB").value()) == "0.085 J/GB");
  CHECK(to_text(Celsius(30)) == "30 C");
  CHECK(to_text(2 * unit::s * unit::s) == "2 s*s");
}

TEST_CASE("any quantity is read back from its exact text with the same bits") {
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const double size = std::pow(10, 40 * random_uniform({.seed = 1, .stream = 1}, i) - 20);
    const double number = size * (random_uniform({.seed = 1, .stream = 2}, i) - 0.5);
    for (const Dim dim : {Watts::dim, BytesPerSecond::dim, JoulesPerFlop::dim, KelvinsPerWatt::dim,
                          Dim{.time = -2, .heat = 3}})
      CHECK(parse_in_base_units(exact_text(number, dim), dim) == number);
  }
}

TEST_CASE("for people a quantity is rounded, in the unit that leaves a digit before the point") {
  CHECK(to_text(1234.5 * unit::W, 3) == "1.23 kW");
  CHECK(to_text(999.96 * unit::W, 3) == "1 kW");
  CHECK(to_text(150754820096 * unit::B, 3) == "151 GB");
  CHECK(to_text(0.0001234 * unit::s, 2) == "123 us");
  CHECK(to_text(0 * unit::GB, 3) == "0 B");
  CHECK(to_text(12345 * unit::K, 3) == "12345 K");
  CHECK(to_text(Celsius(66.66), 1) == "66.7 C");
}

}  // namespace

}  // namespace triplepoint
