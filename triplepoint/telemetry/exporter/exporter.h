// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/http/server.h"
#include "triplepoint/telemetry/exporter/exposition.h"
#include "triplepoint/telemetry/live/live.h"

namespace triplepoint::telemetry {

struct ExporterOptions {
  HttpOptions http;
  SamplingPlan plan;
  ExpositionOptions page;
  std::vector<JobLabels> jobs;   // besides those of the file
  std::optional<Path> job_file;  // read again for every page
};

/// This node for Prometheus: /metrics, and for scripts the same as /snapshot.json.
///
/// A separate thread reads the sensors, at the plan's interval, independent of requests; a page is
/// made from the latest readings and costs no call into a driver.
class Exporter {
 public:
  /// Binds, and begins to measure. Errors: the address, a job file that cannot be read.
  static Result<std::unique_ptr<Exporter>> open(Sensors sensors, const ExporterOptions& options);

  std::string address() const { return server_->address(); }
  Result<void> serve(const std::function<bool()>& wants_stop);
  void stop() { server_->stop(); }

 private:
  Exporter(Sensors sensors, const ExporterOptions& options);
  HttpResponse answer(const HttpRequest& request);
  HttpResponse metrics();
  std::vector<JobLabels> jobs();

  ExporterOptions options_;
  Live live_;
  std::unique_ptr<HttpServer> server_;
  std::vector<JobLabels> file_jobs_;  // as last read without an error
  int64_t scrapes_ = 0;
};

}  // namespace triplepoint::telemetry
