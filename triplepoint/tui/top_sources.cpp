// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/top_sources.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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

namespace {

/// What a watcher's thread leaves for the screen.
class Mailbox {
 public:
  void deliver(Result<telemetry::Snapshot> arrived) {
    const std::lock_guard lock(mutex_);
    if (arrived) {
      snapshot_ = *std::move(arrived);
      problem_.clear();
    } else {
      problem_ = arrived.error().what;
    }
  }
  void complain(std::string problem) {
    const std::lock_guard lock(mutex_);
    problem_ = std::move(problem);
  }
  void collect(TopHost& host) {
    const std::lock_guard lock(mutex_);
    host.problem = problem_;
    if (!snapshot_) return;
    add_snapshot(host, *std::move(snapshot_));
    snapshot_.reset();
  }

 private:
  std::mutex mutex_;
  std::optional<telemetry::Snapshot> snapshot_;
  std::string problem_;
};

/// Follows one node until it is told to stop.
class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  Watcher(Watcher&&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  Watcher& operator=(Watcher&&) = delete;
  virtual ~Watcher() = default;
  virtual void collect(TopHost& host) = 0;
};

class HttpWatcher : public Watcher {
 public:
  HttpWatcher(std::string host, const RemoteOptions& options)
      : thread_([this, host = std::move(host), options](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            box_.deliver(ask(host, options, stop));
            wait(stop, options.interval);
          }
        }) {}
  void collect(TopHost& host) override { box_.collect(host); }

 private:
  static Result<telemetry::Snapshot> ask(const std::string& host, const RemoteOptions& options,
                                         const std::stop_token& stop) {
    const std::string body = TPT_TRY(http_get(host, "/snapshot.json", options.token, stop));
    return telemetry::parse_snapshot(body, host);
  }
  void wait(const std::stop_token& stop, Seconds time) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, std::chrono::duration<double>(time / unit::s), [] { return false; });
  }

  Mailbox box_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // the last member: it uses the others
};

/// A program with its output in a pipe of ours; ended with us.
class Child {
 public:
  explicit Child(std::vector<std::string> words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (::posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
      pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~Child() {
    if (output_ >= 0) ::close(output_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child(Child&&) = delete;
  Child& operator=(const Child&) = delete;
  Child& operator=(Child&&) = delete;
  bool runs() const { return pid_ > 0; }
  int output() const { return output_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

class SshWatcher : public Watcher {
 public:
  SshWatcher(std::string host, const RemoteOptions& options)
      : host_(std::move(host)), options_(options), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            follow(stop);
            for (int i = 0; i < 50 && !stop.stop_requested(); ++i)  // then it is tried again
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
          }
        }) {}
  void collect(TopHost& host) override { box_.collect(host); }

 private:
  void follow(const std::stop_token& stop) {
    Child child({"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host_,
                 fmt::format("triplepoint snapshot --format json --every {}ms",
                             static_cast<int64_t>(options_.interval / unit::ms))});
    if (!child.runs())
      return box_.complain(fmt::format(
          "cannot start ssh (is it installed?); name its exporter instead, as {}:9400", host_));
    std::string text;
    said_.clear();
    while (!stop.stop_requested() && read_more(child.output(), text))
      take_lines(text);
    box_.complain(fmt::format("{}: the connection ended{}{}; it is tried again", host_,
                              said_.empty() ? "" : ": ", said_));
  }
  /// False at the end of the output.
  static bool read_more(int output, std::string& text) {
    pollfd ready{output, POLLIN, 0};
    if (::poll(&ready, 1, 100) == 0) return true;
    char buffer[65536];
    const ssize_t count = ::read(output, buffer, sizeof buffer);
    if (count <= 0 || text.size() > most_line) return false;
    text.append(buffer, static_cast<std::size_t>(count));
    return true;
  }
  void take_lines(std::string& text) {
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      const std::string line = text.substr(0, end);
      text.erase(0, end + 1);
      if (line.starts_with('{'))
        box_.deliver(telemetry::parse_snapshot(line, host_));
      else if (!line.empty())
        said_ = line.substr(0, 200);
    }
  }

  static constexpr std::size_t most_line = std::size_t{64} << 20U;
  std::string host_;
  RemoteOptions options_;
  Mailbox box_;
  std::string said_;
  std::jthread thread_;
};

class RemoteSource : public TopSource {
 public:
  RemoteSource(const std::vector<std::string>& hosts, const RemoteOptions& options)
      : names_(hosts) {
    for (const std::string& host : hosts) {
      const bool exporter = host.find(':') != std::string::npos;
      if (exporter)
        watchers_.push_back(std::make_unique<HttpWatcher>(host, options));
      else
        watchers_.push_back(std::make_unique<SshWatcher>(host, options));
    }
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
