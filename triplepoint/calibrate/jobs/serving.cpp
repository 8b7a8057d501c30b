// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/serving.h"

#include "triplepoint/calibrate/jobs/calibration_file.h"

namespace triplepoint::calibrate {

Result<Serving> load_serving(const spec::Library& library) {
  const CalibrationFile file = TPT_TRY(CalibrationFile::read(library, "serving.toml"));
  const spec::TomlValue* engine = TPT_TRY(file.find(file.root(), "engine"));
  return Serving{.prefill_tokens = TPT_TRY(file.number(*engine, "prefill_tokens")),
                 .sequence_time = TPT_TRY(file.time(*engine, "sequence_time")),
                 .busy_share = TPT_TRY(file.number(*engine, "busy_share"))};
}

PowerInterval serving_round(const Serving& serving, const Requests& requests,
                            const ServedBatch& batch) {
  const PowerInterval& decode = batch.decode;
  const double share = serving.busy_share;
  const Seconds reading =
      batch.sequences * requests.prompt / requests.answer * batch.prompt_token.time;
  const Seconds each = batch.sequences / batch.replicas * serving.sequence_time;
  const Watts handling = share * decode.power + (1 - share) * batch.rest;
  const Seconds round = decode.time + reading + each;
  const Joules energy =
      decode.power * decode.time + batch.prompt_token.power * reading + handling * each;
  return {round, energy / round};
}

}  // namespace triplepoint::calibrate
