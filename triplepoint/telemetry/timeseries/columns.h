// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/run/run.h"

#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::telemetry {

/// What a column, a key or a metric of another sampler's file is.
struct Column {
  enum class Is : uint8_t { unknown, date, time, gpu, host, model, set, reading, reason };
  Is is = Is::unknown;
  std::string_view signal = {};  // of readings
  double unit = 1;               // of a number that has none beside it, in the signal's
  run::Scope scope = run::Scope::gpu;
  run::ReadingKind kind = run::ReadingKind::instant;
  std::optional<int32_t> gpu = {};  // whose column it is, where a row holds several GPUs
  bool of_node = false;
  uint32_t bit = 0;  // of a reason that is yes or no
};

/// By its title in any case, with its unit ("power.draw [W]", "Temperature (Sensor edge) (C)",
/// "system.gpu.0.powerWatts"). `unit`: where it stands elsewhere. Sources of the titles: the
/// manuals of nvidia-smi, dcgmi, rocm-smi, amd-smi, wandb, Zeus.
Column column_of(std::string_view title, std::string_view unit = {});

/// The number of a cell in the unit of the column's signal: "412.33 W", "0x88", "(1234Mhz)", "Not
/// Active". Nothing: the cell is no number, or of another quantity. `decimal_comma`: 62,0 is one.
std::optional<double> number_in(std::string_view cell, const Column&, bool decimal_comma = false);

/// Whether a number can be a reading. What no powered GPU can be (0 W, 0 MHz, 0 °C) is the way in
/// which samplers write that there is none.
bool is_plausible(double value, const Column&);
/// ", in mW?" of a number that is plausible in a smaller unit; empty: in none.
std::string other_unit(std::string_view cell, const Column&);

/// What stands for a moment.
struct Moment {
  int64_t ns = 0;                                 // since 1970, or since the beginning
  bool is_relative = false, has_no_zone = false;  // no zone: taken as UTC
  trace::DateOrder order = trace::DateOrder::year;
};
/// Seconds, milli-, micro- or nanoseconds since 1970 by their size (smaller numbers: seconds since
/// the beginning), or date and time with or without a zone.
std::optional<Moment> moment_in(std::string_view cell);

}  // namespace triplepoint::telemetry
