// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_sources.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <thread>

#include <fmt/format.h>

#include "triplepoint/run/store.h"

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
    const Instant end = moment();
    for (int i = shown_points; i >= 0; --i)
      add_moment(hosts, end - static_cast<double>(i) * interval_);
    for (TopHost& host : hosts)
      host.problem = problem_;
  }
  void move(int intervals) override { back_ = std::max<int64_t>(0, back_ - intervals); }
  std::string title() const override {
    return fmt::format("{} at {:.1f} s{}", file_.filename().string(),
                       (moment() - Instant()) / unit::s, back_ > 0 ? " (right: later)" : "");
  }

 private:
  static constexpr int shown_points = 120;

  Instant moment() const {
    return telemetry::last_reading(run_) - static_cast<double>(back_) * interval_;
  }
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
  int64_t back_ = 0;  // intervals before the end
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

}  // namespace triplepoint::tui
