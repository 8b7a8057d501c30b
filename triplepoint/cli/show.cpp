// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/suggest.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/cli/about.h"
#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/report/findings/labels.h"

namespace triplepoint::cli {
namespace {

using spec::Library;
using Align = TextTable::Align;

/// A kind of thing with a name, and the folder its files lie in.
struct Kind {
  const char* word;
  const char* folder;
  std::vector<std::string> (*list)(const Library&);
  Result<std::string> (*about)(const Library&, const std::string& name);
};

constexpr Kind kinds[] = {
    {"model", "models", spec::list_models,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return about_model(TPT_TRY(spec::load_model(l, n)));
     }},
    {"GPU", "gpus", spec::list_gpus,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return about_gpu(TPT_TRY(spec::load_gpu(l, n)));
     }},
    {"cluster", "clusters", spec::list_clusters,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return about_cluster(TPT_TRY(spec::load_cluster(l, n)));
     }},
    {"stack", "stacks", spec::list_stacks,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return about_stack(TPT_TRY(spec::load_stack(l, n)));
     }},
    {"optimizer", "optimizers", spec::list_optimizers,
     [](const Library& l, const std::string& n) -> Result<std::string> {
       return about_optimizer(TPT_TRY(spec::load_optimizer(l, n)));
     }},
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// One thing, and every number of its file.
struct Shown {
  std::string kind, about;
  std::vector<spec::Provenance> numbers;
};

Json as_json(const Shown& shown) {
  Json numbers = Json::array();
  for (const spec::Provenance& number : shown.numbers) {
    numbers.push_back({{"key", number.key},
                       {"value", number.value},
                       {"kind", spec::enum_name(number.kind)},
                       {"source", number.cite},
                       {"file", number.file},
                       {"line", number.line}});
  }
  return {{"kind", shown.kind}, {"about", shown.about}, {"numbers", std::move(numbers)}};
}

void print_shown(Console& console, const std::string& name, const Shown& shown) {
  console.print(console.styled(fmt::format("{} {}", shown.kind, name), Style::bold) + ": " +
                shown.about + "\n\n");
  TextTable table({{"number", Align::left},
                   {"value", Align::left},
                   {"kind", Align::left},
                   {"source", Align::left}});
  for (const spec::Provenance& number : shown.numbers) {
    table.add_row(
        {number.key, number.value, std::string(spec::enum_name(number.kind)), number.cite});
  }
  console.print(table.text(console) + "\n");
}

Json job_json(const spec::StudyJob& entry) {
  Json diagnoses = Json::array();
  for (const spec::Diagnosis& diagnosis : entry.diagnoses)
    diagnoses.push_back({{"code", spec::name_of(diagnosis.code)}, {"what", diagnosis.what}});
  return {{"name", entry.job.name},
          {"model", entry.job.model.name},
          {"cluster", entry.job.cluster.name},
          {"num_gpus", entry.job.world_size()},
          {"layout", report::configuration_label(entry.job)},
          {"variant", report::variant_label(entry.job)},
          {"micro_batch_size", entry.job.plan.micro_batch_size},
          {"diagnoses", std::move(diagnoses)}};
}

Json study_json(const spec::StudyPlan& study) {
  Json jobs = Json::array();
  for (const spec::StudyJob& entry : study.jobs)
    jobs.push_back(job_json(entry));
  return {{"kind", "study"},
          {"about", study.title},
          {"details", study.about},
          {"jobs", std::move(jobs)}};
}

void print_study(Console& console, const spec::StudyPlan& study) {
  console.print(console.styled("study " + study.name, Style::bold) + ": " + study.title + "\n" +
                wrap(study.about, console.abilities().width.value_or(100)) + "\n\n");
  TextTable table({{"job", Align::left},
                   {"model", Align::left},
                   {"machines", Align::left},
                   {"layout", Align::left},
                   {"variant", Align::left},
                   {"mbs"},
                   {"problem", Align::left}});
  for (const spec::StudyJob& entry : study.jobs) {
    const auto problem =
        std::find_if(entry.diagnoses.begin(), entry.diagnoses.end(),
                     [](const auto& d) { return d.severity == spec::Diagnosis::Severity::error; });
    table.add_row({entry.job.name, entry.job.model.name,
                   fmt::format("{} x {}", entry.job.cluster.num_nodes, entry.job.cluster.name),
                   report::configuration_label(entry.job), report::variant_label(entry.job),
                   std::to_string(entry.job.plan.micro_batch_size),
                   problem == entry.diagnoses.end() ? "" : problem->what});
  }
  console.print(table.text(console));
}

class Show : public Command {
 public:
  std::vector<Argument> arguments() override {
    return {{.names = "NAME",
             .help = "of a model, GPU, cluster, stack, optimizer or study",
             .required = true,
             .store = into(name_)},
            format_.argument()};
  }

  Result<int> run(Console& console) override {
    const Library library = TPT_TRY(require_library());
    Json all = Json::array();
    std::vector<std::string> known = spec::list_studies(library);
    if (contains(known, name_)) TPT_TRY(show_study(library, console, all));
    for (const Kind& kind : kinds) {
      const std::vector<std::string> names = kind.list(library);
      known.insert(known.end(), names.begin(), names.end());
      if (contains(names, name_)) TPT_TRY(show_thing(library, kind, console, all));
    }
    if (all.empty())
      return error(fmt::format("nothing is called \"{}\"; {}", name_, did_you_mean(name_, known)));
    if (format_.is_json()) print_json(console, all);
    return exit_ok;
  }

 private:
  Result<void> show_study(const Library& library, Console& console, Json& all) const {
    const spec::StudyPlan study = TPT_TRY(spec::load_study(library, name_));
    all.push_back(study_json(study));
    if (!format_.is_json()) print_study(console, study);
    return {};
  }

  Result<void> show_thing(const Library& library, const Kind& kind, Console& console,
                          Json& all) const {
    const Shown shown{kind.word, TPT_TRY(kind.about(library, name_)),
                      TPT_TRY(spec::provenance(library, fmt::format("{}/{}", kind.folder, name_)))};
    all.push_back(as_json(shown));
    if (!format_.is_json()) print_shown(console, name_, shown);
    return {};
  }

  std::string name_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_show() {
  return std::make_unique<Show>();
}

}  // namespace triplepoint::cli
