// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/site.h"

#include <algorithm>

#include <fmt/chrono.h>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/app/runner.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/report/compare/compare.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/store/store.h"

namespace triplepoint::app {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr int deepest = 6;  // folders below the one that is served
constexpr std::size_t most_items = 20'000;
constexpr auto search_interval = std::chrono::seconds(1);

std::string wall_clock(int64_t unix_s) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(unix_s)));
}

int64_t unix_seconds(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

/// Size and time of the last change; empty if the file is gone.
std::string stamp_of(const Path& file) {
  std::error_code problem;
  const auto time = fs::last_write_time(file, problem);
  if (problem) return "";
  const auto size = fs::file_size(file, problem);
  return fmt::format("{}-{}", time.time_since_epoch().count(), problem ? 0 : size);
}

std::string encoded(std::string_view path) {
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                          (byte >= '0' && byte <= '9') || c == '/' || c == '-' || c == '_' ||
                          c == '.' || c == '~';
    text += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return text;
}

/// What scripts may do: those of a page, and the explorer's (web/explorer.html).
constexpr const char* page_scripts = "script-src 'unsafe-inline'";
constexpr const char* explorer_scripts =
    "script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:";

HttpResponse html(std::string body, int status = 200, const char* scripts = page_scripts) {
  // The policy of the page itself (web/template.html), and what only a header can forbid.
  return {status,
          "text/html; charset=utf-8",
          std::move(body),
          {{"Cache-Control", "no-cache"},
           {"Content-Security-Policy",
            fmt::format("default-src 'none'; style-src 'unsafe-inline'; {}; img-src data: blob:; "
                        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                        scripts)},
           {"X-Content-Type-Options", "nosniff"},
           {"X-Frame-Options", "DENY"}}};
}

HttpResponse not_found(const std::string& address) {
  return html(report::notice_page("Not here", fmt::format("There is no run or study at /{}; it may "
                                                          "have been moved since.",
                                                          address)),
              404);
}

/// "a/b.run" of "a/b.html"; other addresses stay.
std::string run_address(const std::string& address) {
  return address.ends_with(".html") ? address.substr(0, address.size() - 5) + ".run" : address;
}

int64_t jobs_in(const Path& plan) {
  const auto text = read_file(plan);
  if (!text) return 0;
  const auto json = parse_json(*text, plan.string());
  if (!json || !json->is_object() || !json->contains("jobs") || !(*json)["jobs"].is_array())
    return 0;
  return static_cast<int64_t>((*json)["jobs"].size());
}

HttpResponse explorer() {
  Result<std::string> page = explorer_page();
  if (page) return html(*std::move(page), 200, explorer_scripts);
  return html(report::notice_page("Explore", page.error().what), 404);
}

}  // namespace

Result<std::string> explorer_page() {
  const Path data = TPT_TRY(data_folder());
  const Path name = Path("explore") / "explore.html";
  const Path installed = data.parent_path() / name, built = data.parent_path() / "build" / name;
  for (const Path& file : {installed, built})
    if (path_exists(file)) return read_file(file);
  return error(
      "the explorer's page is not built (neither {} nor {} exists); run make explore "
      "in the source tree",
      installed.string(), built.string());
}

std::string Site::address_of(const Path& path) const {
  return path.lexically_relative(folder_).generic_string();
}

/// Whether the file lies below the folder that is served, links followed.
bool Site::is_inside(const Path& file) const {
  std::error_code failed;
  const Path real = fs::canonical(file, failed);
  if (failed) return false;
  const Path root = fs::canonical(folder_, failed);
  const Path below = real.lexically_relative(root);
  return !failed && !below.empty() && *below.begin() != "..";
}

void Site::add_run(const Path& file) {
  std::error_code ignored;
  const Path tail = file.string() + ".tail";  // a recording that still grows
  const bool grows = fs::exists(tail, ignored);
  const auto changed = fs::last_write_time(grows ? tail : file, ignored);
  runs_[address_of(file)] = {file, stamp_of(file) + (grows ? "+" + stamp_of(tail) : ""),
                             unix_seconds(changed), 0, 0};
}

void Site::add_study(const Path& folder) {
  const std::string relative = address_of(folder);
  const std::string address = relative == "." ? "report.html" : relative + "/report.html";
  std::error_code ignored;
  const Path plan = folder / "study.json";
  studies_[address] = {folder, stamp_of(plan), unix_seconds(fs::last_write_time(plan, ignored)),
                       jobs_in(plan), 0};
}

/// Not more often than once a second, however many ask.
void Site::search() {
  if (searched_ != Clock::time_point{} && Clock::now() - searched_ < search_interval) return;
  searched_ = Clock::now();
  runs_.clear();
  studies_.clear();
  std::error_code problem;
  fs::recursive_directory_iterator at(folder_, fs::directory_options::skip_permission_denied,
                                      problem);
  if (fs::exists(folder_ / "study.json", problem)) add_study(folder_);
  for (; at != fs::recursive_directory_iterator(); at.increment(problem)) {
    if (runs_.size() + studies_.size() >= most_items) break;
    if (at.depth() >= deepest) at.disable_recursion_pending();
    if (at->is_regular_file(problem) && at->path().extension() == ".run" && is_inside(at->path()))
      add_run(at->path());
    if (at->is_directory(problem) && fs::exists(at->path() / "study.json", problem) &&
        is_inside(at->path() / "study.json"))
      add_study(at->path());
  }
  for (auto& [address, study] : studies_) {
    for (const auto& [run_address, run] : runs_) {
      if (run.path.parent_path() != study.path / "runs") continue;
      ++study.runs;
      study.changed = std::max(study.changed, run.changed);
    }
    study.stamp += fmt::format("-{}-{}", study.runs, study.changed);
  }
}

const Site::Item* Site::find_run(const std::string& address) const {
  const auto found = runs_.find(run_address(address));
  return found == runs_.end() ? nullptr : &found->second;
}

HttpResponse Site::answer(const HttpRequest& request) {
  search();
  const std::string address = request.path.substr(1);
  if (address.empty() || address == "index.html") return index(request);
  if (address == "compare") return compare(request);
  if (address == "explore") return explorer();
  if (studies_.contains(address)) return study_page(address, request);
  const std::string as_folder = address + (address.ends_with("/") ? "" : "/") + "report.html";
  if (studies_.contains(as_folder)) return study_page(as_folder, request);
  if (find_run(address) != nullptr) return run_page(address, request);
  return not_found(address);
}

// ---- what is there

report::IndexEntry Site::entry_of_run(const std::string& address, const Item& item) {
  CachedEntry& peeked = peeked_[address];
  if (peeked.stamp == item.stamp) return peeked.entry;
  const Result<run::Run> header = run::peek(item.path.string());
  report::IndexEntry entry;
  if (header) {
    entry = report::index_entry(*header);
  } else {
    entry.state = header.error().what;
    entry.is_broken = true;
  }
  if (contains(item.stamp, '+')) entry.state += ", growing";
  entry.name = address.substr(0, address.size() - 4);
  entry.link = "/" + encoded(entry.name) + ".html";
  entry.changed = wall_clock(item.changed);
  peeked = {item.stamp, entry};
  return entry;
}

std::vector<report::IndexEntry> Site::entries() {
  std::vector<std::pair<int64_t, report::IndexEntry>> found;
  for (const auto& [address, study] : studies_) {
    report::IndexEntry entry;
    entry.is_study = true;
    const std::string folder = address_of(study.path);
    entry.name = folder == "." ? folder_.filename().string() : folder;
    entry.link = "/" + encoded(address);
    entry.state = fmt::format("{} of {} jobs have a run", study.runs, study.jobs);
    entry.changed = wall_clock(study.changed);
    found.emplace_back(study.changed, std::move(entry));
  }
  for (const auto& [address, run] : runs_)
    found.emplace_back(run.changed, entry_of_run(address, run));
  std::erase_if(peeked_, [&](const auto& peeked) { return !runs_.contains(peeked.first); });
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.first > b.first; });
  return mapped(found, [](auto& one) { return std::move(one.second); });
}

HttpResponse Site::index(const HttpRequest&) {
  HttpResponse response = html(report::index_page(folder_.string(), entries()));
  response.headers.emplace_back("Refresh", "15");
  return response;
}

// ---- pages

HttpResponse Site::page(const std::string& stamp, const HttpRequest& request,
                        const std::function<Result<std::string>()>& make) {
  const std::string tag = fmt::format("\"{}\"", stamp);
  if (request.header("if-none-match") == tag) return {304, "text/html; charset=utf-8", "", {}};
  Result<std::string> made = make();
  if (!made) return html(report::notice_page("No page", made.error().what), 500);
  HttpResponse response = html(*std::move(made));
  response.headers.emplace_back("ETag", tag);
  return response;
}

HttpResponse Site::run_page(const std::string& address, const HttpRequest& request) {
  const Item& item = *find_run(address);
  return page(item.stamp, request, [&]() -> Result<std::string> {
    return page_of_run(TPT_TRY(run::load(item.path.string())));
  });
}

HttpResponse Site::study_page(const std::string& address, const HttpRequest& request) {
  const Item& item = studies_.at(address);
  return page(item.stamp, request, [&]() -> Result<std::string> {
    return report::study_page(TPT_TRY(load_study_source(item.path.string())));
  });
}

HttpResponse Site::compare(const HttpRequest& request) {
  std::vector<std::string> names, files;
  std::string stamp;
  for (const char* side : {"a", "b"}) {
    const auto wanted = request.query.find(side);
    if (wanted == request.query.end())
      return html(
          report::notice_page("Compare what", "Say which runs, as in /compare?a=X.run&b=Y.run."),
          400);
    const Item* item = find_run(wanted->second);
    if (item == nullptr) return not_found(wanted->second);
    names.push_back(item->path.stem().string());
    files.push_back(item->path.string());
    stamp += item->stamp + "-";
  }
  if (names[0] == names[1])
    for (std::size_t i = 0; i < 2; ++i)
      names[i] = address_of(files[i]);
  return page(stamp, request, [&]() -> Result<std::string> {
    std::vector<report::Side> sides;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const run::Run run = TPT_TRY(run::load(files[i]));
      sides.push_back(report::side_of(run, metrics::measure(run), names[i]));
    }
    return report::document_page(
        report::comparison_document(report::compare_runs(std::move(sides)), true));
  });
}

}  // namespace triplepoint::app
