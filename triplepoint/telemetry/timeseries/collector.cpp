// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/timeseries/collector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/nvml/sensor.h"
#include "triplepoint/telemetry/recorder/closing.h"

namespace triplepoint::telemetry {
namespace {

using Is = Column::Is;
using Cells = std::span<const std::string_view>;

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t most_gpus = 10'000'000;  // a larger number names no GPU
constexpr std::size_t most_told = 12;

std::string_view bare(std::string_view cell) {
  return trimmed(cell, " \t\r\"'");
}

/// 3 of "3", "GPU 3", "card3", "cuda:3".
std::optional<int64_t> gpu_number(std::string_view id) {
  const std::string text = lower_case(id);
  std::string_view rest = text;
  for (const std::string_view word : {"gpu", "card", "nvidia", "cuda:", "device"})
    if (rest.starts_with(word)) rest = trimmed(rest.substr(word.size()));
  const auto number = whole_number(rest);
  return number && *number < most_gpus ? number : std::nullopt;
}

bool is_bus_address(std::string_view id) {
  return std::ranges::count(id, ':') >= 1 && contains(id, '.') &&
         id.find_first_not_of("0123456789abcdefABCDEF:.") == id.npos;
}

/// Of a whole GPU: one of a MIG instance (MIG-...) names no GPU.
bool is_uuid(std::string_view id) {
  return id.starts_with("GPU-") ||
         (id.size() >= 12 && id.find_first_not_of("0123456789abcdefABCDEFx-") == id.npos);
}

std::string seconds_text(double seconds) {
  return significant(seconds) + " s";
}

}  // namespace

void Collector::begin_file(std::optional<int32_t> gpu) {
  judge_samples();
  file_gpu_ = gpu;
  losses_.clear();
}

void Collector::leave_out(std::string_view line, std::string_view why) {
  if (left_out_++ == 0) example_ = line.substr(0, 60);
  const auto known = losses_.find(why);
  Loss& loss = known == losses_.end() ? losses_[std::string(why)] : known->second;
  if (loss.lines++ == 0) loss.example = line.substr(0, 60);
}

std::string Collector::why_left_out() const {
  std::vector<std::pair<std::string, Loss>> all(losses_.begin(), losses_.end());
  std::ranges::stable_sort(all, std::greater<>(), [](const auto& l) { return l.second.lines; });
  const auto text_of = [](const auto& one) {
    return fmt::format("{} {} (\"{}\")", one.second.lines, one.first, one.second.example);
  };
  return joined(mapped(all, text_of), "; ");
}

std::optional<int64_t> Collector::time_of(std::span<const Column> columns, Cells cells) {
  std::string with_date;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].is == Is::date) with_date = std::string(bare(cells[i])) + " ";
    if (columns[i].is != Is::time) continue;
    const auto moment = moment_in(with_date.empty() ? cells[i] : with_date.append(bare(cells[i])));
    if (!moment) {
      leave_out(bare(cells[i]),
                "have a time that is not known; write it as 2026-11-30 10:00:00, or in seconds");
      return std::nullopt;
    }
    ++(moment->is_relative ? relative_rows_ : dated_rows_);
    has_no_zone_ |= moment->has_no_zone;
    if (orders_.insert(moment->order).second)
      example_date_ = with_date + std::string(bare(cells[i]));
    has_whole_seconds_ &=
        moment->ns % second_ns == 0 && cells[i].find_first_of(".,") == cells[i].npos;
    return moment->ns;
  }
  const auto when = with_date.empty() ? std::nullopt : moment_in(trimmed(with_date));
  if (when) return when->ns;
  row_lacks_time_ = true;
  ++untimed_rows_;
  return 0;
}

Collector::Owner& Collector::owner(std::map<std::string, Owner, std::less<>>& all,
                                   std::string_view host, std::string_view id) {
  key_.assign(host).append(1, '\n').append(id);
  const auto known = all.find(key_);
  if (known != all.end()) return known->second;
  Owner& fresh = all[key_];
  fresh.host = host;
  fresh.place = static_cast<int64_t>(all.size());
  fresh.number = gpu_number(id);
  if (!fresh.number) (is_bus_address(id) ? fresh.pci : fresh.uuid) = id;
  if (!holds(hosts_, host)) hosts_.emplace_back(host);
  return fresh;
}

/// Null where the row names none, or several.
Collector::Owner* Collector::gpu_of(std::string_view host, std::span<const Column> columns,
                                    Cells cells) {
  std::string_view number, uuid, pci;
  bool has_column = false;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].is != Is::gpu) continue;
    has_column = true;
    const std::string_view id = bare(cells[i]);
    if (number.empty() && gpu_number(id)) number = id;
    if (pci.empty() && is_bus_address(id)) pci = id;
    if (uuid.empty() && is_uuid(id)) uuid = id;
    if (number.empty() && uuid.empty() && pci.empty() && no_gpu_ == 0) example_gpu_ = id;
  }
  if (has_column && number.empty() && uuid.empty() && pci.empty()) return nullptr;
  if (!has_column) {
    // Rows of one moment are one GPU each, in the driver's order.
    key_ = fmt::format("{}", file_gpu_ ? *file_gpu_ : anonymous_);
    return &owner(gpus_, host, std::string(key_));
  }
  const auto known = by_uuid_.find(uuid);
  if (known != by_uuid_.end()) return known->second;
  const auto plain_number = gpu_number(number);
  const std::string id =
      plain_number ? fmt::format("{}", *plain_number) : std::string(uuid.empty() ? pci : uuid);
  Owner* found = &owner(gpus_, host, id);
  // Others of this number are of a node without a name, or were replaced.
  for (int more = 2; plain_number && !uuid.empty() && !found->uuid.empty(); ++more) {
    found = &owner(gpus_, fmt::format("{}{}({})", host, host.empty() ? "" : " ", more), id);
    shares_numbers_ = true;
  }
  if (!pci.empty()) found->pci = pci;
  if (!uuid.empty()) by_uuid_.emplace(found->uuid = uuid, found);
  return found;
}

void Collector::take(Owner& owner, const Column& column, std::string_view cell, int64_t ns,
                     bool decimal_comma) {
  const auto [at, fresh] = owner.tracks.try_emplace(column.signal);
  Track& track = at->second;
  if (fresh) track.column = column;
  ++track.seen;
  const auto value = number_in(cell, column, decimal_comma);
  const bool again = !track.ns.empty() && track.ns.back() == ns;
  if (value && column.is == Is::reason && again) {
    const auto bits = static_cast<uint64_t>(track.values.back()) | static_cast<uint64_t>(*value);
    track.values.back() = as_real(bits);
    return;
  }
  if (value && is_plausible(*value, column)) {
    track.ns.push_back(ns);
    track.values.push_back(*value);
    return;
  }
  ++(value ? track.implausible : track.absent);
  if (track.example.empty())
    track.example = bare(cell).empty() ? "empty" : bare(cell).substr(0, 40);
}

void Collector::add(std::span<const Column> columns, Cells cells, bool decimal_comma) {
  std::string_view host;
  bool has_own = false, has_gpu_column = false;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].is == Is::host && host.empty()) host = bare(cells[i]);
    has_gpu_column |= columns[i].is == Is::gpu;
    has_own |= (columns[i].is == Is::reading && !columns[i].gpu && !columns[i].of_node) ||
               columns[i].is == Is::reason;
  }
  row_lacks_time_ = false;
  auto when = time_of(columns, cells);
  if (!when) return;
  anonymous_ = 0;
  if (!row_lacks_time_ && !has_gpu_column && has_own && !file_gpu_) {
    Samples& samples = samples_[std::string(host)];
    if (samples.ns.empty() || samples.ns.back() != *when)
      samples.ns.push_back(*when), samples.rows.push_back(0);
    anonymous_ = samples.rows.back()++;
  }
  Owner* gpu = has_own ? gpu_of(host, columns, cells) : nullptr;
  const bool is_numbered = row_lacks_time_ && has_own && has_gpu_column;
  if (is_numbered) {
    *when = static_cast<int64_t>(untimed_gpus_.size());
    untimed_gpus_.push_back(gpu);
  }
  if (has_own && gpu == nullptr) {
    ++no_gpu_;
    return;
  }
  ++rows_;
  if (gpu != nullptr && row_lacks_time_ && !is_numbered) *when = gpu->rows * second_ns;
  if (gpu != nullptr) ++gpu->rows;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    if (column.is == Is::model && gpu != nullptr && gpu->model.empty()) gpu->model = bare(cells[i]);
    if (column.is != Is::reading && column.is != Is::reason) continue;
    Owner* whose = gpu;
    if (column.of_node) whose = &owner(nodes_, host, "");
    if (column.gpu) whose = &owner(gpus_, host, fmt::format("{}", *column.gpu));
    if (column.gpu && row_lacks_time_) *when = rows_ * second_ns;
    take(*whose, column, cells[i], *when, decimal_comma);
  }
}

/// Rows that name no GPU: those of one time are one sample, of a GPU each in the driver's order,
/// where nothing else is possible.
void Collector::judge_samples() {
  for (const auto& [host, samples] : samples_) {
    const int64_t each = samples.rows.front();
    const auto [fewest, most] = std::ranges::minmax(
        std::span(samples.rows)
            .first(std::max<std::size_t>(1, samples.rows.size() - 1)));  // the last may be cut
    std::vector<int64_t> steps;
    for (std::size_t i = 1; i < samples.ns.size(); ++i)
      if (samples.ns[i] > samples.ns[i - 1]) steps.push_back(samples.ns[i] - samples.ns[i - 1]);
    const int64_t usual = steps.empty() ? 0 : upper_median(steps);
    const auto uneven = std::ranges::count_if(
        steps, [&](int64_t step) { return step > 3 * usual || 3 * step < usual; });
    std::string why;
    if (fewest != most || samples.rows.back() > each)
      why = fmt::format("its samples have from {} to {} rows", fewest,
                        std::max(most, samples.rows.back()));
    else if (25 * uneven > std::ssize(steps))
      why = fmt::format("its rows are from {} to {} apart, as those of several GPUs in turn",
                        seconds_text(as_real(std::ranges::min(steps)) * 1e-9),
                        seconds_text(as_real(std::ranges::max(steps)) * 1e-9));
    else if (each > 1 && has_whole_seconds_ && usual < 2 * second_ns)
      why = fmt::format("{} rows of a whole second may be {} GPUs once, or fewer several times",
                        each, each);
    if (!why.empty())
      refuse(
          fmt::format("no column says which GPU a row is of ({}); ask for index, as in "
                      "nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv",
                      why));
    std::string text = "no column says which GPU a row is of: all are taken to be of one";
    if (each > 1)
      text = fmt::format(
          "no column says which GPU a row is of: the {} rows of each time are taken "
          "to be of {} GPUs, in the driver's order",
          each, each);
    if (!holds(notes_, text)) note(std::move(text));
  }
  samples_.clear();
}

/// Rows that go back to a span that was told before: of another table, not after a clock was set.
/// An hour that comes twice is no such, unless it begins where the rows begin.
std::size_t Collector::rows_of_covered_times(const std::vector<int64_t>& ns, int64_t usual) const {
  int64_t first = ns.front(), last = ns.front();
  std::size_t rows = 0;
  for (std::size_t i = 1; i < ns.size(); ++i) {
    if (ns[i] < ns[i - 1]) {
      std::size_t end = i;
      while (end + 1 < ns.size() && ns[end + 1] >= ns[end])
        ++end;
      const int64_t shared = std::min(last, ns[end]) - std::max(first, ns[i]);
      const bool is_hour = is_hour_back(ns[i - 1] - ns[i], usual) &&
                           std::abs(ns[i] - first) > 60 * second_ns + 2 * usual;
      if (!is_hour && 2 * shared > std::min(last - first, ns[end] - ns[i]))
        rows +=
            as_size(std::count_if(&ns[i], &ns[end] + 1, [&](int64_t at) { return at <= last; }));
    }
    first = std::min(first, ns[i]);
    last = std::max(last, ns[i]);
  }
  return rows;
}

/// An hour that comes twice is an hour; other clocks were set by an amount that is not written
/// down.
bool Collector::is_hour_back(int64_t back, int64_t usual) const {
  constexpr int64_t hour_ns = 3600 * second_ns;
  return has_no_zone_ && std::abs(back - hour_ns) < 60 * second_ns + 2 * usual;
}

/// Stamps in their order, each once. A clock that went back a few times was set: what follows goes
/// on where it was. Rows in no order at all are sorted. `whose`: for what is refused.
void Collector::straighten(Track& track, const std::string& whose) {
  std::vector<int64_t>& ns = track.ns;
  std::vector<int64_t> steps, backwards;
  for (std::size_t i = 1; i < ns.size(); ++i)
    (ns[i] < ns[i - 1] ? backwards : steps).push_back(ns[i] - ns[i - 1]);
  const int64_t usual = steps.empty() ? 0 : upper_median(steps);
  usual_ = std::max(usual_, usual);
  const bool in_parts = !backwards.empty() && backwards.size() * 20 <= ns.size();
  const std::size_t again = in_parts ? rows_of_covered_times(ns, usual) : 0;
  if (in_parts && again == 0 && !has_any_order_ && backwards.size() <= 3) {
    int64_t shift = 0;
    for (std::size_t i = 1, last = 0; i < ns.size(); last = i++) {
      const int64_t back = ns[last] - shift - ns[i];
      constexpr int64_t most_ns = 100'000'000 * second_ns;  // three years: no clock is set so far
      if (back > most_ns) break;
      if (back > 0) shift += is_hour_back(back, usual) ? 3600 * second_ns : back + usual;
      if (back > 0) back_s_ = std::max(back_s_, as_real(back + usual) * 1e-9);
      ns[i] += shift;
    }
  }
  int64_t summer = 0;
  for (std::size_t i = 1; i < ns.size() && has_no_zone_ && backwards.empty(); ++i) {
    if (trace::is_summer_time(Instant(ns[i - 1] + summer), Instant(ns[i]),
                              as_real(usual) * unit::ns))
      summer += 3600 * second_ns;
    ns[i] -= summer;
  }
  has_summer_time_ |= summer > 0;
  std::vector<std::size_t> order(ns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ns[i]; });
  Track sorted;
  const bool counts = track.column.kind == run::ReadingKind::counter;
  Counter counter;
  std::size_t same = 0, others = 0, changes = 0;
  double value = 0;
  for (const std::size_t i : order) {
    if (!sorted.ns.empty() && sorted.ns.back() == ns[i]) {
      ++(track.values[i] == value ? same : others);
      continue;
    }
    changes += value != track.values[i];
    value = track.values[i];
    sorted.ns.push_back(ns[i]);
    restarts_ += counts && i > 0 && track.values[i] < track.values[i - 1] ? 1 : 0;
    constexpr double milli = 1e3;  // counters count in whole numbers
    sorted.values.push_back(
        counts ? counter.update(static_cast<uint64_t>(track.values[i] * milli), ns[i]) / milli
               : track.values[i]);
  }
  repeated_ += static_cast<int64_t>(others);
  const bool differs = (others > 2 && others * 20 > ns.size()) ||
                       (again > 2 * (same + others) && changes * 20 > ns.size());
  if (differs && !track.column.of_node)
    refuse(
        fmt::format("readings of {} come twice for the same times, with other values ({}; the "
                    "table holds several nodes or runs, or times without fractions of a second); "
                    "name the node in a column titled host, or give one table at a time",
                    whose, track.column.signal));
  ns = std::move(sorted.ns);
  for (std::size_t i = 1; i < sorted.values.size() && !counts; ++i)
    writes_all_ |= sorted.values[i] == sorted.values[i - 1];
  track.values = std::move(sorted.values);
}

/// Stretches in which no series has a reading. Samplers that write changes only have rows at any
/// distance, and a counter of energy counts on meanwhile: neither has any.
void Collector::find_gaps(int64_t begin) {
  std::vector<int64_t> all;
  bool counts_energy = false;
  for_each_track([&](const Owner&, const Track& track) {
    all.insert(all.end(), track.ns.begin(), track.ns.end());
    counts_energy |= track.column.signal == "energy_j";
  });
  if (counts_energy || !writes_all_) return;
  std::ranges::sort(all);
  int64_t sum = 0;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (const int64_t gap = all[i] - all[i - 1]; gap > std::max(20 * usual_, 5 * second_ns))
      gaps_[all[i - 1] - begin] = sum += gap - usual_;
}

int64_t Collector::without_gaps(int64_t ns) const {
  const auto next = gaps_.lower_bound(ns);
  return next == gaps_.begin() ? ns : ns - std::prev(next)->second;
}

/// Seconds by row. Rows without times come in rounds, each GPU in its place: one of another GPU
/// there names the wrong one, and has none. Where they do not, each GPU's rows count.
std::vector<std::optional<int64_t>> Collector::seconds_of_untimed_rows() {
  int64_t most = 0;
  std::map<const Owner*, int64_t> rows;
  for (const Owner* const gpu : untimed_gpus_)
    if (gpu != nullptr) most = std::max(most, ++rows[gpu]);
  const auto round =
      as_size(std::ranges::count_if(rows, [&](const auto& one) { return 2 * one.second > most; }));
  std::vector<std::map<const Owner*, int64_t>> places(round);
  for (std::size_t row = 0; row < untimed_gpus_.size(); ++row)
    ++places[row % round][untimed_gpus_[row]];
  std::vector<const Owner*> usual = mapped(places, [&](const auto& place) {
    return std::ranges::max_element(place, {}, [](auto& one) { return one.second; })->first;
  });
  std::vector<std::optional<int64_t>> seconds;
  int64_t others = 0;
  for (std::size_t row = 0; row < untimed_gpus_.size(); ++row) {
    const bool is_usual = untimed_gpus_[row] == usual[row % round];
    seconds.push_back(is_usual ? std::optional(static_cast<int64_t>(row / round)) : std::nullopt);
    others += !is_usual;
  }
  if (10 * others <= static_cast<int64_t>(seconds.size())) {
    if (others > no_gpu_)
      note(fmt::format("{} rows stand in the place of another GPU, and are left out",
                       others - no_gpu_));
    return seconds;
  }
  rows.clear();
  for (std::size_t row = 0; row < untimed_gpus_.size(); ++row)
    seconds[row] = rows[untimed_gpus_[row]]++;
  return seconds;
}

void Collector::time_untimed_rows() {
  if (untimed_gpus_.empty() || gpus_.empty()) return;
  const auto seconds = seconds_of_untimed_rows();
  for (auto& [key, gpu] : gpus_)
    for (auto& [signal, track] : gpu.tracks) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < track.ns.size(); ++i) {
        const auto row = as_size(track.ns[i]);
        if (row >= seconds.size() || !seconds[row]) continue;
        track.ns[kept] = *seconds[row] * second_ns;
        track.values[kept++] = track.values[i];
      }
      track.ns.resize(kept);
      track.values.resize(kept);
    }
}

/// Nodes by host as they appear, else by the number; devices of a node by number, else by bus
/// address, else as they appear.
void Collector::number_gpus(run::Run& run, std::vector<Owner*>& order) const {
  std::map<std::string, int64_t> without_number;
  // AMD's tools see one host, whose partitions may be 64.
  const bool is_one_host =
      run.manifest.producer == "amd-smi" || run.manifest.producer == "rocm-smi";
  const auto per_node_of = [&](const Owner& gpu) {
    return is_one_host || (!gpu.number && !gpu.host.empty()) ? most_gpus : per_node_;
  };
  std::ranges::sort(order, [](const Owner* a, const Owner* b) {
    return std::tuple(a->host, a->number.value_or(-1), a->number ? "" : a->pci, a->place) <
           std::tuple(b->host, b->number.value_or(-1), b->number ? "" : b->pci, b->place);
  });
  const bool has_hosts = hosts_.size() > 1 || (hosts_.size() == 1 && !hosts_.front().empty());
  // Numbers from 1 on fill fewer nodes than if they were from 0 on.
  std::array<std::set<std::pair<std::string_view, int64_t>>, 2> nodes;
  for (const Owner* const gpu : order)
    for (const int64_t first : {0, 1})
      nodes[as_size(first)].emplace(
          gpu->host, (gpu->number.value_or(0) - first + per_node_of(*gpu)) / per_node_of(*gpu));
  const bool has_zero = std::ranges::any_of(order, [](auto* gpu) { return gpu->number == 0; });
  const int64_t first = nodes[1].size() < nodes[0].size() && !has_zero ? 1 : 0;
  std::vector<std::pair<run::Device, Owner*>> devices;
  for (Owner* const gpu : order) {
    const int64_t number = gpu->number ? *gpu->number - first : without_number[gpu->host]++;
    const auto host = std::ranges::find(hosts_, gpu->host) - hosts_.begin();
    const auto slot = static_cast<int32_t>(number % per_node_of(*gpu));
    devices.push_back({{.node = static_cast<int32_t>(has_hosts ? host : number / per_node_of(*gpu)),
                        .local = slot + static_cast<int32_t>(first),
                        .slot = slot,
                        .name = gpu->model,
                        .uuid = gpu->uuid,
                        .pci = nvml::plain_pci(gpu->pci)},
                       gpu});
  }
  std::ranges::stable_sort(
      devices, {}, [](const auto& one) { return std::pair(one.first.node, one.first.local); });
  order.clear();
  for (auto& [device, gpu] : devices) {
    device.index = static_cast<int32_t>(run.devices.size());
    run.devices.push_back(std::move(device));
    order.push_back(gpu);
  }
  if (has_hosts) run.manifest.hosts = hosts_;
  if (first == 1)
    run.manifest.notes.emplace_back(
        "GPUs are numbered from 1 on, as in the table; those of CUDA are one less");
  if (shares_numbers_) {
    if (run.manifest.hosts.front().empty()) run.manifest.hosts.front() = "(1)";
    run.manifest.notes.emplace_back(
        "GPUs of several UUIDs have one number: they are put on as many nodes, whose names nothing "
        "tells, or were replaced");
  }
  if (!has_hosts && !run.devices.empty() && run.devices.back().node > 0)
    run.manifest.notes.push_back(
        fmt::format("no column names the node: {} GPUs each are taken to be of one", per_node_));
  if (!without_number.empty())
    run.manifest.notes.emplace_back(
        "GPUs are numbered by bus address, or as they appear: the rows have no index");
}

/// Partitions of a package, or its dies, of which the first tells the power of all: those without
/// a reading stand behind it, equally many behind each of several.
void Collector::count_on_packages(run::Run& run, const std::vector<Owner*>& order) {
  std::vector<std::size_t> tell;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const auto& [signal, track] : order[i]->tracks) {
      if (track.column.scope != run::Scope::package || track.column.of_node) continue;
      if (!track.ns.empty() && (tell.empty() || tell.back() != i)) tell.push_back(i);
    }
  if (tell.size() < 2 || order.size() % tell.size() != 0) return;
  const std::size_t each = order.size() / tell.size();
  for (std::size_t i = 0; i < tell.size(); ++i)
    if (each < 2 || tell[i] != i * each) return;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i % each != 0) run.devices[i].power_counted_on = run.devices[i - i % each].local;
  run.manifest.notes.push_back(
      fmt::format("power is that of packages: every {} GPUs are parts of one, whose power the "
                  "first of them tells",
                  each));
}

std::string Collector::whose(const Owner& owner) {
  const std::string id =
      owner.number ? fmt::format("GPU {}", *owner.number) : owner.uuid + owner.pci;
  return owner.host.empty() ? id : fmt::format("{} of {}", id.empty() ? "node" : id, owner.host);
}

void Collector::add_series(run::Run& run, Owner& owner, int32_t index, int64_t epoch) {
  for (auto& [signal, track] : owner.tracks) {
    if (track.ns.empty()) continue;
    run::Series series{.signal = std::string(signal),
                       .device = index,
                       .of_node = track.column.of_node,
                       .values = std::move(track.values)};
    for (const int64_t ns : track.ns)
      series.times.emplace_back(ns - epoch);
    run.sources.push_back({.signal = series.signal,
                           .device = index,
                           .of_node = series.of_node,
                           .scope = track.column.scope,
                           .kind = track.column.kind,
                           .sensor = run.manifest.producer});
    run.series.push_back(std::move(series));
  }
}

void Collector::add_notes(run::Run& run, const std::vector<Owner*>& order) {
  std::vector<std::string>& notes = run.manifest.notes;
  notes.insert(notes.end(), notes_.begin(), notes_.end());
  const auto say = [&](bool holds, auto&&... words) {
    if (holds) notes.push_back(fmt::format(std::forward<decltype(words)>(words)...));
  };
  say(left_out_ > 0,
      fmt::runtime("{} lines are no rows of readings (messages, or cut) and are "
                   "left out, such as \"{}\""),
      left_out_, example_);
  say(no_gpu_ > 0, fmt::runtime("{} rows name no single GPU (\"{}\") and are left out"), no_gpu_,
      example_gpu_);
  say(lacks_times_ && rows_ > std::ssize(order),
      fmt::runtime("the rows have no times: each GPU's are taken to be 1 s apart"));
  say(has_no_zone_, fmt::runtime("times without a zone are taken as UTC"));
  say(has_summer_time_,
      fmt::runtime("the clock goes forward by an hour, to summer time: no time passed"));
  say(back_s_ > 0,
      fmt::runtime("the clock goes back by {} (an hour that comes twice, or a clock that was set): "
                   "what follows is taken to go on from there"),
      seconds_text(back_s_));
  if (!gaps_.empty())
    notes.push_back(fmt::format(
        "no readings for {} in all, {} times, first from {} on: what happened then is unknown, and "
        "is in no energy, mean or duration",
        seconds_text(as_real(gaps_.rbegin()->second) * 1e-9), gaps_.size(),
        seconds_text(as_real(gaps_.begin()->first) * 1e-9)));
  say(restarts_ > 0,
      fmt::runtime("counters began again {} times: what they counted between the two readings is "
                   "not known, and counts as nothing"),
      restarts_);
  say(repeated_ > 0,
      fmt::runtime("{} readings have another's time and a different value: the first counts"),
      repeated_);
  // A sensor that no GPU has is told once.
  std::map<std::string_view, bool> is_known;
  std::map<std::string_view, std::string> examples;
  for (Owner* const gpu : order)
    for (auto& [signal, track] : gpu->tracks) {
      // A record without the key says as little as one without a value.
      const int64_t most =
          most_of(gpu->tracks, [](const auto& beside) { return beside.second.seen; });
      if (2 * track.seen > most) track.absent += most - track.seen;
      if (track.example.empty()) track.example = "no such key";
      is_known[signal] |= !track.ns.empty() || track.implausible > 0;
      examples[signal] = track.example;
    }
  for (const auto& [signal, known] : is_known)
    say(!known, fmt::runtime("{}: no GPU has a reading (\"{}\")"), signal, examples[signal]);
  std::size_t told = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const auto& [signal, track] : order[i]->tracks) {
      const int64_t lost = track.absent + track.implausible;
      if (lost == 0 || !is_known[signal] || told++ >= most_told) continue;
      notes.push_back(fmt::format(
          "{} of GPU {}: {} of {} readings are {} (\"{}\"{}) and are left out", signal,
          run::device_number(run, i), lost, lost + static_cast<int64_t>(track.ns.size()),
          track.implausible == 0 ? "not there"
          : track.absent == 0    ? "implausible"
                                 : "not there or implausible",
          track.example, track.implausible == 0 ? "" : other_unit(track.example, track.column)));
    }
  say(told > most_told, fmt::runtime("{} more signals of GPUs lack readings"), told - most_told);
}

/// 05/06/2025 is what other rows' dates are, else what makes the table shorter.
void Collector::order_dates() {
  std::vector<std::vector<int64_t>*> all;
  for_each_track([&](const Owner&, Track& track) {
    if (!track.ns.empty()) all.push_back(&track.ns);
  });
  if (all.empty()) return;
  const auto days =
      trace::have_day_first(orders_, Instant(all.front()->front()), Instant(all.front()->back()));
  if (!days)
    return refuse(fmt::format(
        "its dates, such as \"{}\", may have the day or the month first; write them as 2026-11-30",
        example_date_));
  for (std::vector<int64_t>* const track : all)
    for (int64_t& ns : *track)
      if (*days) ns = trace::with_day_first(Instant(ns)).nanoseconds();
}

/// What moment_in takes for a time since 1970 is one from 2001 on.
void Collector::leave_out_other_times(Track& track, bool is_relative) {
  constexpr int64_t year_2001_ns = 1'000'000'000 * second_ns;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < track.ns.size(); ++i) {
    if ((track.ns[i] < year_2001_ns) != is_relative) continue;
    track.ns[kept] = track.ns[i];
    track.values[kept++] = track.values[i];
  }
  track.ns.resize(kept);
  track.values.resize(kept);
}

Result<run::Run> Collector::finish(const Path& source, std::string producer) {
  judge_samples();
  order_dates();
  run::Run run;
  const Path path = by_own_name(source);
  run.manifest.name = (is_folder(source) ? path.filename() : path.stem()).string();
  run.manifest.origin = run::Origin::imported;
  run.manifest.fidelity = run::Fidelity::real;
  run.manifest.producer = std::move(producer);
  std::vector<Owner*> order;
  int64_t most_rows = 0;
  for (const auto& [key, gpu] : gpus_)
    if (gpu.number) most_rows = std::max(most_rows, gpu.rows);
  for (auto& [key, gpu] : gpus_) {
    // A broken number among numbers is no GPU.
    if (!gpu.number && gpu.rows > 0 && 4 * gpu.rows <= most_rows) {
      if (no_gpu_ == 0) example_gpu_ = gpu.uuid + gpu.pci;
      no_gpu_ += gpu.rows;
      gpu.tracks.clear();
      continue;
    }
    order.push_back(&gpu);
  }
  number_gpus(run, order);
  if (relative_rows_ + dated_rows_ == 0) time_untimed_rows();
  const bool is_relative = relative_rows_ + untimed_rows_ > dated_rows_;
  lacks_times_ = untimed_rows_ > relative_rows_ + dated_rows_;
  if (relative_rows_ + untimed_rows_ > 0 && dated_rows_ > 0) {
    for_each_track([&](const Owner&, Track& track) { leave_out_other_times(track, is_relative); });
    note(
        fmt::format("{} rows have no time, or one of another kind than the others' (since the "
                    "beginning or since 1970), and are left out",
                    std::min(relative_rows_ + untimed_rows_, dated_rows_)));
  }
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for_each_track([&](const Owner& owner, Track& track) {
    // Where most are impossible, the unit is another one, and what is left is by chance.
    if (track.implausible > static_cast<int64_t>(track.ns.size())) {
      track.implausible += static_cast<int64_t>(track.ns.size());
      track.ns.clear(), track.values.clear();
    }
    straighten(track, whose(owner));
    if (track.ns.empty()) return;
    begin = std::min(begin, track.ns.front());
    end = std::max(end, track.ns.back());
  });
  if (refusal_) return error("{}: {}", source.string(), *refusal_);
  if (begin < end) find_gaps(begin);
  add_notes(run, order);
  count_on_packages(run, order);
  if (end < begin) return run;
  epoch_ = begin;
  if (!lacks_times_ && !is_relative) run.manifest.epoch_unix_ns = begin;
  for (std::size_t i = 0; i < order.size(); ++i)
    add_series(run, *order[i], static_cast<int32_t>(i), begin);
  for (auto& [host, node] : nodes_)
    add_series(run, node,
               static_cast<int32_t>(std::ranges::find(hosts_, node.host) - hosts_.begin()), begin);
  RecordingSummary summary;
  run::Run head = run;
  head.series.clear();
  const run::SeriesLoader load = [&](const run::Series& wanted) {
    const run::Series* const found =
        run::find_series(run, wanted.signal, wanted.device, wanted.of_node);
    run::Series series = found == nullptr ? wanted : *found;
    for (Instant& time : series.times.own())
      time = Instant(without_gaps(time.nanoseconds()));
    return series;
  };
  head = close_recording(std::move(head), Instant(without_gaps(end - begin)),
                         {.warmup = 0, .steps = {}}, load, summary);
  head.series = std::move(run.series);
  head.numbers.measured_steps = head.numbers.warmup_steps = {};
  return head;
}

}  // namespace triplepoint::telemetry
