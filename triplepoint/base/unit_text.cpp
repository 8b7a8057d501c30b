// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/unit_text.h"

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "triplepoint/base/text.h"

namespace triplepoint {
namespace {

struct Symbol {
  std::string_view text;
  double in_base_units;
  Dim dim;
};

template <Dim D>
constexpr Symbol symbol(std::string_view text, Quantity<D> unit) {
  return {text, unit.in_base_units(), D};
}

/// Every symbol that may stand in a unit.
constexpr auto symbols = std::to_array<Symbol>({
    {"1", 1, {}},
    {"%", 0.01, {}},
    symbol("ns", unit::ns),
    symbol("us", unit::us),
    symbol("µs", unit::us),
    symbol("ms", unit::ms),
    symbol("s", unit::s),
    symbol("min", unit::min),
    symbol("h", unit::h),
    symbol("d", 24 * unit::h),
    symbol("Hz", unit::Hz),
    symbol("kHz", unit::kHz),
    symbol("MHz", unit::MHz),
    symbol("GHz", unit::GHz),
    symbol("pJ", 1e-12 * unit::J),
    symbol("nJ", 1e-9 * unit::J),
    symbol("uJ", 1e-6 * unit::J),
    symbol("mJ", unit::mJ),
    symbol("J", unit::J),
    symbol("kJ", unit::kJ),
    symbol("MJ", unit::MJ),
    symbol("GJ", 1e3 * unit::MJ),
    symbol("Wh", unit::Wh),
    symbol("kWh", unit::kWh),
    symbol("MWh", unit::MWh),
    symbol("mW", unit::mW),
    symbol("W", unit::W),
    symbol("kW", unit::kW),
    symbol("MW", unit::MW),
    symbol("GW", 1e3 * unit::MW),
    symbol("B", unit::B),
    symbol("kB", unit::kB),
    symbol("MB", unit::MB),
    symbol("GB", unit::GB),
    symbol("TB", unit::TB),
    symbol("PB", 1e3 * unit::TB),
    symbol("KiB", unit::KiB),
    symbol("MiB", unit::MiB),
    symbol("GiB", unit::GiB),
    symbol("TiB", unit::TiB),
    symbol("b", unit::bit),
    symbol("bit", unit::bit),
    symbol("kb", 1e3 * unit::bit),
    symbol("kbit", 1e3 * unit::bit),
    symbol("Mb", unit::Mb),
    symbol("Mbit", unit::Mb),
    symbol("Gb", unit::Gb),
    symbol("Gbit", unit::Gb),
    symbol("Tb", unit::Tb),
    symbol("Tbit", unit::Tb),
    symbol("FLOP", unit::FLOP),
    symbol("kFLOP", 1e3 * unit::FLOP),
    symbol("MFLOP", unit::MFLOP),
    symbol("GFLOP", unit::GFLOP),
    symbol("TFLOP", unit::TFLOP),
    symbol("PFLOP", unit::PFLOP),
    symbol("EFLOP", unit::EFLOP),
    symbol("mK", 1e-3 * unit::K),
    symbol("K", unit::K),
    symbol("mm", unit::mm),
    symbol("cm", 1e-2 * unit::m),
    symbol("m", unit::m),
    symbol("m2", unit::m* unit::m),
    symbol("m3", unit::m3),
    symbol("L", unit::L),
    symbol("cfm", unit::cfm),
});

/// What people call a dimension, and the units we print it in: from small to large, then the binary
/// ones.
struct Dimension {
  std::string_view name;
  Dim dim;
  std::vector<std::string_view> units;
  std::vector<std::string_view> binary_units;
};

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> all = {
      {"time", Seconds::dim, {"ns", "us", "ms", "s"}, {}},
      {"frequency", Hertz::dim, {"Hz", "kHz", "MHz", "GHz"}, {}},
      {"energy", Joules::dim, {"mJ", "J", "kJ", "MJ", "GJ"}, {}},
      {"power", Watts::dim, {"mW", "W", "kW", "MW", "GW"}, {}},
      {"data", Bytes::dim, {"B", "kB", "MB", "GB", "TB", "PB"}, {"KiB", "MiB", "GiB", "TiB"}},
      {"bandwidth",
       BytesPerSecond::dim,
       {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"},
       {"KiB/s", "MiB/s", "GiB/s", "TiB/s"}},
      {"work", Flops::dim, {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"}, {}},
      {"speed of computing",
       FlopsPerSecond::dim,
       {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"},
       {}},
      {"temperature difference", Kelvins::dim, {"K"}, {}},
      {"thermal resistance", KelvinsPerWatt::dim, {"K/W"}, {}},
      {"thermal conductance", WattsPerKelvin::dim, {"W/K"}, {}},
      {"heat capacity", JoulesPerKelvin::dim, {"J/K", "kJ/K"}, {}},
      {"energy per work",
       JoulesPerFlop::dim,
       {"J/EFLOP", "J/PFLOP", "J/TFLOP", "J/GFLOP", "J/FLOP"},
       {}},
      {"energy per data", JoulesPerByte::dim, {"J/TB", "J/GB", "J/MB", "J/B"}, {}},
      {"work per data", FlopsPerByte::dim, {"FLOP/B"}, {}},
      {"length", Meters::dim, {"mm", "m"}, {}},
      {"volume", CubicMeters::dim, {"L", "m3"}, {}},
      {"volume flow", CubicMetersPerSecond::dim, {"L/s", "m3/s"}, {}},
      {"heat capacity of a volume", JoulesPerCubicMeterKelvin::dim, {"J/m3/K", "kJ/m3/K"}, {}},
      {"share", Dim{}, {"1"}, {}},
  };
  return all;
}

const Dimension* find_dimension(Dim dim) {
  for (const Dimension& dimension : dimensions())
    if (dimension.dim == dim) return &dimension;
  return nullptr;
}

const Symbol* find_symbol(std::string_view text) {
  for (const Symbol& symbol : symbols)
    if (symbol.text == text) return &symbol;
  return nullptr;
}

Error unknown_symbol(std::string_view symbol, std::string_view text) {
  const std::vector<std::string> known = mapped<std::string>(symbols, &Symbol::text);
  const auto guess = closest_word(symbol, known);
  return {fmt::format(
      "unknown unit \"{}\" in \"{}\" (units are SI symbols, bytes B and flops FLOP); {}", symbol,
      text,
      guess ? fmt::format("did you mean \"{}\"?", *guess)
            : std::string("write for example 700 W, 3.35 TB/s or 989 TFLOP/s"))};
}

/// The unit that "K/W" or "J/m3/K" stands for; `text` is the whole quantity, for the message.
Result<Measured> parse_unit(std::string_view unit, std::string_view text) {
  Measured result{1, {}};
  bool divide = unit.starts_with('/');  // "/K" is "1/K"
  if (divide) unit.remove_prefix(1);
  while (true) {
    const auto end = unit.find_first_of("*/");
    const std::string_view word = trimmed(unit.substr(0, end));
    const Symbol* symbol = find_symbol(word);
    if (symbol == nullptr) return tl::unexpected(unknown_symbol(word, text));
    if (divide)
      result = {result.in_base_units / symbol->in_base_units, result.dim - symbol->dim};
    else
      result = {result.in_base_units * symbol->in_base_units, result.dim + symbol->dim};
    if (end == std::string_view::npos) return result;
    divide = unit[end] == '/';
    unit.remove_prefix(end + 1);
  }
}

/// "s*K/J" for an unnamed dimension.
std::string composed_unit(Dim dim) {
  const std::array<std::pair<int, std::string_view>, 6> powers = {{{dim.energy, "J"},
                                                                   {dim.data, "B"},
                                                                   {dim.work, "FLOP"},
                                                                   {dim.heat, "K"},
                                                                   {dim.length, "m"},
                                                                   {dim.time, "s"}}};
  std::string above, below;
  for (const auto& [power, symbol] : powers) {
    for (int i = 0; i < power; ++i)
      above += fmt::format("{}{}", above.empty() ? "" : "*", symbol);
    for (int i = 0; i < -power; ++i)
      below += fmt::format("/{}", symbol);
  }
  return (above.empty() ? "1" : above) + below;
}

double size_of_unit(std::string_view unit) {
  return parse_unit(unit, unit)->in_base_units;
}

std::vector<std::string_view> units_of(Dim dim, const std::string& composed) {
  const Dimension* dimension = find_dimension(dim);
  return dimension == nullptr ? std::vector<std::string_view>{composed} : dimension->units;
}

constexpr std::string_view number_pattern = R"((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)";

/// "(?:ns|us|ms|s)": the symbols of a dimension, or nothing.
std::string symbols_of(Dim dim) {
  std::vector<std::string_view> found;
  for (const Symbol& symbol : symbols)
    if (symbol.dim == dim) found.push_back(symbol.text);
  return found.empty() ? "" : fmt::format("(?:{})", fmt::join(found, "|"));
}

/// Dimensions that have a symbol; a plain number has none.
std::vector<Dim> dims_of_symbols() {
  std::vector<Dim> dims;
  for (const Symbol& symbol : symbols)
    if (symbol.dim != Dim{} && !holds(dims, symbol.dim)) dims.push_back(symbol.dim);
  return dims;
}

/// The unit of size one; `composed` where the dimension has no name.
std::string_view base_unit(Dim dim, const std::string& composed) {
  for (const std::string_view unit : units_of(dim, composed))
    if (size_of_unit(unit) == 1) return unit;
  return composed;
}

/// The text in this unit with the fewest digits that read back as the same bits, if there is one.
std::optional<std::string> exact_in(double value, std::string_view unit) {
  const double size = size_of_unit(unit);
  for (const int digits : {15, 16, 17}) {
    const std::string text = fmt::format("{:.{}g} {}", value / size, digits, unit);
    if (split_number(text)->number * size == value) return text;
  }
  return std::nullopt;
}

/// How much a reader would rather not see this text: its length, and two more if it begins with
/// "0.".
std::size_t unhandiness(std::string_view text) {
  return text.size() + (text.starts_with("0.") || text.starts_with("-0.") ? 2 : 0);
}

}  // namespace

std::string dimension_name(Dim dim) {
  const Dimension* dimension = find_dimension(dim);
  return dimension == nullptr ? "a quantity in " + composed_unit(dim)
                              : std::string(dimension->name);
}

/// Those that are read, for an error.
static std::string readable_units(Dim dim, const std::string& composed) {
  return fmt::format("{}{}", fmt::join(units_of(dim, composed), ", "),
                     dim == Seconds::dim ? ", min, h, d" : "");
}

std::string usual_units(Dim dim) {
  const std::string composed = composed_unit(dim);
  return fmt::format("{}", fmt::join(units_of(dim, composed), ", "));
}

std::string quantity_pattern(Dim dim, bool may_be_negative) {
  std::string unit = symbols_of(dim);
  for (const Dim above : dims_of_symbols()) {
    const std::string below = unit.empty() ? symbols_of(above - dim) : "";
    if (!below.empty()) unit = fmt::format(R"({}\s*/\s*{})", symbols_of(above), below);
  }
  return fmt::format(R"(^\s*{}{}\s*{}\s*$)", may_be_negative ? "[-+]?" : "\\+?", number_pattern,
                     unit);
}

std::string celsius_pattern() {
  return fmt::format(R"(^\s*[-+]?{}\s*(?:°|deg)?[CF]\s*$)", number_pattern);
}

Result<Measured> parse_measured(std::string_view text) {
  const auto split = split_number(text);
  if (!split)
    return error(
        "\"{}\" is not a quantity (it does not begin with a number); "
        "write a number and a unit, as in 700 W",
        text);
  if (split->rest.empty())
    return error(
        "\"{}\" has no unit (a bare number could be anything); write the unit behind "
        "it, as in 700 W",
        text);
  const Measured unit = TPT_TRY(parse_unit(split->rest, text));
  const double value = split->number * unit.in_base_units;
  if (!std::isfinite(value))
    return error("\"{}\" is too large (it does not fit a double); write a smaller one", text);
  return Measured{value, unit.dim};
}

Result<double> parse_in_base_units(std::string_view text, Dim expected) {
  const std::string composed = composed_unit(expected);
  const auto split = split_number(text);
  if (!split && expected != Dim{})
    return error(
        "\"{}\" is not a quantity (it does not begin with a number); write a number and one of {}",
        text, readable_units(expected, composed));
  if (split && split->rest.empty() && expected != Dim{})
    return error("\"{}\" has no unit ({} could be in any of {}); write one of them behind it", text,
                 dimension_name(expected), readable_units(expected, composed));
  const Measured measured = TPT_TRY(parse_measured(text));
  if (measured.dim != expected)
    return error(
        "\"{}\" is the wrong kind of quantity (it measures {}, not {}); units that fit are {}",
        text, dimension_name(measured.dim), dimension_name(expected),
        readable_units(expected, composed));
  return measured.in_base_units;
}

Result<Celsius> parse_celsius(std::string_view text) {
  const auto split = split_number(text);
  if (!split)
    return error(
        "\"{}\" is not a temperature (it does not begin with a number); write it as in 30 C", text);
  if (split->rest == "K")
    return error(
        "\"{}\" is a difference of temperatures (kelvins), not a reading; "
        "write the reading in C, as in 30 C",
        text);
  if (split->rest == "F" || split->rest == "°F" || split->rest == "degF")
    return Celsius((split->number - 32) / 1.8);
  if (split->rest != "C" && split->rest != "°C" && split->rest != "degC")
    return error("\"{}\" is not a temperature (its unit is neither C nor F); write \"{} C\"", text,
                 split->number);
  return Celsius(split->number);
}

std::string exact_text(double in_base_units, Dim dim) {
  TPT_EXPECT(std::isfinite(in_base_units));
  const std::string composed = composed_unit(dim);
  const Dimension* dimension = find_dimension(dim);
  std::vector<std::string_view> units = units_of(dim, composed);
  if (dimension != nullptr)
    units.insert(units.begin(), dimension->binary_units.begin(), dimension->binary_units.end());
  // The base unit is always exact; zero is zero in all units.
  std::string best = *exact_in(in_base_units, base_unit(dim, composed));
  if (in_base_units == 0) return best;
  for (const std::string_view unit : units) {  // of equally handy ones the last, largest unit
    const std::optional<std::string> candidate = exact_in(in_base_units, unit);
    if (candidate && unhandiness(*candidate) <= unhandiness(best)) best = *candidate;
  }
  return best;
}

std::string rounded_text(double in_base_units, Dim dim, int significant_digits) {
  const std::string composed = composed_unit(dim);
  const std::vector<std::string_view> units = units_of(dim, composed);
  std::string_view unit = units.front();
  for (const std::string_view each : units)
    // Compared after rounding, so that 999.96 W at four digits becomes 1000 W, and at three 1 kW.
    if (std::abs(in_base_units / size_of_unit(each)) >= 1 - 0.5 * std::pow(10, -significant_digits))
      unit = each;
  if (in_base_units == 0) unit = base_unit(dim, composed);
  const double number = in_base_units / size_of_unit(unit);
  if (std::abs(number) >= std::pow(10, significant_digits))
    return fmt::format("{:.0f} {}", number, unit);
  return fmt::format("{:.{}g} {}", number, significant_digits, unit);
}

std::string to_text(Celsius reading) {
  return fmt::format("{} C", reading.degrees());
}

std::string to_text(Celsius reading, int decimals) {
  return fmt::format("{:.{}f} C", reading.degrees(), decimals);
}

}  // namespace triplepoint
