// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/timeseries/columns.h"

namespace triplepoint::telemetry {

/// Puts a run together from rows of readings, and keeps count of what is no reading.
///
/// GPUs are told apart by number ("3", "GPU 3", "card3"), UUID or bus address, and by host. What is
/// absent, cut, implausible or repeated makes no value; notes say how much of it there was, and
/// what was done about clocks that went back.
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

  int64_t rows() const { return rows_; }
  int64_t left_out() const { return left_out_; }
  /// Why lines of this file were left out, most frequent first, with an example of each.
  std::string why_left_out() const;
  /// The run without steps; times since its epoch, or since the beginning where there is none.
  run::Run finish(const Path& source, std::string producer);
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
  void straighten(Track&);
  void number_gpus(run::Run&, std::vector<Owner*>&) const;
  static void count_on_packages(run::Run&, const std::vector<Owner*>&);
  void add_series(run::Run&, Owner&, int32_t index, int64_t epoch);
  void add_notes(run::Run&, const std::vector<Owner*>&);

  int32_t per_node_;
  std::map<std::string, Owner, std::less<>> gpus_, nodes_;
  std::vector<std::string> hosts_;
  std::string key_;
  std::optional<int32_t> file_gpu_;
  std::vector<const Owner*> untimed_gpus_;  // of rows without times; null: names none
  int64_t anonymous_ = 0;
  std::optional<int64_t> anonymous_ns_;
  int64_t relative_rows_ = 0, dated_rows_ = 0, untimed_rows_ = 0;
  std::optional<int64_t> epoch_;
  bool lacks_times_ = false, row_lacks_time_ = false, has_no_zone_ = false;
  int64_t rows_ = 0, left_out_ = 0, no_gpu_ = 0, repeated_ = 0, restarts_ = 0;
  std::string example_, example_gpu_;
  struct Loss {
    int64_t lines = 0;
    std::string example;
  };
  std::map<std::string, Loss, std::less<>> losses_;  // of this file, by cause
  double back_s_ = 0, gap_s_ = 0, gap_at_s_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace triplepoint::telemetry
