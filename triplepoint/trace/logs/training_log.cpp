// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/training_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::trace {

namespace {

constexpr Seconds longest(1e7);             // of one step
constexpr Seconds farthest(9e8);            // of a log, 28 years
constexpr Seconds most_between_ranks(1.0);  // that print one step

/// One way to print a step. `marker` begins what is about one step and stands before its fields,
/// with the step's number behind it; empty: the line is about one step.
struct Dialect {
  std::string_view framework;
  std::string_view marker;
  std::string_view proof;  // a text that only such lines have
  std::optional<LoggedStep> (*read)(std::string_view);
};

template <class Unit>
auto scaled(std::optional<double> number, Unit unit) {
  return number ? std::optional(*number * unit) : std::nullopt;
}

std::optional<LoggedStep> step_with_time(std::string_view text, std::string_view step,
                                         std::string_view time, Seconds scale) {
  const auto number = integer_after(text, step);
  if (!number) return std::nullopt;
  LoggedStep logged{.step = *number};
  logged.time = scaled(number_after(text, time), scale);
  return logged;
}

std::optional<LoggedStep> read_megatron(std::string_view text) {
  auto logged = step_with_time(text, "iteration", "elapsed time per iteration (ms)", unit::ms);
  if (!logged) return logged;
  if (!logged->time)
    logged->time = scaled(number_after(text, "elapsed time per iteration (s)"), unit::s);
  logged->samples = integer_after(text, "global batch size");
  return logged;
}

std::optional<LoggedStep> read_nemo(std::string_view text) {
  auto logged = step_with_time(text, "global_step", "train_step_timing in s", unit::s);
  if (logged) logged->samples = integer_after(text, "global_batch_size");
  return logged;
}

std::optional<LoggedStep> read_deepspeed(std::string_view text) {
  return step_with_time(text, "steps", "iter time (s)", unit::s);
}
/// Their times are those of the stamps, where no other line tells them.
std::optional<LoggedStep> read_torchtitan(std::string_view text) {
  return step_with_time(text, "step", "time of a step", unit::s);
}
std::optional<LoggedStep> read_deepspeed_rank(std::string_view text) {
  return step_with_time(text, text.starts_with("global_") ? "global_step" : "step",
                        "time of a step", unit::s);
}

/// Of numbers for people: "2.05K".
std::optional<LoggedStep> read_nanotron(std::string_view text) {
  auto logged = step_with_time(text, "iteration", "elapsed_time_per_iteration_ms", unit::ms);
  const size_t at = text.find("elapsed_time_per_iteration_ms");
  const size_t end = text.find_first_of("|\n", at);
  if (logged && logged->time && at < end)
    if (contains(text.substr(at, end - at), 'K')) logged->time = 1000 * *logged->time;
  return logged;
}

std::optional<LoggedStep> read_maxtext(std::string_view text) {
  return step_with_time(text, "step", "seconds", unit::s);
}

/// One object of JSON; its clock is the Unix time.
std::optional<LoggedStep> read_mlperf(std::string_view text) {
  auto logged = step_with_time(text, "\"step\"", "\"train_step_time\"", unit::s);
  if (!logged) return std::nullopt;
  if (const auto ms = integer_after(text, "\"time_ms\""); ms && *ms > 0 && *ms < int64_t{1} << 43)
    logged->at = Instant(*ms * 1'000'000);
  return logged;
}

/// "00:12" or "1:02:03".
std::optional<int64_t> seconds_of_bar(std::string_view text) {
  int64_t seconds = 0, part = -1;
  for (const char c : text) {
    if (is_digit(c)) {
      part = std::max<int64_t>(part, 0) * 10 + (c - '0');
      if (part > 1'000'000) return std::nullopt;
    } else if (c == ':' && part >= 0) {
      seconds = (seconds + part) * 60;
      part = -1;
    } else {
      return std::nullopt;
    }
  }
  return part < 0 ? std::nullopt : std::optional(seconds + part);
}

/// A line of a progress bar (tqdm) of Hugging Face's Trainer or Lightning: " 10%|# | 10/100
/// [00:12<01:48, ...". Its time is the elapsed one, whose differences are the steps'.
struct BarLine {
  LoggedStep step;
  int64_t all = 0;    // steps of the bar
  std::string words;  // before it, letters only: "epoch"
};

std::optional<BarLine> bar_of(std::string_view text) {
  const size_t share = text.find("%|"), bracket = text.find(" [", std::min(share, text.size()));
  const size_t slash = text.rfind('/', bracket), end = text.find('<', bracket);
  if (bracket == std::string_view::npos || slash == std::string_view::npos ||
      end == std::string_view::npos)
    return std::nullopt;
  size_t begin = slash;
  while (begin > 0 && is_digit(text[begin - 1]))
    --begin;
  const auto step = whole_number(text.substr(begin, slash - begin));
  const auto all = whole_number(text.substr(slash + 1, bracket - slash - 1));
  const auto elapsed = seconds_of_bar(text.substr(bracket + 2, end - bracket - 2));
  if (!step || !all || !elapsed || *step > *all || *all > 1'000'000'000) return std::nullopt;
  const auto epoch = integer_after(text, "Epoch");
  BarLine line{.step = {.step = *step + epoch.value_or(0) * *all}, .all = *all};
  // Each epoch has its bar, which begins at 0 seconds.
  if (!epoch || *epoch == 0) line.step.at = Instant(*elapsed * 1'000'000'000);
  const std::string_view before = text.substr(0, share);
  for (const char c : before.substr(before.find_last_of(']') + 1))
    if (is_letter(c)) line.words += lower_case(c);
  return line;
}

std::optional<LoggedStep> read_bar(std::string_view text) {
  const auto line = bar_of(text);
  return line ? std::optional(line->step) : std::nullopt;
}

/// Progress bars, of which one is the training's: others load, map, evaluate, or count epochs.
class Bars {
 public:
  void take(BarLine&& line) {
    Bar& bar = bars_[{line.words, line.all}];
    if (line.step.at) bar.longest = std::max(bar.longest, *line.step.at);
    bar.steps.push_back(line.step);
  }

  /// Those that speak of a training, or of nothing, come before those with other words; then those
  /// of more than a few steps; then the one that runs longest.
  std::vector<LoggedStep> of_training() {
    constexpr int64_t few = 20;
    const Bar* best = nullptr;
    std::tuple<bool, bool, Instant> most;
    for (const auto& [key, bar] : bars_) {
      const auto& [words, all] = key;
      const auto speaks_of = [&](std::string_view some) {
        return std::ranges::any_of(split(some, ' '), [&words = words](const std::string& one) {
          return contains(words, one);
        });
      };
      if (speaks_of("map loading tokeniz generating filter saving valid eval sanity predict fetch "
                    "shard test processing packing"))
        continue;
      ++candidates_;
      const std::tuple order(words.empty() || speaks_of("train epoch step iter loss"), all >= few,
                             bar.longest);
      if (best == nullptr || order > most) best = &bar, most = order;
    }
    return best == nullptr ? std::vector<LoggedStep>() : best->steps;
  }
  int64_t candidates() const { return candidates_; }

 private:
  struct Bar {
    std::vector<LoggedStep> steps;
    Instant longest;
  };
  std::map<std::pair<std::string, int64_t>, Bar> bars_;  // by words and number of steps
  int64_t candidates_ = 0;
};

/// The end of a run of Hugging Face's Trainer, in one line or a line each: all steps, evaluation
/// and saving included. "0:03:20.00" is a time, too.
class RunEnd {
 public:
  std::optional<LoggedStep> take(std::string_view text) {
    if (const auto clock = value_after(text, "train_runtime"); !clock.empty()) {
      const auto seconds = seconds_of_bar(clock.substr(0, clock.find('.')));
      const bool is_clock = contains(clock, ':') && seconds;
      seconds_ = is_clock ? std::optional(as_real(*seconds)) : leading_number(clock);
    }
    if (const auto rate = value_after(text, "train_steps_per_second"); !rate.empty())
      rate_ = leading_number(rate);
    if (!seconds_ || !rate_) return std::nullopt;
    const double steps = *seconds_ * *rate_;
    LoggedStep logged{.step = steps >= 1 && steps < 1e9 ? std::llround(steps) : -1};
    logged.time = *seconds_ / as_real(logged.step) * unit::s;
    logged.covers = logged.step;
    seconds_ = rate_ = std::nullopt;
    return logged.step > 0 ? std::optional(logged) : std::nullopt;
  }

 private:
  /// What stands behind the key; empty if it is not there.
  static std::string_view value_after(std::string_view text, std::string_view key) {
    const size_t at = text.find(key);
    if (at == text.npos) return {};
    text.remove_prefix(at + key.size());
    text.remove_prefix(std::min(text.find_first_not_of(" =:'\""), text.size()));
    return text.substr(0, text.find_first_of(",} \n"));
  }
  std::optional<double> seconds_, rate_;
};
std::optional<LoggedStep> read_several_lines(std::string_view) {
  return std::nullopt;  // see RunEnd and ComposerBatch: several lines tell
}

/// MosaicML's Composer logs a batch in several lines: "[batch=10/4800]:", then one for each metric;
/// its rate is a mean over the last batches.
class ComposerBatch {
 public:
  std::optional<LoggedStep> take(std::string_view line) {
    constexpr std::string_view begin = "[batch=";
    if (const size_t at = line.find(begin); at != line.npos) {
      const std::string_view rest = line.substr(at + begin.size());
      batch_ = whole_number(rest.substr(0, rest.find_first_of("/]")));
      return std::nullopt;
    }
    const auto rate = batch_ ? number_after(line, "throughput/batches_per_sec") : std::nullopt;
    if (!rate) return std::nullopt;
    return LoggedStep{.step = *std::exchange(batch_, std::nullopt), .time = 1 / *rate * unit::s};
  }

 private:
  std::optional<int64_t> batch_;
};

/// A loop that says in words how long a step takes.
/// "ms" of "time 135.20ms": the letters behind the number behind the word.
std::string_view unit_behind(std::string_view text, std::string_view word) {
  text.remove_prefix(std::min(text.find(word) + word.size(), text.size()));
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  text.remove_prefix(std::min(text.find_first_not_of("0123456789.,e"), text.size()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  size_t end = 0;
  while (end < text.size() && is_letter(text[end]))
    ++end;
  return text.substr(0, end);
}

std::optional<LoggedStep> read_own(std::string_view text) {
  constexpr std::pair<std::string_view, double> words[] = {
      {"sec/step", 1},  {"s/step", 1},    {"ms/step", 1e-3},      {"s/it", 1},
      {"s/iter", 1},    {"step_time", 1}, {"step time", 1},       {"time per step", 1},
      {"iter_time", 1}, {"iter time", 1}, {"step_time_ms", 1e-3}, {"step time (ms)", 1e-3},
      {"dt", 1},        {"seconds", 1},   {"step_avg", 1},        {"time", 1}};
  for (const std::string_view name : {"step", "iteration", "iter"})
    for (const auto& [word, seconds] : words)
      if (number_after(text, word))
        if (auto logged = step_with_time(text, name, word, seconds * unit::s)) {
          const std::string_view unit = unit_behind(text, word);
          if (word == "time" && unit != "ms" && unit != "s") continue;  // perhaps of all steps
          if (seconds == 1 && unit == "ms" && logged->time) logged->time = *logged->time * 1e-3;
          return logged;
        }
  // "| 310.21 ms |" (llm.c)
  const auto step = integer_after(text, "step");
  const size_t end = text.find(" ms |"), begin = text.rfind(' ', std::min(end, text.size()) - 1);
  if (!step || end == text.npos || begin >= end) return std::nullopt;
  LoggedStep logged{.step = *step};
  logged.time = scaled(leading_number(text.substr(begin + 1, end - begin - 1)), unit::ms);
  return logged.time ? std::optional(logged) : std::nullopt;
}

/// Where the marker stands with a number behind it, at or after `from`.
size_t find_marker(std::string_view line, std::string_view marker, size_t from) {
  for (size_t at = line.find(marker, from); at != std::string_view::npos;
       at = line.find(marker, at + 1)) {
    const size_t next = line.find_first_not_of(' ', at + marker.size());
    if (next != std::string_view::npos && line[next] >= '0' && line[next] <= '9') return at;
  }
  return std::string_view::npos;
}

constexpr std::string_view tensorboard_header = "Wall time,Step,Value";
/// A row of a scalar that TensorBoard downloads as CSV: Unix time, step, value.
std::optional<LoggedStep> read_tensorboard(std::string_view text) {
  const std::vector<std::string> cells = split(text, ',');
  if (cells.size() != 3) return std::nullopt;
  const auto step = whole_number(trimmed(cells[1]));
  const double time = std::strtod(cells[0].c_str(), nullptr);
  if (!step || !(time > 0) || !(time < 1e10)) return std::nullopt;
  return LoggedStep{.step = *step, .at = instant_at(time * unit::s)};
}

constexpr Dialect tensorboard{"tensorboard", "", tensorboard_header, read_tensorboard};

constexpr std::string_view own_loop = "own loop";
constexpr Dialect composer{"composer", "[batch=", "throughput/batches_per_sec", read_several_lines};
constexpr Dialect progress_bar{"progress bar", "", "%|", read_bar};
constexpr Dialect hugging_face{"hugging face", "", "train_steps_per_second", read_several_lines};
constexpr std::array dialects = {
    Dialect{"megatron-lm", "iteration ", "elapsed time per iteration (ms)", read_megatron},
    Dialect{"megatron-lm", "iteration ", "elapsed time per iteration (s)", read_megatron},
    Dialect{"nanotron", "iteration: ", "elapsed_time_per_iteration_ms", read_nanotron},
    Dialect{"deepspeed", "steps: ", "iter time (s)", read_deepspeed},
    Dialect{"deepspeed", "step=", "skipped=", read_deepspeed_rank},
    Dialect{"deepspeed", "global_step=", "RunningAvgSamplesPerSec", read_deepspeed_rank},
    Dialect{"nemo", "poch ", "global_step", read_nemo},  // "Epoch 0: ...", "Training epoch 0, ..."
    Dialect{"torchtitan", "step:", "tps:", read_torchtitan},
    Dialect{"torchtitan", "step:", "[titan]", read_torchtitan},
    Dialect{"maxtext", "completed step: ", "seconds:", read_maxtext},
    Dialect{"mlperf", "", ":::MLLOG", read_mlperf},
    tensorboard,
    Dialect{"olmo-core", "step=", ",epoch=", read_torchtitan},
    hugging_face,
    composer,
    Dialect{"lightning", "", "v_num=", read_bar},
    progress_bar,
    // Last: any text may hold such words.
    Dialect{own_loop, "step", "loss", read_own},
    Dialect{own_loop, "iter", "loss", read_own},
};

class LogReader {
 public:
  explicit LogReader(TrainingLog& log) : log_(log) {}

  void read(std::string_view line) {
    if (is_tensorboard_) {
      if (const auto step = read_tensorboard(line)) keep(*step, tensorboard);
      return;
    }
    is_tensorboard_ = log_.steps.empty() && line.find(tensorboard_header) == 0;
    if (is_tensorboard_) return;
    if (contains(line, "train_runtime") || contains(line, "train_steps_per_second")) {
      if (const auto end = end_.take(line)) ends_.push_back(*end);
      return;
    }
    if (const auto step = composer_.take(line)) return keep(*step, composer);
    for (const Dialect& dialect : dialects) {
      if (!contains(line, dialect.proof) || !contains(line, dialect.marker)) continue;
      if (dialect.framework == progress_bar.framework) {
        auto bar = bar_of(line);
        if (!bar) continue;
        return bars_.take(*std::move(bar));
      }
      if (dialect.framework == own_loop || dialect.marker.empty()) {
        // Of whole lines, and only where the log is not of a tool that is known.
        const bool other = !log_.framework.empty() && log_.framework != dialect.framework;
        const auto step = other ? std::nullopt : dialect.read(line);
        if (!step) continue;
        LoggedStep stamped = *step;
        if (!stamped.at) stamped.at = last_stamp(line);
        return keep(stamped, dialect);
      }
      return read_steps(line, dialect);
    }
    read_preamble(line);
  }

  void finish() {
    take_bars_or_ends();
    if (back_) begin_again();
    std::ranges::stable_sort(log_.steps, [](const auto& a, const auto& b) {
      return std::pair(a.execution, a.step) < std::pair(b.execution, b.step);
    });
    take_elapsed_times();
    std::map<int64_t, int64_t> intervals;
    for (size_t i = 1; i < log_.steps.size(); ++i)
      if (log_.steps[i].execution == log_.steps[i - 1].execution)
        ++intervals[log_.steps[i].step - log_.steps[i - 1].step];
    const auto usual =
        std::ranges::max_element(intervals, [](auto& a, auto& b) { return a.second < b.second; });
    const int64_t interval = usual == intervals.end() ? 1 : usual->first;
    const bool says_times =
        std::ranges::any_of(log_.steps, [](const LoggedStep& s) { return s.time.has_value(); });
    const LoggedStep* before = nullptr;
    for (LoggedStep& step : log_.steps) {
      const bool first = before == nullptr || before->execution != step.execution;
      const int64_t since = first ? std::max<int64_t>(step.step, 1) : step.step - before->step;
      // What is printed is the mean since the line before; a line that is missing is not made up.
      if (step.time && step.covers == 1) step.covers = std::min(interval, since);
      log_.unread += !step.time && (!step.at || (first && says_times)) ? 1 : 0;
      if (step.samples && log_.sequence_length && !step.tokens)
        step.tokens = *step.samples * *log_.sequence_length;
      before = &step;
    }
    set_clock_forward();
    take_times_of_stamps(says_times);
  }

 private:
  /// Of programs that have no lines of their steps. Bars tell more than the end of a run.
  void take_bars_or_ends() {
    if (!log_.framework.empty()) return;
    const std::vector<LoggedStep> steps = bars_.of_training();
    const bool has_bar = steps.size() > 1 || ends_.empty();
    for (const LoggedStep& step : has_bar ? steps : ends_)
      keep(step, has_bar ? progress_bar : hugging_face);
    if (has_bar) log_.bars = bars_.candidates();
  }

  /// "step 7 time 14.2s" may be since the beginning, or since that of an epoch: then it only grows,
  /// but for a few times that it begins anew.
  void take_elapsed_times() {
    constexpr size_t fewest = 8;  // lines between two beginnings
    std::vector<LoggedStep>& steps = log_.steps;
    if (log_.framework != own_loop || steps.size() < fewest) return;
    std::vector<Seconds> elapsed;
    Seconds before, past, longest;
    size_t beginnings = 1;
    for (const LoggedStep& step : steps) {
      if (!step.time) return;
      if (*step.time < before) {
        if (2 * *step.time > before) return;
        past += before;
        ++beginnings;
      }
      before = *step.time;
      longest = std::max(longest, before);
      elapsed.push_back(past + before);
    }
    if (longest < 2 * *steps.front().time || beginnings * fewest > steps.size()) return;
    log_.has_elapsed_times = true;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!steps[i].at) steps[i].at = instant_at(elapsed[i]);
      steps[i].time.reset();
    }
  }

  /// Where a clock was set back, later stamps are moved on: that step takes as long as the one
  /// before, or as it says.
  void set_clock_forward() {
    const LoggedStep *first = nullptr, *before = nullptr;
    Seconds shift;
    for (LoggedStep& step : log_.steps) {
      if (!step.at) continue;
      if (before == nullptr || before->execution != step.execution) first = before = nullptr;
      *step.at = *step.at + shift;
      const Seconds back = before == nullptr ? Seconds() : *before->at - *step.at;
      if (back > most_between_ranks) {
        const Seconds usual =
            before == first ? Seconds()
                            : (*before->at - *first->at) / as_real(before->step - first->step);
        const Seconds passed = as_real(step.step - before->step) * step.time.value_or(usual);
        log_.set_back = std::max(log_.set_back, back + passed);
        shift += back + passed;
        *step.at = *step.at + back + passed;
      }
      if (first == nullptr) first = &step;
      before = &step;
    }
  }

  /// Times between stamps. Of whole seconds a difference is off by up to one: where no line says a
  /// time, steps are counted together until twenty have passed.
  void take_times_of_stamps(bool says_times) {
    const bool whole_seconds = std::ranges::all_of(log_.steps, [](const LoggedStep& step) {
      return !step.at || step.at->nanoseconds() % 1'000'000'000 == 0;
    });
    const Seconds least = whole_seconds && !says_times ? 20 * unit::s : Seconds();
    const LoggedStep *from = nullptr, *first = nullptr;
    LoggedStep* before = nullptr;
    for (LoggedStep& step : log_.steps) {
      if (before != nullptr && before->execution != step.execution) {
        if (from == first) count_together(from, before);
        from = before = nullptr;
      }
      if (!step.at) continue;
      if (from == nullptr) first = &step;
      if (from == nullptr || step.time) {
        from = &step;
      } else if (*step.at > *before->at && *step.at - *before->at >= least) {
        count_together(from, before);
        count_together(before, &step);
        from = &step;
      } else if (*step.at > *from->at && *step.at - *from->at >= least) {
        count_together(from, &step);
        from = &step;
      }
      before = &step;
    }
    if (from == first) count_together(from, before);
  }
  static void count_together(const LoggedStep* from, LoggedStep* to) {
    if (from == nullptr || to->time || !(*from->at < *to->at)) return;
    to->covers = to->step - from->step;
    to->time = (*to->at - *from->at) / as_real(to->covers);
  }

  /// Several ranks may have written on one line: every marker begins its own step.
  void read_steps(std::string_view line, const Dialect& dialect) {
    size_t at = find_marker(line, dialect.marker, 0);
    log_.unread += at == std::string_view::npos ? 1 : 0;
    while (at != std::string_view::npos) {
      const size_t next = find_marker(line, dialect.marker, at + 1);
      const std::string_view text =
          line.substr(at, next == std::string_view::npos ? next : next - at);
      if (contains(text, dialect.proof)) {
        if (auto step = dialect.read(text)) {
          step->at = last_stamp(line.substr(0, at));
          if (!step->samples) step->samples = samples_of_rate(line, step->time);
          keep(*step, dialect);
        } else {
          ++log_.unread;
        }
      }
      at = next;
    }
  }

  /// GPT-NeoX and DeepSpeed tell "samples/sec: 48.302", to three decimals, and no batch.
  static std::optional<int64_t> samples_of_rate(std::string_view line,
                                                const std::optional<Seconds>& time) {
    constexpr double rounding = 5e-4;
    const auto rate = number_after(line, "samples/sec");
    if (!rate || !time || rounding * (*time / unit::s) > 0.25) return std::nullopt;
    return std::llround(*rate * (*time / unit::s));
  }

  /// Whether the training began again from a checkpoint: the number goes back, and the clock goes
  /// on; without one, it goes back by more than ranks that print beside each other do.
  bool begins_again(const LoggedStep& step) const {
    if (log_.steps.empty() || step.step > last_.step) return false;
    if (step.at && last_.at) return step.step < last_.step ? *step.at > *last_.at : false;
    return step.step + 2 * std::max<int64_t>(1, interval_) <= last_.step;
  }

  /// The first that speaks of a step is kept; later ones add what it left out.
  void keep(LoggedStep step, const Dialect& dialect) {
    const bool has_time = step.time && *step.time > Seconds() && *step.time < longest;
    if (step.step < 0 || (step.time && !has_time)) {
      ++log_.unread;
      if (step.step < 0 || !step.at) return;
      step.time.reset();  // the stamps tell
    }
    if (log_.framework.empty()) log_.framework = dialect.framework;
    if (back_ && step.step > last_.step) {
      ++log_.unread;  // the training goes on: the number that went back was broken
      back_.reset();
    } else if (back_) {
      begin_again();
    }
    if (begins_again(step))
      back_ = step;  // the next line tells
    else
      accept(step);
  }

  /// The training began again with the step that was held back.
  void begin_again() {
    ++log_.restarts;
    last_ = {.step = -1};
    interval_ = 0;
    accept(*std::exchange(back_, std::nullopt));
  }

  void accept(LoggedStep step) {
    step.execution = static_cast<int32_t>(log_.restarts);
    if (step.step > last_.step) {
      if (last_.step >= 0) interval_ = step.step - last_.step;
      last_ = step;
    } else if (step.step == last_.step && !last_.at) {
      last_.at = step.at;
    }
    const auto [known, is_new] =
        index_.try_emplace(std::pair(step.execution, step.step), log_.steps.size());
    if (is_new) return log_.steps.push_back(step);
    ++log_.repeated;
    LoggedStep& first = log_.steps[known->second];
    const auto add = [](auto& mine, const auto& other) {
      if (!mine) mine = other;
    };
    add(first.time, step.time);
    add(first.samples, step.samples);
    add(first.at, step.at);
  }

  void read_preamble(std::string_view line) {
    if (log_.sequence_length) return;
    for (const std::string_view key : {"seq_length", "encoder_seq_length", "sequence length"})
      if (const auto length = integer_after(line, key); length && *length > 0 && *length < 1 << 30)
        log_.sequence_length = length;
  }

  TrainingLog& log_;

  Bars bars_;
  RunEnd end_;
  std::vector<LoggedStep> ends_;
  ComposerBatch composer_;
  std::map<std::pair<int32_t, int64_t>, size_t> index_;  // execution, step
  LoggedStep last_{.step = -1};                          // the highest of this execution
  int64_t interval_ = 0;
  bool is_tensorboard_ = false;
  std::optional<LoggedStep> back_;  // a number that went back
};

struct Placed {
  int64_t step;
  Instant begin, end;
};

/// Steps whose length is known, one by one where a line is the mean of several. By the stamps where
/// the log has them, else one after the other from 0; the earliest begin is 0.
std::vector<Placed> place(const TrainingLog& log) {
  constexpr size_t most = 5'000'000;
  std::vector<Placed> all;
  // Stamps that stand still are none.
  const bool stamped = (log.steps.size() == 1 || log.steps.front().at != log.steps.back().at) &&
                       std::ranges::all_of(log.steps, [](const LoggedStep& step) {
                         return step.at.has_value() || !step.time;
                       });
  Instant end;
  const LoggedStep* before = nullptr;
  for (const LoggedStep& step : log.steps) {
    if (!step.time) continue;
    const bool goes_on = before != nullptr && before->execution == step.execution;
    const auto since = as_real(goes_on ? step.step - before->step : step.covers);
    before = &step;
    // Steps that were not logged took as long; a jump of the number is no reason to wait for ever.
    const Seconds passed = *step.time * since < longest ? *step.time * since : *step.time;
    if (!stamped && end - Instant() + passed > farthest) break;
    end = stamped ? *step.at : end + passed;
    for (int64_t n = step.covers; n-- > 0 && all.size() < most;)
      if (const Seconds ago = as_real(n) * *step.time; ago < longest)
        all.push_back({step.step - n, end - ago - *step.time, end - ago});
  }
  if (all.empty()) return all;
  const int64_t first = std::ranges::min_element(all, {}, &Placed::begin)->begin.nanoseconds();
  for (Placed& placed : all) {
    placed.begin = Instant(placed.begin.nanoseconds() - first);
    placed.end = Instant(placed.end.nanoseconds() - first);
  }
  return all;
}

/// Those since the checkpoint that a training began again from.
int64_t steps_run_again(const TrainingLog& log) {
  int64_t again = 0;
  for (size_t i = 1; i < log.steps.size(); ++i)
    if (log.steps[i].execution != log.steps[i - 1].execution)
      again += std::max<int64_t>(0, log.steps[i - 1].step + 1 - log.steps[i].step);
  return again;
}

}  // namespace

Result<TrainingLog> parse_training_log(Input& input) {
  TrainingLog log;
  LogReader reader(log);
  log.truncated = !TPT_TRY(for_each_line(input, [&](std::string_view line) { reader.read(line); }));
  reader.finish();
  if (log.steps.empty())
    return error(
        "{}: no line that numbers a training step and tells its time was found (known are those of "
        "Megatron-LM, NeMo, torchtitan, DeepSpeed, MaxText, MLPerf, nanotron, OLMo-core, and the "
        "progress bars and ends of Hugging Face's Trainer and Lightning); give the log of the rank "
        "that prints them",
        input.name());
  return log;
}

std::string use_of_training_log(const std::string& file) {
  const std::string name = shell_word(file);
  return fmt::format(
      "{} is a training's log (it tells the time of each step, not the job and not what ran in the "
      "step); see its steps with triplepoint report {}, or beside those of another run with "
      "triplepoint compare {} OTHER",
      file, name, name);
}

bool looks_like_training_log(std::string_view head) {
  if (contains(head, '\0')) return false;
  const auto has = [&](std::string_view word) { return contains(head, word); };
  // JSON of whatever kind is none, though words of a loop may stand in it.
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (head[first] == '{' || head[first] == '[')) {
    const size_t second = head.find_first_not_of(" \t\r\n", first + 1);
    // A line that goes on behind its first list is none: ["N/A"] iteration 3/ 100 | ...
    const size_t end = head.find_first_of("]\n", first);
    const size_t behind = head.find_first_not_of(' ', std::min(end, head.size() - 1) + 1);
    const bool goes_on = head[first] == '[' && behind != std::string_view::npos &&
                         head[end] == ']' && (is_letter(head[behind]) || head[behind] == '[');
    if (second != std::string_view::npos && (head[second] == '"' || head[second] == '{') &&
        !goes_on)
      return has("train_steps_per_second");
  }
  const bool has_step = std::ranges::any_of(
      dialects, [&](const Dialect& dialect) { return has(dialect.proof) && has(dialect.marker); });
  return has_step || has("megatron") || has("[NeMo ") || has("[titan]") || has("DeepSpeed") ||
         has("{'loss':");
}

namespace {

/// Steps of one batch: the longest stretch, where it changes now and then. Returns a note of that;
/// nothing where all stay, as they do where a line does not tell its batch.
std::optional<std::string> keep_one_batch(TrainingLog& log) {
  const auto knows_batch = [](const LoggedStep& step) { return step.samples.has_value(); };
  if (!std::ranges::all_of(log.steps, knows_batch)) return std::nullopt;
  std::vector<std::span<LoggedStep>> stretches;
  for (LoggedStep& step : log.steps) {
    const bool goes_on = !stretches.empty() && stretches.back().back().samples == step.samples;
    if (!goes_on) stretches.emplace_back(&step, 0);
    stretches.back() = {stretches.back().data(), stretches.back().size() + 1};
  }
  constexpr size_t least_mean = 4;  // steps; shorter ones are no schedule
  if (stretches.size() < 2 || log.steps.size() < least_mean * stretches.size()) return std::nullopt;
  const auto longest = *std::max_element(  // of several the last
      stretches.rbegin(), stretches.rend(),
      [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::string note = fmt::format(
      "the batch changes from {} to {} samples{}: only steps {} to {} are looked at, of {} samples",
      *log.steps.front().samples, *log.steps.back().samples,
      stretches.size() > 2 ? fmt::format(" in {} stages", stretches.size()) : "",
      longest.front().step, longest.back().step, *longest.front().samples);
  log.steps = std::vector<LoggedStep>(longest.begin(), longest.end());
  return note;
}

}  // namespace

Result<Trace> read_training_log(Input& input, const ReadOptions& options) {
  TrainingLog log = TPT_TRY(parse_training_log(input));
  TraceBuilder builder("training_log");
  const int64_t again = steps_run_again(log);
  if (const auto note = keep_one_batch(log)) builder.note(*note);
  const int32_t rank = options.rank.value_or(options.rank_if_unknown.value_or(0));
  const int32_t type = builder.type(
      {.name = "training step", .kind = run::SpanKind::step, .stream = run::Stream::host});
  const int32_t lane = builder.lane({rank, run::Stream::host, 0, log.framework + " log"});
  for (const Placed& placed : place(log)) {
    run::Span span{placed.begin, placed.end, type, rank};
    builder.add(span, {.lane = lane, .sequence = placed.step});
  }
  builder.facts()["framework"] = log.framework;
  builder.numbers().samples_per_step = log.steps.back().samples;
  if (log.restarts > 0) {
    builder.numbers().restarts = log.restarts;
    builder.numbers().steps_run_again = again;
    builder.note(fmt::format("the training began again {} times: steps that ran twice count twice",
                             log.restarts));
  }
  if (log.has_elapsed_times)
    builder.note(
        "the time that lines tell grows from step to step: it is taken to be since the beginning");
  if (log.bars > 1)
    builder.note(fmt::format(
        "{} progress bars may be the training's: the one that runs longest is taken", log.bars));
  if (log.set_back > Seconds())
    builder.note(
        fmt::format("the clock of the log was set back by {:.0f} s", log.set_back / unit::s));
  if (log.unread > 0)
    builder.note(fmt::format(
        "{} lines of steps tell no plausible number or time: they are left out, or timed by their "
        "stamps",
        log.unread));
  if (log.framework == "hugging face")
    builder.note(
        "steps are the mean of the whole run (train_runtime), evaluation and saving included");
  builder.facts()["clock"] = "of the log, time zone unknown";
  return std::move(builder).finish(std::nullopt);
}

}  // namespace triplepoint::trace
