// SPDX-License-Identifier: Apache-2.0
#pragma once

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

#include "triplepoint/base/result.h"

namespace triplepoint::study {

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

}  // namespace triplepoint::study
