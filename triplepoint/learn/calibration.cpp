// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/parallel.h"

#include "triplepoint/learn/priors.h"

namespace triplepoint::learn {
namespace {

constexpr int schema = 1;

std::string path_in(const std::string& folder) {
  return folder + "/calibration.json";
}

/// Writes fields as keys of an object.
struct JsonFields {
  Json& json;
  template <class T>
  void operator()(std::string_view key, T& value, spec::Need = spec::Need::optional) {
    if constexpr (std::is_same_v<T, double>) {
      json[std::string(key)] = value;
    } else {
      JsonFields inner{json[std::string(key)]};
      visit_fields(inner, value);
    }
  }
};

/// Reads them again. A missing key or what is no number makes Json throw.
struct FieldsOfJson {
  const Json& json;
  template <class T>
  void operator()(std::string_view key, T& value, spec::Need = spec::Need::optional) {
    if constexpr (std::is_same_v<T, double>) {
      value = json.at(std::string(key)).template get<double>();
    } else {
      FieldsOfJson inner{json.at(std::string(key))};
      visit_fields(inner, value);
    }
  }
};

Json power_json(const LearnedPower& power) {
  return {{"learned", power.mean}, {"learned_spread", power.spread}, {"runs", power.runs}};
}

LearnedPower power_of(const Json& json) {
  return {.mean = json.at("learned").get<PowerFactors>(),
          .spread = json.at("learned_spread").get<PowerFactors>(),
          .runs = json.at("runs").get<int64_t>()};
}

Json room_json(const Room& room) {
  return {{"cluster", room.cluster}, {"inlet_k", room.inlet_k}, {"slots_k", room.slots_k},
          {"boards", room.boards},   {"devices", room.devices}, {"before_k", room.before_k},
          {"after_k", room.after_k}};
}

Room room_of(const Json& json) {
  return {.cluster = json.at("cluster").get<std::string>(),
          .inlet_k = json.at("inlet_k").get<double>(),
          .slots_k = json.at("slots_k").get<std::vector<double>>(),
          .boards = json.at("boards").get<std::vector<double>>(),
          .devices = json.at("devices").get<int64_t>(),
          .before_k = json.at("before_k").get<double>(),
          .after_k = json.at("after_k").get<double>()};
}

Json by_name(LogFactors values) {
  Json json = Json::object();
  ByName named{&values};
  JsonFields fields{json};
  visit_fields(fields, named);
  return json;
}

Json json_of(const Evidence& one) {
  Json json = {{"run", one.run},
               {"residual", one.residual},
               {"doubt", one.doubt},
               {"of", time_names[static_cast<std::size_t>(one.of)]},
               {"slopes", by_name(one.slopes)}};
  for (std::size_t k = 0; k < size_knobs.size(); ++k)
    json["knobs"][size_knobs[k]] = one.knobs.sizes[k];
  for (std::size_t k = 0; k < word_knobs.size(); ++k)
    json["knobs"][word_knobs[k]] = one.knobs.words[k];
  return json;
}

Evidence evidence_of(const Json& json) {
  Evidence one{.run = json.at("run").get<std::string>(),
               .residual = json.at("residual").get<double>(),
               .doubt = json.at("doubt").get<double>()};
  const auto of = std::ranges::find(time_names, json.at("of").get<std::string>());
  if (of != time_names.end()) one.of = static_cast<TimeOf>(of - time_names.begin());
  ByName slopes{&one.slopes};
  FieldsOfJson fields{json.at("slopes")};
  visit_fields(fields, slopes);
  const Json& knobs = json.at("knobs");
  for (std::size_t k = 0; k < size_knobs.size(); ++k)
    one.knobs.sizes[k] = knobs.at(std::string(size_knobs[k])).get<double>();
  for (std::size_t k = 0; k < word_knobs.size(); ++k)
    one.knobs.words[k] = knobs.at(std::string(word_knobs[k])).get<std::string>();
  return one;
}

Result<Calibration> calibration_of(const Json& json, const std::string& path) {
  try {
    Priors priors;
    FieldsOfJson fields{json.at("priors")};
    visit_fields(fields, priors);
    if (auto checked = check(priors, path); !checked) return tl::unexpected(checked.error());
    std::vector<Evidence> evidence =
        mapped(json.at("runs"), [](const Json& one) { return evidence_of(one); });
    std::optional<Room> room;
    if (json.contains("room")) room = room_of(json.at("room"));
    return Calibration(Posterior(priors, std::move(evidence)), power_of(json.at("power")),
                       std::move(room));
  } catch (const Json::exception& problem) {
    return error("{}: not what this version learns ({}); run triplepoint calibrate again", path,
                 problem.what());
  }
}

/// The job whose step takes exp(x) times as long: kernels that take longer draw less power, so that
/// under a power limit clocks rise, and all has to be stretched further.
spec::Job lengthened(const spec::Job& job, double x) {
  constexpr int tries = 3;
  constexpr double near = 1e-3;
  const auto before = log_step_time(job);
  double stretch = x;
  for (int i = 0; i < tries && before && x != 0; ++i) {
    const auto after = log_step_time(stretched(job, stretch));
    if (!after || std::abs(*after - *before - x) < near || !((*after - *before) / x > 0)) break;
    stretch *= std::clamp(x / (*after - *before), 0.5, 2.0);
  }
  return stretched(job, stretch);
}

/// Where a job states its inlet, what was learned of it does not hold.
std::string inlet_text(spec::Job job) {
  const auto stated = std::exchange(job.environment.ambient, std::nullopt);
  if (!stated) return "";
  return fmt::format(", but for the inlet, which is set to {:.1f} °C instead of {:.1f} °C",
                     stated->degrees(), job.chassis().inlet.degrees());
}

}  // namespace

std::string Calibration::file_of(const std::string& folder) {
  return is_folder(folder) ? path_in(folder) : folder;
}

Result<Calibration> Calibration::read(const std::string& folder) {
  const std::string path = file_of(folder);
  return calibration_of(TPT_TRY(parse_json(TPT_TRY(read_file(path)), path)), path);
}

Result<void> Calibration::write(const std::string& folder) const {
  Json json = {{"schema", schema},
               {"about",
                "What triplepoint calibrate learned from runs of one place; --with reads it. "
                "learned, learned_spread and unexplained are logarithms of factors of time; they "
                "follow from the runs and priors and are here to be read only; of power, energy "
                "and idle, they are what is applied, as are the numbers of the room: K on top of "
                "inlet and slots, factors of boards' thermal resistance, node by node."},
               {"learned", by_name(posterior_.mean())},
               {"learned_spread", by_name(posterior_.spreads())},
               {"unexplained", posterior_.common()},
               {"power", power_json(power_)},
               {"runs", Json::array()},
               {"priors", Json::object()}};
  Priors priors = posterior_.priors();
  JsonFields fields{json["priors"]};
  visit_fields(fields, priors);
  for (const Evidence& one : posterior_.evidence())
    json["runs"].push_back(json_of(one));
  if (room_) json["room"] = room_json(*room_);
  TPT_TRY(make_folder(folder));
  return write_file_atomically(path_in(folder), json_text(json) + "\n");
}

spec::Job Calibration::applied(const spec::Job& job) const {
  const spec::Job here = room_ ? in_room(job, *room_) : job;
  const Knobs knobs = knobs_of(job);
  return lengthened(scaled(with_power(here, power_.mean), posterior_.mean(knobs)),
                    posterior_.remainder(knobs));
}

std::string Calibration::about(const spec::Job& job) const {
  std::vector<std::string> parts;
  if (runs() > 0)
    parts.push_back(fmt::format(
        "times as {} of your runs taught; {:+.0f} % of steps like this job's is unexplained",
        runs(), std::round(100 * std::expm1(posterior_.remainder(knobs_of(job)))) + 0.0));
  if (runs() > 0 && !knows(job))
    parts.push_back(
        "none is of this GPU, stack and task, so the interval is that of a place "
        "without measurements");
  if (room_)
    parts.push_back(
        is_of(*room_, job)
            ? fmt::format("heat as temperatures of {} GPUs taught{}", room_->devices,
                          inlet_text(job))
            : fmt::format("heat as shipped, since temperatures were read on {}", room_->cluster));
  return fmt::format("{}", fmt::join(parts, "; "));
}

bool Calibration::knows(const spec::Job& job) const {
  const Knobs knobs = knobs_of(job);
  return std::ranges::any_of(posterior_.evidence(), [&](const Evidence& one) {
    for (std::size_t k = 0; k < word_knobs.size(); ++k) {
      const bool is_place =
          word_knobs[k] == "gpu" || word_knobs[k] == "stack" || word_knobs[k] == "task";
      if (is_place && one.knobs.words[k] != knobs.words[k]) return false;
    }
    return true;
  });
}

Evidence Calibration::forecast(const spec::Job& applied, double seconds) const {
  return {.run = applied.name,
          .slopes = sensitivities(applied, std::log(seconds)),
          .knobs = knobs_of(applied)};
}

double Calibration::interval_factor(const Evidence& forecast) const {
  // Of 100 values of a normal distribution, 80 lie within these standard deviations.
  constexpr double eighty_of_hundred = 1.2816;
  return std::exp(eighty_of_hundred * posterior_.spread(forecast));
}

double Calibration::probability_longer(const Evidence& b, double seconds_b, const Evidence& a,
                                       double seconds_a) const {
  const double longer = std::log(seconds_b / seconds_a), spread = posterior_.spread_of_ratio(b, a);
  if (!(spread > 0)) return longer > 0 ? 1 : longer < 0 ? 0 : 0.5;
  return 0.5 * std::erfc(-longer / spread / std::sqrt(2.0));
}

namespace {

constexpr std::size_t most_jobs = 4;  // whose neighbours are looked at

struct Change {
  const char* name;
  int64_t& (*size_of)(spec::Job&);
};
constexpr std::array<Change, 4> changes = {{
    {"micro_batch_size", [](spec::Job& job) -> int64_t& { return job.plan.micro_batch_size; }},
    {"tensor_parallel_size",
     [](spec::Job& job) -> int64_t& { return job.plan.tensor_parallel_size; }},
    {"pipeline_parallel_size",
     [](spec::Job& job) -> int64_t& { return job.plan.pipeline_parallel_size; }},
    {"nodes", [](spec::Job& job) -> int64_t& { return job.cluster.num_nodes; }},
}};

struct Candidate {
  spec::Job job;
  const char* change = nullptr;  // absent: it was measured
  int64_t from = 0, to = 0;
  std::optional<Evidence> evidence;  // nothing where it cannot run
  double log_time = 0;
};

std::vector<Candidate> candidates(const std::vector<MeasuredJob>& measured) {
  std::vector<Candidate> all;
  for (std::size_t j = 0; j < std::min(measured.size(), most_jobs); ++j) {
    const auto& [job, evidence] = measured[j];
    all.push_back({.job = job, .evidence = evidence});
    for (const Change& change : changes) {
      Candidate next{.job = job, .change = change.name};
      int64_t& size = change.size_of(next.job);
      next.from = size;
      next.to = size *= 2;
      all.push_back(std::move(next));
    }
  }
  return all;
}

void predict(const Posterior& known, Candidate& candidate) {
  const spec::Job& job = candidate.job;
  if (candidate.evidence) return;
  if (spec::has_errors(spec::diagnose(job))) return;
  const spec::Job there = scaled(job, known.mean(knobs_of(job)));
  const auto time = log_step_time(there);
  if (!time) return;
  candidate.log_time = *time;
  candidate.evidence = Evidence{.slopes = sensitivities(there, *time), .knobs = knobs_of(job)};
}

/// The share that a candidate takes of the variance of all.
double narrowing_of(const Posterior& known, const std::vector<Candidate>& all,
                    const Candidate& measured) {
  double before = 0, taken = 0;
  for (const Candidate& one : all) {
    if (!one.evidence) continue;
    const double spread = known.spread(*one.evidence);
    before += spread * spread;
    taken += known.narrowed(*one.evidence, *measured.evidence);
  }
  return taken / before;
}

}  // namespace

std::vector<NextRun> next_runs(const Posterior& known, const std::vector<MeasuredJob>& measured,
                               int threads) {
  std::vector<Candidate> all = candidates(measured);
  parallel_for(all.size(), threads, [&](std::size_t i) { predict(known, all[i]); });
  const int64_t used =
      most_of(measured, [](const MeasuredJob& one) { return one.job.world_size(); });
  std::optional<NextRun> within, beyond;
  for (const Candidate& one : all) {
    if (one.change == nullptr || !one.evidence) continue;
    const NextRun next{
        .change = fmt::format("{} {} in the place of {}", one.change, one.to, one.from),
        .of = one.job.name,
        .gpus = one.job.world_size(),
        .seconds = std::exp(one.log_time + known.remainder(one.evidence->knobs)),
        .narrowing = narrowing_of(known, all, one)};
    std::optional<NextRun>& best = next.gpus <= used ? within : beyond;
    if (!best || next.narrowing > best->narrowing) best = next;
  }
  std::vector<NextRun> chosen;
  if (within) chosen.push_back(*within);
  if (beyond && (!within || beyond->narrowing > within->narrowing)) chosen.push_back(*beyond);
  return chosen;
}

std::optional<NextRun> smaller_run(const Calibration& known, const spec::Job& planned,
                                   const Evidence& forecast) {
  constexpr double worth_it = 0.5;
  const Posterior& posterior = known.posterior();
  const double variance = std::pow(posterior.spread(forecast), 2);
  const auto narrowing = [&](const Evidence& measured) {
    return 1 - std::sqrt(std::max(0., 1 - posterior.narrowed(forecast, measured) / variance));
  };
  const int64_t all = planned.cluster.num_nodes;
  for (int64_t nodes = 1; nodes < all; ++nodes) {
    if (all % nodes != 0) continue;
    spec::Job job = planned;
    job.cluster.num_nodes = nodes;
    const int64_t batch = planned.plan.global_batch_size * nodes;
    job.plan.global_batch_size = batch / all;
    if (batch % all != 0 || spec::has_errors(spec::diagnose(job))) continue;
    const auto time = log_step_time(job);
    if (!time) continue;
    const double taken = narrowing(known.forecast(job, std::exp(*time)));
    if (taken < worth_it * narrowing(forecast)) continue;
    return NextRun{.change = fmt::format("{} node{} and a batch of {}", nodes,
                                         nodes == 1 ? "" : "s", job.plan.global_batch_size),
                   .of = planned.name,
                   .gpus = job.world_size(),
                   .seconds = std::exp(*time),
                   .narrowing = taken};
  }
  return std::nullopt;
}

}  // namespace triplepoint::learn
