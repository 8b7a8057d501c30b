// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/logs/training_log.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/quoting.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/logs/lines.h"

namespace triplepoint::trace {

namespace {

constexpr Seconds longest(1e7);   // of one step
constexpr Seconds farthest(9e8);  // of a log, 28 years

/// One way to print a step. `marker` begins what is about one step and stands before its fields.
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

std::optional<LoggedStep> read_megatron(std::string_view text) {
  const auto step = integer_after(text, "iteration");
  if (!step) return std::nullopt;
  LoggedStep logged{.step = *step};
  logged.time = scaled(number_after(text, "elapsed time per iteration (ms)"), unit::ms);
  logged.samples = integer_after(text, "global batch size");
  return logged;
}

std::optional<LoggedStep> read_nemo(std::string_view text) {
  const auto step = integer_after(text, "global_step");
  if (!step) return std::nullopt;
  LoggedStep logged{.step = *step};
  logged.time = scaled(number_after(text, "train_step_timing in s"), unit::s);
  logged.samples = integer_after(text, "global_batch_size");
  return logged;
}

std::optional<LoggedStep> read_torchtitan(std::string_view text) {
  const auto step = integer_after(text, "step");
  if (!step) return std::nullopt;
  LoggedStep logged{.step = *step};
  return logged;
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

constexpr std::array dialects = {
    Dialect{"megatron-lm", "iteration ", "elapsed time per iteration (ms)", read_megatron},
    Dialect{"nemo", "poch ", "global_step", read_nemo},  // "Epoch 0: ...", "Training epoch 0, ..."
    Dialect{"torchtitan", "step:", "loss:", read_torchtitan},
};

class LogReader {
 public:
  explicit LogReader(TrainingLog& log) : log_(log) {}

  void read(std::string_view line) {
    for (const Dialect& dialect : dialects)
      if (line.find(dialect.proof) != std::string_view::npos &&
          line.find(dialect.marker) != std::string_view::npos)
        return read_steps(line, dialect);
    read_preamble(line);
  }

  void finish() {
    std::stable_sort(log_.steps.begin(), log_.steps.end(),
                     [](const auto& a, const auto& b) { return a.step < b.step; });
    const LoggedStep* before = nullptr;
    for (LoggedStep& step : log_.steps) {
      if (before && !step.time && step.at && before->at && *before->at < *step.at)
        step.time = (*step.at - *before->at) / static_cast<double>(step.step - before->step);
      if (step.samples && log_.sequence_length && !step.tokens)
        step.tokens = *step.samples * *log_.sequence_length;
      before = &step;
    }
  }

 private:
  /// Several ranks may have written on one line: every marker begins its own step.
  void read_steps(std::string_view line, const Dialect& dialect) {
    for (size_t at = find_marker(line, dialect.marker, 0); at != std::string_view::npos;) {
      const size_t next = find_marker(line, dialect.marker, at + 1);
      const std::string_view text =
          line.substr(at, next == std::string_view::npos ? next : next - at);
      if (text.find(dialect.proof) != std::string_view::npos)
        if (auto step = dialect.read(text)) {
          step->at = last_stamp(line.substr(0, at));
          keep(*step, dialect);
        }
      at = next;
    }
  }

  /// The first that speaks of a step is kept; later ones add what it left out.
  void keep(const LoggedStep& step, const Dialect& dialect) {
    if (step.step < 0 || (step.time && !(*step.time > Seconds() && *step.time < longest))) return;
    if (log_.framework.empty()) log_.framework = dialect.framework;
    last_step_ = step.step;
    const auto [known, is_new] = index_.try_emplace(step.step, log_.steps.size());
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
  std::map<int64_t, size_t> index_;
  int64_t last_step_ = -1;
};

}  // namespace

Result<TrainingLog> parse_training_log(Input& input) {
  TrainingLog log;
  LogReader reader(log);
  log.truncated = !TPT_TRY(for_each_line(input, [&](std::string_view line) { reader.read(line); }));
  reader.finish();
  if (log.steps.empty())
    return error(
        fmt::format("{}: no line of a training step was found (supported are Megatron-LM, NeMo and "
                    "torchtitan); give the log of the rank that "
                    "prints them",
                    input.name()));
  return log;
}

namespace {

struct Placed {
  int64_t step;
  Instant begin, end;
};

/// Steps whose length is known. By the stamps where the log has them, else one after the other from
/// 0; the earliest begin is 0.
std::vector<Placed> place(const TrainingLog& log) {
  std::vector<Placed> all;
  const bool stamped = std::all_of(log.steps.begin(), log.steps.end(), [](const LoggedStep& step) {
    return step.at.has_value() || !step.time;
  });
  Instant end;
  int64_t before = -1;
  for (const LoggedStep& step : log.steps) {
    if (!step.time) continue;
    const double since = before < 0 ? 1 : static_cast<double>(step.step - before);
    before = step.step;
    // Steps that were not logged took as long; a jump of the number is no reason to wait for ever.
    const Seconds passed = *step.time * since < longest ? *step.time * since : *step.time;
    if (!stamped && end - Instant() + passed > farthest) break;
    end = stamped ? *step.at : end + passed;
    all.push_back({step.step, end - *step.time, end});
  }
  if (all.empty()) return all;
  const int64_t first =
      std::min_element(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
        return a.begin < b.begin;
      })->begin.nanoseconds();
  for (Placed& placed : all) {
    placed.begin = Instant(placed.begin.nanoseconds() - first);
    placed.end = Instant(placed.end.nanoseconds() - first);
  }
  return all;
}

}  // namespace

std::string use_of_training_log(const std::string& file) {
  const std::string name = shell_word(file);
  return fmt::format(
      "{} is a training's log (it tells the time of each step, not the job and not what ran in the "
      "step); see its steps with triplepoint report {}, or beside those of another run with "
      "triplepoint compare {} OTHER",
      file, name, name);
}

bool looks_like_training_log(std::string_view head) {
  if (head.find('\0') != std::string_view::npos) return false;
  const auto has = [&](std::string_view word) { return head.find(word) != std::string_view::npos; };
  const bool has_step = std::any_of(dialects.begin(), dialects.end(), [&](const Dialect& dialect) {
    return has(dialect.proof) && has(dialect.marker);
  });
  return has_step || has("megatron") || has("[NeMo ") || has("[titan]");
}

Result<Trace> read_training_log(Input& input, const ReadOptions& options) {
  const TrainingLog log = TPT_TRY(parse_training_log(input));
  TraceBuilder builder("training_log");
  const int32_t rank = options.rank.value_or(options.rank_if_unknown.value_or(0));
  const int32_t type = builder.type(
      {.name = "training step", .kind = run::SpanKind::step, .stream = run::Stream::host});
  const int32_t lane = builder.lane({rank, run::Stream::host, 0, log.framework + " log"});
  for (const Placed& placed : place(log)) {
    run::Span span{placed.begin, placed.end, type, rank};
    builder.add(span, {.lane = lane, .sequence = placed.step});
  }
  builder.facts()["framework"] = log.framework;
  builder.facts()["clock"] = "of the log, time zone unknown";
  return std::move(builder).finish(std::nullopt);
}

}  // namespace triplepoint::trace
