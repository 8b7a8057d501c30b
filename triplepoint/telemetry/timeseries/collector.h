// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/timeseries/columns.h"

namespace triplepoint::telemetry {

/// Puts a run together from rows of readings, and keeps count of what is no reading.
///
/// GPUs are told apart by UUID, else by number ("3", "GPU 3", "card3") or bus address, and by host;
/// rows that name none are taken for GPUs only where a sample's rows are sure. What is absent, cut,
/// implausible or repeated makes no value; notes say how much of it there was, and what was done
/// about clocks that went back. One GPU with two values at a time is refused.
class Collector {
 public:
  explicit Collector(int32_t gpus_per_node) : per_node_(gpus_per_node) {}

  /// `gpu`: whose rows without such a column are, where the file's name says it.
  void begin_file(std::optional<int32_t> gpu);
  /// The cells of a row, as many as columns.
  void add(std::span<const Column> columns, std::span<const std::string_view> cells,
           bool decimal_comma = false);
  /// A line that is no row, and why: a message, or one that was cut.
  void leave_out(std::string_view line, std::string_view why);
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }
  /// Times are a server's, in any order: none goes back because a clock was set.
  void take_any_order() { has_any_order_ = true; }

  int64_t rows() const { return rows_; }
  int64_t left_out() const { return left_out_; }
  /// Why lines of this file were left out, most frequent first, with an example of each.
  std::string why_left_out() const;
  /// The run without steps; times since its epoch, or since the beginning where there is none.
  Result<run::Run> finish(const Path& source, std::string producer);
  /// Of finish(): ns of the run's Instant 0 on the clock of the rows; nothing without readings.
  const std::optional<int64_t>& epoch() const { return epoch_; }

 private:
  /// The values of one signal, in the order of the file until straighten().
  struct Track {
    Column column;
    std::vector<int64_t> ns;
    std::vector<double> values;
    int64_t seen = 0, absent = 0, implausible = 0;
    std::string example;
  };
  struct Owner {
    std::string host;
    std::optional<int64_t> number;
    std::string uuid, pci, model;
    int64_t rows = 0, place = 0;               // place: among those that appeared
    std::map<std::string_view, Track> tracks;  // by signal
  };

  std::optional<int64_t> time_of(std::span<const Column>, std::span<const std::string_view>);
  Owner* gpu_of(std::string_view host, std::span<const Column>, std::span<const std::string_view>);
  Owner& owner(std::map<std::string, Owner, std::less<>>&, std::string_view host,
               std::string_view id);
  static void take(Owner&, const Column&, std::string_view cell, int64_t ns, bool decimal_comma);
  static void leave_out_other_times(Track&, bool is_relative);
  std::vector<std::optional<int64_t>> seconds_of_untimed_rows();
  void time_untimed_rows();
  void refuse(std::string why) { refusal_ = refusal_.value_or(std::move(why)); }
  void judge_samples();
  void for_each_track(auto&& visit) {
    for (auto* const owners : {&gpus_, &nodes_})
      for (auto& [key, owner] : *owners)
        for (auto& [signal, track] : owner.tracks)
          visit(owner, track);
  }
  void order_dates();
  std::size_t rows_of_covered_times(const std::vector<int64_t>& ns, int64_t usual) const;
  bool is_hour_back(int64_t back, int64_t usual) const;
  void straighten(Track&, const std::string& whose);
  void find_gaps(int64_t begin);
  int64_t without_gaps(int64_t ns) const;
  static std::string whose(const Owner&);
  void number_gpus(run::Run&, std::vector<Owner*>&) const;
  static void count_on_packages(run::Run&, const std::vector<Owner*>&);
  void add_series(run::Run&, Owner&, int32_t index, int64_t epoch);
  void add_notes(run::Run&, const std::vector<Owner*>&);

  int32_t per_node_;
  std::map<std::string, Owner, std::less<>> gpus_, nodes_;
  std::map<std::string, Owner*, std::less<>> by_uuid_;
  std::vector<std::string> hosts_;
  std::string key_;
  std::optional<int32_t> file_gpu_;
  std::vector<const Owner*> untimed_gpus_;  // of rows without times; null: names none
  struct Samples {
    std::vector<int64_t> ns, rows;  // rows: of each time
  };
  std::map<std::string, Samples> samples_;  // of rows that name no GPU, by host
  int64_t anonymous_ = 0;                   // the row's place in its sample
  std::optional<std::string> refusal_;
  int64_t relative_rows_ = 0, dated_rows_ = 0, untimed_rows_ = 0;
  std::optional<int64_t> epoch_;
  bool lacks_times_ = false, row_lacks_time_ = false, has_no_zone_ = false;
  bool has_whole_seconds_ = true, has_any_order_ = false, shares_numbers_ = false;
  int64_t rows_ = 0, left_out_ = 0, no_gpu_ = 0, repeated_ = 0, restarts_ = 0;
  std::string example_, example_gpu_;
  struct Loss {
    int64_t lines = 0;
    std::string example;
  };
  std::map<std::string, Loss, std::less<>> losses_;  // of this file, by cause
  double back_s_ = 0;
  std::map<int64_t, int64_t> gaps_;  // by their begin, since the first reading: ns up to their end
  int64_t usual_ = 0;                // ns between readings of one GPU
  bool writes_all_ = false;          // not only changes
  bool has_summer_time_ = false;
  std::set<trace::DateOrder> orders_;
  std::string example_date_;
  std::vector<std::string> notes_;
};

}  // namespace triplepoint::telemetry
