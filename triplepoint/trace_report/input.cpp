// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace_report/input.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "triplepoint/base/files.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/trace_tracks.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

#include "triplepoint/metrics/trace/collective_match.h"
#include "triplepoint/metrics/trace/collectives.h"
#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/metrics/trace/trace_steps.h"
#include "triplepoint/store/journal.h"
#include "triplepoint/store/store.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/logs/training_log.h"
#include "triplepoint/trace/read.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

constexpr int64_t most_spans = 50'000'000;  // of a simulated run, written out

/// A run says where its steps are; the analyses look for marks in the timeline.
void mark_steps(run::Run& run) {
  const std::vector<run::StepRecord> steps = run::detailed_steps(run);
  const auto marked = [&](const run::Span& span) {
    return run.timeline.types[as_size(span.type)].kind == run::SpanKind::step;
  };
  if (std::ranges::any_of(run.timeline.spans, marked)) return;
  std::set<int32_t> ranks;
  for (const run::Span& span : run.timeline.spans)
    ranks.insert(span.rank);
  for (size_t i = 0; i < steps.size(); ++i) {
    const int32_t type = run.timeline.intern({.name = fmt::format("step {}", i + 1),
                                              .kind = run::SpanKind::step,
                                              .stream = run::Stream::host});
    for (int32_t rank : ranks) {
      run.timeline.spans.push_back({steps[i].begin, steps[i].end, type, rank});
      if (!run.timeline.details.empty()) run.timeline.details.push_back({});
    }
  }
  run::sort(run.timeline);
}

tl::unexpected<Error> no_timeline(const std::string& file, const run::Run& run) {
  if (run.manifest.origin != run::Origin::simulated)
    return error(
        "{}: the run has no timeline (a recording samples sensors only); give the "
        "profiler's traces",
        file);
  if (!run::has_trained(run))
    return error(
        "{0}: the run has no timeline (its job does not run); triplepoint report {0} says why",
        shell_word(file));
  return error(
      "{0}: the run has no timeline (only its numbers were kept); triplepoint simulate {0} -o "
      "OTHER.run writes one",
      shell_word(file));
}

Result<TraceInput> read_run(const std::string& file) {
  TraceInput input{.run = TPT_TRY(run::load(file)), .format = "run"};
  const int64_t spans = run::count_spans(input.run.timeline);
  if (spans == 0) return no_timeline(file, input.run);
  if (spans > most_spans)
    return error(
        "{}: {} spans are too many to write (the limit is {}); simulate fewer ranks in detail",
        file, spans, most_spans);
  return input;
}

/// Whether --ranks says where the rank stands in the files' names, instead of which are kept.
bool names_ranks(const std::string& ranks) {
  return contains(ranks, "{rank}");
}

Result<TraceInput> read_files(const std::vector<std::string>& files, const TraceOptions& options,
                              trace::HostSpans host) {
  trace::ReadOptions how{.host = host};
  how.shapes = options.analysis == "operators" || options.compares_operators();
  how.threads = static_cast<int>(options.threads.value_or(0));
  if (options.ranks && names_ranks(*options.ranks)) how.rank_pattern = *options.ranks;
  how.memory_limit = options.memory.value_or(Bytes());
  const std::vector<std::filesystem::path> paths(files.begin(), files.end());
  trace::Trace read =
      TPT_TRY(paths.size() == 1 && !is_folder(paths[0]) ? trace::read_trace(paths[0], how)
                                                        : trace::read_traces(paths, how));
  TraceInput input{.format = read.format, .skipped = std::move(read.skipped)};
  input.run.numbers = read.numbers;
  if (const auto size = input.run.numbers.warp_size; size && *size > 0 && *size <= 1024)
    input.warp_size = static_cast<int32_t>(*size);
  input.run.manifest.origin = run::Origin::imported;
  input.run.manifest.fidelity = run::Fidelity::real;
  input.run.manifest.name = by_own_name(paths[0]).filename().string();
  input.run.manifest.epoch_unix_ns = read.epoch_unix_ns;
  constexpr int64_t year_2001_ns = 1'000'000'000'000'000'000;  // other clocks count from a start
  if (read.format == "training_log" && read.epoch_in_file_ns > year_2001_ns)
    input.run.manifest.epoch_unix_ns = read.epoch_in_file_ns;
  input.run.manifest.facts = std::move(read.facts);
  input.run.timeline = std::move(read.timeline);
  input.operators = std::move(read.operators);
  return input;
}

/// A lane says that its rank was given.
void keep_lanes(TraceInput& input, const std::vector<int32_t>& ranks) {
  run::Timeline& timeline = input.run.timeline;
  std::vector<int32_t> places;
  std::vector<run::Lane> kept;
  for (run::Lane& lane : timeline.lanes) {
    const bool keeps = std::binary_search(ranks.begin(), ranks.end(), lane.rank);
    places.push_back(keeps ? static_cast<int32_t>(kept.size()) : -1);
    if (keeps) kept.push_back(std::move(lane));
  }
  timeline.lanes = std::move(kept);
  for (run::SpanDetail& detail : timeline.details)
    if (detail.lane >= 0) detail.lane = places[as_size(detail.lane)];
  for (trace::OperatorCall& call : input.operators)
    call.lane = places[as_size(call.lane)];
}

Result<void> keep_ranks(TraceInput& input, const TraceOptions& options) {
  if (!options.ranks || names_ranks(*options.ranks)) return {};
  const std::vector<int32_t> ranks = TPT_TRY(parse_ranks(*options.ranks));
  const run::Timeline& timeline = input.timeline();
  input.run.timeline = metrics::part_of(timeline, [&](size_t i) {
    return std::binary_search(ranks.begin(), ranks.end(), timeline.spans[i].rank);
  });
  keep_lanes(input, ranks);
  if (input.timeline().empty())
    return error("none of the ranks {} is in the trace (it has {} ranks)", *options.ranks,
                 timeline.num_ranks);
  return {};
}

Result<void> keep_step(TraceInput& input, const TraceOptions& options) {
  if (!options.step) return {};
  const metrics::TraceSteps steps = metrics::find_steps(input.timeline());
  if (steps.steps.empty())
    return error(
        "--step: no steps in the trace (neither marks such as ProfilerStep#N, nor kernels that "
        "repeat); leave it out");
  const auto number = parse_count(*options.step);
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    if (steps.steps[i].name != *options.step && (!number || *number != static_cast<int64_t>(i) + 1))
      continue;
    input.remarks.push_back(
        fmt::format("step {} of {} ({})", i + 1, steps.steps.size(), steps.steps[i].name));
    input.run.timeline = metrics::step_of(input.timeline(), steps, i);
    return {};
  }
  return error("--step: no step \"{}\"; give a number from 1 to {}, or a name such as {}",
               *options.step, steps.steps.size(), steps.steps.front().name);
}

std::string shortened(const std::string& name) {
  constexpr size_t most = 80;
  return name.size() <= most ? name : name.substr(0, most) + "...";
}

Result<void> apply_kernel_rules(TraceInput& input, const TraceOptions& options) {
  if (input.timeline().names != run::NameKind::kernels && !options.rules) return {};
  const std::string rules = options.rules.value_or("default");
  const auto endless = metrics::apply_rules(input.run.timeline, TPT_TRY(load_kernel_rules(rules)));
  if (endless)
    return error(
        "{}: a regular expression takes too long on the kernel name \"{}\" (nested repeats such as "
        "(a+)+ try every way to divide a text); write it without them, or with all and any",
        rules, shortened(*endless));
  return {};
}

void align(TraceInput& input, const TraceOptions& options, std::vector<std::string>& remarks) {
  if (input.timeline().num_ranks < 2 || input.timeline().details.empty()) return;
  const metrics::CollectiveMatch match =
      metrics::match_collectives(input.timeline(), metrics::job_ranks_of(input.run));
  input.clocks = metrics::fit_clocks(match.collectives);
  const bool differ =
      options.align != "never" && (options.align != "auto" || input.clocks->clocks_differ());
  if (differ)
    input.run.timeline = metrics::align_clocks(std::move(input.run.timeline), *input.clocks);
  if (std::string said = metrics::clock_sentence(*input.clocks, differ); !said.empty())
    remarks.push_back(std::move(said));
}

/// The traces may be of a part of the job.
void note_job_ranks(TraceInput& input, std::vector<std::string>& remarks) {
  const int32_t world = metrics::job_ranks_of(input.run);
  const std::set<int32_t> given = metrics::given_ranks(input.timeline());
  if (given.size() > 1 && static_cast<int32_t>(given.size()) < world)
    remarks.push_back(fmt::format("{} of {} ranks of the job are given", given.size(), world));
}

/// Collectives without a measured length count as no time; their states are told.
void note_issues(TraceInput& input) {
  std::array<int64_t, run::issue_state_words.size()> counts{};
  const std::vector<std::optional<run::IssueState>> states = mapped(
      input.timeline().types, [](const run::SpanType& type) { return run::issue_state(type); });
  for (const run::Span& span : input.timeline().spans)
    if (const auto state = states[as_size(span.type)]) ++counts[as_size(*state)];
  std::vector<std::string> words;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) words.push_back(fmt::format("{} {}", counts[i], run::issue_state_words[i]));
  if (!words.empty())
    input.remarks.push_back(
        fmt::format("collectives without a measured length ({}) count as no time; "
                    "TORCH_NCCL_ENABLE_TIMING=1 measures those that end",
                    fmt::join(words, ", ")));
  std::vector<int32_t> empty;
  std::set<int32_t> with_spans;
  for (const run::Span& span : input.timeline().spans)
    with_spans.insert(with_spans.end(), span.rank);
  for (const int32_t rank : metrics::given_ranks(input.timeline()))
    if (!with_spans.contains(rank)) empty.push_back(rank);
  if (!empty.empty() && input.timeline().instances.empty())
    input.remarks.push_back(fmt::format("nothing is recorded of {}", metrics::rank_words(empty)));
}

void note_skipped(TraceInput& input) {
  if (input.skipped.truncated)
    input.remarks.emplace_back("a file ends before its end: what is there is shown");
  const std::vector<std::string>& reasons = input.skipped.reasons;
  if (input.skipped.events > 0)
    input.remarks.push_back(
        fmt::format("{} events were skipped{}", input.skipped.events,
                    reasons.empty() ? "" : fmt::format(" ({})", fmt::join(reasons, "; "))));
  input.remarks.insert(input.remarks.end(), input.skipped.notes.begin(), input.skipped.notes.end());
}

/// A folder with traces of jobs (<job id>_kineto) stands for those of its newest job.
std::vector<std::string> with_newest_traces(std::vector<std::string> files,
                                            std::vector<std::string>& remarks) {
  for (std::string& file : files) {
    const auto traces = trace::newest_job_traces(file);
    if (!traces) continue;
    if (!traces->older.empty())
      remarks.push_back(fmt::format("traces are those of {}, the newest job; {} left aside",
                                    traces->newest.filename().string(),
                                    fmt::join(traces->older, ", ")));
    file = traces->newest.string();
  }
  return files;
}

}  // namespace

bool is_run_file(const std::string& path) {
  if (!path.ends_with(".run")) return false;  // nothing is read of standard input
  std::ifstream file(path, std::ios::binary);
  std::string head(15, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  const bool finished = head == "SQLite format 3";
  return file && (finished || run::is_journal(head));
}

TracesAndRecordings divide(const std::vector<std::string>& files) {
  TracesAndRecordings all;
  for (const std::string& file : files)
    (is_run_file(file) && files.size() > 1 ? all.recordings : all.traces).push_back(file);
  return all;
}

Result<run::Run> load_recording(const std::string& file, TraceInput& traces) {
  run::Run recording = TPT_TRY(run::load(file));
  const auto &there = recording.manifest.epoch_unix_ns, &here = traces.run.manifest.epoch_unix_ns;
  if (!there || !here)
    return error(
        "{}: its times cannot be brought to the trace's (one of them has no wall clock); record "
        "with this program, trace with a profiler that writes absolute times",
        file);
  for (run::Series& series : recording.series)
    for (Instant& time : series.times.own())
      time = Instant(time.nanoseconds() + *there - *here);
  if (std::string said = take_ranks_from_traces(recording, traces.run); !said.empty())
    traces.remarks.push_back(std::move(said));
  return recording;
}

Result<std::optional<run::Run>> telemetry_of(const std::vector<std::string>& recordings,
                                             TraceInput& input) {
  if (recordings.size() > 1)
    return error(
        "{} recordings beside the traces; name one (triplepoint trace merge A.run B.run -o ALL.run "
        "joins those of several nodes)",
        recordings.size());
  if (!recordings.empty()) return std::optional(TPT_TRY(load_recording(recordings[0], input)));
  const bool is_own = input.format == "run" && !input.run.series.empty();
  return is_own ? std::optional(input.run) : std::nullopt;
}

bool TraceOptions::asks_for(const std::string& table) const {
  if (format == "json" || show == "all") return true;
  if (!show) return false;
  const auto tables = split_list(*show);
  return tables && std::ranges::find(*tables, table) != tables->end();
}

bool TraceOptions::compares_operators() const {
  TraceOptions unformatted = *this;  // JSON alone would read the traces' Python functions
  unformatted.format.clear();
  return analysis == "diff" && unformatted.asks_for("operators");
}

Result<std::vector<int32_t>> parse_ranks(std::string_view text) {
  std::vector<int32_t> ranks;
  constexpr int64_t most = 1 << 20;
  for (const std::string& piece : TPT_TRY(split_list(text))) {
    const size_t dash = piece.find('-');
    const int64_t first = TPT_TRY(parse_count(piece.substr(0, dash)));
    const int64_t last =
        dash == std::string::npos ? first : TPT_TRY(parse_count(piece.substr(dash + 1)));
    if (first < 0 || last < first || last >= most)
      return error("\"{}\" is no range of ranks; write 0,2,8-15", piece);
    for (int64_t rank = first; rank <= last; ++rank)
      ranks.push_back(static_cast<int32_t>(rank));
  }
  std::ranges::sort(ranks);
  return ranks;
}

Result<TraceInput> read_trace_input(const std::vector<std::string>& files,
                                    const TraceOptions& options, trace::HostSpans host) {
  std::vector<std::string> left_aside;
  TraceInput input =
      TPT_TRY(files.size() == 1 && is_run_file(files[0])
                  ? read_run(files[0])
                  : read_files(with_newest_traces(files, left_aside), options, host));
  std::ranges::move(left_aside, std::back_inserter(input.remarks));
  if (!input.timeline().instances.empty()) input.run.timeline = run::expand(input.timeline());
  if (input.format == "run") mark_steps(input.run);
  TPT_TRY(apply_kernel_rules(input, options));
  TPT_TRY(keep_ranks(input, options));
  std::vector<std::string> of_ranks;  // behind what the user asked for
  note_job_ranks(input, of_ranks);
  align(input, options, of_ranks);
  TPT_TRY(keep_step(input, options));
  input.remarks.insert(input.remarks.end(), of_ranks.begin(), of_ranks.end());
  note_issues(input);
  note_skipped(input);
  return input;
}

Result<TraceInput> read_traced_work(const std::vector<std::string>& files,
                                    const TraceOptions& options, trace::HostSpans host) {
  TraceInput input = TPT_TRY(read_trace_input(files, options, host));
  const auto is_step = [](const run::SpanType& type) { return type.kind == run::SpanKind::step; };
  if (input.format == "training_log" && std::ranges::all_of(input.timeline().types, is_step))
    return error(trace::use_of_training_log(files.front()));
  return input;
}

namespace {

using spec::TomlValue;

Result<std::vector<std::string>> words_of(const TomlValue& value, const std::string& file) {
  std::vector<std::string> words;
  for (const TomlValue& item : value.items) {
    if (!item.is(TomlValue::Kind::text) || item.text.empty())
      return spec::error_at(file, value.line,
                            "a part of a name must be text that is not empty; write \"nccl\"");
    words.push_back(lower_case(item.text));
  }
  return words;
}

Result<metrics::KernelLabel> label_in(const TomlValue& value, const std::string& file) {
  const auto label = metrics::kernel_label(value.text);
  if (!label)
    return spec::error_at(file, value.line,
                          fmt::format("no kernel class is called \"{}\"; {}", value.text,
                                      did_you_mean(value.text, metrics::kernel_label_words())));
  return *label;
}

Result<std::regex> regex_in(const TomlValue& value, const std::string& file) {
  try {
    return std::regex(value.text, std::regex::icase | std::regex::optimize);
  } catch (const std::regex_error&) {
    return spec::error_at(file, value.line,
                          fmt::format("\"{}\" is no regular expression (ECMAScript); backslashes "
                                      "need single quotes around the text",
                                      value.text));
  }
}

Result<metrics::KernelRule> rule_in(const TomlValue& table, const std::string& file) {
  metrics::KernelRule rule;
  bool has_class = false;
  for (const spec::TomlEntry& entry : table.entries) {
    if (entry.key == "class") {
      rule.label = TPT_TRY(label_in(entry.value, file));
      has_class = true;
    } else if (entry.key == "all") {
      rule.all = TPT_TRY(words_of(entry.value, file));
    } else if (entry.key == "any") {
      rule.any = TPT_TRY(words_of(entry.value, file));
    } else if (entry.key == "regex") {
      rule.pattern = TPT_TRY(regex_in(entry.value, file));
    } else {
      return spec::error_at(
          file, entry.value.line,
          fmt::format("unknown key \"{}\"; a rule has class, all, any, regex", entry.key));
    }
  }
  if (!has_class)
    return spec::error_at(file, table.line, "a rule without a class; add class = \"compute\"");
  return rule;
}

Result<metrics::KernelRuleSet> parse_rules(const std::string& text, const std::string& file) {
  const TomlValue root = TPT_TRY(spec::parse_toml(text, file));
  metrics::KernelRuleSet set{.name = std::filesystem::path(file).stem().string()};
  for (const spec::TomlEntry& entry : root.entries) {
    if (entry.key == "rule") {
      for (const TomlValue& table : entry.value.items)
        set.rules.push_back(TPT_TRY(rule_in(table, file)));
    } else if (entry.key == "otherwise") {
      set.otherwise = TPT_TRY(label_in(entry.value, file));
    } else if (entry.key != "about") {
      return spec::error_at(
          file, entry.value.line,
          fmt::format("unknown key \"{}\"; a rule file has about, otherwise and [[rule]]",
                      entry.key));
    }
  }
  if (set.rules.empty() && !set.otherwise)
    return error("{}: no rules in it; add [[rule]] with class and all, any or regex", file);
  return set;
}

}  // namespace

Result<metrics::KernelRuleSet> load_kernel_rules(const std::string& name_or_file) {
  std::error_code ignored;
  Path path = name_or_file;
  if (!std::filesystem::exists(path, ignored)) {
    const spec::Library library = TPT_TRY(spec::require_library());
    path = Path(library.root) / "rules" / (name_or_file + ".toml");
    if (!std::filesystem::exists(path, ignored))
      return error(
          "no kernel rules \"{}\" (neither a file nor one of data/rules); try default, or a file",
          name_or_file);
  }
  return parse_rules(TPT_TRY(read_file(path)), path.string());
}

}  // namespace triplepoint::trace_report
