// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/study_testing.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/labels.h"

namespace triplepoint::report {
namespace {

constexpr int gpus = 32;
constexpr bool is_hot_slot[8] = {true, false, false, true, true, false, true, false};

spec::Job sample_job(const std::string& model, int64_t tp, int64_t pp) {
  spec::Job job;
  job.model.name = model;
  job.model.num_layers = 96;
  job.cluster.name = "sample-cluster";
  job.cluster.num_nodes = 4;
  job.cluster.gpu.name = "h200";
  job.cluster.gpu.title = "H200";
  job.cluster.gpu.tdp = 700 * unit::W;
  job.plan.tensor_parallel_size = tp;
  job.plan.pipeline_parallel_size = pp;
  job.plan.global_batch_size = 128;
  return job;
}

metrics::KernelSeconds sample_kernels(const spec::Job& job, double compute) {
  const auto tp = as_real(job.plan.tensor_parallel_size),
             pp = as_real(job.plan.pipeline_parallel_size);
  metrics::KernelSeconds kernels;
  kernels.compute = compute * unit::s;
  kernels.memory = 1.5 * unit::s;
  kernels.send_recv = 0.2 * pp * unit::s;
  kernels.all_gather = 0.3 * tp * unit::s;
  kernels.reduce_scatter = 0.25 * tp * unit::s;
  kernels.all_reduce = 0.6 * unit::s;
  kernels.waiting = 0.15 * pp * unit::s;
  return kernels;
}

void set_per_gpu(metrics::Metrics& m, double power) {
  double hot = 0, cool = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const bool is_hot = is_hot_slot[gpu % 8];
    const double degrees = 41 + 0.036 * power + (is_hot ? 6 : -6) + 0.7 * std::sin(gpu * 1.7);
    m.temperature_per_gpu_c.push_back(degrees);
    m.power_per_gpu_w.push_back(power + 6 * std::cos(gpu * 2.3));
    m.power_peak_per_gpu_w.push_back(power + 200 + 6 * std::cos(gpu * 2.3));
    m.temperature_peak_per_gpu_c.push_back(degrees + 3);
    m.sm_clock_per_gpu_mhz.push_back(1980 - 0.5 * power - (is_hot ? 12 : 0));
    m.sm_clock_min_per_gpu_mhz.push_back(1400);
    m.throttle_per_gpu["software_power_cap"].push_back(is_hot ? 0.4 : 0.3);
    m.throttled_per_gpu.push_back(is_hot ? 0.4 : 0.3);
    m.links.scale_up_per_gpu_bytes.push_back(4e11);
    const int node = gpu / 8;
    m.links.scale_out_per_gpu_bytes.push_back(1e9 * (1 + node));
    (is_hot ? hot : cool) += degrees / (gpus / 2.0);
  }
  m.hot_slots = {0, 3, 4, 6};
  m.hot_clock_mean_mhz = 1980 - 0.5 * power - 12;
  m.cool_clock_mean_mhz = 1980 - 0.5 * power;
  m.slowest_in_hot_slot = 1.0;
  m.clock_lost_to_power_mhz = 0.4 * power;
  m.clock_lost_to_temperature_mhz = 0.05 * power;
  m.links.scale_up_utilization = 0.06;
  m.links.scale_out_utilization = 0.02 + 1e-4 * power;
  m.links.messages = {{64 * unit::KiB, 500, 30 * unit::MB}, {64 * unit::MiB, 900, 50 * unit::GB}};
  m.hot_mean_c = hot;
  m.cool_mean_c = cool;
  m.temperature_mean_c = (hot + cool) / 2;
  m.temperature_peak_c = hot + 4;
  m.sm_clock_mean_mhz = 1980 - 0.5 * power - 6;
}

metrics::Metrics sample_metrics(const spec::Job& job) {
  const auto mbs = as_real(job.plan.micro_batch_size),
             pp = as_real(job.plan.pipeline_parallel_size);
  const double microbatches = 128 / mbs, bubble = (pp - 1) / (microbatches + pp - 1);
  const bool again = job.plan.recompute == spec::Recompute::full;
  metrics::Metrics m;
  m.kernels = sample_kernels(job, again ? 17.3 : 13.0);
  const double step = (m.kernels.total() / unit::s) / (1 - bubble);
  m.step_time = step * unit::s;
  m.step_without_heat = 0.98 * step * unit::s;
  m.tokens_per_second = 128 * 2048 / step;
  m.tokens_per_second_per_gpu = *m.tokens_per_second / gpus;
  m.bubble_fraction = bubble;
  m.exposed_communication = 0.1 * step * unit::s;
  m.mfu = 0.69 * 13 / step;
  const double power = 671 - 531 * bubble;
  m.power_mean_w = power;
  m.power_peak_w = 800 + 20 * std::log2(mbs) + 4 * pp;
  m.energy_j = power * gpus * step;
  m.joules_per_token = *m.energy_j / (128 * 2048);
  m.samples_per_s_mj = 128 / step / (*m.energy_j / 1e6);
  set_per_gpu(m, power);
  m.throttle = {{"software_power_cap", 0.3 + 0.01 * pp}};
  for (int32_t stage = 0; stage < static_cast<int32_t>(pp); ++stage)
    m.stages.push_back({stage, m.kernels, power, m.temperature_mean_c, m.sm_clock_mean_mhz});
  return m;
}

run::MemoryUse sample_memory(const spec::Job& job) {
  const bool again = job.plan.recompute == spec::Recompute::full;
  return {
      44 * unit::GiB / 4.0, 88 * unit::GiB / 4.0,
      30 * unit::GiB,       (again ? 6.0 : 28.0) * as_real(job.plan.micro_batch_size) * unit::GiB,
      1 * unit::GiB,        2 * unit::GiB,
      4 * unit::GiB};
}

StudyRow sample_row(const spec::Job& job, bool fits) {
  StudyRow row;
  row.job = job;
  row.name = fmt::format("{}-{}-{}-mbs{}", job.model.name, answers::configuration_label(job),
                         answers::variant_label(job), job.plan.micro_batch_size);
  row.verdict = fits ? Verdict::ok : Verdict::oom;
  row.memory = {sample_memory(job)};
  row.memory_limit = 140.4 * unit::GiB;
  if (fits) row.metrics = sample_metrics(job);
  for (int32_t gpu = 0; gpu < gpus; ++gpu) {
    row.slots.push_back(gpu % 8);
    row.nodes.push_back(gpu / 8);
  }
  return row;
}

void add_model(Study& study, const std::string& model) {
  const std::pair<int64_t, int64_t> layouts[] = {{8, 4}, {4, 8}, {2, 16}, {1, 32}};
  for (const auto& [tp, pp] : layouts) {
    for (int bits = 0; bits < 4; ++bits) {
      spec::Job job = sample_job(model, tp, pp);
      if (bits & 1) job.plan.recompute = spec::Recompute::full;
      if (bits & 2) job.plan.overlap_tensor = true;
      study.rows.push_back(sample_row(job, tp > 1 || (bits & 1) != 0));
    }
    for (int64_t mbs : {2, 4, 8}) {
      spec::Job job = sample_job(model, tp, pp);
      job.plan.recompute = spec::Recompute::full;
      job.plan.micro_batch_size = mbs;
      study.rows.push_back(sample_row(job, tp > 1 || mbs < 8));
    }
  }
}

/// Expert groups of eight: over nodes with TP 4, inside one with TP 1, where the step is shorter.
void add_experts(Study& study) {
  for (const auto& [tp, pp] : {std::pair<int64_t, int64_t>{4, 1}, {1, 4}}) {
    spec::Job job = sample_job("mixtral-8x22b", tp, pp);
    job.plan.expert_parallel_size = 8;
    StudyRow row = sample_row(job, true);
    row.metrics->kernels.all_to_all = (tp == 4 ? 40 : 2) * unit::s;
    row.metrics->tokens_per_second = tp == 4 ? 12000 : 44000;
    study.rows.push_back(row);
  }
}

/// Twice as many GPUs with less memory.
void add_other_machine(Study& study) {
  spec::Job job = sample_job("gpt3-175b", 8, 8);
  job.cluster.num_nodes = 8;
  job.cluster.gpu.name = "h100";
  StudyRow row = sample_row(job, true);
  row.name += "-h100";
  row.memory_limit = 79 * unit::GiB;
  row.metrics->tokens_per_second = 1.5 * *row.metrics->tokens_per_second;
  row.metrics->tokens_per_second_per_gpu = *row.metrics->tokens_per_second / 64;
  row.metrics->joules_per_token = 1.3 * *row.metrics->joules_per_token;
  study.rows.push_back(row);
}

run::Series sample_series(const std::string& signal, int32_t device, double base, double swing) {
  run::Series series{signal, device, false, {}, {}};
  for (int i = 0; i < 600; ++i) {
    series.times.push_back(instant_at(i * 0.1 * unit::s));
    series.values.push_back(base + swing * std::sin(i * 0.05 + device));
  }
  return series;
}

}  // namespace

Study sample_study() {
  Study study{"sample",
              "A sample study: two models on 32 H200",
              "Made-up results that look like real ones.",
              "triplepoint",
              {}};
  add_model(study, "gpt3-175b");
  add_model(study, "llama3-70b");
  spec::StudyJob invalid;
  invalid.job = sample_job("llama3-70b", 1, 32);
  invalid.job.name = "llama3-70b-<TP1-PP32>";
  invalid.diagnoses = {
      {spec::DiagnosisCode::layers_not_divisible, spec::Diagnosis::Severity::error,
       "80 layers on 32 stages leave a part of a layer (stages hold whole layers); try PP 16"}};
  study.rows.push_back(invalid_row(invalid));
  spec::Job slow = sample_job("gpt3-175b", 8, 1);
  slow.plan.sharding = spec::Sharding::parameters;
  StudyRow fsdp = sample_row(slow, true);
  fsdp.metrics->kernels.all_gather = 440 * unit::s;
  fsdp.metrics->tokens_per_second = 350;
  study.rows.push_back(fsdp);
  add_experts(study);
  add_other_machine(study);
  return study;
}

run::Run sample_run() {
  run::Run run;
  run.manifest.job = sample_job("gpt3-175b", 8, 4);
  run.manifest.name = "gpt3-175b-TP8-PP4";
  run.manifest.producer = "triplepoint";
  run.memory = {sample_memory(*run.manifest.job), sample_memory(*run.manifest.job)};
  run.memory_limit = 140.4 * unit::GiB;
  for (int32_t i = 0; i < gpus; ++i) {
    run.devices.push_back({i, i / 8, i % 8, i % 8, fmt::format("gpu{}", i), i});
    run.series.push_back(sample_series("power_w", i, 600, 120));
    run.series.push_back(sample_series("die_c", i, is_hot_slot[i % 8] ? 66 : 54, 2));
    run.series.push_back(sample_series("sm_clock_mhz", i, 1700, 60));
  }
  run.steps.push_back(
      {instant_at(0 * unit::s), instant_at(24 * unit::s), 128, int64_t{128} * 2048});
  return run;
}

namespace {

const Json* job_named(const Json& results, const std::string& name) {
  for (const Json& job : results.at("jobs"))
    if (job.value("name", "") == name) return &job;
  return nullptr;
}

/// The number under a dotted key; absent if there is none.
std::optional<double> number_under(const Json& object, std::string key) {
  const Json* at = &object;
  while (!key.empty()) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const std::string step = key.substr(0, dot);
    key.erase(0, std::min(key.size(), dot + 1));
    if (!at->is_object() || !at->contains(step)) return std::nullopt;
    at = &at->at(step);
  }
  return at->is_number() ? std::optional<double>(at->get<double>()) : std::nullopt;
}

double value_of(const Term& term, const Json& results) {
  const Json* object = term.job.empty() ? &results : job_named(results, term.job);
  if (object == nullptr) return std::nan("");
  return number_under(*object, term.key).value_or(std::nan(""));
}

double value_of(const Evidence& evidence, const Json& results) {
  const auto product = [&](const std::vector<Term>& terms) {
    double all = 1;
    for (const Term& term : terms)
      all *= value_of(term, results);
    return all;
  };
  const double above = product(evidence.above), below = product(evidence.below);
  switch (evidence.form) {
    case Evidence::Form::value:
      return above / below;
    case Evidence::Form::more:
      return above / below - 1;
    case Evidence::Form::less:
      return 1 - above / below;
    case Evidence::Form::difference:
      return above - below;
  }
  return above;
}

/// "1,465 s" is 1465, "31 %" is 0.31; half of its last digit.
struct PrintedNumber {
  double value = 0, half_digit = 0;
};
PrintedNumber read_printed(std::string text) {
  const bool is_percent = contains(text, '%');
  text = text.substr(0, text.find(' '));
  std::erase(text, ',');
  const std::size_t point = text.find('.');
  const double decimals = point == std::string::npos ? 0 : as_real(text.size() - point - 1);
  const double scale = is_percent ? 0.01 : 1;
  return {std::stod(text) * scale, 0.5 * std::pow(10.0, -decimals) * scale};
}

void check(const Evidence& evidence, const Json& results, std::vector<std::string>& faults) {
  const double value = value_of(evidence, results);
  const PrintedNumber printed = read_printed(evidence.printed);
  if (!(std::abs(evidence.value - value) <= 1e-9 * std::max(1.0, std::abs(value))))
    faults.push_back(
        fmt::format("{} is {}, results.json says {}", formula_of(evidence), evidence.value, value));
  if (!(std::abs(printed.value - value) <= printed.half_digit * 1.0001))
    faults.push_back(fmt::format("printed {}, results.json says {}", evidence.printed, value));
}

/// Every word of a name that holds a digit must be what the configuration says.
bool is_of_configuration(const std::string& word, const Json& configuration) {
  static const std::pair<const char*, const char*> sizes[] = {{"TP", "tensor_parallel_size"},
                                                              {"PP", "pipeline_parallel_size"},
                                                              {"EP", "expert_parallel_size"},
                                                              {"VPP", "virtual_pipeline_size"},
                                                              {"CP", "context_parallel_size"},
                                                              {"", "micro_batch_size"},
                                                              {"", "num_gpus"}};
  for (const auto& [prefix, key] : sizes)
    if (word == fmt::format("{}{}", prefix, configuration.at(key).get<int64_t>())) return true;
  return word == upper_case(configuration.at("gpu").get<std::string>());
}

/// "GPU 14", which slows the job.
bool is_bottleneck(const std::string& text, const Json& job) {
  for (const Json& one : job.value("bottlenecks", Json::array()))
    for (const Json& who : one.at("who"))
      if (text == fmt::format("GPU {}", who.get<int32_t>())) return true;
  return false;
}

void check(const Name& name, const Json& results, std::vector<std::string>& faults) {
  const Json* job = job_named(results, name.job);
  if (job == nullptr) {
    faults.push_back("no job is called " + name.job);
    return;
  }
  std::string text = name.text;
  if (text == name.job || job->at("configuration").is_null() || is_bottleneck(text, *job)) return;
  const Json& configuration = job->at("configuration");
  const std::string model = configuration.at("model").get<std::string>();
  if (text.starts_with(model)) text.erase(0, model.size());
  static const std::regex words("[A-Za-z0-9]+");
  for (std::sregex_iterator word(text.begin(), text.end(), words), end; word != end; ++word) {
    const std::string found = word->str();
    if (std::ranges::any_of(found, [](unsigned char c) { return std::isdigit(c); }) &&
        !is_of_configuration(found, configuration))
      faults.push_back(fmt::format("{} in {} is not of {}", found, name.text, name.job));
  }
}

/// The sentence without its names and its evidence, each once from left to right.
std::string rest_of(const Finding& sentence) {
  std::string rest = sentence.text();
  const auto remove = [&](const std::string& part) {
    const std::size_t at = rest.find(part);
    if (at != std::string::npos) rest.replace(at, part.size(), " ");
  };
  std::vector<std::string> parts = mapped(sentence.names(), &Name::text);
  for (const Evidence& evidence : sentence.evidence())
    parts.push_back(evidence.printed);
  std::ranges::stable_sort(
      parts, [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& part : parts)
    remove(part);
  return rest;
}

}  // namespace

std::vector<std::string> faults_of(const Finding& sentence, const Json& results) {
  std::vector<std::string> faults;
  for (const Evidence& evidence : sentence.evidence())
    check(evidence, results, faults);
  for (const Name& name : sentence.names())
    check(name, results, faults);
  const std::string rest = rest_of(sentence);
  if (std::ranges::any_of(rest, [](unsigned char c) { return std::isdigit(c); }))
    faults.push_back("a number without evidence in: " + rest);
  return faults;
}

}  // namespace triplepoint::report
