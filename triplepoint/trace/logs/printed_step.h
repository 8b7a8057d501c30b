// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/units.h"

/// How tools and loops print a step.
namespace triplepoint::trace {

/// What a training prints after one step, or after a few: then it is about their mean.
struct LoggedStep {
  int64_t step = 0;
  std::optional<Seconds> time;  // of one step
  std::optional<Instant> at;  // when it was printed, by the log's own clock: no time zone is known
  std::optional<int64_t> samples, tokens;  // of one step, all ranks
  int64_t covers = 1;                      // steps, up to this one, that `time` is the mean of
  int32_t execution = 0;                   // from 0; a training that began again runs steps again
  friend bool operator==(const LoggedStep&, const LoggedStep&) = default;
};

inline constexpr Seconds farthest(9e8);  // of a log, 28 years

/// One way to print a step. `marker` begins what is about one step and stands before its fields,
/// with the step's number behind it; empty: the line is about one step.
struct Dialect {
  std::string_view framework;
  std::string_view marker;
  std::string_view proof;                 // a text that only such lines have
  std::string_view step = {}, time = {};  // words before numbers; without a time the stamps tell
  Seconds unit = {};
  std::string_view samples = {};
};

inline constexpr Dialect own_loop{"own loop", "", ""}, composer{"composer", "[batch=", ""};
inline constexpr Dialect progress_bar{"progress bar", "", "%|"};
inline constexpr Dialect hugging_face{"hugging face", "", "train_steps_per_second"};

/// Those of whole lines or with a marker, in the order in which they are tried.
std::span<const Dialect> dialects();
std::optional<LoggedStep> read_words(std::string_view text, const Dialect&);

/// A line of a progress bar (tqdm) of Hugging Face's Trainer or Lightning: " 10%|# | 10/100
/// [00:12<01:48, ...". Its time is the elapsed one, whose differences are the steps'.
struct BarLine {
  LoggedStep step;
  int64_t all = 0;    // steps of the bar
  std::string words;  // before it, letters only: "epoch"
};

std::optional<BarLine> bar_of(std::string_view text);

/// Progress bars, of which one is the training's: others load, map, evaluate, or count epochs.
class Bars {
 public:
  void take(BarLine&& line);

  /// Those that speak of a training, or of nothing, come before those with other words; then those
  /// of more than a few steps; then the one that runs longest.
  std::vector<LoggedStep> of_training();
  int64_t candidates() const { return candidates_; }

 private:
  struct Bar {
    std::vector<LoggedStep> steps;
    Instant longest, past;  // past: the end of the epochs before
    int32_t epoch = 0;
  };
  std::map<std::pair<std::string, int64_t>, Bar> bars_;  // by words and number of steps
  int64_t candidates_ = 0;
};

/// The end of a run of Hugging Face's Trainer, in one line or a line each: all steps, evaluation
/// and saving included. "0:03:20.00" is a time, too.
class RunEnd {
 public:
  std::optional<LoggedStep> take(std::string_view text);

 private:
  std::optional<Seconds> time_;
  std::optional<double> rate_;
};

/// MosaicML's Composer logs a batch in several lines: "[batch=10/4800]:", then one for each metric;
/// its rate is a mean over the last batches.
class ComposerBatch {
 public:
  std::optional<LoggedStep> take(std::string_view line);

 private:
  std::optional<int64_t> batch_;
};

/// Whether a number without a unit is taken to be seconds.
enum class Bare : uint8_t { unknown, seconds };

/// A loop that says in words how long a step takes, in lower case; a step without a time where it
/// does not.
std::optional<LoggedStep> read_own(std::string_view text, Bare);
/// Whether a loop's own words may tell a step, in lower case: any text may hold them.
bool may_be_own_loop(std::string_view text);

/// JSON or Python without its quotes and braces.
std::string unquoted(std::string_view text);
/// "step : 5, loss : 2.3" of a line of JSON or Python, or of a row below titles; empty: it is none.
std::string fields_of(std::string_view line, const std::vector<std::string>& titles);
/// Where the marker stands with a number behind it, at or after `from`.
size_t find_marker(std::string_view line, std::string_view marker, size_t from);

}  // namespace triplepoint::trace
