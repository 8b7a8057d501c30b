// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/telemetry/sensor_opening.h"
#include "triplepoint/tui/top_screen.h"

namespace triplepoint::tui {

/// Where `top` gets the nodes it shows from. Never waits: what is slow has its own thread.
class TopSource {
 public:
  TopSource() = default;
  TopSource(const TopSource&) = delete;
  TopSource(TopSource&&) = delete;
  TopSource& operator=(const TopSource&) = delete;
  TopSource& operator=(TopSource&&) = delete;
  virtual ~TopSource() = default;

  /// Brings these hosts up to date; a source makes as many as it has nodes.
  virtual void update(std::vector<TopHost>& hosts) = 0;
};

/// This node. With `once`, two readings right away instead of a thread.
Result<std::unique_ptr<TopSource>> local_source(const telemetry::SensorOptions& options,
                                                Seconds interval, bool once);

struct RemoteOptions {
  std::optional<std::string> token;
  Seconds interval = 1 * unit::s;
};
/// Other nodes by their exporters: "host:9400", "http://host:9400".
std::unique_ptr<TopSource> remote_source(const std::vector<std::string>& hosts,
                                         const RemoteOptions& options);

}  // namespace triplepoint::tui
