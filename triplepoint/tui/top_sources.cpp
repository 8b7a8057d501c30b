// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_sources.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "triplepoint/http/client.h"
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

 private:
  telemetry::Live live_;
  bool once_;
};

}  // namespace

Result<std::unique_ptr<TopSource>> local_source(const telemetry::SensorOptions& options,
                                                Seconds interval, bool once) {
  telemetry::SamplingPlan plan;
  plan.interval = std::clamp(interval / 4, 50 * unit::ms, 500 * unit::ms);
  plan.slow_every = std::max(1, static_cast<int>(1 * unit::s / plan.interval));
  plan.probe = 0 * unit::s;  // periods are for doctor and record; here the first picture counts
  auto sensors = TPT_TRY(telemetry::open_sensors(options));
  return std::make_unique<LocalSource>(std::move(sensors), plan, once);
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
