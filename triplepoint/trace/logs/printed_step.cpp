// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/printed_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "triplepoint/base/text.h"

#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::trace {
namespace {

template <class Unit>
auto scaled(std::optional<double> number, Unit unit) {
  return number ? std::optional(*number * unit) : std::nullopt;
}

/// "ms" of "time 135.20ms" or "time: 135.20 ms": the letters behind the number behind the word.
std::string_view unit_after(std::string_view text, std::string_view word) {
  text.remove_prefix(std::min(text.find(word) + word.size(), text.size()));
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  text.remove_prefix(std::min(text.find_first_not_of("0123456789.,e"), text.size()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return text.substr(0, as_size(std::ranges::find_if_not(text, is_letter) - text.begin()));
}

/// "00:12", "1:02:03" or "1h 2m 3s".
std::optional<int64_t> seconds_of_bar(std::string_view text) {
  int64_t seconds = 0, part = -1;
  if (text.ends_with('s')) text.remove_suffix(1);
  for (const char c : text) {
    if (is_digit(c)) {
      part = std::max<int64_t>(part, 0) * 10 + (c - '0');
      if (part > 1'000'000 || seconds > 1'000'000'000) return std::nullopt;
    } else if (contains(":hm", c) && part >= 0) {
      seconds = (seconds + part) * 60;
      part = -1;
    } else if (c != ' ') {
      return std::nullopt;
    }
  }
  return part < 0 ? std::nullopt : std::optional(seconds + part);
}

/// "0:01:05", "1m 5s", "1352ms" or "65.2" behind a word.
std::optional<Seconds> clock_after(std::string_view text, std::string_view word) {
  const auto number = number_after(text, word);
  if (!number) return std::nullopt;
  const std::string_view unit = unit_after(text, word);
  text.remove_prefix(text.find(word) + word.size());
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  text = trimmed(text.substr(0, text.find_first_not_of("0123456789:hms ")));
  const auto clock = text.find_first_of(":hm") == text.npos ? std::nullopt : seconds_of_bar(text);
  return (clock ? as_real(*clock) : *number) * (unit == "ms" ? unit::ms : unit::s);
}

/// "0.35 s/it": the number before a word.
std::optional<double> number_before(std::string_view text, std::string_view word) {
  const size_t at = text.find(word), end = at + word.size();
  if (at == text.npos || (end < text.size() && is_letter(text[end]))) return std::nullopt;
  const std::string_view before = trimmed(text.substr(0, at));
  const size_t begin = before.find_last_not_of("0123456789.") + 1;
  return begin < before.size() ? leading_number(before.substr(begin)) : std::nullopt;
}

/// The words of own loops, in lower case.
constexpr std::string_view step_words[] = {
    "step",          "iteration", "iter",        "global_step",  "global_step/max_steps",
    "current_steps", "_step",     "num_updates", "iter(train) ["};
constexpr std::pair<std::string_view, double> time_words[] = {
    {"ms/step", 1e-3},
    {"ms/it", 1e-3},
    {"step_time_ms", 1e-3},
    {"step time (ms)", 1e-3},
    {"elapsed_time_per_iteration_ms", 1e-3},
    {"dt_ms", 1e-3},
    {"duration_ms", 1e-3},
    {"timing_s/step", 1},
    {"time_per_step", 1},
    {"time/step", 1},
    {"seconds/step", 1},
    {"sec/step", 1},
    {"s/step", 1},
    {"s/it", 1},
    {"s/iter", 1},
    {"step_time", 1},
    {"step time", 1},
    {"time per step", 1},
    {"iter_time", 1},
    {"iter time", 1},
    {"step_time_s", 1},
    {"dt", 1},
    {"seconds", 1},
    {"step_avg", 1},
    {"elapsed_s", 1},
    {"elapsed", 1},
    {"time_sec", 1},
    {"time", 1}};
constexpr std::string_view rate_words[] = {
    "it/s", "iter/s", "steps/s", "steps/sec", "steps_per_sec", "steps_per_second", "ups"};
constexpr std::string_view words_of_all_steps[] = {"train_time", "elapsed_time", "_runtime"};
constexpr std::string_view unix_words[] = {"_timestamp", "timestamp", "ts",  "unix_time",
                                           "wall_time",  "wall time", "time"};

/// When a step ended: since the beginning of all, or since 1970.
std::optional<Instant> own_moment(std::string_view text) {
  std::optional<Instant> at;
  for (const std::string_view word : words_of_all_steps)
    if (const auto past = clock_after(text, word); past && *past < farthest) at = instant_at(*past);
  constexpr double year_2001 = 1e9;
  for (const std::string_view word : unix_words)
    if (const auto unix = number_after(text, word); unix && *unix > year_2001 && *unix < 1e13)
      at = instant_at(*unix * (*unix > 1e3 * year_2001 ? unit::ms : unit::s));
  return at;
}

constexpr std::string_view per_step = "elapsed time per iteration (ms)",
                           in_seconds = "elapsed time per iteration (s)",
                           nanotron = "elapsed_time_per_iteration_ms";
constexpr std::array all_dialects = {
    Dialect{"megatron-lm", "iteration ", per_step, "iteration", per_step, unit::ms,
            "global batch size"},
    Dialect{"megatron-lm", "iteration ", in_seconds, "iteration", in_seconds, unit::s,
            "global batch size"},
    Dialect{"nanotron", "iteration: ", nanotron, "iteration", nanotron, unit::ms},
    Dialect{"deepspeed", "steps: ", "iter time (s)", "steps", "iter time (s)", unit::s},
    Dialect{"deepspeed", "step=", "skipped=", "step"},
    Dialect{"deepspeed", "global_step=", "RunningAvgSamplesPerSec", "global_step"},
    // "Epoch 0: ...", "Training epoch 0, ..."
    Dialect{"nemo", "poch ", "global_step", "global_step", "train_step_timing in s", unit::s,
            "global_batch_size"},
    Dialect{"torchtitan", "step:", "tps:", "step"},
    Dialect{"torchtitan", "step:", "[titan]", "step"},
    Dialect{"maxtext", "completed step: ", "seconds:", "step", "seconds", unit::s},
    Dialect{"mlperf", "", ":::MLLOG", "\"step\"", "\"train_step_time\"", unit::s},
    Dialect{"olmo-core", "step=", ",epoch=", "step"},
    Dialect{"olmo", "", "olmo.train", "step"},
    progress_bar,
};

}  // namespace

std::span<const Dialect> dialects() {
  return all_dialects;
}

std::optional<LoggedStep> read_words(std::string_view text, const Dialect& dialect) {
  const auto step = integer_after(text, dialect.step);
  if (!step) return std::nullopt;
  LoggedStep logged{.step = *step};
  if (!dialect.time.empty()) {
    logged.time = scaled(number_after(text, dialect.time), dialect.unit);
    // Numbers for people: "2.05K" of nanotron.
    if (logged.time && unit_after(text, dialect.time) == "K") logged.time = 1000 * *logged.time;
  }
  if (!dialect.samples.empty()) logged.samples = integer_after(text, dialect.samples);
  return logged;
}

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
  const std::string before = lower_case(text.substr(0, share));
  const int64_t epoch = std::clamp<int64_t>(integer_after(before, "epoch").value_or(0), 0, 1 << 20);
  BarLine line{.step = {.step = *step + epoch * *all,
                        .at = Instant(*elapsed * 1'000'000'000),
                        .execution = static_cast<int32_t>(epoch)},
               .all = *all};
  for (const char c : before.substr(before.find_last_of(']') + 1))
    if (is_letter(c)) line.words += c;
  return line;
}

std::string unquoted(std::string_view text) {
  std::string plain(text);
  for (char& c : plain)
    if (contains("{}\"'", c)) c = ' ';
  return plain;
}

std::optional<LoggedStep> read_own(std::string_view text, Bare bare) {
  const auto beside = [&](std::string_view word) {
    const auto number = number_after(text, word);
    return number || !contains(word, '/') ? number : number_before(text, word);
  };
  std::optional<int64_t> step;
  for (const std::string_view name : step_words)
    if (!step) step = integer_after(text, name);
  if (!step || *step > 1'000'000'000'000) return std::nullopt;
  LoggedStep logged{.step = *step, .at = own_moment(text)};
  if (logged.at) return logged;
  for (const auto& [word, seconds] : time_words) {
    if (logged.time) break;
    const std::string_view unit = unit_after(text, word);
    if (word == "time" && unit != "ms" && unit != "s" && bare == Bare::unknown) continue;
    logged.time = scaled(beside(word), unit == "ms" ? unit::ms : seconds * unit::s);
    // A step may be several iterations, of which each tells its time.
    if (logged.time && word.starts_with("iter"))
      logged.step = integer_after(text, "iter").value_or(logged.step);
  }
  for (const std::string_view word : rate_words)
    if (const auto rate = beside(word); rate && *rate > 0 && !logged.time)
      logged.time = 1 / *rate * unit::s;
  // "| 310.21 ms |" (llm.c)
  if (!logged.time && contains(text, " ms |"))
    logged.time = scaled(number_before(text, "ms |"), unit::ms);
  return logged;
}

std::string fields_of(std::string_view line, const std::vector<std::string>& titles) {
  line = trimmed(line);
  std::string text;
  if (line.starts_with('{') && line.ends_with('}')) text = unquoted(lower_case(line));
  const std::vector<std::string> cells = titles.empty() ? titles : split(line, ',');
  for (size_t i = 0; i < titles.size() && cells.size() == titles.size(); ++i)
    text += fmt::format("{} : {}, ", titles[i], trimmed(cells[i], "\" "));
  return text;
}

size_t find_marker(std::string_view line, std::string_view marker, size_t from) {
  for (size_t at = line.find(marker, from); at != std::string_view::npos;
       at = line.find(marker, at + 1)) {
    const size_t next = line.find_first_not_of(' ', at + marker.size());
    if (next != std::string_view::npos && line[next] >= '0' && line[next] <= '9') return at;
  }
  return std::string_view::npos;
}

bool may_be_own_loop(std::string_view text) {
  const auto has = [&](std::string_view word) { return contains(text, word); };
  return ((has("loss") || has("step_avg")) && (has("step") || has("iter") || has("num_updates"))) ||
         has("wall time,step,");  // a scalar of TensorBoard
}

void Bars::take(BarLine&& line) {
  Bar& bar = bars_[{line.words, line.all}];
  // Each epoch has its bar, which begins at 0 seconds; other ranks may still be in the one
  // before.
  const Seconds past = (bar.longest - Instant()) + (*line.step.at - Instant());
  if (line.step.execution < bar.epoch || past > farthest) return;
  if (line.step.execution > bar.epoch) {
    bar.epoch = line.step.execution;
    bar.past = bar.longest;
    bar.steps.push_back({.step = bar.epoch * line.all, .at = bar.past, .execution = bar.epoch});
  }
  line.step.at = *line.step.at + (bar.past - Instant());
  bar.longest = std::max(bar.longest, *line.step.at);
  bar.steps.push_back(line.step);
}

std::vector<LoggedStep> Bars::of_training() {
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

std::optional<LoggedStep> RunEnd::take(std::string_view text) {
  const std::string plain = unquoted(text);
  if (const auto time = clock_after(plain, "train_runtime")) time_ = time;
  if (const auto rate = number_after(plain, "train_steps_per_second")) rate_ = rate;
  if (!time_ || !rate_) return std::nullopt;
  const double steps = *time_ / unit::s * *rate_;
  LoggedStep logged{.step = steps >= 1 && steps < 1e9 ? std::llround(steps) : -1};
  logged.time = *time_ / as_real(logged.step);
  logged.covers = logged.step;
  time_ = std::nullopt, rate_ = std::nullopt;
  return logged.step > 0 ? std::optional(logged) : std::nullopt;
}

std::optional<LoggedStep> ComposerBatch::take(std::string_view line) {
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

}  // namespace triplepoint::trace
