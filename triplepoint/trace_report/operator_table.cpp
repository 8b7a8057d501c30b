// SPDX-License-Identifier: Apache-2.0
// Operators of traces against the GPU's roof.
//
// A kernel belongs to the operator that encloses its launch: the innermost one whose work is known
// from its shapes, else the innermost one. Host spans of a thread are nested, so one pass with a
// stack gives each its parent.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/trace_lanes.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"
#include "triplepoint/trace_report/operator_energy.h"
#include "triplepoint/trace_report/operator_work.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

/// What the GPU can do at the clock it ran.
struct Roof {
  std::string name;
  const spec::Gpu* gpu = nullptr;
  double clock_share = 1;  // of the boost clock, at which the data sheet's peak holds

  std::optional<double> flops(const OperatorWork& work) const {
    if (gpu == nullptr || !work.precision) return std::nullopt;
    const auto peak = gpu->peak(*work.precision);
    return peak ? std::optional(clock_share * (*peak / (unit::FLOP / unit::s))) : std::nullopt;
  }
  std::optional<double> bandwidth() const {
    if (gpu == nullptr || !gpu->hbm_bandwidth) return std::nullopt;
    return *gpu->hbm_bandwidth / (unit::B / unit::s);
  }
  /// The least seconds of a call.
  std::optional<double> time(const OperatorWork& work) const {
    std::optional<double> least;
    if (const auto rate = bandwidth()) least = work.bytes / unit::B / *rate;
    if (const auto rate = flops(work); rate && work.flops > Flops())
      least = std::max(least.value_or(0), work.flops / unit::FLOP / *rate);
    return least;
  }
};

/// One row of a table: calls that are alike.
struct Row {
  int64_t kernels = 0, time = 0;  // ns
  std::set<int32_t> calls;        // host spans
  double flops = 0, bytes = 0;
  int64_t known = 0;                          // ns, of calls whose work is known
  double least = 0;                           // seconds at the roof, of those
  double energy = 0;                          // J
  std::map<int32_t, double> errors;           // J, by phase
  int64_t powered = 0, own_power = 0;         // ns: energy known; measured of it alone
  double flop_energy = 0, powered_flops = 0;  // of calls with both
  std::string kind, site;
  std::map<std::string, int64_t> names;  // of kernels, ns

  void add(const Row& other) {
    kernels += other.kernels, time += other.time;
    calls.insert(other.calls.begin(), other.calls.end());
    flops += other.flops, bytes += other.bytes;
    known += other.known, least += other.least;
    energy += other.energy, flop_energy += other.flop_energy;
    powered_flops += other.powered_flops;
    for (const auto& [phase, error] : other.errors)
      errors[phase] += error;
    powered += other.powered, own_power += other.own_power;
  }
};

/// Shapes of tensors in a short form: "8x1024 1024x4096".
std::string text_of(const std::vector<OperatorArgument>& arguments) {
  std::string text;
  for (const OperatorArgument& argument : arguments)
    for (const std::vector<int64_t>& shape : argument.shapes)
      if (!shape.empty())
        text += fmt::format("{}{}", text.empty() ? "" : " ", fmt::join(shape, "x"));
  return text;
}

std::string type_of(const std::vector<OperatorArgument>& arguments) {
  for (const OperatorArgument& argument : arguments)
    if (!argument.shapes.empty() && !argument.shapes.front().empty()) return argument.type;
  return "";
}

class Operators {
 public:
  Operators(const TraceInput& input, Roof roof)
      : timeline_(input.timeline()), calls_(input.operators), roof_(std::move(roof)) {
    for (size_t c = 0; c < calls_.size(); ++c)
      call_at_.emplace(std::tuple(calls_[c].lane, calls_[c].begin, calls_[c].name), c);
    link_parents();
    find_forward_modules();
  }

  /// All kernels, or those in steps; with the energy of a recording.
  void collect(const TraceSteps* steps, const run::Run* recording = nullptr) {
    const std::vector<int32_t> launches = launches_of(timeline_);
    if (recording != nullptr)
      energy_ = energy_of_operators(timeline_, *recording, owners(launches));
    for (size_t i = 0; i < timeline_.spans.size(); ++i) {
      const run::Span& span = timeline_.spans[i];
      if (!is_kernel(metrics::type_of(timeline_, span).kind)) continue;
      if (steps != nullptr && steps->step_of_span[i] < 0) continue;
      all_time_ += nanoseconds_of(span);
      const int32_t owner = launches[i] < 0 ? -1 : operator_of(launches[i]);
      if (owner < 0) {
        unknown_time_ += nanoseconds_of(span);
        continue;
      }
      Row& call = of_call_[owner];
      ++call.kernels;
      call.time += nanoseconds_of(span);
      call.names[metrics::type_of(timeline_, span).name] += nanoseconds_of(span);
      call.calls.insert(owner);
      if (energy_) add_energy(call, energy_->of_span[i], nanoseconds_of(span));
    }
    for (auto& [span, row] : of_call_)
      sort_in(span, row);
  }

  /// Divided by the number of ranks times steps.
  std::vector<OperatorUse> uses(double steps) const {
    std::vector<OperatorUse> all = uses_;
    all.push_back({.time = as_real(unknown_time_)});
    for (OperatorUse& use : all)
      for (double* number : {&use.calls, &use.time, &use.flops, &use.timed})
        *number /= steps;
    return all;
  }

  /// What the recording does not tell.
  void note_energy(std::vector<std::string>& remarks) const {
    if (!energy_) return;
    for (const auto& [rank, why] : energy_->missing)
      remarks.push_back(fmt::format("some energy of rank {} is not known: {}", rank, why));
    if (energy_->sampled > 0 && 10 * energy_->sampled < 9 * energy_->time)
      remarks.push_back(
          fmt::format("the recording covers {:.0f} % of the traced time; joules of the rest are "
                      "those of the same powers",
                      percent(energy_->sampled, energy_->time)));
  }

  TraceReport report(int64_t rows) const {
    TraceReport report;
    report.headlines.push_back(headline());
    report.tables = {operator_table(rows),
                     group_table("modules", "By module", "module", modules_),
                     group_table("layers", "By layer", "layer", layers_),
                     group_table("kinds", "By kind of work", "kind", kinds_),
                     group_table("directions", "By direction", "direction", directions_),
                     kernel_table(rows)};
    report.shown = {"operators", "kinds", "directions"};
    report.roof = roof_line_;
    return report;
  }

 private:
  const std::string& name(int32_t span) const {
    return metrics::type_of(timeline_, timeline_.spans[as_size(span)]).name;
  }

  void link_parents() {
    parent_.assign(timeline_.spans.size(), -1);
    for (const LaneOfSpans& lane : lanes_of(SpanList(timeline_), LaneKind::host)) {
      std::vector<int32_t> open;
      for (const int32_t i : lane.spans) {
        const run::Span& span = timeline_.spans[as_size(i)];
        while (!open.empty() && timeline_.spans[as_size(open.back())].end <= span.begin)
          open.pop_back();
        if (!open.empty()) parent_[as_size(i)] = open.back();
        open.push_back(i);
      }
    }
  }

  std::string direction_of(int32_t span) const {
    if (is_backward(span)) return "backward";
    return is_inside(span, "Optimizer.step") ? "optimizer" : "forward";
  }
  std::string kind_of(size_t call) {
    const auto& known = work(call).second;
    return known ? std::string(name_of(known->kind)) : "other";
  }
  /// Calls that are alike: operator, shapes, data type, direction.
  using Alike = std::tuple<std::string, std::string, std::string, std::string>;
  Alike alike(int32_t span, size_t call) {
    const auto& arguments = work(call).first;
    return {calls_[call].name, text_of(arguments), trace_report::type_of(arguments),
            direction_of(span)};
  }

  std::vector<KernelOwner> owners(const std::vector<int32_t>& launches) {
    std::map<Alike, int32_t> rows;
    std::map<int32_t, KernelOwner> of_call;
    std::vector<KernelOwner> all;
    for (size_t i = 0; i < timeline_.spans.size(); ++i) {
      const bool is_launched =
          launches[i] >= 0 && is_kernel(metrics::type_of(timeline_, timeline_.spans[i]).kind);
      const int32_t span = is_launched ? operator_of(launches[i]) : -1;
      KernelOwner& owner = of_call[span];
      if (span < 0) owner.kind = "(no operator)";
      if (span >= 0 && owner.row < 0) {
        const size_t call = *call_of(span);
        owner.kind = kind_of(call);
        const auto next = static_cast<int32_t>(rows.size());
        owner.row = rows.try_emplace(alike(span, call), next).first->second;
      }
      all.push_back(owner);
    }
    return all;
  }

  static void add_energy(Row& call, const EnergyRate& rate, int64_t time) {
    if (!rate.energy) return;
    call.energy += *rate.energy * as_real(time);
    call.errors[rate.phase] += rate.uncertainty * as_real(time);
    call.powered += time;
    if (rate.is_own) call.own_power += time;
  }

  int32_t parent(int32_t span) const { return parent_[as_size(span)]; }

  std::optional<size_t> call_of(int32_t span) const {
    const auto i = as_size(span);
    return value_at(call_at_, std::tuple(timeline_.details[i].lane,
                                         timeline_.spans[i].begin.nanoseconds(), name(span)));
  }

  /// Shapes repeat, so each is read once.
  const std::pair<std::vector<OperatorArgument>, std::optional<OperatorWork>>& work(size_t call) {
    const trace::OperatorCall& said = calls_[call];
    const auto [found, is_new] =
        work_.try_emplace(std::tuple(said.name, said.dims, said.types, said.values));
    if (is_new) {
      found->second.first = arguments_of(said);
      found->second.second = work_of(said.name, found->second.first);
    }
    return found->second;
  }

  /// The innermost operator around a call whose work is known, else the innermost; -1: none.
  int32_t operator_of(int32_t launch) {
    int32_t innermost = -1;
    for (int32_t span = launch; span >= 0; span = parent(span)) {
      const auto call = call_of(span);
      if (!call) continue;
      if (innermost < 0) innermost = span;
      if (work(*call).second) return span;
    }
    return innermost;
  }

  /// "Linear_3" in "LlamaDecoderLayer_0", as the profiler's with_stack and with_modules say; empty:
  /// not recorded.
  struct Place {
    std::string module = "", layer = "";
  };
  Place place_around(int32_t span) const {
    constexpr std::string_view word = "nn.Module: ";
    Place place;
    for (; span >= 0; span = parent(span)) {
      if (!name(span).starts_with(word)) continue;
      const std::string module = name(span).substr(word.size());
      if (place.module.empty()) place.module = module;
      const std::string_view type = std::string_view(module).substr(0, module.rfind('_'));
      if (type.ends_with("Layer") || type.ends_with("Block")) place.layer = module;
    }
    return place;
  }

  /// The line of the user's program around a call.
  std::string site_around(int32_t span) const {
    for (; span >= 0; span = parent(span)) {
      const std::string& text = name(span);
      const bool is_line = contains(text, ".py(");
      if (is_line && !contains(text, "torch/") && !contains(text, "-packages/")) return text;
    }
    return "";
  }

  bool is_inside(int32_t span, std::string_view part) const {
    for (; span >= 0; span = parent(span))
      if (contains(name(span), part)) return true;
    return false;
  }
  bool is_backward(int32_t span) const {
    return is_inside(span, "autograd::engine::evaluate_function");
  }

  /// Backward calls share the number of their forward ones, which lie inside modules.
  void find_forward_modules() {
    for (size_t i = 0; i < timeline_.spans.size(); ++i) {
      const auto span = static_cast<int32_t>(i);
      if (metrics::type_of(timeline_, timeline_.spans[i]).kind != run::SpanKind::host) continue;
      const auto call = call_of(span);
      if (!call || calls_[*call].sequence < 0 || is_backward(span)) continue;
      if (Place place = place_around(span); !place.module.empty())
        place_of_.emplace(std::pair(timeline_.spans[i].rank, calls_[*call].sequence),
                          std::move(place));
    }
  }

  Place place_of(int32_t span) const {
    const int32_t rank = timeline_.spans[as_size(span)].rank;
    if (Place place = place_around(span); !place.module.empty()) return place;
    for (; span >= 0; span = parent(span)) {
      const auto call = call_of(span);
      const auto found = call ? place_of_.find({rank, calls_[*call].sequence}) : place_of_.end();
      if (found != place_of_.end()) return found->second;
    }
    return {"(none)", ""};
  }

  void keep_roof(const std::string& type, const OperatorWork& work, int64_t time) {
    const auto peak = roof_.flops(work), bandwidth = roof_.bandwidth();
    if (!peak || !bandwidth || work.flops <= Flops() || time <= roofed_time_) return;
    roofed_time_ = time;
    roof_line_ = {type, *peak, *bandwidth};
  }

  void sort_in(int32_t span, Row& row) {
    const size_t call = *call_of(span);
    const auto& [arguments, known] = work(call);
    row.site = site_around(span);
    row.kind = kind_of(call);
    if (known) {
      row.known = row.time;
      row.flops = known->flops / unit::FLOP;
      row.bytes = known->bytes / unit::B;
      row.least = roof_.time(*known).value_or(0);
      if (row.flops > 0 && row.powered == row.time)
        row.flop_energy = row.energy, row.powered_flops = row.flops;
    }
    const std::string direction = direction_of(span);
    Row& one = operators_[alike(span, call)];
    one.add(row);
    one.kind = row.kind;
    if (one.site.empty()) one.site = row.site;
    if (known) keep_roof(trace_report::type_of(arguments), *known, one.time);
    for (const auto& [kernel, time] : row.names)
      kernels_[{calls_[call].name, kernel}].add({.kernels = 1, .time = time});
    const auto [module, layer] = place_of(span);
    add_use({module, calls_[call].name, direction, trace_report::type_of(arguments),
             text_of(arguments)},
            row);
    modules_[module].add(row);
    layers_[layer.empty() ? "(none)" : layer].add(row);
    kinds_[row.kind].add(row);
    directions_[direction].add(row);
  }

  void add_use(const std::array<std::string, 5>& key, const Row& row) {
    const auto [place, is_new] = place_of_use_.try_emplace(key, uses_.size());
    const auto& [module, name, direction, type, shapes] = key;
    if (is_new) uses_.push_back({module, name, direction, type, shapes});
    OperatorUse& use = uses_[place->second];
    use.calls += 1;
    use.time += as_real(row.time);
    if (row.flops > 0) use.flops += row.flops, use.timed += as_real(row.known);
  }

  std::vector<DataColumn> rate_columns() const {
    std::vector<DataColumn> columns = {{"calls", "calls"},
                                       {"kernels", "kernels"},
                                       {"time_ns", "time", 0, 1},
                                       {"share_percent", "% of time", 1, 1},
                                       {"flop", "TFLOP", 1e12, 3},
                                       {"bytes", "GB", 1e9, 3},
                                       {"flop_per_s", "TFLOP/s", 1e12, 1},
                                       {"bytes_per_s", "GB/s", 1e9, 0},
                                       {"roof_percent", "% of roof", 1, 1}};
    if (energy_)
      for (const DataColumn& column :
           {DataColumn{"energy_j", "J", 1, 2}, DataColumn{"energy_uncertainty_j", "+- J", 1, 2},
            DataColumn{"energy_per_call_j", "mJ/call", 1e-3, 2},
            DataColumn{"energy_per_flop_j", "pJ/FLOP", 1e-12, 2},
            DataColumn{.key = "power_of", .title = "power of", .optional = 5}})
        columns.push_back(column);
    return columns;
  }
  /// Of the recording's columns.
  void add_energy_cells(const Row& row, std::vector<DataCell>& cells) const {
    if (!energy_) return;
    const bool is_known = row.powered > 0;
    const DataCell why = Missing{row.time == 0              ? "its kernels have no length"
                                 : energy_->missing.empty() ? "no power was recorded meanwhile"
                                                            : energy_->missing.begin()->second};
    const double powered_calls =
        as_real(row.calls.size()) * as_real(row.powered) / as_real(std::max<int64_t>(1, row.time));
    cells.push_back(is_known ? DataCell(row.energy) : why);
    const double square =
        sum_of(row.errors, [](const auto& error) { return error.second * error.second; });
    cells.push_back(is_known ? DataCell(std::sqrt(square)) : why);
    cells.push_back(is_known ? DataCell(row.energy / powered_calls) : why);
    cells.push_back(row.powered_flops > 0 ? DataCell(row.flop_energy / row.powered_flops)
                    : is_known            ? no_flops(row)
                                          : why);
    const bool is_hidden = row.errors.size() == 1 && row.errors.contains(-1);
    cells.push_back(!is_known                         ? why
                    : is_hidden                       ? DataCell("hidden")
                    : 2 * row.own_power > row.powered ? DataCell("operator")
                                                      : DataCell("kind"));
  }
  static DataCell no_flops(const Row& row) {
    return Missing{row.known > 0 ? "no FLOPs are counted for it"
                                 : "its work is not known from shapes"};
  }
  std::vector<DataCell> rate_cells(const Row& row) const {
    const double seconds = as_real(row.known) * 1e-9;
    const DataCell not_known = Missing{"its work is not known from shapes"};
    const DataCell no_products = no_flops(row);
    const auto rate = [&](double amount, const DataCell& why) {
      return amount > 0 && seconds > 0 ? DataCell(amount / seconds) : why;
    };
    std::vector<DataCell> cells = {static_cast<int64_t>(row.calls.size()),
                                   row.kernels,
                                   row.time,
                                   percent(row.time, all_time_),
                                   row.flops > 0 ? DataCell(row.flops) : no_products,
                                   row.bytes > 0 ? DataCell(row.bytes) : not_known,
                                   rate(row.flops, no_products),
                                   rate(row.bytes, not_known),
                                   row.least > 0 && seconds > 0
                                       ? DataCell(100 * row.least / seconds)
                                   : roof_.name.empty() ? Missing{"the GPU's roof is not known"}
                                                        : not_known};
    add_energy_cells(row, cells);
    return cells;
  }

  template <class Key>
  static std::vector<std::pair<Key, const Row*>> by_time(const std::map<Key, Row>& rows) {
    std::vector<std::pair<Key, const Row*>> sorted;
    for (const auto& [key, row] : rows)
      sorted.emplace_back(key, &row);
    std::ranges::stable_sort(
        sorted, [](const auto& a, const auto& b) { return a.second->time > b.second->time; });
    return sorted;
  }

  DataTable operator_table(int64_t most) const {
    DataTable table{.name = "operators", .title = "Operators, by kernel time"};
    table.columns = {{"operator", "operator"},
                     {"direction", "direction"},
                     {"kind", "kind", 1, 0, false, Align::left, 1},
                     {"dtype", "dtype", 1, 0, false, Align::left, 2},
                     {"shapes", "shapes", 1, 0, false, Align::left, 3}};
    for (DataColumn& column : rate_columns())
      table.columns.push_back(std::move(column));
    table.columns.push_back({"site", "called at", 1, 0, false, Align::left, 4});
    for (const auto& [key, row] : by_time(operators_)) {
      if (static_cast<int64_t>(table.rows.size()) == most) break;
      const auto& [name, shapes, type, direction] = key;
      std::vector<DataCell> cells = {name, direction, row->kind, type, shapes};
      for (DataCell& cell : rate_cells(*row))
        cells.push_back(std::move(cell));
      cells.emplace_back(row->site);
      table.add(std::move(cells));
    }
    return in_one_unit(std::move(table));
  }

  DataTable group_table(const char* name, const char* title, const char* word,
                        const std::map<std::string, Row>& rows) const {
    DataTable table{.name = name, .title = title};
    table.columns = rate_columns();
    table.columns.insert(table.columns.begin(), {word, word});
    for (const auto& [key, row] : by_time(rows)) {
      std::vector<DataCell> cells = rate_cells(*row);
      cells.insert(cells.begin(), key);
      table.add(std::move(cells));
    }
    return in_one_unit(std::move(table));
  }

  DataTable kernel_table(int64_t most) const {
    DataTable table{.name = "kernels", .title = "Kernels of operators"};
    table.columns = {{"operator", "operator"},
                     {"calls", "calls"},
                     {"time_ns", "time", 0, 1},
                     {"share_percent", "% of time", 1, 1},
                     {"kernel", "kernel"}};
    for (const auto& [key, row] : by_time(kernels_)) {
      if (static_cast<int64_t>(table.rows.size()) == most) break;
      table.add({key.first, row->kernels, row->time, percent(row->time, all_time_), key.second});
    }
    return in_one_unit(std::move(table));
  }

  std::string headline() const {
    Row all;
    for (const auto& [kind, row] : kinds_)
      all.add(row);
    std::string text = fmt::format("{} operators run kernels for {:.2f} ms", all.calls.size(),
                                   as_real(all.time) * 1e-6);
    const auto rate_of = [&](const char* kind, bool by_flops) {
      const auto found = kinds_.find(kind);
      if (found == kinds_.end()) return;
      const Row& row = found->second;
      const double seconds = as_real(row.known) * 1e-9;
      text += fmt::format(", {} {} of it at {}", kind, percent_text(row.time, all.time),
                          by_flops ? fmt::format("{:.1f} TFLOP/s", row.flops / seconds * 1e-12)
                                   : fmt::format("{:.0f} GB/s", row.bytes / seconds * 1e-9));
      if (row.least > 0) text += fmt::format(" ({:.0f} % of the roof)", 100 * row.least / seconds);
    };
    rate_of("matrix", true);
    rate_of("convolution", true);
    rate_of("attention", true);
    rate_of("memory", false);
    if (!roof_.name.empty())
      text += fmt::format("; roof: {} at {:.0f} % of its boost clock", roof_.name,
                          100 * roof_.clock_share);
    if (energy_) text += energy_words();
    if (unknown_time_ > 0)
      text += fmt::format("; {} of all kernel time belongs to no operator of the trace",
                          percent_text(unknown_time_, all_time_));
    return text + ".";
  }
  /// "; of 812 J of the ranks' GPUs: idle 12.0 %, matrix 60.1 %"
  std::string energy_words() const {
    const double all = sum_of(energy_->kinds_j, [](const auto& kind) { return kind.second; });
    if (energy_->kinds_j.empty())
      return "; the energy is not known: " +
             (energy_->missing.empty() ? "nothing runs" : energy_->missing.begin()->second);
    if (all <= 0) return "; the recording shows no power";
    std::string parts;
    for (const auto& [kind, energy] : energy_->kinds_j)
      parts += fmt::format("{}{} {:.1f} %", parts.empty() ? "" : ", ", kind, 100 * energy / all);
    return fmt::format("; of {} J of the ranks' GPUs: {}", significant(all), parts);
  }
  static std::string percent_text(int64_t part, int64_t whole) {
    return fmt::format("{:.1f} %", percent(part, whole));
  }

  const run::Timeline& timeline_;
  const std::vector<trace::OperatorCall>& calls_;
  Roof roof_;
  std::optional<OperatorEnergy> energy_;  // with a recording
  std::map<std::tuple<int32_t, int64_t, std::string>, size_t> call_at_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>,
           std::pair<std::vector<OperatorArgument>, std::optional<OperatorWork>>>
      work_;
  std::vector<int32_t> parent_;                            // of host spans
  std::map<std::pair<int32_t, int64_t>, Place> place_of_;  // by rank and sequence
  std::map<int32_t, Row> of_call_;                         // by host span
  std::map<Alike, Row> operators_;
  std::map<std::pair<std::string, std::string>, Row> kernels_;  // by operator and kernel
  std::map<std::array<std::string, 5>, size_t> place_of_use_;
  std::vector<OperatorUse> uses_;  // all there are, in order of launch
  std::map<std::string, Row> modules_, layers_, kinds_, directions_;
  int64_t all_time_ = 0, unknown_time_ = 0;  // ns
  std::optional<RoofLine> roof_line_;        // of the operator that computes longest
  int64_t roofed_time_ = 0;
};

/// The mean of the traced ranks' recorded clocks while the trace lasts, over the boost clock.
std::optional<double> clock_share(const run::Run& recording, const run::Timeline& timeline,
                                  const spec::Gpu& gpu) {
  const auto extent = run::extent(timeline);
  const std::set<int32_t> ranks = given_ranks(timeline);
  double sum = 0;
  int64_t count = 0;
  for (const run::Device& device : recording.devices) {
    const run::Series* clock = run::find_series(recording, "sm_clock_mhz", device.index);
    if (clock == nullptr || !extent || !device.rank || !ranks.contains(*device.rank)) continue;
    for (size_t i = 0; i < clock->times.size(); ++i)
      if (clock->times[i] >= extent->begin && clock->times[i] <= extent->end)
        sum += clock->values[i], ++count;
  }
  if (count == 0 || !gpu.boost_clock) return std::nullopt;
  return sum / as_real(count) / (*gpu.boost_clock / unit::MHz);
}

}  // namespace

std::vector<OperatorUse> operator_uses(const TraceInput& input, const TraceSteps& steps) {
  std::set<int32_t> ranks;
  for (const run::Span& span : input.timeline().spans)
    if (is_kernel(metrics::type_of(input.timeline(), span).kind)) ranks.insert(span.rank);
  Operators operators(input, {});
  operators.collect(steps.steps.empty() ? nullptr : &steps);
  return operators.uses(
      as_real(std::max<size_t>(1, ranks.size() * std::max<size_t>(1, steps.steps.size()))));
}

std::vector<OperatorChange> changes_of(std::vector<OperatorUse> before,
                                       std::vector<OperatorUse> after) {
  std::vector<OperatorChange> changes;
  const auto pair_up = [&](auto is_same) {
    std::erase_if(before, [&](const OperatorUse& old) {
      const auto found =
          std::ranges::find_if(after, [&](const OperatorUse& use) { return is_same(old, use); });
      if (found == after.end()) return false;
      changes.push_back({old, std::move(*found)});
      after.erase(found);
      return true;
    });
  };
  const auto alike = [](const OperatorUse& a, const OperatorUse& b) {
    return a.module == b.module && a.name == b.name && a.direction == b.direction;
  };
  pair_up([&](const OperatorUse& a, const OperatorUse& b) {
    return alike(a, b) && a.type == b.type && a.shapes == b.shapes;
  });
  pair_up(alike);
  for (OperatorUse& gone : before)
    changes.push_back({std::move(gone), std::nullopt});
  for (OperatorUse& fresh : after)
    changes.push_back({std::nullopt, std::move(fresh)});
  std::ranges::stable_sort(changes, std::greater(), [](const OperatorChange& change) {
    return std::abs(change.difference());
  });
  return changes;
}

std::string without_operators(const std::string& file) {
  return file +
         ": no operators in the trace (they are in the PyTorch profiler's JSON); trace with "
         "activities CPU and CUDA, record_shapes=True, with_stack=True and with_modules=True";
}

Result<TraceReport> trace_operators(const TraceOptions& options) {
  const auto [traces, recordings] = divide(options.files);
  TraceOptions as_given = options;
  as_given.align = "never";  // operators are told by their begin
  TraceInput input = TPT_TRY(read_traced_work(traces, as_given, trace::HostSpans::all));
  if (input.operators.empty()) return error(without_operators(options.files.front()));
  const std::optional<run::Run> recording = TPT_TRY(telemetry_of(recordings, input));
  Roof roof;
  spec::Library library = TPT_TRY(spec::require_library());
  const auto known = gpu_of_traces(library, input.run);
  std::optional<spec::Gpu> gpu;
  if (known)
    if (auto loaded = spec::load_gpu(library, *known)) gpu = *std::move(loaded);
  if (gpu) {
    roof = {.name = *known, .gpu = &*gpu};
    const auto share = recording ? clock_share(*recording, input.timeline(), *gpu) : std::nullopt;
    roof.clock_share = share.value_or(1);
    if (recording && !share)
      input.remarks.emplace_back(
          "the recording has no clock of these GPUs meanwhile: the roof is that of the boost "
          "clock");
  } else {
    input.remarks.emplace_back("the trace's GPU is not in the library: there is no roof");
  }
  if (!recording)
    input.remarks.emplace_back(
        "no recording (a .run beside the traces): the roof is that of the boost clock, and no "
        "energy is known");
  Operators operators(input, std::move(roof));
  operators.collect(nullptr, recording ? &*recording : nullptr);
  operators.note_energy(input.remarks);
  TraceReport report = operators.report(options.rows());
  report.remarks = std::move(input.remarks);
  return report;
}

}  // namespace triplepoint::trace_report
