// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/findings.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/fault.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

StudyRow row_on(spec::Job job) {
  StudyRow row;
  row.job = std::move(job);
  return row;
}

spec::Job plain_job() {
  spec::Job job;
  job.model.name = "gpt";
  job.cluster.gpu.name = "h200";
  job.cluster.num_nodes = 4;
  job.cluster.scale_out.nics_per_node = 4;
  job.cluster.scale_out.nic_bandwidth = 100 * unit::Gb / unit::s;
  return job;
}

std::vector<std::string> told(const std::vector<spec::Job>& jobs) {
  Study study;
  for (const spec::Job& job : jobs)
    study.rows.push_back(row_on(job));
  label_conditions(study);
  return mapped(study.rows, &StudyRow::condition);
}

TEST_CASE("equal machines in equal rooms need no words") {
  spec::Job other = plain_job();
  other.plan.micro_batch_size = 2;
  CHECK(told({plain_job(), other}) == std::vector<std::string>{"", ""});
}

TEST_CASE("what differs tells rooms and machines apart, and nothing else is said") {
  spec::Job warm = plain_job();
  warm.environment.ambient = Celsius(45);
  CHECK(told({plain_job(), warm}) == std::vector<std::string>{"inlet 25 °C", "inlet 45 °C"});
  spec::Job fast = plain_job();
  fast.cluster.scale_out.nic_bandwidth = 400 * unit::Gb / unit::s;
  CHECK(told({plain_job(), fast}) == std::vector<std::string>{"4 x 100 Gb/s", "4 x 400 Gb/s"});
}

TEST_CASE("fabrics are told by kind and by what is saved on uplinks") {
  spec::Job rails = plain_job(), tapered = plain_job();
  rails.cluster.scale_out.kind = spec::FabricKind::rail_optimized;
  tapered.cluster.scale_out.oversubscription = 4;
  CHECK(told({plain_job(), rails, tapered}) ==
        std::vector<std::string>{"fat tree", "rail optimized", "fat tree 4:1"});
}

TEST_CASE("a difference without words is told by the clusters' names") {
  spec::Job other = plain_job();
  other.cluster.title = "other slots";
  other.cluster.chassis.slots.resize(8);
  spec::Job own = plain_job();
  own.cluster.title = "as built";
  CHECK(told({own, other}) == std::vector<std::string>{"as built", "other slots"});
}

TEST_CASE("other GPUs, or another number of them, are apart already") {
  spec::Job small = plain_job();
  small.cluster.num_nodes = 2;
  small.environment.ambient = Celsius(40);
  CHECK(told({plain_job(), small}) == std::vector<std::string>{"", ""});
}

TEST_CASE("repeats with other seeds are of one machine") {
  spec::Job again = plain_job();
  again.environment.seed = 2;
  CHECK(told({plain_job(), again}) == std::vector<std::string>{"", ""});
}

TEST_CASE("what differs on one machine is named for all machines of the study") {
  spec::Job warm = plain_job(), other = plain_job();
  warm.environment.ambient = Celsius(45);
  other.cluster.gpu.name = "h100";
  CHECK(told({plain_job(), warm, other}) ==
        std::vector<std::string>{"inlet 25 °C", "inlet 45 °C", "inlet 25 °C"});
}

TEST_CASE("groups are named and parted by their condition") {
  Study study;
  spec::Job warm = plain_job();
  warm.environment.ambient = Celsius(45);
  study.rows = {row_on(plain_job()), row_on(warm)};
  label_conditions(study);
  const std::vector<Group> groups = groups_of(study);
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].title == "gpt on 32 x H200, inlet 45 °C");
}

/// The row as results.json has it.
Json json_of(const StudyRow& row) {
  run::Run run;
  run.manifest.job = row.job;
  run.manifest.name = row.name;
  run.manifest.fits_memory = row.verdict == Verdict::ok;
  run.memory = row.memory;
  run.memory_limit = row.memory_limit;
  run.timeline.spans.emplace_back();  // so that kernel seconds are known
  return answers::results_json(run, row.metrics.value_or(metrics::Metrics{}));
}

Json json_of(const Study& study) {
  Json json = conclusions_json(study);
  json["jobs"] = Json::array();
  for (const StudyRow& row : study.rows)
    json["jobs"].push_back(json_of(row));
  return json;
}

std::vector<Finding> all_sentences(const Study& study) {
  std::vector<Finding> sentences = find_findings(study);
  for (const Group& group : groups_of(study)) {
    for (const Recommendation& change : recommendations_for(group))
      sentences.push_back(change.text);
    const Answers answers = answers_for(group);
    for (const Finding& answer : {answers.fastest_text, answers.energy_text, answers.limit_text,
                                  answers.change_text, answers.heat_text})
      sentences.push_back(answer);
  }
  return sentences;
}

bool any_says(const std::vector<Finding>& findings, std::string_view words) {
  return std::ranges::any_of(
      findings, [&](const Finding& finding) { return contains(finding.text(), words); });
}

TEST_CASE("every number in a sentence is the one in results.json") {
  const Study study = sample_study();
  const Json results = json_of(study);
  const std::vector<Finding> sentences = all_sentences(study);
  CHECK(sentences.size() > 20);
  std::size_t numbers = 0;
  for (const Finding& sentence : sentences) {
    CAPTURE(sentence.text());
    for (const std::string& fault : faults_of(sentence, results))
      FAIL_CHECK(fault);
    numbers += sentence.evidence().size();
  }
  CHECK(numbers > 40);
}

TEST_CASE("a wrong number, a number without evidence and a wrong name are found out") {
  Study study = sample_study();
  const Json results = json_of(study);
  const StudyRow& row = study.rows.front();
  CHECK(!faults_of(Finding("a").say("It takes 5 s."), results).empty());
  CHECK(!faults_of(Finding("a").say("{}", named(row, "TP3-PP4")), results).empty());
  Finding wrong("a");
  wrong.say("{}", number(row, "tokens_per_s", "tokens/s"));
  CHECK(faults_of(wrong, results).empty());
  study.rows.front().metrics->tokens_per_second = 1.0;
  CHECK(!faults_of(wrong, json_of(study)).empty());
}

std::vector<const answers::Quantity*> quantities_of_type(answers::Type type) {
  std::vector<const answers::Quantity*> quantities;
  for (const answers::QuantityGroup& group : answers::quantity_groups())
    for (const answers::Quantity& quantity : group.quantities)
      if (quantity.type == type && !quantity.key.empty()) quantities.push_back(&quantity);
  return quantities;
}

TEST_CASE("keys of sentences say what results.json says under them") {
  const Study study = sample_study();
  const StudyRow& row = study.rows.front();
  const Json json = json_of(row);
  for (const answers::Quantity* quantity : quantities_of_type(answers::Type::number)) {
    const std::string_view key = quantity->key;
    CAPTURE(key);
    std::string pointer = "/" + std::string(key);
    std::ranges::replace(pointer, '.', '/');
    const Json::json_pointer at(pointer);
    const auto value = number_at(row, key);
    if (!json.contains(at)) {
      CHECK_FALSE(value);  // what only inference has
      continue;
    }
    CHECK(value.has_value() == json.at(at).is_number());
    if (value) CHECK(json.at(at).get<double>() == doctest::Approx(*value).epsilon(1e-12));
  }
}

TEST_CASE("a study speaks of speed, energy, slots, throttling, microbatches, memory") {
  const std::vector<Finding> findings = find_findings(sample_study());
  for (const char* words : {"Layout decides speed", "a token", "hot slots", "power cap",
                            "microbatch", "Recomputing", "fill"})
    CHECK_MESSAGE(any_says(findings, words), words);
}

TEST_CASE("the slot matters where its clock is 1 % lower and the pattern is not chance") {
  const auto says = [](double clock, double share, int64_t nodes) {
    Study study = sample_study();
    for (StudyRow& row : study.rows) {
      row.job.cluster.num_nodes = nodes;
      if (!row.metrics) continue;
      row.metrics->hot_clock_mean_mhz = clock * row.metrics->cool_clock_mean_mhz.value();
      row.metrics->slowest_in_hot_slot = share;
    }
    const std::vector<Finding> findings = find_findings(study);
    CHECK(any_says(findings, "the hot slots run at"));
    CHECK(any_says(findings, "sits in a hot slot") == (share == 1 && nodes == 8));
    return any_says(findings, "The GPU slot matters");
  };
  CHECK(says(0.98, 1, 8));           // chance: 1 of 256
  CHECK_FALSE(says(0.997, 1, 8));    // a clock that no step shows
  CHECK_FALSE(says(0.98, 0.75, 4));  // chance: 5 of 16
  CHECK_FALSE(says(0.98, 1, 4));     // chance: 1 of 16
}

TEST_CASE("larger microbatches: all-gathers are named where they are most of what is saved") {
  Study study = sample_study();
  for (StudyRow& row : study.rows)
    if (row.metrics)
      row.metrics->tokens_per_second =
          as_real(row.job.plan.micro_batch_size) * *row.metrics->tokens_per_second;
  CHECK(any_says(find_findings(study), "Larger microbatches can be faster"));
  CHECK_FALSE(any_says(find_findings(study), "all-gathers take"));
  for (StudyRow& row : study.rows)
    if (row.metrics)
      row.metrics->kernels.all_gather = 100 * unit::s / as_real(row.job.plan.micro_batch_size);
  CHECK(any_says(find_findings(study), "all-gathers take"));
  for (const Finding& finding : find_findings(study))
    for (const std::string& fault : faults_of(finding, json_of(study)))
      FAIL_CHECK(fault);
}

/// The first job that ran, and again under other conditions with steps half as long again.
Study study_in(void (*change)(spec::Job&)) {
  Study study = sample_study();
  std::erase_if(study.rows, [](const StudyRow& row) { return !row.metrics; });
  study.rows.resize(1);
  StudyRow other = study.rows[0];
  other.name += "-other";
  change(other.job);
  *other.metrics->step_time *= 1.5;
  study.rows.push_back(other);
  label_conditions(study);
  return study;
}

TEST_CASE("what other conditions do to the same job comes first, and is no other machine") {
  const Study warm = study_in([](spec::Job& job) { job.environment.ambient = Celsius(45); });
  CHECK(find_findings(warm).front().text() ==
        "Against inlet 25 °C, gpt3-175b, TP8-PP4, microbatch 1 takes 50 % longer with "
        "inlet 45 °C.");
  CHECK(study_document(warm).verdict == find_findings(warm).front().text());
  const Study faulty = study_in([](spec::Job& job) {
    job.environment.faults = {spec::parse_fault("node=1,power=0.25").value()};
  });
  CHECK(group_title(faulty.rows[0]).ends_with(", no fault"));
  CHECK(group_title(faulty.rows[1]).ends_with(", fault node=1,power=0.25"));
  CHECK(find_findings(faulty).front().text().starts_with("Against no fault, "));
  for (const Study* study : {&warm, &faulty})
    CHECK_FALSE(any_says(find_findings(*study), "GPU for GPU"));
  CHECK(study_document(sample_study()).verdict == find_findings(sample_study()).front().text());
}

TEST_CASE("of a study of sizes the first sentence says what is left of a GPU's speed") {
  Study study = sample_study();
  std::erase_if(study.rows, [](const StudyRow& row) { return !row.metrics; });
  study.rows.resize(1);
  for (const int64_t times : {2, 4}) {
    StudyRow row = study.rows.front();
    row.name += fmt::format("-{}", times);
    row.job.cluster.num_nodes *= times;
    *row.metrics->tokens_per_second_per_gpu /= as_real(times);
    study.rows.push_back(row);
  }
  const Finding first = find_findings(study).front();
  CHECK(contains(first.text(), " keeps 25 % of each GPU's speed on "));
  CHECK(faults_of(first, json_of(study)).empty());
}

TEST_CASE("layouts are compared each at its best") {
  Study study = sample_study();
  std::map<std::string, double> best;  // of a group's layout
  for (const StudyRow& row : study.rows)
    if (row.metrics && row.metrics->tokens_per_second)
      best[group_title(row) + layout_label(row)] =
          std::max(best[group_title(row) + layout_label(row)], *row.metrics->tokens_per_second);
  for (const Finding& finding : find_findings(study)) {
    if (!finding.text().starts_with("Layout decides speed")) continue;
    for (const Name& name : finding.names())
      for (const StudyRow& row : study.rows)
        if (row.name == name.job && name.text == full_label(row))
          CHECK(*row.metrics->tokens_per_second == best[group_title(row) + layout_label(row)]);
    return;
  }
  FAIL("no finding speaks of layouts");
}

TEST_CASE("speeds of several models are not summed up in one figure") {
  Study study = sample_study();
  REQUIRE(study_document(study).key_figures.size() == 1);
  CHECK(study_document(study).key_figures[0].label == "hottest GPU");
  std::erase_if(study.rows, [](const StudyRow& row) { return row.job.model.name != "gpt3-175b"; });
  const answers::KeyFigure fastest = study_document(study).key_figures.at(0);
  CHECK(fastest.label == "fastest");
  CHECK(fastest.remark.starts_with("gpt3-175b on 64 x H100: "));  // of both machines
}

TEST_CASE("slots whose dies are about as warm are not called hot and cool") {
  metrics::Metrics m;
  CHECK(answers::slots_text(m).empty());
  m.cool_mean_c = 53.5;
  m.hot_mean_c = 53.9;  // boards alone, as in an immersion tank
  CHECK(answers::slots_text(m).empty());
  m.hot_mean_c = 65.9;
  CHECK(answers::slots_text(m) == "hot slots 65.9, cool slots 53.5");
}

TEST_CASE("findings that the results do not bear out are not there") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    if (!row.metrics) continue;
    row.metrics->hot_mean_c = row.metrics->cool_mean_c;
    row.metrics->throttle.clear();
  }
  const std::vector<Finding> findings = find_findings(study);
  CHECK(!any_says(findings, "hot slots"));
  CHECK(!any_says(findings, "Clocks are limited"));
}

TEST_CASE("layers that follow the cold are found, with what they gain and what they cost") {
  Study study = sample_study();
  CHECK(!any_says(find_findings(study), "Uneven layers help"));
  // The first and the last row that ran, again with cold slots first: one gains, one loses.
  std::vector<StudyRow> placed = filtered(study.rows, &StudyRow::metrics);
  placed = {placed.front(), placed.back()};
  *placed.back().metrics->bubble_fraction += 0.05;
  for (StudyRow& row : placed) {
    row.name += "-placed";
    row.job.plan.device_order = {1, 2, 5, 7, 0, 3, 4, 6};
    row.job.plan.layers_per_stage = {2, 1};
    *row.metrics->hot_mean_c -= 2;
    *row.metrics->samples_per_s_mj *= &row == &placed.front() ? 1.02 : 0.95;
    study.rows.push_back(row);
  }
  const std::vector<Finding> findings = find_findings(study);
  CHECK(any_says(findings, "Uneven layers help"));
  CHECK(any_says(findings, "2.0 % more samples per second and megajoule"));
  CHECK(any_says(findings, "the imbalance costs more than the heat"));
  CHECK(any_says(findings, "its bubble grown to"));
  CHECK(any_says(findings, "; without heat they would give a step of the same "));
  for (const Finding& finding : findings)
    CHECK(faults_of(finding, json_of(study)).empty());
  study.rows.back().metrics->bubble_fraction.value() -= 0.05;
  CHECK_FALSE(any_says(find_findings(study), "its bubble grown to"));
}

TEST_CASE("experts inside a node are compared with the same groups over nodes") {
  Study study = sample_study();
  CHECK(any_says(find_findings(study), "3.67 times"));  // 44000 / 12000
  // A reason is named where it changes as the step does.
  const auto set_all_to_all = [&](auto of_step) {
    for (StudyRow& row : study.rows)
      if (row.metrics && row.job.plan.expert_parallel_size > 1)
        row.metrics->kernels.all_to_all = of_step(*row.metrics->step_time);
  };
  set_all_to_all([](Seconds step) { return 0.6 * step; });
  CHECK(any_says(find_findings(study), "Experts belong inside a node"));
  set_all_to_all([](Seconds) { return 1 * unit::s; });
  CHECK_FALSE(any_says(find_findings(study), "Experts belong inside a node"));
  CHECK(any_says(find_findings(study), "Expert groups inside a node"));
  for (StudyRow& row : study.rows)
    if (row.job.plan.expert_parallel_size > 1) row.metrics->tokens_per_second = 12000;
  CHECK(!any_says(find_findings(study), "inside a node"));
}

TEST_CASE("two machines are compared for equal GPUs, memory and watts") {
  Study study = sample_study();
  CHECK(any_says(find_findings(study), "GPU for GPU"));
  CHECK(any_says(find_findings(study), "for equal memory"));
  CHECK(any_says(find_findings(study), "Energy of a token"));
  std::erase_if(study.rows, [](const StudyRow& row) { return row.job.cluster.gpu.name != "h200"; });
  CHECK(!any_says(find_findings(study), "GPU for GPU"));
}

std::string text_with(const Study& study, const std::string& words) {
  for (const Finding& finding : find_findings(study))
    if (contains(finding.text(), words)) return finding.text();
  return "";
}

TEST_CASE("for equal watts each machine stands as its job with the least energy") {
  Study study = sample_study();
  std::erase_if(study.rows, [](const StudyRow& row) {
    return !row.metrics || row.job.model.name != "gpt3-175b";
  });
  StudyRow slow = study.rows.back();  // the H100
  REQUIRE(slow.job.cluster.gpu.name == "h100");
  slow.name += "-slow";
  slow.job.plan.pipeline_parallel_size *= 4;
  *slow.metrics->tokens_per_second /= 10;
  *slow.metrics->tokens_per_second_per_gpu /= 10;
  *slow.metrics->joules_per_token /= 10;
  const std::string speed = text_with(study, "GPU for GPU");
  study.rows.push_back(slow);
  const std::string watts = text_with(study, "Energy of a token");
  CHECK(watts.starts_with("Energy of a token: gpt3-175b on 64 x H100 as TP8-PP32"));
  CHECK(text_with(study, "GPU for GPU") == speed);
  std::size_t charts = 0;
  for (const Drawing& figure : machine_figures(groups_of(study)))
    if (figure.id == "machines-equal-watts") {
      ++charts;
      CHECK(figure.title.starts_with("At equal watts: 64 x H100 against 32 x H200"));
    }
  CHECK(charts == 1);
}

TEST_CASE("machines are compared under equal conditions, or not at all") {
  const Study study = sample_study();
  const std::string in_air = text_with(study, "GPU for GPU"),
                    watts_in_air = text_with(study, "Energy of a token");
  REQUIRE_FALSE(in_air.empty());
  REQUIRE_FALSE(watts_in_air.empty());
  const auto is_h200 = [](const StudyRow& row) { return row.job.cluster.gpu.name == "h200"; };
  const std::vector<std::function<void(spec::Job&)>> changes = {
      [](spec::Job& job) {
        job.cluster.liquid_chassis = job.cluster.chassis;
        job.cluster.liquid_chassis->cooling = spec::Cooling::liquid;
        job.environment.cooling = spec::Cooling::liquid;
      },
      [](spec::Job& job) { job.environment.ambient = Celsius(18); },
      [](spec::Job& job) { job.environment.power_limit = 400 * unit::W; },
      [](spec::Job& job) { job.stack.name = "another"; }};
  for (const auto& change : changes) {
    Study changed = study;
    std::vector<StudyRow> more;
    for (StudyRow& row : changed.rows) {
      if (!is_h200(row)) continue;
      StudyRow other = row;  // faster and thriftier than the H100 by more
      other.name += "-changed";
      change(other.job);
      if (other.metrics) *other.metrics->tokens_per_second *= 2;
      more.push_back(other);
      change(row.job);
    }
    // The only H200 are under other conditions than the H100.
    label_conditions(changed);
    CHECK(text_with(changed, "GPU for GPU").empty());
    CHECK(text_with(changed, "Energy of a token").empty());
    // Both kinds of H200: those in the H100's conditions count. Stacks are of one group, whose
    // fastest job stands for it.
    if (more.front().job.stack.name == "another") continue;
    changed = study;
    changed.rows.insert(changed.rows.end(), more.begin(), more.end());
    label_conditions(changed);
    const auto unconditioned = [&](const char* words) {
      const std::string condition = ", " + changed.rows[study.rows.size() - 1].condition;
      std::string text = text_with(changed, words);
      const std::size_t at = text.rfind(condition);  // of the H100
      REQUIRE(at != std::string::npos);
      return text.erase(at, condition.size());
    };
    CHECK(unconditioned("GPU for GPU").ends_with(in_air.substr(in_air.find(" trains "))));
    CHECK(unconditioned("Energy of a token")
              .ends_with(watts_in_air.substr(watts_in_air.find(" takes "))));
  }
}

TEST_CASE("machines with the cooling they are sold with are compared, whichever it is") {
  Study study = sample_study();
  for (StudyRow& row : study.rows)
    if (row.job.cluster.gpu.name == "h200") row.job.cluster.chassis.cooling = spec::Cooling::liquid;
  CHECK(any_says(find_findings(study), "GPU for GPU"));
  CHECK(any_says(find_findings(study), "Energy of a token"));
}

TEST_CASE("a cooling and an inlet that are the machine's own may be written") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    spec::Job& job = row.job;
    if (job.cluster.gpu.name == "h200") {
      job.cluster.chassis.cooling = spec::Cooling::liquid;
      job.cluster.chassis.inlet = Celsius(32);
    } else {
      job.environment.cooling = job.cluster.chassis.cooling;
      job.environment.ambient = job.cluster.chassis.inlet;
    }
  }
  CHECK(any_says(find_findings(study), "GPU for GPU"));
  CHECK(any_says(find_findings(study), "Energy of a token"));
  for (StudyRow& row : study.rows)
    if (row.job.cluster.gpu.name != "h200") row.job.environment.ambient = Celsius(26);
  CHECK_FALSE(any_says(find_findings(study), "GPU for GPU"));
}

TEST_CASE("sizes of one kind of machine are not compared as machines") {
  Study study = sample_study();
  std::erase_if(study.rows, [](const StudyRow& row) {
    return row.job.cluster.gpu.name != "h200" || !row.metrics;
  });
  for (StudyRow row : std::vector<StudyRow>(study.rows)) {
    row.name += "-large";
    row.job.cluster.num_nodes *= 100;
    row.metrics->tokens_per_second = 50 * *row.metrics->tokens_per_second;
    study.rows.push_back(row);
  }
  label_conditions(study);
  CHECK(!any_says(find_findings(study), "GPU for GPU"));
  CHECK(!any_says(find_findings(study), "Energy of a token"));
  const std::vector<Drawing> figures = machine_figures(groups_of(study));
  REQUIRE(!figures.empty());
  for (const Drawing& figure : figures)
    CHECK(contains(figure.title, ", by size: "));
}

/// The first two jobs that ran, and both again on another fabric at a share of their speed.
Study study_on(spec::ScaleOut other, double first_share, double second_share) {
  Study study = sample_study();
  std::erase_if(study.rows, [](const StudyRow& row) { return !row.metrics; });
  study.rows.resize(2);
  for (const double share : {first_share, second_share}) {
    StudyRow row = study.rows[share == first_share ? 0 : 1];
    row.name += "-elsewhere";
    row.job.cluster.scale_out.kind = other.kind;
    row.job.cluster.scale_out.oversubscription = other.oversubscription;
    row.metrics->tokens_per_second = share * *row.metrics->tokens_per_second;
    study.rows.push_back(row);
  }
  label_conditions(study);
  return study;
}

TEST_CASE("fabrics are compared job by job, and who minds least is named") {
  const Study kinds = study_on({.kind = spec::FabricKind::dragonfly}, 0.5, 0.98);
  const std::vector<Finding> findings = find_findings(kinds);
  CHECK(any_says(findings, "The kind of fabric, with the same NICs"));
  CHECK(any_says(findings, "100 %"));
  CHECK(any_says(findings, "the smallest effect is on"));
  CHECK_FALSE(any_says(findings, "Saving on uplinks"));
  for (const Finding& finding : findings)
    CHECK(faults_of(finding, json_of(kinds)).empty());
}

TEST_CASE("uplinks that cost speed are spoken of, others are not") {
  CHECK(any_says(find_findings(study_on({.oversubscription = 4}, 0.5, 0.98)), "Saving on uplinks"));
  CHECK_FALSE(
      any_says(find_findings(study_on({.oversubscription = 4}, 1.0, 0.999)), "Saving on uplinks"));
}

TEST_CASE("pairs differ in their setting and in nothing else") {
  const Study study = sample_study();
  std::size_t pairs = 0;
  for (const Group& group : groups_of(study))
    for (const Pair& pair : pairs_of(group)) {
      ++pairs;
      spec::Job from = pair.from->job, to = pair.to->job;
      if (pair.setting == PlanSetting::microbatch)
        from.plan.micro_batch_size = to.plan.micro_batch_size;
      if (pair.setting == PlanSetting::recompute) from.plan.recompute = to.plan.recompute;
      if (pair.setting == PlanSetting::overlap) from.plan.overlap_tensor = to.plan.overlap_tensor;
      if (pair.setting == PlanSetting::layout) continue;  // changes what a layout brings
      CHECK(from.plan == to.plan);
    }
  CHECK(pairs > 50);
}

TEST_CASE("the first recommendation leads to the fastest job, and each gains at least 1 %") {
  const Study study = sample_study();
  for (const Group& group : groups_of(study)) {
    const std::vector<Recommendation> all = recommendations_for(group);
    if (all.empty()) continue;
    CHECK(all.front().to == answers_for(group).fastest);
    for (const Recommendation& change : all)
      CHECK(change.gain >= 0.01);
  }
}

TEST_CASE("no recommendation fills the memory that plan keeps free") {
  Study study = sample_study();
  std::set<const StudyRow*> tight;
  for (const Group& group : groups_of(study))
    for (const Recommendation& change : recommendations_for(group))
      tight.insert(change.to);
  REQUIRE(!tight.empty());
  for (StudyRow& row : study.rows)
    if (tight.contains(&row))
      row.memory.front().activations += 135 * unit::GiB - row.memory.front().total();
  for (const Group& group : groups_of(study))
    for (const Recommendation& change : recommendations_for(group))
      CHECK(!tight.contains(change.to));
  for (StudyRow& row : study.rows)
    row.origin = run::Origin::measured;  // it did run so
  bool any = false;
  for (const Group& group : groups_of(study))
    for (const Recommendation& change : recommendations_for(group))
      any = any || tight.contains(change.to);
  CHECK(any);
}

TEST_CASE("a planted fault limits first, and undoing it is what to change") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    if (!row.metrics) continue;
    row.job.environment.faults = {{.kind = spec::FaultKind::power, .node = 1, .share = 0.25}};
    row.metrics->bottlenecks = {{.who = {8},
                                 .evidence = {{run::Evidence::Kind::clock, 700, 1800}},
                                 .cause = run::Cause::power_limit,
                                 .cost = 3 * unit::s}};
  }
  for (const Group& group : groups_of(study)) {
    const Answers answers = answers_for(group);
    if (answers.fastest == nullptr || !has_fault(*answers.fastest)) continue;
    CHECK(answers.limit_text.text().starts_with("GPU 8 slows the others"));
    CHECK(answers.change_text.text().starts_with("Give it the power limit of its peers"));
  }
}

TEST_CASE("recommendations start from the first job or from a fast one") {
  Study study = sample_study();
  for (const Group& group : groups_of(study)) {
    const StudyRow* fastest = answers_for(group).fastest;
    if (fastest == nullptr) continue;
    for (const Recommendation& change : recommendations_for(group)) {
      if (change.setting == PlanSetting::layout) continue;
      const bool is_fast = ratio_at(*change.from, *fastest, "tokens_per_s").value_or(0) >= 0.5;
      CHECK((is_fast || change.from == group.rows.front()));
      if (change.setting == PlanSetting::recompute && change.to != fastest)
        CHECK(change.to->job.plan.recompute != fastest->job.plan.recompute);
      if (change.setting == PlanSetting::microbatch && change.to != fastest)
        CHECK(change.to->job.plan.micro_batch_size != fastest->job.plan.micro_batch_size);
    }
  }
}

TEST_CASE("what heat takes from the step is said in seconds, with the GPU that all wait for") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    if (!row.metrics || !row.metrics->step_time) continue;
    row.metrics->step_without_heat = 0.9 * *row.metrics->step_time;
    row.metrics->bottlenecks = {{.who = {5},
                                 .evidence = {{run::Evidence::Kind::clock, 1500, 1800}},
                                 .cause = run::Cause::heat}};
  }
  bool any = false;
  for (const Group& group : groups_of(study)) {
    const Answers answers = answers_for(group);
    if (answers.fastest == nullptr) continue;
    any = true;
    const std::string& text = answers.limit_text.text();
    CHECK_MESSAGE(contains(text, "; heat takes "), text);
    CHECK_MESSAGE(contains(text, " s of it, by GPU 5"), text);
    CHECK(!contains(text, "power cap"));
    CHECK(faults_of(answers.limit_text, json_of(study)).empty());
  }
  CHECK(any);
  CHECK(any_says(find_findings(study), "all wait for GPU 5"));
}

TEST_CASE("a study without results has no findings and does not fail") {
  CHECK(find_findings({}).empty());
}

TEST_CASE("a study in which nothing runs has no findings") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    row.metrics.reset();
    row.verdict = Verdict::oom;
  }
  CHECK(find_findings(study).empty());
}

TEST_CASE("recordings of unknown jobs have rows, groups and answers") {
  Study study = sample_study();
  study.rows.resize(2);
  for (StudyRow& row : study.rows) {
    row.has_job = false;
    row.job = {};
    row.origin = run::Origin::measured;
    row.slots.resize(8);
  }
  const std::vector<Group> groups = groups_of(study);
  REQUIRE(groups.size() == 1);
  CHECK(full_label(*groups[0].rows[0]) == study.rows[0].name);
  CHECK(answers_for(groups[0]).fastest != nullptr);
  for (const Finding& finding : find_findings(study))
    CHECK(!contains(finding.text(), "TP1"));
  CHECK(groups[0].title == "8 GPUs, job not known");
  study.rows[0].inferred_machine = study.rows[1].inferred_machine = "8 x H200";
  const std::vector<Group> told = groups_of(study);
  REQUIRE(told.size() == 1);
  CHECK(told[0].title == "8 x H200, job not known");
}

/// Of the short answers.
std::size_t notes_of(const Study& study) {
  for (const answers::Section& section : study_document(study).sections)
    if (section.id == "answers") return section.remarks.size();
  return 0;
}

TEST_CASE("the default stack is named only where jobs were compared with it") {
  Study study = sample_study();
  CHECK(notes_of(study) == 1);
  for (StudyRow& row : study.rows)
    row.job.task = spec::Task::decode;
  CHECK(notes_of(study) == 0);
}

/// The same study, its jobs of another task.
Study as_task(spec::Task task) {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    row.job.task = task;
    if (!row.metrics) continue;
    row.metrics->energy_j = 100;
    row.metrics->energy_ledger_j = {{"idle", 20.0},   {"leakage", 10.0},      {"compute", 10.0},
                                    {"memory", 50.0}, {"communication", 5.0}, {"waiting", 5.0}};
  }
  return study;
}

TEST_CASE("a study of decoding says where a token's energy goes and what it waits for") {
  const Study study = as_task(spec::Task::decode);
  const std::vector<Finding> findings = find_findings(study);
  CHECK(any_says(findings, "energy of a generated token"));
  CHECK(any_says(findings, "gives every sequence its next token after"));
  CHECK(any_says(findings, " generates "));
  CHECK_FALSE(any_says(findings, " trains "));
  const Json results = json_of(study);
  for (const Finding& finding : findings)
    for (const std::string& fault : faults_of(finding, results))
      FAIL_CHECK(finding.text() << ": " << fault);
}

TEST_CASE("a study of prompts says how long the first token waits") {
  const std::vector<Finding> findings = find_findings(as_task(spec::Task::prefill));
  CHECK(any_says(findings, "has read all prompts after"));
  CHECK_FALSE(any_says(findings, "energy of a generated token"));
}

TEST_CASE("a study of both says what fine-tuning spares") {
  Study study = sample_study();
  const Study tuned = as_task(spec::Task::lora);
  for (StudyRow row : tuned.rows) {
    row.name += "-lora";
    row.job.name = row.name;
    if (row.metrics && row.metrics->tokens_per_second) *row.metrics->tokens_per_second *= 1.5;
    study.rows.push_back(row);
  }
  CHECK(any_says(find_findings(study), "Adapter training saves the weight gradients"));
  CHECK_FALSE(
      any_says(find_findings(sample_study()), "Adapter training saves the weight gradients"));
}

}  // namespace

}  // namespace triplepoint::report
