// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/http/server.h"
#include "triplepoint/report/pages/index_page.h"

namespace triplepoint::app {

/// Pages rendered on request by one worker thread and cached while their source is unchanged. A
/// request never waits longer than `patience`: a page that takes longer is ready for the next
/// request.
class PageCache {
 public:
  struct Page {
    std::string text;
    std::string stamp;      // of what it shows, when it was made
    bool is_wrong = false;  // the text is what went wrong, in a sentence
  };
  using Maker = std::function<Result<std::string>()>;

  explicit PageCache(std::size_t most_bytes = std::size_t{256} << 20U) : most_bytes_(most_bytes) {}
  PageCache(const PageCache&) = delete;
  PageCache(PageCache&&) = delete;
  PageCache& operator=(PageCache&&) = delete;
  PageCache& operator=(const PageCache&) = delete;
  ~PageCache();

  /// The page of `key`, if it was made from what has this stamp; else it is made, and nothing is
  /// returned if that is not done within `patience`.
  std::optional<Page> find(const std::string& key, const std::string& stamp, const Maker& maker,
                           std::chrono::milliseconds patience);

 private:
  struct Order {
    std::string key, stamp;
    Maker maker;
  };
  bool is_ordered(const std::string& key, const std::string& stamp) const;
  void work();
  void keep(const std::string& key, Page page);

  const std::size_t most_bytes_;
  std::mutex mutex_;
  std::condition_variable ordered_, finished_;
  std::map<std::string, Page> pages_;
  std::deque<std::string> oldest_first_;  // keys of pages, by when they were made
  std::size_t bytes_ = 0;
  std::deque<Order> orders_;  // the first one is being made
  bool ends_ = false;
  std::optional<std::thread> worker_;
};

/// The explorer's page, of the installed files or where `make explore` writes it; else how to build
/// it.
Result<std::string> explorer_page();

/// A folder of studies and runs as web pages.
///
///   /                     what is there, with headline numbers; /list.json: the same for programs
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

}  // namespace triplepoint::app
