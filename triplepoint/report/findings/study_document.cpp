// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/study_document.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/answers/quantities.h"

namespace triplepoint::report {
namespace {

using answers::Remark;
using answers::Section;

bool is_simulated(const Study& study) {
  return std::ranges::all_of(
      study.rows, [](const StudyRow& row) { return row.origin == run::Origin::simulated; });
}

std::string where_from(const Study& study) {
  const auto simulated = std::ranges::count(study.rows, run::Origin::simulated, &StudyRow::origin);
  if (is_simulated(study)) return "Simulated by " + study.producer;
  if (simulated == 0) return "Measured; analysed by " + study.producer;
  return fmt::format("{} simulated, the others measured; analysed by {}", simulated,
                     study.producer);
}

/// The software that all numbers are of: with another one, other layouts may win.
std::string software_of(const Study& study) {
  std::set<std::string> stacks;
  for (const StudyRow& row : study.rows)
    if (row.has_job)
      stacks.insert(row.job.stack.name +
                    (row.job.stack.profiled ? ", with a profiler in every step" : ""));
  if (stacks.empty()) return "";
  return fmt::format(" Software stack{}: {}.", stacks.size() > 1 ? "s" : "",
                     fmt::join(stacks, "; "));
}

std::string facts_of(const Study& study) {
  const Summary summary = summary_of(study);
  return fmt::format(
      "{}{}{} jobs: {} ran, {} do not fit in memory, {} invalid. {}; every figure is of {}.{}",
      study.about, study.about.empty() ? "" : " ", summary.jobs, summary.ok, summary.oom,
      summary.invalid, where_from(study),
      study.score           ? "a whole run with its warm-up, but for those of the score"
      : is_simulated(study) ? "one step in the steady state"
                            : "one step",
      software_of(study));
}

/// One number of a job: what it is, how much, of which job; of which group, if there are several.
struct FigureOf {
  std::vector<answers::KeyFigure> figures;
  bool several_groups = false;

  void add(std::string label, const StudyRow* row, const char* key) {
    const auto value = row == nullptr ? std::nullopt : number_at(*row, key);
    if (!value) return;
    const std::string group = several_groups ? group_title(*row) + ": " : "";
    figures.push_back({std::move(label), answers::text_of(answers::quantity_of(key), *value),
                       group + short_label(*row)});
  }
};

/// Of all jobs that ran; speeds and energies only of one model, since those of several do not
/// compare.
std::vector<answers::KeyFigure> key_figures_of(const std::vector<Group>& groups) {
  FigureOf all{.several_groups = groups.size() > 1};
  const std::vector<const StudyRow*> ran = all_that_ran(groups);
  if (ran.empty()) return {};
  const bool one_model = std::ranges::all_of(
      ran, [&](const StudyRow* row) { return model_title(*row) == model_title(*ran.front()); });
  if (one_model) {
    all.add("fastest", highest(ran, "tokens_per_s"), "tokens_per_s");
    all.add("least " + energy_scope_of(*ran.front()) + " energy", thriftiest_of(ran),
            "joules_per_token");
  }
  all.add("hottest GPU", highest(ran, "temperature_c.peak"), "temperature_c.peak");
  return std::move(all.figures);
}

/// Of all its energies: its jobs state a PUE, or none does.
std::string scope_of(const Study& study) {
  const auto ran =
      std::ranges::find_if(study.rows, [](const StudyRow& row) { return row.metrics.has_value(); });
  return ran == study.rows.end() ? "GPU" : energy_scope_of(*ran);
}

Section answers_of(const Study& study, const std::vector<Group>& groups) {
  Section section{"answers", "The short answers"};
  DataTable table = text_table({{"model and machines", Align::left},
                                {"fastest", Align::left},
                                {"least " + scope_of(study) + " energy", Align::left, 2},
                                {"what limits the fastest", Align::left, 1},
                                {"what to change", Align::left}});
  for (DataColumn& column : table.columns)
    column.whole = true;
  bool is_compared = false;
  for (const Group& group : groups) {
    const Answers answers = answers_for(group);
    is_compared = is_compared || answers.is_compared;
    if (answers.fastest != nullptr)
      table.add({group.title, answers.fastest_text.text(), answers.energy_text.text(),
                 answers.limit_text.text(), answers.change_text.text()});
  }
  if (is_compared)
    section.remarks = {{fmt::format("What to change gains about as much with stack {}, unless "
                                    "another gain is named, and leaves out jobs in which memory "
                                    "is tight.",
                                    spec::default_stack),
                        Remark::Kind::note}};
  if (!table.rows.empty()) section.tables = {std::move(table)};
  return section;
}

/// All but the first where it is the verdict.
Section findings_of(const std::vector<Finding>& findings, bool is_suite) {
  Section section{"findings", "Findings"};
  for (std::size_t i = is_suite ? 0 : 1; i < findings.size(); ++i)
    section.remarks.push_back({findings[i].text(), Remark::Kind::finding, findings[i].anchor()});
  return section;
}

// ---- all jobs

Style style_of(Verdict verdict) {
  return verdict == Verdict::ok                                    ? Style::good
         : verdict == Verdict::oom || verdict == Verdict::shutdown ? Style::bad
                                                                   : Style::warning;
}

/// A job whose measurement failed was valid.
std::string verdict_of(const StudyRow& row) {
  const bool failed = row.verdict == Verdict::invalid && row.origin == run::Origin::measured;
  return failed ? "failed" : std::string(name_of(row.verdict));
}

/// Errors in full, what a recording lacks, and options without effect, of which several are
/// possible; of other warnings the code in words, for they did not keep the job from running.
std::string diagnoses_text(const StudyRow& row) {
  std::string text;
  for (const spec::Diagnosis& diagnosis : row.diagnoses) {
    const bool in_full = diagnosis.severity == spec::Diagnosis::Severity::error || !row.has_job ||
                         diagnosis.code == spec::DiagnosisCode::inert_option;
    std::string code(spec::name_of(diagnosis.code));
    std::ranges::replace(code, '_', ' ');
    text += fmt::format("{}{}", text.empty() ? "" : "; ", in_full ? diagnosis.what : code);
  }
  return text;
}

}  // namespace

DataTable jobs_table(const Study& study) {
  std::vector<TextColumn> titles = {{"job", Align::left},
                                    {"model", Align::left, 4},
                                    {"machines", Align::left, 4},
                                    {"layout", Align::left, 4},
                                    {"verdict", Align::left}};
  for (const answers::JobColumn& column : answers::job_columns()) {
    const std::string scope = column.key == "joules_per_token" ? scope_of(study) + " " : "";
    titles.push_back({scope + column.title(), Align::right, column.optional});
  }
  titles.push_back({"diagnosis", Align::left, 1});
  DataTable table = text_table(std::move(titles));
  for (const StudyRow& row : study.rows) {
    std::vector<DataCell> cells = {row.name,
                                   model_title(row),
                                   machine_title(row),
                                   row.has_job ? short_label(row) : "",
                                   {verdict_of(row), style_of(row.verdict)}};
    for (const answers::JobColumn& column : answers::job_columns()) {
      const auto value = number_at(row, column.key);
      const answers::Quantity& quantity = column.quantity();
      cells.emplace_back(
          value ? significant(*value / answers::shown_unit(quantity).scale, quantity.digits) : "");
    }
    cells.emplace_back(diagnoses_text(row));
    table.add(std::move(cells), row.name);
  }
  return table;
}

const Group* group_with_most_jobs(const std::vector<Group>& groups) {
  const auto most = std::ranges::max_element(
      groups, {}, [](const Group& group) { return group.that_ran().size(); });
  return most == groups.end() || most->that_ran().empty() ? nullptr : &*most;
}

/// Of a suite, its scores; else what stands out most.
std::string verdict_of(const Study& study, const std::vector<Finding>& findings) {
  if (study.score) return fmt::format("{}", fmt::join(score_sentences(*study.score), " "));
  return findings.empty() ? "" : findings.front().text();
}

answers::Document study_document(const Study& study) {
  const std::vector<Group> groups = groups_of(study);
  const std::vector<Finding> findings = find_findings(study);
  answers::Document document{.kind = "study",
                             .title = study.title,
                             .facts = facts_of(study),
                             .verdict = verdict_of(study, findings)};
  document.key_figures = key_figures_of(groups);
  if (study.score) document.sections.push_back(score_section(*study.score));
  document.sections.push_back(answers_of(study, groups));
  document.sections.push_back(findings_of(findings, study.score.has_value()));
  Section jobs{"jobs", "All jobs"};
  jobs.tables = {jobs_table(study)};
  jobs.filtered = true;
  document.sections.push_back(std::move(jobs));
  return document;
}

using metrics::JobScore;
using metrics::ScoreCard;

std::vector<std::string> score_sentences(const metrics::SuiteScore& suite) {
  std::vector<std::string> sentences;
  for (const ScoreCard& card : suite.cards) {
    const auto broken =
        std::ranges::count_if(card.jobs, [](const JobScore& job) { return !job.broken.empty(); });
    const std::string status =
        card.is_official ? "all rules kept"
                         : fmt::format("unofficial: {} of {} jobs scored, rules broken in {}",
                                       card.scored, card.jobs.size(), broken);
    if (card.name == suite.reference && card.score)
      sentences.push_back(fmt::format("{} is the reference; this run of it scores {} ({}).",
                                      card.name, significant(card.score), status));
    else
      sentences.push_back(card.score ? fmt::format("{} scores {} against {} ({}).", card.name,
                                                   significant(card.score), suite.reference, status)
                                     : fmt::format("{} has no score ({}).", card.name, status));
  }
  return sentences;
}

namespace {

/// A row for each job and card: medians of the repeats, and the score.
DataTable score_table(const metrics::SuiteScore& suite) {
  struct Column {
    const char* title;
    double scale;
    int digits;
  };
  constexpr Column columns[spec::score_metric_count] = {
      {"tokens/s a GPU", 1, 0},   {"GPU J/token", 1, 4},      {"peak (W)", 1, 0},
      {"peak (°C)", 1, 1},        {"throttled (%)", 0.01, 1}, {"spread (K)", 1, 1},
      {"variation (%)", 0.01, 2}, {"drift (%)", 0.01, 2}};
  DataTable table;
  table.title = "Medians of the repeats after the warm-up; the reference scores 1";
  table.columns = {{"cluster", "cluster"}, {"job", "job"}};
  for (std::size_t m = 0; m < std::size(columns); ++m)
    table.columns.push_back({std::string(spec::enum_names<spec::ScoreMetric>[m]), columns[m].title,
                             columns[m].scale, columns[m].digits});
  table.columns.push_back({"score", "score", 1, 3});
  constexpr const char* why = "no run of the job knows it";
  for (const ScoreCard& card : suite.cards)
    for (const JobScore& job : card.jobs) {
      std::vector<DataCell> row = {card.name, job.name};
      for (const std::optional<double>& value : job.values)
        row.push_back(cell_of(value, why));
      row.push_back(cell_of(job.score, why));
      table.add(std::move(row));
    }
  return table;
}

}  // namespace

answers::Section score_section(const metrics::SuiteScore& suite) {
  using answers::Remark;
  answers::Section section{"score", "Score"};
  for (std::string& sentence : score_sentences(suite))
    section.remarks.push_back({std::move(sentence)});
  for (const ScoreCard& card : suite.cards)
    for (const JobScore& job : card.jobs)
      for (const std::string& rule : job.broken)
        section.remarks.push_back(
            {fmt::format("rule broken: {}, {}: {}", card.name, job.name, rule),
             Remark::Kind::warning});
  section.tables = {score_table(suite)};
  return section;
}

}  // namespace triplepoint::report
