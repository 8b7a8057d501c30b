// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/http_server.h"

#include "triplepoint/report/pages/index_page.h"
#include "triplepoint/study/page_cache.h"

namespace triplepoint::study {

/// A folder of studies and runs as web pages.
///
///   /                     what is there, with headline numbers; /list.json: the same for programs
///   /a/b.run, /a/b.html   the page of the run a/b.run
///   /a/report.html        the page of the study in folder a
///   /compare?a=X&b=Y      two runs side by side
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
  void add_run(const Path& file);
  void add_study(const Path& folder);
  std::string address_of(const Path& path) const;

  HttpResponse index(const HttpRequest& request);
  HttpResponse list();
  HttpResponse run_page(const std::string& address, const HttpRequest& request);
  HttpResponse study_page(const std::string& address, const HttpRequest& request);
  HttpResponse compare(const HttpRequest& request);
  HttpResponse page(const std::string& key, const std::string& stamp, const PageCache::Maker& maker,
                    const HttpRequest& request);
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
  PageCache page_cache_;
};

}  // namespace triplepoint::study
