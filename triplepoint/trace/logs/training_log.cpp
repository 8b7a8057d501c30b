// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/training_log.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::trace {

namespace {

constexpr Seconds longest(1e7);             // of one step
constexpr Seconds most_between_ranks(1.0);  // that print one step

class LogReader {
 public:
  explicit LogReader(TrainingLog& log) : log_(log) {}

  void read(std::string_view line) {
    if (contains(line, "train_runtime") || contains(line, "train_steps_per_second")) {
      if (const auto end = end_.take(line)) ends_.push_back(*end);
      return;
    }
    if (const auto step = composer_.take(line)) return keep(*step, composer);
    for (const Dialect& dialect : dialects()) {
      if (!contains(line, dialect.proof) || !contains(line, dialect.marker)) continue;
      if (dialect.framework == progress_bar.framework) {
        auto bar = bar_of(line);
        if (!bar) continue;
        return bars_.take(*std::move(bar));
      }
      if (dialect.marker.empty()) {
        // Of whole lines, and only where the log is not of a tool that is known.
        const bool other = !log_.framework.empty() && log_.framework != dialect.framework;
        auto step = other ? std::nullopt : read_words(line, dialect);
        if (!step) continue;
        const auto unix_ms = integer_after(line, "\"time_ms\"");
        const bool is_time = unix_ms && *unix_ms > 0 && *unix_ms < int64_t{1} << 43;
        step->at = is_time ? std::optional(Instant(*unix_ms * 1'000'000)) : stamp_in(line);
        return keep(*step, dialect);
      }
      return read_steps(line, dialect);
    }
    if (!read_own_line(line)) read_preamble(line);
  }

  void finish() {
    take_bars_or_ends();
    if (back_) begin_again();
    std::ranges::stable_sort(log_.steps, [](const auto& a, const auto& b) {
      return std::pair(a.execution, a.step) < std::pair(b.execution, b.step);
    });
    order_dates();
    take_elapsed_times();
    std::map<int64_t, int64_t> intervals;
    for (size_t i = 1; i < log_.steps.size(); ++i)
      if (log_.steps[i].execution == log_.steps[i - 1].execution)
        ++intervals[log_.steps[i].step - log_.steps[i - 1].step];
    const auto usual =
        std::ranges::max_element(intervals, [](auto& a, auto& b) { return a.second < b.second; });
    const int64_t interval = usual == intervals.end() ? 1 : usual->first;
    const bool says_times = this->says_times();
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
  bool read_own_line(std::string_view line) {
    if (!log_.framework.empty() && log_.framework != own_loop.framework) return false;
    const std::string low = lower_case(line);
    std::string text = fields_of(low, titles_);
    const bool is_titled = !text.empty();
    if (!is_titled && !may_be_own_loop(text = unquoted(low))) return false;
    const bool is_step = is_titled || contains(low, "data_time");
    auto step = read_own(text, is_step ? Bare::seconds : Bare::unknown);
    if (!step && !is_titled && log_.steps.empty() && low.find_first_of("0123456789:=") == low.npos)
      titles_ = mapped(split(low, ','), [](const std::string& title) {
        return std::string(trimmed(title, "\" \r"));
      });
    if (!step) return false;
    if (const auto stamp = stamp_in(line)) step->at = stamp;
    if (!step->time && !step->at) return false;
    if (const std::string guess = "times without a unit are taken to be seconds";
        is_titled && step->time && !holds(log_.notes, guess))
      log_.notes.push_back(guess);
    // Of loops that count the steps of each epoch.
    const int64_t epoch = integer_after(text, "epoch").value_or(epoch_);
    if (std::exchange(epoch_, epoch) < epoch && step->step + past_ < last_.step)
      past_ = last_.step + (step->step == 0 ? 1 : 0);
    step->step += past_;
    keep(*step, own_loop);
    return true;
  }

  std::optional<Instant> stamp_in(std::string_view text) {
    const auto stamp = last_stamp(text);
    if (!stamp) return std::nullopt;
    orders_.insert(stamp->order);
    return stamp->time;
  }

  /// 05/06/2025: of one day it does not matter which is the month.
  void order_dates() {
    std::vector<LoggedStep>& steps = log_.steps;
    if (log_.framework == "nanotron" || steps.empty() || !steps.front().at || !steps.back().at)
      return;
    const auto days = have_day_first(orders_, *steps.front().at, *steps.back().at);
    if (!days)
      log_.notes.emplace_back(
          "dates may have the day or the month first: the month is taken to be");
    for (LoggedStep& step : steps)
      if (days.value_or(false) && step.at) step.at = with_day_first(*step.at);
  }

  bool says_times() const {
    return std::ranges::any_of(log_.steps, [](const LoggedStep& s) { return s.time.has_value(); });
  }
  /// Lines with words of a loop beside those of a tool.
  void forget() {
    log_.framework.clear(), log_.steps.clear(), index_.clear();
    last_ = {.step = -1};
    back_.reset();
  }

  /// Of programs that have no lines of their steps. Bars tell more than the end of a run.
  void take_bars_or_ends() {
    const std::vector<LoggedStep> steps = bars_.of_training();
    const bool has_stamps_only = log_.framework == own_loop.framework && !says_times();
    if (has_stamps_only && steps.size() > log_.steps.size()) forget();
    if (!log_.framework.empty()) return;
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
    if (log_.framework != own_loop.framework || steps.size() < fewest) return;
    std::vector<Seconds> elapsed;
    Seconds before, past, longest;
    size_t beginnings = 1, growing = 0;
    for (const LoggedStep& step : steps) {
      if (!step.time) return;
      if (*step.time < before) {
        if (2 * *step.time > before) return;
        past += before;
        ++beginnings;
      }
      growing += *step.time > before ? 1 : 0;
      before = *step.time;
      longest = std::max(longest, before);
      elapsed.push_back(past + before);
    }
    const bool only_grows = beginnings == 1 && steps.size() > 2 * fewest && growing == steps.size();
    if (!only_grows && (longest < 2 * *steps.front().time || beginnings * fewest > steps.size()))
      return;
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
      const Seconds usual = before == first
                                ? Seconds()
                                : (*before->at - *first->at) / as_real(before->step - first->step);
      const Seconds passed = before == nullptr
                                 ? Seconds()
                                 : as_real(step.step - before->step) * step.time.value_or(usual);
      Seconds moved;
      if (back > most_between_ranks) {
        moved = back + passed;
        log_.set_back = std::max(log_.set_back, moved);
      } else if (before != nullptr && is_summer_time(*before->at, *step.at, passed)) {
        moved = -1 * unit::h;
        log_.notes.emplace_back(
            "the clock of the log goes forward by an hour, to summer time: no time passed");
      }
      shift += moved;
      *step.at = *step.at + moved;
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
    const LoggedStep *from = nullptr, *last_from = nullptr;
    LoggedStep *before = nullptr, *last = nullptr;  // last: that was counted
    const auto count = [&](const LoggedStep* since, LoggedStep* to) {
      if (to->time || !(*since->at < *to->at)) return;
      to->covers = to->step - since->step;
      to->time = (*to->at - *since->at) / as_real(to->covers);
      last_from = since, last = to;
    };
    // What is left at the end counts with the steps before.
    const auto end_stretch = [&] {
      if (from == nullptr || before == last || says_times) return;
      if (last == from && last != nullptr) last->time.reset(), last->covers = 1, from = last_from;
      count(from, before);
    };
    for (LoggedStep& step : log_.steps) {
      if (before != nullptr && before->execution != step.execution) {
        end_stretch();
        from = before = last = nullptr;
      }
      if (!step.at) continue;
      if (from == nullptr || step.time) {
        from = &step;
      } else if (*step.at > *before->at && *step.at - *before->at >= least) {
        count(from, before);
        count(before, &step);
        from = &step;
      } else if (*step.at > *from->at && *step.at - *from->at >= least) {
        count(from, &step);
        from = &step;
      }
      before = &step;
    }
    end_stretch();
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
        if (auto step = read_words(text, dialect)) {
          step->at = stamp_in(line.substr(0, at));
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
    if (log_.framework == own_loop.framework && dialect.framework != own_loop.framework) forget();
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
    step.execution += static_cast<int32_t>(log_.restarts);
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
  std::optional<LoggedStep> back_;  // a number that went back
  std::set<DateOrder> orders_;
  std::vector<std::string> titles_;  // of a table of steps
  int64_t epoch_ = 0, past_ = 0;     // past: steps of the epochs before
};

struct Placed {
  int64_t step;
  Instant begin, end;
};

/// Steps whose length is known, one by one where a line is the mean of several. By the stamps where
/// the log has them, else one after the other from 0.
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
  // JSON is none, though words of a loop may stand in it, unless each line is a step.
  const std::string_view start = trimmed(head), line = start.substr(0, start.find('\n'));
  const std::string_view inner = trimmed(start.substr(std::min<size_t>(1, start.size())));
  if ((start.starts_with('{') && (inner.starts_with('"') || inner.starts_with('{'))) ||
      (start.starts_with('[') && inner.starts_with('{'))) {
    const auto step = read_own(fields_of(lower_case(line), {}), Bare::seconds);
    const bool has_time = step && (step->time || step->at || last_stamp(line));
    return has(hugging_face.proof) || (has_time && has("\n{"));
  }
  const bool has_step = std::ranges::any_of(dialects(), [&](const Dialect& dialect) {
    return has(dialect.proof) && has(dialect.marker);
  });
  constexpr std::string_view others[] = {hugging_face.proof, "throughput/batches_per_sec",
                                         "megatron",         "[NeMo ",
                                         "[titan]",          "DeepSpeed",
                                         "{'loss':"};
  return has_step || may_be_own_loop(lower_case(head)) || std::ranges::any_of(others, has);
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
  for (const std::string& note : log.notes)
    builder.note(note);
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
