// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/serving.h"

#include <fmt/format.h>

#include "triplepoint/calibrate/calibration_file.h"

namespace triplepoint::calibrate {

Result<Serving> load_serving(const spec::Library& library) {
  const CalibrationFile file = TPT_TRY(CalibrationFile::read(library, "serving.toml"));
  const spec::TomlValue* engine = TPT_TRY(file.find(file.root(), "engine"));
  const spec::TomlValue* tasks = TPT_TRY(file.find(file.root(), "task"));
  Serving serving{.prefill_tokens = TPT_TRY(file.number(*engine, "prefill_tokens")),
                  .sequence_time = TPT_TRY(file.time(*engine, "sequence_time")),
                  .busy_share = TPT_TRY(file.number(*engine, "busy_share")),
                  .tasks = {},
                  .models = {}};
  for (const spec::TomlValue& task : tasks->items)
    serving.tasks.push_back({.name = TPT_TRY(file.text(task, "name")),
                             .prompt = TPT_TRY(file.number(task, "prompt")),
                             .answer = TPT_TRY(file.number(task, "answer"))});
  for (const spec::TomlEntry& model : TPT_TRY(file.find(file.root(), "models"))->entries)
    serving.models.emplace(model.key, model.value.text);
  return serving;
}

Result<std::string> model_of(const Serving& serving, std::string_view published) {
  const auto found = serving.models.find(published);
  if (found != serving.models.end()) return found->second;
  return error(
      fmt::format("no model is called \"{}\" (its shape is not in the library); name one "
                  "in [models] of data/calibrations/serving.toml",
                  published));
}

Result<ServedTask> task_of(const Serving& serving, std::string_view task) {
  for (const ServedTask& known : serving.tasks)
    if (task.find(known.name) != std::string_view::npos) return known;
  return error(fmt::format(
      "the length of the sequences of '{}' is neither stated nor known of the task", task));
}

Spell serving_round(const Serving& serving, const ServedTask& task, const ServedBatch& batch) {
  const Spell& decode = batch.decode;
  const double share = serving.busy_share;
  const Seconds reading = batch.sequences * task.prompt / task.answer * batch.prompt_token.time;
  const Seconds each = batch.sequences / batch.replicas * serving.sequence_time;
  const Watts handling = share * decode.power + (1 - share) * batch.rest;
  const Seconds round = decode.time + reading + each;
  const Joules energy =
      decode.power * decode.time + batch.prompt_token.power * reading + handling * each;
  return {round, energy / round};
}

}  // namespace triplepoint::calibrate
