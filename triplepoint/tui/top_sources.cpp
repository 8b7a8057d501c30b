// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_sources.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "triplepoint/http/client.h"
#include "triplepoint/store/store.h"
#include "triplepoint/telemetry/live/live.h"

namespace triplepoint::tui {
namespace {

class LocalSource : public TopSource {
 public:
  LocalSource(telemetry::Sensors sensors, const telemetry::SamplingPlan& plan, bool once)
      : live_(std::move(sensors), plan), once_(once) {
    if (once) {
      live_.read_now();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    } else {
      live_.start();
    }
  }
  void update(std::vector<TopHost>& hosts) override {
    once_ ? live_.read_now() : live_.update();
    hosts.resize(1);
    telemetry::Snapshot snapshot = live_.snapshot();
    hosts[0].name = snapshot.node.host;
    add_snapshot(hosts[0], std::move(snapshot));
  }
  std::string title() const override { return wall_clock_text(); }

 private:
  telemetry::Live live_;
  bool once_;
};

class RunSource : public TopSource {
 public:
  RunSource(Path file, Seconds interval, run::Run run)
      : file_(std::move(file)), interval_(interval), run_(std::move(run)), stamp_(stamp()) {}

  void update(std::vector<TopHost>& hosts) override {
    reload();
    hosts.clear();
    const Instant end = telemetry::last_reading(run_);
    for (int i = shown_points; i >= 0; --i)
      add_moment(hosts, end - static_cast<double>(i) * interval_);
    for (TopHost& host : hosts)
      host.problem = problem_;
  }
  std::string title() const override {
    return fmt::format("{} at {:.1f} s", file_.filename().string(),
                       (telemetry::last_reading(run_) - Instant()) / unit::s);
  }

 private:
  static constexpr int shown_points = 120;

  void add_moment(std::vector<TopHost>& hosts, Instant at) const {
    std::vector<telemetry::Snapshot> nodes = telemetry::snapshots_of(run_, at);
    hosts.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      hosts[i].name = nodes[i].node.host;
      add_snapshot(hosts[i], std::move(nodes[i]));
    }
  }
  /// Changes on every write: a growing run has a journal beside it.
  std::pair<std::filesystem::file_time_type, std::uintmax_t> stamp() const {
    std::pair<std::filesystem::file_time_type, std::uintmax_t> latest{};
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder(), ignored)) {
      if (!entry.path().filename().string().starts_with(file_.filename().string())) continue;
      std::error_code gone;
      const auto time = entry.last_write_time(gone);
      if (gone) continue;
      latest = {std::max(latest.first, time), latest.second + entry.file_size(gone)};
    }
    return latest;
  }
  Path folder() const { return file_.has_parent_path() ? file_.parent_path() : Path("."); }
  void reload() {
    const auto now = stamp();
    if (now == stamp_) return;
    stamp_ = now;
    auto loaded = run::load(file_.string());
    problem_ = loaded ? "" : loaded.error().what;
    if (loaded) run_ = *std::move(loaded);
  }

  Path file_;
  Seconds interval_;
  run::Run run_;
  std::pair<std::filesystem::file_time_type, std::uintmax_t> stamp_;
  std::string problem_;
};

}  // namespace

std::string wall_clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
  return text.data();
}

Result<std::unique_ptr<TopSource>> local_source(const telemetry::SensorOptions& options,
                                                Seconds interval, bool once) {
  telemetry::SamplingPlan plan;
  plan.interval = std::clamp(interval / 4, 50 * unit::ms, 500 * unit::ms);
  plan.slow_every = std::max(1, static_cast<int>(1 * unit::s / plan.interval));
  plan.probe = 0 * unit::s;  // periods are for doctor and record; here the first picture counts
  auto sensors = TPT_TRY(telemetry::open_sensors(options));
  return std::make_unique<LocalSource>(std::move(sensors), plan, once);
}

Result<std::unique_ptr<TopSource>> run_source(const Path& file, Seconds interval) {
  run::Run run = TPT_TRY(run::load(file.string()));
  if (run.series.empty())
    return error(
        fmt::format("{} has no readings (only a timeline or totals); try triplepoint "
                    "report {}",
                    file.string(), file.string()));
  return std::make_unique<RunSource>(file, interval, std::move(run));
}

namespace {

/// Follows one node by its exporter until it is told to stop.
class Watcher {
 public:
  Watcher(const std::string& host, const RemoteOptions& options)
      : thread_([this, host, options](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            deliver(ask(host, options, stop));
            wait(stop, options.interval);
          }
        }) {}
  void collect(TopHost& host) {
    const std::lock_guard lock(mutex_);
    host.problem = problem_;
    if (!snapshot_) return;
    add_snapshot(host, *std::move(snapshot_));
    snapshot_.reset();
  }

 private:
  void deliver(Result<telemetry::Snapshot> arrived) {
    const std::lock_guard lock(mutex_);
    problem_ = arrived ? "" : arrived.error().what;
    if (arrived) snapshot_ = *std::move(arrived);
  }
  static Result<telemetry::Snapshot> ask(const std::string& host, const RemoteOptions& options,
                                         const std::stop_token& stop) {
    const std::string body = TPT_TRY(http_get(host, "/snapshot.json", options.token, stop));
    return telemetry::parse_snapshot(body, host);
  }
  void wait(const std::stop_token& stop, Seconds time) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, std::chrono::duration<double>(time / unit::s), [] { return false; });
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<telemetry::Snapshot> snapshot_;
  std::string problem_;
  std::jthread thread_;  // the last member: it uses the others
};

class RemoteSource : public TopSource {
 public:
  RemoteSource(const std::vector<std::string>& hosts, const RemoteOptions& options)
      : names_(hosts) {
    for (const std::string& host : hosts)
      watchers_.push_back(std::make_unique<Watcher>(host, options));
  }
  void update(std::vector<TopHost>& hosts) override {
    hosts.resize(names_.size());
    for (std::size_t i = 0; i < names_.size(); ++i) {
      hosts[i].name = names_[i];
      watchers_[i]->collect(hosts[i]);
    }
  }
  std::string title() const override { return wall_clock_text(); }

 private:
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
};

}  // namespace

std::unique_ptr<TopSource> remote_source(const std::vector<std::string>& hosts,
                                         const RemoteOptions& options) {
  return std::make_unique<RemoteSource>(hosts, options);
}

}  // namespace triplepoint::tui
