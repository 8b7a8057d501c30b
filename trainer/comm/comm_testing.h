// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "trainer/comm/endpoint.h"
#include "trainer/comm/transport.h"

/// Inside of ranks: doctest's CHECK would take a lock for every number.
#define TPT_SAME(a, b)                               \
  do {                                               \
    if (!((a) == (b))) FAIL_CHECK(#a " is not " #b); \
  } while (false)

namespace triplepoint::trainer::testing {

/// Runs work(endpoint) on each of these transports, one thread each; what a rank throws fails the
/// test.
template <typename Work>
void on_transports(std::vector<std::unique_ptr<Transport>> transports,
                   const EndpointSettings& settings, const Work& work) {
  std::vector<std::thread> threads;
  for (std::unique_ptr<Transport>& transport : transports)
    threads.emplace_back([&] {
      Endpoint endpoint(std::move(transport), settings);
      try {
        work(endpoint);
      } catch (const std::exception& error) {
        endpoint.abort(error.what());
        FAIL_CHECK(std::string(error.what()));
      }
    });
  for (std::thread& thread : threads)
    thread.join();
}

/// work(endpoint, communicator of all), on ranks that are threads.
template <typename Work>
void on_ranks(int ranks, const EndpointSettings& settings, const Work& work) {
  on_transports(thread_transports(ranks), settings, [&](Endpoint& endpoint) {
    std::vector<int> everybody(as_size(ranks));
    std::iota(everybody.begin(), everybody.end(), 0);
    const auto all = endpoint.communicator(spec::GroupKind::data, everybody);
    work(endpoint, *all);
  });
}

}  // namespace triplepoint::trainer::testing
