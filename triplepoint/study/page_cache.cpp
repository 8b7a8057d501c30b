// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/page_cache.h"

#include <algorithm>

namespace triplepoint::study {
namespace {

constexpr std::size_t most_orders = 64;  // who asks for more must ask again

}  // namespace

PageCache::~PageCache() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ordered_.notify_all();
  if (worker_) worker_->join();
}

bool PageCache::is_ordered(const std::string& key, const std::string& stamp) const {
  return std::any_of(orders_.begin(), orders_.end(),
                     [&](const Order& order) { return order.key == key && order.stamp == stamp; });
}

std::optional<PageCache::Page> PageCache::find(const std::string& key, const std::string& stamp,
                                               const Maker& maker,
                                               std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto is_there = [&] {
    const auto found = pages_.find(key);
    return found != pages_.end() && found->second.stamp == stamp;
  };
  if (is_there()) return pages_[key];
  if (!is_ordered(key, stamp)) {
    if (orders_.size() >= most_orders) return std::nullopt;
    orders_.push_back({key, stamp, maker});
    if (!worker_) worker_.emplace([this] { work(); });
    ordered_.notify_one();
  }
  // A queued page does not block the server's thread.
  if (orders_.size() > 1) return std::nullopt;
  if (!finished_.wait_for(lock, patience, is_there)) return std::nullopt;
  return pages_[key];
}

void PageCache::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ordered_.wait(lock, [&] { return ends_ || !orders_.empty(); });
    if (ends_) return;
    const Order order = orders_.front();
    lock.unlock();
    Result<std::string> made = order.maker();
    lock.lock();
    orders_.pop_front();
    if (made)
      keep(order.key, {*std::move(made), order.stamp, false});
    else
      keep(order.key, {made.error().what, order.stamp, true});
    finished_.notify_all();
  }
}

void PageCache::keep(const std::string& key, Page page) {
  const auto forget = [&](const std::string& which) {
    const auto found = pages_.find(which);
    if (found == pages_.end()) return;
    bytes_ -= found->second.text.size();
    pages_.erase(found);
    std::erase(oldest_first_, which);
  };
  forget(key);
  bytes_ += page.text.size();
  pages_[key] = std::move(page);
  oldest_first_.push_back(key);
  while (bytes_ > most_bytes_ && oldest_first_.size() > 1)
    forget(std::string(oldest_first_.front()));
}

}  // namespace triplepoint::study
