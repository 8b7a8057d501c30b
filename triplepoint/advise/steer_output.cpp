// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_output.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "triplepoint/base/json.h"

namespace triplepoint::advise {
namespace {

using advise::Decision;
using advise::SteerOutcome;
using advise::SteerTotals;

Json totals_json(const SteerTotals& totals) {
  return {{"time_s", totals.time / unit::s},
          {"steps", totals.steps},
          {"step_time_s", totals.step_time()},
          {"energy_j", totals.energy / unit::J},
          {"joules_per_step", totals.joules_per_step()},
          {"energy_delay_js", totals.energy_delay()},
          {"temperature_peak_c", totals.hottest.degrees()}};
}

Json forecast_json(const advise::Forecast& forecast) {
  return {{"step_time_s", forecast.step_time / unit::s},
          {"power_w", forecast.power / unit::W},
          {"temperature_peak_c", forecast.hottest.degrees()}};
}

Json points_json(const std::vector<advise::SteerPoint>& points) {
  Json list = Json::array();
  for (const advise::SteerPoint& point : points)
    list.push_back({{"time_s", point.time / unit::s},
                    {"step_time_s", point.step_time_s ? Json(*point.step_time_s) : Json()},
                    {"power_w", point.power_w},
                    {"temperature_peak_c", point.hottest_c},
                    {"sm_clock_min_mhz", point.lowest_clock_mhz},
                    {"sm_clock_mean_mhz", point.mean_clock_mhz}});
  return list;
}

}  // namespace

std::string verdict_of(const SteerOutcome& outcome, search::Goal goal, double margin) {
  if (outcome.moves == 0)
    return outcome.leaving_was_right(margin) ? "leave it (right)" : "leave it (wrong)";
  return outcome.ratio(goal) < 1 ? "dynamic" : "static";
}

DataTable scenarios_table(const std::vector<SteeredScenario>& all, search::Goal goal,
                          double margin) {
  DataTable table;
  table.name = "scenarios";
  table.title = "Left alone, and steered";
  table.columns = {{"scenario", "scenario"},
                   {"static_step_time_s", "static s", 1, 3},
                   {"dynamic_step_time_s", "dynamic s", 1, 3},
                   {"static_joules_per_step", "static kJ", 1e3, 1},
                   {"dynamic_joules_per_step", "dynamic kJ", 1e3, 1},
                   {"energy_delay_change", "energy-delay %", 0.01, 2},
                   {"objective_change", "objective %", 0.01, 2},
                   {"moves", "moves"},
                   {"restarts", "restarts"},
                   {"better", "better"}};
  for (const SteeredScenario& each : all) {
    const SteerOutcome& outcome = each.outcome;
    table.add({each.name, outcome.fixed.step_time(), outcome.steered.step_time(),
               outcome.fixed.joules_per_step(), outcome.steered.joules_per_step(),
               outcome.ratio(search::Goal::edp) - 1, outcome.ratio(goal) - 1,
               static_cast<int64_t>(outcome.moves), static_cast<int64_t>(outcome.restarts),
               verdict_of(outcome, goal, margin)});
  }
  return table;
}

Json decision_json(const Decision& decision) {
  Json considered = Json::array();
  for (const advise::Considered& each : decision.considered)
    considered.push_back({{"move", advise::name_of(each.candidate.kind)},
                          {"what", each.candidate.what},
                          {"setting", each.setting},
                          {"predicted_ratio", each.ratio},
                          {"forecast", forecast_json(each.forecast)}});
  return {{"time_s", decision.time / unit::s},
          {"move", advise::name_of(decision.kind)},
          {"action", decision.action},
          {"seen", decision.seen},
          {"reason", decision.reason},
          {"setting", decision.setting},
          {"predicted_ratio", decision.ratio},
          {"horizon_s", decision.horizon / unit::s},
          {"cost_s", decision.cost / unit::s},
          {"leave", forecast_json(decision.leave)},
          {"then", forecast_json(decision.then)},
          {"considered", considered}};
}

Json scenario_json(const SteeredScenario& scenario, search::Goal goal, double margin) {
  const SteerOutcome& outcome = scenario.outcome;
  Json json = {{"scenario", scenario.name},
               {"about", scenario.about},
               {"initial_setting", outcome.initial},
               {"static", totals_json(outcome.fixed)},
               {"dynamic", totals_json(outcome.steered)},
               {"energy_delay_ratio", outcome.ratio(search::Goal::edp)},
               {"objective_ratio", outcome.ratio(goal)},
               {"moves", outcome.moves},
               {"restarts", outcome.restarts},
               {"better", verdict_of(outcome, goal, margin)}};
  json["decisions"] = Json::array();
  for (const Decision& decision : outcome.decisions)
    json["decisions"].push_back(decision_json(decision));
  json["checked"] = Json::array();
  for (const advise::Checked& checked : outcome.checked)
    json["checked"].push_back({{"what", checked.what}, {"ratio", checked.ratio}});
  json["static_points"] = points_json(outcome.fixed_points);
  json["dynamic_points"] = points_json(outcome.steered_points);
  return json;
}

Json steering_json(const std::string& job, const std::vector<SteeredScenario>& all,
                   const SteerOptions& options) {
  Json json = {{"schema", 1},
               {"job", job},
               {"duration_s", options.duration / unit::s},
               {"objective", name_of(options.goal)},
               {"scenarios", Json::array()}};
  for (const SteeredScenario& each : all)
    json["scenarios"].push_back(scenario_json(each, options.goal, options.rules.margin));
  return json;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto pause = std::chrono::milliseconds(10);

/// The command in its own process group, with a pipe to its standard input.
struct Child {
  pid_t id = -1;
  int input = -1;
};

Child start(const std::string& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t id = ::fork();
  if (id == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[0], STDIN_FILENO);
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[0]);
  if (id < 0) {
    ::close(ends[1]);
    return {};
  }
  ::setpgid(id, id);  // both sides do: the first one counts
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  return {id, ends[1]};
}

/// Hands over what the command takes now. False: nothing more will be taken.
bool feed(const Child& child, const std::string& text, std::size_t& done) {
  while (done < text.size()) {
    const ssize_t count = ::write(child.input, text.data() + done, text.size() - done);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    done += static_cast<std::size_t>(count);
  }
  return false;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

/// Feeds and waits; nothing if it took too long.
std::optional<int> wait_for(Child& child, const std::string& text, Seconds timeout) {
  const auto end = Clock::now() + std::chrono::duration<double>(timeout / unit::s);
  std::size_t done = 0;
  while (true) {
    if (child.input >= 0 && !feed(child, text, done)) {
      ::close(child.input);
      child.input = -1;
    }
    int status = 0;
    if (::waitpid(child.id, &status, WNOHANG) == child.id) return status;
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Hook::Outcome Hook::call(const std::string& json, Seconds now) {
  if (in_a_row_ >= most_failures)
    return {false, false,
            fmt::format("the hook failed {} times in a row and is left alone", in_a_row_)};
  if (last_call_ && now - *last_call_ < gap_)
    return {false, false,
            fmt::format("the hook was called {:.0f} s ago; not again within {:.0f} s",
                        (now - *last_call_) / unit::s, gap_ / unit::s)};
  last_call_ = now;
  // A command that does not read must not end us.
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  Child child = start(command_);
  std::optional<int> status;
  if (child.id > 0) status = wait_for(child, json, timeout_);
  if (child.id > 0 && !status) {
    ::kill(-child.id, SIGKILL);
    ::waitpid(child.id, nullptr, 0);
  }
  if (child.input >= 0) ::close(child.input);
  std::signal(SIGPIPE, before);
  const bool worked = status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
  in_a_row_ = worked ? 0 : in_a_row_ + 1;
  failures_ += worked ? 0 : 1;
  if (worked) return {true, true, "the hook did it"};
  if (child.id < 0) return {true, false, "the hook could not be started"};
  if (!status)
    return {true, false,
            fmt::format("the hook took longer than {:.0f} s and was ended", timeout_ / unit::s)};
  return {true, false, "the hook " + how_it_ended(*status)};
}

}  // namespace triplepoint::advise
