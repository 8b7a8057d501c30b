// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/recorder.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

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
    verdict.keep = verdict.jumped_ns || now.monotonic_ns - last_stored_ns_ >= every_ns;
  }
  if (verdict.keep) last_stored_ns_ = now.monotonic_ns;
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
  return as_real(used.tv_sec) + 1e-9 * as_real(used.tv_nsec);
}

/// Same kernel, same monotonic clock: recordings of it need no alignment.
std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

std::string gaps_text(const std::vector<Gap>& gaps) {
  return joined(
      mapped(gaps, [](const Gap& gap) { return fmt::format("{} ({})", gap.what, gap.why); }), "; ");
}

run::Run run_head(const RecordingPlan& plan, const Sampler& sampler, const ClockPair& epoch) {
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
  head.numbers.sampling_interval_s = plan.sampling.interval / unit::s;
  std::vector<Gap> gaps = plan.gaps;
  gaps.insert(gaps.end(), sampler.gaps().begin(), sampler.gaps().end());
  if (!gaps.empty()) head.manifest.facts["not_measured"] = gaps_text(gaps);
  head.devices = sampler.devices();
  return head;
}

}  // namespace

Result<void> Recorder::begin_run() {
  const ClockPair epoch = read_clocks();
  epoch_ns_ = epoch.monotonic_ns;
  next_sync_ns_ = epoch_ns_ + sync_every_ns;
  last_drain_ns_ = last_safe_ns_ = epoch_ns_;
  run_.emplace(TPT_TRY(run::GrowingRun::create(plan_.file, run_head(plan_, sampler_, epoch))));
  marks_to_run_.emplace(*run_, epoch_ns_);
  series_.resize(sampler_.channels().size());
  look_at_clocks();
  if (plan_.marks) marks_.emplace(TPT_TRY(mark::Reader::watch(*plan_.marks)));
  sampler_.start();
  return {};
}

void Recorder::adopt(Sensors part) {
  std::vector<run::Device> silent;
  for (const DeviceFacts& facts : part.devices)
    if (facts.sensor < 0) silent.push_back(facts.device);
  plan_.gaps.insert(plan_.gaps.end(), part.gaps.begin(), part.gaps.end());
  sampler_.add(std::move(part.all), silent);
  series_.resize(sampler_.channels().size());
  for (size_t i = 0; i < sampler_.devices().size(); ++i) {
    run::Device device = sampler_.devices()[i];
    if (i < run_->head().devices.size()) device.rank = run_->head().devices[i].rank;
    if (i >= run_->head().devices.size() || device != run_->head().devices[i])
      run_->set_device(i, device);
  }
  if (marks_) marks_to_run_->find_devices(marks_->processes());
  for (const auto& [number, rank] : ranks_)
    marks_to_run_->know_rank(number, rank.local_rank, rank.visible_devices, rank.in_pci_order);
}

void Recorder::adopt_opened() {
  if (plan_.opening == nullptr) return;
  const bool is_complete = plan_.opening->is_complete();
  for (Sensors& part : plan_.opening->take())
    adopt(std::move(part));
  if (is_complete) plan_.opening.reset();
  std::vector<Gap> gaps = plan_.gaps;
  gaps.insert(gaps.end(), sampler_.gaps().begin(), sampler_.gaps().end());
  if (std::string text = gaps_text(gaps); text != not_measured_ && !text.empty())
    run_->fact("not_measured", not_measured_ = std::move(text));
}

/// A command may be shorter than the opening of a driver that answers.
void Recorder::finish_opening() {
  if (plan_.opening == nullptr) return;
  plan_.opening->wait(longest_opening, {});
  adopt_opened();
  if (plan_.opening == nullptr) return;
  for (const Gap& gap : plan_.opening->outstanding())
    run_->note(fmt::format("{}: {}; not recorded ({})", gap.what, gap.why, gap.remedy));
}

void Recorder::drain_marks(int64_t now) {
  if (!marks_) return;
  const mark::Reader& reader = *marks_;
  marks_->drain([&](const mark::Event& event) { marks_to_run_->take(event, reader.processes()); });
  marks_to_run_->keep_finished_steps(now);
}

/// A rank that the driver sees on one GPU alone is on that one, whatever its environment says: it
/// also tells MIG instances and CUDA's order.
void Recorder::match_processes() {
  auto seen = sampler_.processes();
  if (seen == processes_seen_) return;
  processes_seen_ = std::move(seen);
  for (const auto& [number, rank] : ranks_) {
    std::vector<int32_t> devices;
    for (const auto& [device, pids] : processes_seen_)
      if (std::ranges::find_first_of(pids, rank.all_pids) != pids.end()) devices.push_back(device);
    if (devices.size() == 1) marks_to_run_->place_rank(number, as_size(devices.front()));
  }
}

void Recorder::drain_samples() {
  samples_.clear();
  sampler_.take(samples_);
  keep(samples_);
  count_dropped();
}

/// A stretch of time of which values were dropped counts as lost.
void Recorder::count_dropped() {
  const int64_t now = monotonic_now_ns();
  const int64_t all = run_->num_dropped() + sampler_.cost().lost_samples;
  if (std::exchange(dropped_, all) < all) dropped_ns_ += now - last_drain_ns_;
  last_drain_ns_ = now;
}

/// A channel becomes a series with its first value: what a machine never measures is absent.
void Recorder::keep(const std::vector<Sample>& fresh) {
  const double own_cpu = std::max(0.0, process_cpu_s() - sampler_.cost().cpu_s);
  for (const Sample& sample : fresh) {
    const auto channel = as_size(sample.channel);
    const run::SeriesSource& source = sampler_.channels()[channel];
    if (!series_[channel]) {
      const run::Series empty{
          .signal = source.signal, .device = source.device, .of_node = source.of_node};
      series_[channel] = run_->declare(empty, &source);
    }
    // Sampling is one part of what recording costs; the rest of the process is the other.
    const double more = source.signal == "sampler_cpu_s" ? own_cpu : 0;
    run_->add(*series_[channel], Instant(sample.time_ns - epoch_ns_), sample.value + more);
  }
}

void Recorder::look_at_clocks() {
  const ClockPair now = read_clocks();
  const ClockWatch::Verdict verdict = clocks_.look(now);
  if (verdict.jumped_ns)
    run_->note(fmt::format("the wall clock was set by {:+.3f} s at {:.1f} s of the recording",
                           as_real(*verdict.jumped_ns) * 1e-9,
                           as_real(now.monotonic_ns - epoch_ns_) * 1e-9));
  if (verdict.keep)
    run_->add(
        run::ClockAnchor{.instant = Instant(now.monotonic_ns - epoch_ns_), .unix_ns = now.unix_ns});
}

void Recorder::keep_troubles() {
  for (const std::string& trouble : sampler_.take_troubles())
    if (noted_.insert(trouble).second && troubles_++ < most_troubles) run_->note(trouble);
}

Result<void> Recorder::sync() {
  drain_samples();
  match_processes();
  look_at_clocks();
  keep_troubles();
  TPT_TRY(run_->sync());
  last_safe_ns_ = last_drain_ns_;
  dropped_when_safe_ns_ = dropped_ns_;
  return {};
}

/// What was found of the sensors while sampling.
void Recorder::refresh_periods(run::Run& closing) const {
  const auto periods = sampler_.periods();
  const auto& channels = sampler_.channels();
  for (run::SeriesSource& source : closing.sources)
    for (size_t i = 0; i < channels.size(); ++i)
      if (channels[i].signal == source.signal && channels[i].device == source.device &&
          channels[i].of_node == source.of_node && periods[i])
        source.period = periods[i];
}

Result<std::unique_ptr<Recorder>> Recorder::begin(const RecordingPlan& plan,
                                                  std::vector<std::unique_ptr<Sensor>> sensors) {
  std::unique_ptr<Recorder> recorder(new Recorder(plan, std::move(sensors)));
  TPT_TRY(recorder->begin_run());
  return recorder;
}

Result<void> Recorder::turn() {
  const int64_t now = monotonic_now_ns();
  adopt_opened();
  drain_marks(now);
  if (now < next_sync_ns_) return {};
  next_sync_ns_ = now + sync_every_ns;
  Result<void> synced = sync();
  const bool said_so = std::exchange(failed_, !synced);
  if (said_so) return {};
  return synced;
}

void Recorder::know_ranks(const std::vector<NodeRank>& ranks) {
  for (const NodeRank& rank : ranks)
    if (rank.rank && ranks_.emplace(*rank.rank, rank).second)
      marks_to_run_->know_rank(*rank.rank, rank.local_rank, rank.visible_devices);
}

void Recorder::know_processes(const std::vector<RankProcess>& processes) {
  if (processes.empty()) return;
  marks_to_run_->forget_ranks();
  ranks_.clear();
  std::string pids;
  for (const auto& [pid, launch, all_pids] : processes) {
    const NodeRank rank{.pid = pid,
                        .rank = launch.rank,
                        .local_rank = launch.local_rank,
                        .visible_devices = launch.visible_devices,
                        .in_pci_order = launch.in_pci_order,
                        .all_pids = all_pids};
    ranks_.emplace(*launch.rank, rank);
    marks_to_run_->know_rank(*launch.rank, rank.local_rank, rank.visible_devices,
                             rank.in_pci_order);
    pids += fmt::format("{}{}:{}", pids.empty() ? "" : ",", *launch.rank, pid);
  }
  processes_seen_.clear();
  run_->fact("rank_processes", pids);
  const LaunchEnvironment& first = processes.front().launch;
  if (!first.launcher.empty()) run_->fact("launcher", first.launcher);
  if (first.world_size) run_->set_world_size(*first.world_size);
}

Result<RecordingSummary> Recorder::finish() {
  finish_opening();
  drain_marks(INT64_MAX);
  marks_to_run_->finish();
  sampler_.stop();
  if (marks_ && marks_->lost() > 0)
    run_->note(
        fmt::format("{} marks were lost (the program marked faster than they could be "
                    "read, or was killed in the middle of one)",
                    marks_->lost()));
  drain_samples();
  keep_troubles();
  const ClockPair end = read_clocks();
  run_->add(
      run::ClockAnchor{.instant = Instant(end.monotonic_ns - epoch_ns_), .unix_ns = end.unix_ns});
  RecordingSummary summary;
  const run::Closing closing = [&](const run::SeriesLoader& load) {
    run::Run head = run_->head();
    refresh_periods(head);
    return close_recording(std::move(head), Instant(end.monotonic_ns - epoch_ns_), plan_.steps,
                           load, summary);
  };
  TPT_TRY(run_->finish(closing));
  summary.dropped_values = dropped_;
  summary.lost = as_real(dropped_ns_) * unit::ns;
  return summary;
}

Seconds Recorder::lost_without_end() const {
  return as_real(dropped_when_safe_ns_ + monotonic_now_ns() - last_safe_ns_) * unit::ns;
}

Result<std::optional<Path>> keep_old_recording(const Path& file) {
  std::error_code problem;
  if (!fs::exists(fs::symlink_status(file, problem))) return std::optional<Path>();
  if (!fs::is_regular_file(file, problem))
    return error(
        "{} is there and no plain file (it would have to make room for the "
        "recording); give another name with -o, as in job.run",
        file.string());
  if (file.extension() != ".run")
    return error(
        "{} is there and not called NAME.run (surely it is no old recording); "
        "give another name with -o, as in job.run",
        file.string());
  for (int number = 1;; ++number) {
    Path other = file;
    other.replace_extension(fmt::format(".{}.run", number));
    if (fs::exists(other, problem)) continue;
    fs::rename(file, other, problem);
    if (problem)
      return error("cannot rename {} ({}); give another name with -o", file.string(),
                   problem.message());
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
