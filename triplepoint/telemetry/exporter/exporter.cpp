// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/exporter.h"

#include <sys/resource.h>
#include <unistd.h>

#include "triplepoint/base/json.h"

namespace triplepoint::telemetry {
namespace {

double seconds_of(const timeval& time) {
  return as_real(time.tv_sec) + 1e-6 * as_real(time.tv_usec);
}

double process_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

/// The second number of /proc/self/statm, in pages.
std::optional<double> resident_bytes() {
  const auto text = read_file("/proc/self/statm");
  const std::size_t blank = text ? text->find(' ') : std::string::npos;
  if (blank == std::string::npos) return std::nullopt;
  return std::strtod(text->c_str() + blank, nullptr) * as_real(sysconf(_SC_PAGESIZE));
}

constexpr const char* index_page =
    "<!doctype html><meta charset=\"utf-8\"><title>triplepoint exporter</title>"
    "<h1>triplepoint exporter</h1><p><a href=\"/metrics\">/metrics</a> for Prometheus, "
    "<a href=\"/snapshot.json\">/snapshot.json</a> for scripts</p>\n";

}  // namespace

Exporter::Exporter(Sensors sensors, const ExporterOptions& options)
    : options_(options), live_(std::move(sensors), options.plan) {}

Result<std::unique_ptr<Exporter>> Exporter::open(Sensors sensors, const ExporterOptions& options) {
  std::unique_ptr<Exporter> exporter(new Exporter(std::move(sensors), options));
  if (options.job_file) exporter->file_jobs_ = TPT_TRY(read_job_file(*options.job_file));
  Exporter* self = exporter.get();
  exporter->server_ = TPT_TRY(HttpServer::open(
      options.http, [self](const HttpRequest& request) { return self->answer(request); }));
  exporter->live_.start();
  return exporter;
}

Result<void> Exporter::serve(const std::function<bool()>& wants_stop) {
  // Samples are taken five times a second, also without scrapes.
  return server_->serve([&] {
    live_.update();
    return wants_stop && wants_stop();
  });
}

std::vector<JobLabels> Exporter::jobs() {
  std::vector<JobLabels> all = options_.jobs;
  if (options_.job_file)
    if (auto read = read_job_file(*options_.job_file)) file_jobs_ = *std::move(read);
  all.insert(all.end(), file_jobs_.begin(), file_jobs_.end());
  return all;
}

HttpResponse Exporter::metrics() {
  ++scrapes_;
  const OwnCost cost{.sampler = live_.cost(),
                     .process_cpu_s = process_cpu_s(),
                     .resident_b = resident_bytes(),
                     .scrapes = scrapes_};
  HttpResponse response;
  response.content_type = exposition_content_type;
  response.body = exposition(live_.snapshot(), jobs(), cost, options_.page);
  return response;
}

HttpResponse Exporter::answer(const HttpRequest& request) {
  live_.update();
  if (request.path == "/metrics") return metrics();
  HttpResponse response;
  if (request.path == "/snapshot.json") {
    response.content_type = "application/json";
    response.body = json_text(snapshot_json(live_.snapshot()), -1) + "\n";
  } else if (request.path == "/") {
    response.content_type = "text/html; charset=utf-8";
    response.body = index_page;
  } else {
    response.status = 404;
    response.body = "there are /metrics and /snapshot.json\n";
  }
  return response;
}

}  // namespace triplepoint::telemetry
