// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/timeseries/columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>

#include "triplepoint/base/text.h"

#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/exporter/exposition.h"
#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/timeseries/text_table.h"

namespace triplepoint::telemetry {
namespace {

using Is = Column::Is;
using run::ReadingKind;
using run::Scope;

struct Unit {
  std::string_view words;  // apart by commas, in lower case but for mega
  char of;                 // what it measures: the letter of its basic unit
  double scale;            // in the unit of signals
};
constexpr std::array units = {Unit{"w,watts,watt", 'W', 1},
                              Unit{"mw", 'W', 1e-3},
                              Unit{"MW", 'W', 1e6},
                              Unit{"uw", 'W', 1e-6},
                              Unit{"kw", 'W', 1e3},
                              Unit{"c,\u00b0c,celsius,celsius degree,degrees c", 'C', 1},
                              Unit{"mhz", 'H', 1},
                              Unit{"ghz", 'H', 1e3},
                              Unit{"hz,hertz", 'H', 1e-6},
                              Unit{"%,percent,pct", '%', 0.01},
                              Unit{"ratio", '%', 1},
                              Unit{"b,bytes", 'B', 1},
                              Unit{"kib", 'B', 1024},
                              Unit{"mib", 'B', 1048576},
                              Unit{"gib", 'B', 1073741824},
                              Unit{"kb", 'B', 1e3},
                              Unit{"mb", 'B', 1e6},
                              Unit{"gb", 'B', 1e9},
                              Unit{"j,joules", 'J', 1},
                              Unit{"mj", 'J', 1e-3},
                              Unit{"MJ", 'J', 1e6},
                              Unit{"uj", 'J', 1e-6},
                              Unit{"kj", 'J', 1e3},
                              Unit{"wh", 'J', 3600},
                              Unit{"kwh", 'J', 3.6e6},
                              Unit{"f,\u00b0f,fahrenheit", 'F', 1},
                              Unit{"v", 'V', 1},
                              Unit{"mv", 'V', 1e-3},
                              Unit{"s", 's', 1},
                              Unit{"ms", 's', 1e-3},
                              Unit{"rpm", 'R', 1}};

bool lists(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != words.npos; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ',') && (end == words.size() || words[end] == ','))
      return true;
  }
  return false;
}

const Unit* unit_of(std::string_view word) {
  word = trimmed(word);
  const auto spelled = [](std::string_view as) {
    return find_where(units, [&](const Unit& unit) { return lists(unit.words, as); });
  };
  const Unit* const found = spelled(word);
  return found != nullptr ? found : spelled(lower_case(word));
}

char measure_of(std::string_view signal) {
  for (const auto& [ending, letter] : {std::pair<std::string_view, char>{"_w", 'W'},
                                       {"_c", 'C'},
                                       {"_mhz", 'H'},
                                       {"_b", 'B'},
                                       {"_j", 'J'},
                                       {"_reasons", 'r'}})
    if (signal.ends_with(ending)) return letter;
  return '%';
}

struct Known {
  std::string_view titles;  // apart by blanks; # is the number of a GPU
  std::string_view signal;
  double unit = 1;
  ReadingKind kind = ReadingKind::instant;
  Scope scope = Scope::gpu;
  bool of_node = false;
};
// Of two quantities with one title, the first whose unit fits.
constexpr std::array known = {
    Known{"temperature_gpu temp temperature gpu_temp gpu_temperature temp_gpu gtemp tmptr die "
          "temperature_sensor_edge temperature_edge edge edge_temperature core_temp "
          "gpu_core_temperature gpu_edge_temperature gpu_#_temp gpu_#_temperature gpu#_temp "
          "gpu#_temperature temp#",
          "die_c"},
    Known{"temperature_sensor_junction hotspot temperature_hotspot hotspot_temperature junction "
          "junction_temperature temperature_junction temperature_hot_spot gpu_t "
          "gpu_junction_temperature",
          "junction_c"},
    Known{"temperature_memory temperature_sensor_memory mem_temp memory_temp memory_temperature "
          "mtemp mmtmp mem_t temperature_mem mem memory gpu_memory_temperature gpu_#_memory_temp "
          "gpu_#_memory_temperature",
          "memory_c"},
    Known{
        "power_draw_instant power_instant power pwr gpu_power gpu_power_draw power_usage "
        "power_draw_watts gpu_#_powerwatts gpu_#_power gpu#_power power# powinst gpu#_power_usage "
        "gpu_#_power_usage board_power_draw",
        "power_instant_w"},
    Known{"power_draw power_draw_average power_average", "power_average_w", 1,
          ReadingKind::average},
    Known{"socket_power current_socket_power current_socket_graphics_package_power "
          "power_socket_power gpu_package_power",
          "power_instant_w", 1, ReadingKind::instant, Scope::package},
    Known{"average_socket_power average_graphics_package_power power_average_socket_power "
          "gpu_average_package_power",
          "power_average_w", 1, ReadingKind::average, Scope::package},
    Known{"module_power_draw_instant module_power_draw module_power", "module_power_w", 1,
          ReadingKind::instant, Scope::module},
    Known{"module_power_draw_average", "module_power_w", 1, ReadingKind::average, Scope::module},
    Known{"power_limit enforced_power_limit pmlmt max_graphics_package_power power_cap pwr_cap "
          "powerlimit gpu_#_enforcedpowerlimitwatts",
          "power_limit_w"},
    Known{"total_energy_consumption energy_consumption accumulated_energy energy", "energy_j", 1,
          ReadingKind::counter},
    Known{"gpu_energy_consumed", "energy_j", 1e-6, ReadingKind::counter},  // AMD's exporter: uJ
    Known{"totec", "energy_j", 1e-3, ReadingKind::counter},
    Known{"sm gpu_#_gpu utilization_gpu gpu_utilization gpu_util utilization gputl gfx_activity "
          "gpu_use gpu_busy gfx usage_gfx_activity gpu_gfx_activity gpu#_util gpu#_utilization",
          "utilization", 0.01, ReadingKind::average},
    Known{"clocks_sm clocks_current_sm sm_clock sm_clk clocks_gr clocks_current_graphics sm smclk "
          "graphics_clock gfx_0_clk gfx_clk gfx_clock gpu_clock gpu_clk sclk sclk_clock_speed pclk "
          "clock clock_gfx_0_clk clocks_current_sm_clock gpu_#_smclock gpu#_clock gpu_frequency",
          "sm_clock_mhz"},
    Known{"clocks_mem clocks_current_memory mem_clock memory_clock mmclk mclk mclk_clock_speed "
          "mem_clk mem_0_clk clock_mem_0_clk gpu_#_memoryclock",
          "memory_clock_mhz"},
    Known{"mem utilization_memory memory_utilization mcutl umc_activity gpu_#_memory "
          "usage_umc_activity gpu_umc_activity",
          "memory_utilization", 0.01, ReadingKind::average},
    Known{"memory_used fbusd fb_used used_vram vram_used", "memory_used_b", 1048576},
    Known{"fan_speed fan", "fan_share", 0.01},
    Known{"clocks_event_reasons_active clocks_throttle_reasons_active clock_event_reasons dvcctr "
          "throttle_reasons clocks_event_reasons clocks_throttle_reasons",
          "throttle_reasons", 1, ReadingKind::bits},
    Known{"smact", "sm_active", 1, ReadingKind::average},
    Known{"smocc", "sm_occupancy", 1, ReadingKind::average},
    Known{"tenso", "tensor_active", 1, ReadingKind::average},
    Known{"drama", "memory_active", 1, ReadingKind::average},
    Known{"gract", "graphics_active", 1, ReadingKind::average},
    Known{"throttled throttled_share", "throttled_share"},
    Known{"node_power system_power pwr_consumption instantaneous_power_reading", "node_power_w", 1,
          ReadingKind::instant, Scope::node, true},
    Known{"inlet inlet_temperature inlet_temp", "inlet_c", 1, ReadingKind::instant, Scope::node,
          true},
    Known{"cpu_power cpu_powerwatts", "cpu_power_w", 1, ReadingKind::instant, Scope::package, true},
};

struct Named {
  std::string_view titles;
  Is is;
};
constexpr std::array named = {
    Named{"date", Is::date},
    Named{
        "timestamp timestamp_ns timestamp_us timestamp_ms timestampus ts time unix_time query_time "
        "unix_timestamp datetime date_time runtime elapsed elapsed_time "
        "relative_time relative_time_process relative_time_wall time_s elapsed_s",
        Is::time},
    Named{"index gpu_index index_gpu gpuid deviceid device local_rank gpu gpu_id entity idx "
          "device_id uuid gpu_uuid pci_bus_id pci_bus bus_id bdf gpu_bdf gpu_pci_bus_id",
          Is::gpu},
    Named{"name gpu_name model modelname product_name card_series gpu_model", Is::model},
    Named{"config snapshot_id trace_id", Is::set},
};

/// Lower case, runs of anything but letters and digits as one _.
std::string plain(std::string_view title) {
  std::string text;
  for (const char c : title) {
    if (is_letter(c) || is_digit(c))
      text += lower_case(c);
    else if (!text.empty() && text.back() != '_')
      text += '_';
  }
  while (text.ends_with('_'))
    text.pop_back();
  return text;
}

/// "kubernetes_node", "host_name", "exported_instance": a word for a machine among words that say
/// nothing else.
bool names_host(std::string_view name) {
  bool any = false;
  for (const std::string& word : split(name, '_')) {
    const bool is_machine =
        lists("node,host,hostname,nodename,instance,server,servername,machine,worker", word);
    if (!is_machine && !lists("name,id,ip,address,fqdn,rank,index,exported,kubernetes,k8s,compute,"
                              "slurm,slurmd",
                              word))
      return false;
    any |= is_machine;
  }
  return any;
}

/// Takes "[W]" or "(W)" off a title.
const Unit* take_unit(std::string_view& title) {
  title = trimmed(title, " \t:");
  if (title.size() > 1 && title.ends_with('%') && is_letter(title[title.size() - 2])) {
    title.remove_suffix(1);  // "GFX%"
    return unit_of("%");
  }
  for (const auto& [open, close] : {std::pair('[', ']'), std::pair('(', ')')}) {
    const std::size_t begin = title.rfind(open);
    if (!title.ends_with(close) || begin == title.npos) continue;
    const Unit* const unit = unit_of(title.substr(begin + 1, title.size() - begin - 2));
    if (unit == nullptr && open == '(') continue;
    title = trimmed(title.substr(0, begin));
    return unit;
  }
  return nullptr;
}

/// Whether `title` is `pattern`; the # of a pattern is a number, and anything may stand before it.
bool fits(std::string_view title, std::string_view pattern, std::optional<int32_t>& gpu) {
  const std::size_t at = pattern.find('#');
  if (at == pattern.npos) return title == pattern;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + 1);
  if (!title.ends_with(after)) return false;
  std::string_view head = title.substr(0, title.size() - after.size());
  const std::size_t digits = head.find_last_not_of("0123456789") + 1;  // 0 where all are
  const auto number = whole_number(head.substr(digits));
  head = head.substr(0, digits);
  if (!number || *number > 65535 || !head.ends_with(before)) return false;
  head.remove_suffix(before.size());
  if (!head.empty() && !head.ends_with('_')) return false;
  gpu = static_cast<int32_t>(*number);
  return true;
}

bool is_one_of(std::string_view title, std::string_view patterns, std::optional<int32_t>& gpu) {
  while (!patterns.empty()) {
    const std::size_t end = std::min(patterns.find(' '), patterns.size());
    if (fits(title, patterns.substr(0, end), gpu)) return true;
    patterns.remove_prefix(std::min(end + 1, patterns.size()));
  }
  return false;
}

Column reading_of(const Known& one, const Unit* unit, std::optional<int32_t> gpu) {
  return {.is = Is::reading,
          .signal = one.signal,
          .unit = unit != nullptr ? unit->scale : one.unit,
          .scope = one.scope,
          .kind = one.kind,
          .gpu = gpu,
          .of_node = one.of_node};
}

Column reading_column(std::string_view title, const Unit* unit) {
  // Titles that mean several things without a unit.
  constexpr std::array vague = {"mem", "memory", "sm", "gpu", "gfx", "die", "clock", "energy"};
  for (const Known& one : known) {
    std::optional<int32_t> gpu;
    if (unit != nullptr && unit->of != measure_of(one.signal)) continue;
    if (!is_one_of(title, one.titles, gpu)) continue;
    if (unit != nullptr || !holds(vague, title)) return reading_of(one, unit, gpu);
  }
  return {};
}

/// "clocks_event_reasons_hw_power_brake_slowdown": as the counters are called, and two wishes.
Column reason_of(std::string_view title) {
  constexpr std::string_view of_reasons = "_reasons_", counter = "throttle_ns_";
  const std::size_t at = title.find(of_reasons);
  if (!title.starts_with("clocks_") || at == title.npos) return {};
  const std::string_view word = title.substr(at + of_reasons.size());
  uint32_t bit = word == "gpu_idle"                        ? gpu_idle_bit
                 : word.starts_with("applications_clocks") ? application_clocks_bit
                                                           : 0;
  for (const run::ThrottleReason& reason : run::throttle_reasons)
    if (word.starts_with(reason.counter.substr(counter.size()))) bit = reason.bit;
  if (bit == 0) return {};
  return {.is = Is::reason, .signal = "throttle_reasons", .kind = ReadingKind::bits, .bit = bit};
}

/// A stamp with its time zone: "2025-09-24T03:48:00Z", "20260908 07:20:00 +02:00".
std::optional<Moment> calendar_moment(std::string_view text) {
  const auto stamp = trace::stamp_of(text);
  if (!stamp) return std::nullopt;
  Moment moment{.ns = stamp->time.nanoseconds(), .order = stamp->order};
  const std::string_view zone = trimmed(text.substr(stamp->size));
  if (zone.starts_with('+') || zone.starts_with('-')) {
    const std::string_view hours = zone.substr(1, 2), minutes = zone.substr(zone.size() - 2);
    const int64_t seconds = whole_number(hours).value_or(0) * 3600 +
                            (zone.size() > 3 ? whole_number(minutes).value_or(0) * 60 : 0);
    moment.ns += (zone.front() == '-' ? 1 : -1) * seconds * 1'000'000'000;
  } else if (zone.empty()) {
    moment.has_no_zone = true;
  } else if (zone != "Z" && zone != "UTC" && zone != "GMT") {
    return std::nullopt;
  }
  return moment;
}

/// "Tue Sep  8 07:20:00 UTC 2026" as calendar_moment() takes it; "07:20:00" is since midnight.
std::optional<Moment> spoken_moment(std::string_view text) {
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  std::vector<std::string_view> words;
  split_cells(text, {.separator = ' '}, words);
  if (words.size() == 1 && text.find(':') <= 2) {
    auto moment = calendar_moment(fmt::format("1970-01-01 {}Z", text));
    if (moment) moment->is_relative = true;
    return moment;
  }
  if (words.size() < 5) return std::nullopt;
  const std::size_t month = months.find(words[1]);
  if (words[1].size() != 3 || month == months.npos) return std::nullopt;
  return calendar_moment(fmt::format("{}-{:02}-{:0>2} {} {}", words.back(), month / 3 + 1, words[2],
                                     words[3], words.size() > 5 ? words[4] : ""));
}

}  // namespace

Column column_of(std::string_view title, std::string_view unit_word) {
  if (const auto metric = signal_of_metric(title))
    return {.is = Is::reading,
            .signal = metric->signal,
            .unit = metric->unit,
            .kind = metric->kind,
            .of_node = metric->of_node};
  const Unit* unit = take_unit(title);
  if (unit == nullptr) unit = unit_of(unit_word);
  std::string name = plain(title);
  if (name.starts_with("nvidia_smi_")) name.erase(0, 11);
  if (name.starts_with("amd_gpu_")) name.erase(0, 4);
  if (unit == nullptr)
    for (const Named& one : named) {
      std::optional<int32_t> none;
      if (is_one_of(name, one.titles, none)) return {.is = one.is};
    }
  if (unit == nullptr && names_host(name)) return {.is = Is::host};
  if (Column found = reason_of(name); found.is != Is::unknown) return found;
  if (Column found = reading_column(name, unit); found.is != Is::unknown) return found;
  const std::size_t last = name.rfind('_');
  if (unit != nullptr || last == name.npos) return {};
  unit = unit_of(name.substr(last + 1));
  name.resize(last);
  return unit == nullptr ? Column() : reading_column(name, unit);
}

std::optional<double> number_in(std::string_view cell, const Column& column, bool decimal_comma) {
  cell = trimmed(cell, " \t\r\"'");
  if (cell.starts_with('(') && cell.ends_with(')')) cell = cell.substr(1, cell.size() - 2);
  if (column.is == Is::reason || column.kind == ReadingKind::bits) {
    const std::string word = lower_case(cell);
    const double set = column.is == Is::reason ? column.bit : 0;
    if (word == "active" || word == "1") return column.is == Is::reason ? set : 1;
    if (word == "not active" || word == "0") return 0;
    if (column.is == Is::reason) return std::nullopt;
    uint64_t bits = 0;
    const bool hex = word.starts_with("0x");
    const char* const end = word.data() + word.size();
    const auto read = std::from_chars(word.data() + (hex ? 2 : 0), end, bits, hex ? 16 : 10);
    if (word.empty() || read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return as_real(bits);
  }
  std::string with_point;
  if (decimal_comma && !contains(cell, '.') && cell.find(',') != cell.npos) {
    with_point = cell;
    with_point[with_point.find(',')] = '.';
    cell = with_point;
  }
  double value = 0;
  const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (read.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::string_view rest = trimmed(cell.substr(as_size(read.ptr - cell.data())));
  if (rest.empty()) return value * column.unit;
  const Unit* const unit = unit_of(rest);
  if (unit == nullptr || unit->of != measure_of(column.signal)) return std::nullopt;
  return value * unit->scale;
}

namespace {

/// What no GPU or package takes, 1.8 times the largest of data/gpus (1,400 W: GB300, MI355X);
/// modules of several with a CPU take more.
double most_watts(const Column& column) {
  return column.scope == Scope::module ? 5000 : 2500;
}

}  // namespace

bool is_plausible(double value, const Column& column) {
  if (!plausible_range(column.signal).holds(value)) return false;
  const char measure = measure_of(column.signal);
  if (measure == 'W' && !column.of_node && value > most_watts(column)) return false;
  return value > 0 || (measure != 'W' && measure != 'H');
}

std::string other_unit(std::string_view cell, const Column& column) {
  const auto value = number_in(cell, column, false);
  const char measure = measure_of(column.signal);
  constexpr double blank = 2147483632;  // and above: DCGM's words for "none"
  if (!value || *value >= blank) return "";
  for (const auto& [of, scale, name] : {std::tuple('W', 1e3, "mW"), std::tuple('W', 1e6, "uW"),
                                        std::tuple('C', 1e3, "millidegrees"),
                                        std::tuple('H', 1e3, "kHz"), std::tuple('H', 1e6, "Hz")})
    if (of == measure && *value / scale >= 10 && is_plausible(*value / scale, column))
      return fmt::format(", in {}? The title may name the unit, as power.draw [W] does", name);
  const bool is_sum = measure == 'W' && *value > most_watts(column);
  return is_sum ? ", more than a GPU takes: a sum over several?" : "";
}

std::optional<Moment> moment_in(std::string_view cell) {
  cell = trimmed(cell, " \t\r\"'");
  double value = 0;
  const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (read.ec != std::errc() || read.ptr != cell.data() + cell.size()) {
    const auto moment = calendar_moment(cell);
    return moment ? moment : spoken_moment(cell);
  }
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  constexpr double earliest_s = 1e9, scales[] = {1e9, 1e6, 1e3, 1};  // 2001, in ns a count
  if (value < earliest_s) return Moment{std::llround(value * 1e9), true, false};
  double unit = scales[0];
  for (const double scale : scales)
    if (unit = scale; value * scale < 9e18 && value * scale >= 1e18) break;
  if (value * unit >= 4e18) return std::nullopt;
  const auto scale = static_cast<int64_t>(unit);
  if (const auto count = whole_number(cell)) return Moment{*count * scale, false, false};
  const double whole = std::floor(value);
  const int64_t part = std::llround((value - whole) * unit);
  return Moment{static_cast<int64_t>(whole) * scale + part, false, false};
}

}  // namespace triplepoint::telemetry
