// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"

namespace triplepoint::spec {
namespace {

/// The schema of "cluster.gpu.kernels" in that of a job.
Json schema_at(const Json& schema, std::string_view dotted) {
  Json at = schema;
  for (const std::string& key : split(dotted, '.')) {
    const Json inner = at.at("properties").at(key);
    at = inner;
  }
  return at;
}

TEST_CASE("the schema of a job has every key that the reader knows") {
  const Json schema = file_schema(default_library(), "job");
  for (const std::string& key : job_keys()) {
    CAPTURE(key);
    CHECK_NOTHROW(schema_at(schema, key));
  }
  CHECK(schema.at("required") == Json({"model", "cluster"}));
  CHECK_NOTHROW(schema_at(schema, "nodes"));
}

TEST_CASE("a key is described with its comment, unit, allowed words and default") {
  const Json schema = file_schema(default_library(), "job");
  const Json limit = schema_at(schema, "environment.power_limit");
  CHECK(limit.at("description") == "of each device; default: its TDP; power in mW, W, kW, MW, GW");
  CHECK(schema_at(schema, "plan.recompute").at("enum") == Json({"none", "selective", "full"}));
  CHECK(schema_at(schema, "plan.reshard_after_forward").at("default") == true);
  CHECK(!schema_at(schema, "plan.global_batch_size").contains("default"));
  const Json names = schema_at(schema, "model").at("anyOf").at(0).at("enum");
  CHECK(names == Json(list_models(default_library())));
}

TEST_CASE("every kind of file has a schema, and every struct with keys its comments") {
  for (const std::string& kind : schema_kinds()) {
    CAPTURE(kind);
    const Json schema = file_schema(default_library(), kind);
    CHECK(schema.at("additionalProperties") == false);
    CHECK(schema.at("$schema") == "http://json-schema.org/draft-07/schema#");
  }
}

}  // namespace
}  // namespace triplepoint::spec
