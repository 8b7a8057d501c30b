// SPDX-License-Identifier: Apache-2.0
// What tells the machines and rooms of a study apart.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/report/findings/groups.h"

namespace triplepoint::report {
namespace {

std::string inlet_of(const spec::Job& job) {
  return fmt::format("inlet {:.3g} °C", job.chassis().inlet.degrees());
}

std::string cooling_of(const spec::Job& job) {
  return std::string(spec::enum_name(job.chassis().cooling));
}

std::string limit_of(const spec::Job& job) {
  return fmt::format("{:.4g} W", job.power_limit() / unit::W);
}

std::string nics_of(const spec::Job& job) {
  const spec::ScaleOut& out = job.cluster.scale_out;
  return fmt::format("{} x {:.4g} Gb/s", out.nics_per_node,
                     out.nic_bandwidth * (1 * unit::s) / unit::Gb);
}

std::string fabric_of(const spec::Job& job) {
  const spec::ScaleOut& out = job.cluster.scale_out;
  std::string words(spec::enum_name(out.kind));
  std::replace(words.begin(), words.end(), '_', ' ');
  if (out.oversubscription > 1) words += fmt::format(" {:.3g}:1", out.oversubscription);
  return words;
}

std::string domain_of(const spec::Job& job) {
  return fmt::format("domain of {}", job.cluster.scale_up.domain_size);
}

std::string name_of_cluster(const spec::Job& job) {
  return job.cluster.title.empty() ? job.cluster.name : job.cluster.title;
}

std::string faults_of(const spec::Job& job) {
  std::vector<std::string> faults;
  for (const spec::Fault& fault : job.environment.faults)
    faults.push_back("fault " + spec::to_text(fault));
  return faults.empty() ? "no fault" : fmt::format("{}", fmt::join(faults, " "));
}

using Property = std::string (*)(const spec::Job&);
// An own cooling brings its inlet, so it is asked first.
constexpr std::array<Property, 7> properties = {cooling_of, inlet_of,  limit_of, nics_of,
                                                fabric_of,  domain_of, faults_of};

/// Repeats with other seeds are of one place.
bool same_place(const spec::Job& a, const spec::Job& b) {
  spec::Environment other = b.environment;
  other.seed = a.environment.seed;
  return a.cluster == b.cluster && a.environment == other;
}

bool differ(const std::vector<StudyRow*>& rows, Property property) {
  std::set<std::string> words;
  for (const StudyRow* row : rows)
    words.insert(property(row->job));
  return words.size() > 1;
}

/// The told properties in words; where the words do not tell two places apart, the cluster's own.
void tell(const std::vector<StudyRow*>& rows, const std::vector<Property>& told) {
  std::map<std::string, const StudyRow*> first;
  bool ambiguous = false;
  for (StudyRow* row : rows) {
    for (const Property property : told)
      row->condition += (row->condition.empty() ? "" : ", ") + property(row->job);
    const auto [at, is_new] = first.try_emplace(row->condition, row);
    ambiguous = ambiguous || (!is_new && !same_place(at->second->job, row->job));
  }
  if (!ambiguous) return;
  for (StudyRow* row : rows)
    row->condition += (row->condition.empty() ? "" : ", ") + name_of_cluster(row->job);
}

}  // namespace

void label_conditions(Study& study) {
  std::map<std::string, std::vector<StudyRow*>> machines;
  std::map<std::string, std::set<int64_t>> batches;
  for (StudyRow& row : study.rows) {
    row.condition.clear(), row.batch.clear();
    if (!row.has_job) continue;
    machines[machine_title(row)].push_back(&row);
    batches[group_title(row)].insert(row.job.plan.global_batch_size);
  }
  for (StudyRow& row : study.rows)
    if (row.has_job && batches[group_title(row)].size() > 1)
      row.batch = fmt::format(", batch {}", row.job.plan.global_batch_size);
  std::vector<Property> told;
  for (const Property property : properties)
    if (std::any_of(machines.begin(), machines.end(),
                    [&](const auto& machine) { return differ(machine.second, property); }))
      told.push_back(property);
  for (const auto& [title, rows] : machines)
    tell(rows, told);
}

}  // namespace triplepoint::report
