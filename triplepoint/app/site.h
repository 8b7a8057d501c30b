// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/http/server.h"
#include "triplepoint/report/pages/index_page.h"

namespace triplepoint::app {

/// The explorer's page, of the installed files or where `make explore` writes it; else how to build
/// it.
Result<std::string> explorer_page();

/// A folder of studies and runs as web pages.
///
///   /                     what is there, with headline numbers
///   /a/b.run, /a/b.html   the page of the run a/b.run
///   /a/report.html        the page of the study in folder a
///   /compare?a=X&b=Y      two runs side by side
///   /explore              the explorer
///
/// Only what a search of the folder found can be asked for: no other file can be reached, whatever
/// the path says.
class Site {
 public:
  explicit Site(Path folder) : folder_(std::move(folder)) {}

  HttpResponse answer(const HttpRequest& request);

 private:
  struct Item {
    Path path;                   // of the .run, or of the study's folder
    std::string stamp;           // changes when the content does
    int64_t changed = 0;         // seconds of Unix time
    int64_t jobs = 0, runs = 0;  // of a study
  };
  using Items = std::map<std::string, Item>;  // by address, without the first slash

  void search();
  bool is_inside(const Path& file) const;
  void add_run(const Path& file);
  void add_study(const Path& folder);
  std::string address_of(const Path& path) const;

  HttpResponse index(const HttpRequest& request);
  HttpResponse run_page(const std::string& address, const HttpRequest& request);
  HttpResponse study_page(const std::string& address, const HttpRequest& request);
  HttpResponse compare(const HttpRequest& request);
  /// What `make` returns, unless the browser has it already.
  static HttpResponse page(const std::string& stamp, const HttpRequest& request,
                           const std::function<Result<std::string>()>& make);
  std::vector<report::IndexEntry> entries();
  report::IndexEntry entry_of_run(const std::string& address, const Item& item);
  const Item* find_run(const std::string& address) const;

  Path folder_;
  Items runs_, studies_;
  std::chrono::steady_clock::time_point searched_{};
  struct CachedEntry {
    std::string stamp;
    report::IndexEntry entry;
  };
  std::map<std::string, CachedEntry> peeked_;
};

}  // namespace triplepoint::app
