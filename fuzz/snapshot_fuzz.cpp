// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/exporter/exposition.h"
#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/live/view.h"

using namespace triplepoint;

/// What another node sends is shown without harm, and comes back as it was.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto snapshot =
      telemetry::parse_snapshot({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!snapshot) return 0;
  for (std::size_t i = 0; i < snapshot->devices.size(); ++i)
    (void)view_gpu(*snapshot, static_cast<int32_t>(i)).cause();
  (void)view_node(*snapshot);
  (void)snapshot_csv(*snapshot, true);
  (void)telemetry::exposition(*snapshot, {}, {}, {.dcgm_names = true, .version = "1"});
  const std::string text = json_text(snapshot_json(*snapshot), -1);
  const auto again = telemetry::parse_snapshot(text, "again");
  TPT_ENSURE(again && json_text(snapshot_json(*again), -1) == text);
  return 0;
}
