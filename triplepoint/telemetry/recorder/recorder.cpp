// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/recorder.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/telemetry/recorder/marks_to_run.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

ClockPair read_clocks() {
  ClockPair best;
  int64_t shortest = INT64_MAX;
  // Another process may run between two readings; of a few attempts the least disturbed counts.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int64_t before = monotonic_now_ns();
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    const int64_t after = monotonic_now_ns();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {.monotonic_ns = before + shortest / 2,
            .unix_ns = wall.tv_sec * 1'000'000'000LL + wall.tv_nsec};
  }
  return best;
}

ClockWatch::Verdict ClockWatch::look(const ClockPair& now) {
  Verdict verdict;
  if (!last_look_) {
    verdict.keep = true;
  } else {
    const int64_t moved =
        (now.unix_ns - last_look_->unix_ns) - (now.monotonic_ns - last_look_->monotonic_ns);
    if (std::abs(moved) >= jump_ns) verdict.jumped_ns = moved;
    verdict.keep = verdict.jumped_ns || now.monotonic_ns - last_kept_ns_ >= every_ns;
  }
  if (verdict.keep) last_kept_ns_ = now.monotonic_ns;
  last_look_ = now;
  return verdict;
}

namespace {

namespace fs = std::filesystem;

// At most one second may be lost: what remains of it is for the tick that is due and for the disk.
constexpr int64_t sync_every_ns = 750'000'000;
constexpr size_t most_troubles = 100;
// At the end, for drivers that still load their state.
constexpr Seconds longest_opening = 800 * unit::ms;

double process_cpu_s() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// Same kernel, same monotonic clock: recordings of it need no alignment.
std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

std::string text_of(const std::vector<Gap>& gaps) {
  std::string text;
  for (const Gap& gap : gaps)
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", gap.what, gap.why);
  return text;
}

run::Run head_of(const RecordingPlan& plan, const Sampler& sampler, const ClockPair& epoch) {
  run::Run head;
  head.manifest.origin = run::Origin::measured;
  head.manifest.fidelity = run::Fidelity::real;
  head.manifest.name = plan.name;
  head.manifest.producer = plan.producer;
  head.manifest.epoch_unix_ns = epoch.unix_ns;
  head.manifest.hosts = {plan.host};
  head.manifest.facts = plan.facts;
  head.manifest.facts["boot_id"] = boot_id();
  head.numbers.epoch_monotonic_ns = epoch.monotonic_ns;
  head.numbers.world_size = plan.world_size;
  head.manifest.facts["sampling_interval_s"] =
      fmt::format("{:g}", plan.sampling.interval / unit::s);
  std::vector<Gap> gaps = plan.gaps;
  gaps.insert(gaps.end(), sampler.gaps().begin(), sampler.gaps().end());
  if (!gaps.empty()) head.manifest.facts["not_measured"] = text_of(gaps);
  head.devices = sampler.devices();
  return head;
}

}  // namespace

struct Recorder::State {
  State(const RecordingPlan& wanted, std::vector<std::unique_ptr<Sensor>> sensors)
      : plan(wanted), sampler(std::move(sensors), wanted.sampling) {}

  RecordingPlan plan;
  Sampler sampler;
  std::optional<run::GrowingRun> run;
  std::optional<MarksToRun> marks_to_run;
  std::optional<mark::Reader> marks;
  ClockWatch clocks;
  int64_t epoch_ns = 0, next_sync_ns = 0;
  std::vector<std::optional<size_t>> series;  // of each channel, once it has a value
  std::vector<Sample> samples;
  std::map<int32_t, NodeRank> ranks;
  std::map<int32_t, std::vector<int64_t>> processes_seen;  // of each device, by the driver
  std::string not_measured;                                // as the run has it
  // Of what did not fit on the disk, nor into memory:
  int64_t last_drain_ns = 0, last_safe_ns = 0, dropped_ns = 0, dropped_when_safe_ns = 0;
  int64_t dropped = 0;
  size_t troubles = 0;
  std::set<std::string> told;  // of troubles: each is noted once
  bool failed = false;

  Result<void> begin();
  void adopt(Sensors part);
  void adopt_opened();
  void finish_opening();
  void drain_marks(int64_t now);
  void match_processes();
  void drain_samples();
  void count_dropped();
  void keep(const std::vector<Sample>& fresh);
  void look_at_clocks();
  void keep_troubles();
  void refresh_periods(run::Run& closing) const;
  Result<void> sync();
};

Result<void> Recorder::State::begin() {
  const ClockPair epoch = read_clocks();
  epoch_ns = epoch.monotonic_ns;
  next_sync_ns = epoch_ns + sync_every_ns;
  last_drain_ns = last_safe_ns = epoch_ns;
  run.emplace(TPT_TRY(run::GrowingRun::create(plan.file, head_of(plan, sampler, epoch))));
  marks_to_run.emplace(*run, epoch_ns);
  series.resize(sampler.channels().size());
  look_at_clocks();
  if (plan.marks) marks.emplace(TPT_TRY(mark::Reader::watch(*plan.marks)));
  sampler.start();
  return {};
}

void Recorder::State::adopt(Sensors part) {
  std::vector<run::Device> silent;
  for (const DeviceFacts& facts : part.devices)
    if (facts.sensor < 0) silent.push_back(facts.device);
  plan.gaps.insert(plan.gaps.end(), part.gaps.begin(), part.gaps.end());
  sampler.add(std::move(part.all), silent);
  series.resize(sampler.channels().size());
  for (size_t i = 0; i < sampler.devices().size(); ++i) {
    run::Device device = sampler.devices()[i];
    if (i < run->head().devices.size()) device.rank = run->head().devices[i].rank;
    if (i >= run->head().devices.size() || device != run->head().devices[i])
      run->set_device(i, device);
  }
  if (marks) marks_to_run->find_devices(marks->processes());
  for (const auto& [number, rank] : ranks)
    marks_to_run->know_rank(number, rank.local_rank, rank.visible_devices, rank.in_pci_order);
}

void Recorder::State::adopt_opened() {
  if (plan.opening == nullptr) return;
  const bool is_complete = plan.opening->is_complete();
  for (Sensors& part : plan.opening->take())
    adopt(std::move(part));
  if (is_complete) plan.opening.reset();
  std::vector<Gap> gaps = plan.gaps;
  gaps.insert(gaps.end(), sampler.gaps().begin(), sampler.gaps().end());
  if (std::string text = text_of(gaps); text != not_measured && !text.empty())
    run->fact("not_measured", not_measured = std::move(text));
}

/// A command may be shorter than the opening of a driver that answers.
void Recorder::State::finish_opening() {
  if (plan.opening == nullptr) return;
  plan.opening->wait(longest_opening, {});
  adopt_opened();
  if (plan.opening == nullptr) return;
  for (const Gap& gap : plan.opening->outstanding())
    run->note(fmt::format("{}: {}; not recorded ({})", gap.what, gap.why, gap.remedy));
}

void Recorder::State::drain_marks(int64_t now) {
  if (!marks) return;
  const mark::Reader& reader = *marks;
  marks->drain([&](const mark::Event& event) { marks_to_run->take(event, reader.processes()); });
  marks_to_run->keep_finished_steps(now);
}

/// A rank that the driver sees on one GPU alone is on that one, whatever its environment says: it
/// also tells MIG instances and CUDA's order.
void Recorder::State::match_processes() {
  auto seen = sampler.processes();
  if (seen == processes_seen) return;
  processes_seen = std::move(seen);
  for (const auto& [number, rank] : ranks) {
    std::vector<int32_t> devices;
    for (const auto& [device, pids] : processes_seen)
      if (std::ranges::find_first_of(pids, rank.all_pids) != pids.end()) devices.push_back(device);
    if (devices.size() == 1) marks_to_run->place_rank(number, static_cast<size_t>(devices.front()));
  }
}

void Recorder::State::drain_samples() {
  samples.clear();
  sampler.take(samples);
  keep(samples);
  count_dropped();
}

/// A stretch of time of which values were dropped counts as lost.
void Recorder::State::count_dropped() {
  const int64_t now = monotonic_now_ns();
  const int64_t all = run->num_dropped() + sampler.cost().lost_samples;
  if (std::exchange(dropped, all) < all) dropped_ns += now - last_drain_ns;
  last_drain_ns = now;
}

/// A channel becomes a series with its first value: what a machine never measures is absent.
void Recorder::State::keep(const std::vector<Sample>& fresh) {
  const double own_cpu = std::max(0.0, process_cpu_s() - sampler.cost().cpu_s);
  for (const Sample& sample : fresh) {
    const auto channel = static_cast<size_t>(sample.channel);
    const run::SeriesSource& source = sampler.channels()[channel];
    if (!series[channel]) {
      const run::Series empty{
          .signal = source.signal, .device = source.device, .of_node = source.of_node};
      series[channel] = run->declare(empty, &source);
    }
    // Sampling is one part of what recording costs; the rest of the process is the other.
    const double more = source.signal == "sampler_cpu_s" ? own_cpu : 0;
    run->add(*series[channel], Instant(sample.time_ns - epoch_ns), sample.value + more);
  }
}

void Recorder::State::look_at_clocks() {
  const ClockPair now = read_clocks();
  const ClockWatch::Verdict verdict = clocks.look(now);
  if (verdict.jumped_ns)
    run->note(fmt::format("the wall clock was set by {:+.3f} s at {:.1f} s of the recording",
                          static_cast<double>(*verdict.jumped_ns) * 1e-9,
                          static_cast<double>(now.monotonic_ns - epoch_ns) * 1e-9));
  if (verdict.keep)
    run->add(
        run::ClockAnchor{.instant = Instant(now.monotonic_ns - epoch_ns), .unix_ns = now.unix_ns});
}

void Recorder::State::keep_troubles() {
  for (const std::string& trouble : sampler.take_troubles())
    if (told.insert(trouble).second && troubles++ < most_troubles) run->note(trouble);
}

Result<void> Recorder::State::sync() {
  drain_samples();
  match_processes();
  look_at_clocks();
  keep_troubles();
  TPT_TRY(run->sync());
  last_safe_ns = last_drain_ns;
  dropped_when_safe_ns = dropped_ns;
  return {};
}

/// What was found of the sensors while sampling.
void Recorder::State::refresh_periods(run::Run& closing) const {
  const auto periods = sampler.periods();
  const auto& channels = sampler.channels();
  for (run::SeriesSource& source : closing.sources)
    for (size_t i = 0; i < channels.size(); ++i)
      if (channels[i].signal == source.signal && channels[i].device == source.device &&
          channels[i].of_node == source.of_node && periods[i])
        source.period = periods[i];
}

Recorder::Recorder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Recorder::~Recorder() = default;

Result<std::unique_ptr<Recorder>> Recorder::begin(const RecordingPlan& plan,
                                                  std::vector<std::unique_ptr<Sensor>> sensors) {
  auto state = std::make_unique<State>(plan, std::move(sensors));
  TPT_TRY(state->begin());
  return std::unique_ptr<Recorder>(new Recorder(std::move(state)));
}

Result<void> Recorder::turn() {
  const int64_t now = monotonic_now_ns();
  state_->adopt_opened();
  state_->drain_marks(now);
  if (now < state_->next_sync_ns) return {};
  state_->next_sync_ns = now + sync_every_ns;
  Result<void> synced = state_->sync();
  const bool said_so = std::exchange(state_->failed, !synced);
  if (said_so) return {};
  return synced;
}

void Recorder::know_ranks(const std::vector<NodeRank>& ranks) {
  for (const NodeRank& rank : ranks)
    if (rank.rank && state_->ranks.emplace(*rank.rank, rank).second)
      state_->marks_to_run->know_rank(*rank.rank, rank.local_rank, rank.visible_devices);
}

void Recorder::know_processes(const std::vector<RankProcess>& processes) {
  if (processes.empty()) return;
  State& state = *state_;
  state.marks_to_run->forget_ranks();
  state.ranks.clear();
  std::string pids;
  for (const auto& [pid, launch, all_pids] : processes) {
    const NodeRank rank{.pid = pid,
                        .rank = launch.rank,
                        .local_rank = launch.local_rank,
                        .visible_devices = launch.visible_devices,
                        .in_pci_order = launch.in_pci_order,
                        .all_pids = all_pids};
    state.ranks.emplace(*launch.rank, rank);
    state.marks_to_run->know_rank(*launch.rank, rank.local_rank, rank.visible_devices,
                                  rank.in_pci_order);
    pids += fmt::format("{}{}:{}", pids.empty() ? "" : ",", *launch.rank, pid);
  }
  state.processes_seen.clear();
  state.run->fact("rank_processes", pids);
  const LaunchEnvironment& first = processes.front().launch;
  if (!first.launcher.empty()) state.run->fact("launcher", first.launcher);
  if (first.world_size) state.run->set_world_size(*first.world_size);
}

void Recorder::note(const std::string& text) {
  state_->run->note(text);
}

Result<RecordingSummary> Recorder::finish() {
  State& state = *state_;
  state.finish_opening();
  state.drain_marks(INT64_MAX);
  state.marks_to_run->finish();
  state.sampler.stop();
  if (state.marks && state.marks->lost() > 0)
    state.run->note(
        fmt::format("{} marks were lost (the program marked faster than they could be "
                    "read, or was killed in the middle of one)",
                    state.marks->lost()));
  state.drain_samples();
  state.keep_troubles();
  const ClockPair end = read_clocks();
  state.run->add(run::ClockAnchor{.instant = Instant(end.monotonic_ns - state.epoch_ns),
                                  .unix_ns = end.unix_ns});
  RecordingSummary summary;
  const run::Closing closing = [&](const run::SeriesLoader& load) {
    run::Run head = state.run->head();
    state.refresh_periods(head);
    return close_recording(std::move(head), Instant(end.monotonic_ns - state.epoch_ns),
                           state.plan.steps, load, summary);
  };
  TPT_TRY(state.run->finish(closing, {}));
  summary.dropped_values = state.dropped;
  summary.lost = static_cast<double>(state.dropped_ns) * unit::ns;
  return summary;
}

Seconds Recorder::lost_without_end() const {
  return static_cast<double>(state_->dropped_when_safe_ns + monotonic_now_ns() -
                             state_->last_safe_ns) *
         unit::ns;
}

const Sampler& Recorder::sampler() const {
  return state_->sampler;
}

Result<std::optional<Path>> keep_old_recording(const Path& file) {
  std::error_code problem;
  if (!fs::exists(fs::symlink_status(file, problem))) return std::optional<Path>();
  if (!fs::is_regular_file(file, problem))
    return error(
        fmt::format("{} is there and no plain file (it would have to make room for the "
                    "recording); give another name with -o, as in job.run",
                    file.string()));
  if (file.extension() != ".run")
    return error(
        fmt::format("{} is there and not called NAME.run (surely it is no old recording); "
                    "give another name with -o, as in job.run",
                    file.string()));
  for (int number = 1;; ++number) {
    Path other = file;
    other.replace_extension(fmt::format(".{}.run", number));
    if (fs::exists(other, problem)) continue;
    fs::rename(file, other, problem);
    if (problem)
      return error(fmt::format("cannot rename {} ({}); give another name with -o", file.string(),
                               problem.message()));
    std::error_code no_tail;
    fs::rename(run::tail_of(file), run::tail_of(other), no_tail);
    return std::optional(other);
  }
}

Path file_of_node(const Path& file, const std::string& host) {
  Path of_node = file;
  return of_node.replace_extension(fmt::format(".{}.run", host));
}

}  // namespace triplepoint::telemetry
