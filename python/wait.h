// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <pybind11/pybind11.h>

#include "triplepoint/base/result.h"

#include "triplepoint/system/process.h"

namespace triplepoint::python {

/// Raises triplepoint.Error with this sentence.
[[noreturn]] void raise_error(const std::string& what);

/// The value of a result, or its error as an exception.
template <class T>
T value_or_raise(Result<T> result) {
  if (!result) raise_error(result.error().what);
  return take_value(std::move(result));
}

/// How far a long call is; its threads write, the calling thread reads.
struct Work {
  std::atomic<bool> stopped{false};  // Ctrl-C: what has not begun is left out
  std::atomic<size_t> done{0}, total{0};
};

namespace detail {

template <class T>
struct Outcome {
  Work work;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<T>> result;
};

/// What a task gave, with what it threw as a sentence.
template <class T, class Task>
Result<T> outcome_of(Task& task, Work& work) try {
  return task(work);
} catch (const std::bad_alloc&) {
  return error(
      "out of memory (the job or the file is larger than this machine's memory); give a smaller "
      "one");
} catch (const std::exception& problem) {
  return error(problem.what());
}

template <class T>
bool has_ended(Outcome<T>& outcome) {
  constexpr std::chrono::milliseconds between_looks{50};
  const pybind11::gil_scoped_release others_may_run;
  std::unique_lock lock(outcome.mutex);
  return outcome.changed.wait_for(lock, between_looks, [&] { return outcome.result.has_value(); });
}

}  // namespace detail

/// Runs `task(Work&) -> Result<T>` on a thread without the interpreter's lock. The calling thread
/// tells `progress(done, total)` meanwhile and listens for Ctrl-C, which raises KeyboardInterrupt
/// at once; the task, which owns what it uses, is told to stop and its result is dropped.
template <class T, class Task>
T wait_for(Task task, const pybind11::object& progress = pybind11::none()) {
  const auto outcome = std::make_shared<detail::Outcome<T>>();
  start_detached([outcome, task = std::move(task)]() mutable {
    Result<T> result = detail::outcome_of<T>(task, outcome->work);
    const std::lock_guard lock(outcome->mutex);
    outcome->result = std::move(result);
    outcome->changed.notify_all();
  });
  try {
    while (!detail::has_ended(*outcome)) {
      if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
      if (!progress.is_none()) progress(outcome->work.done.load(), outcome->work.total.load());
    }
  } catch (...) {
    outcome->work.stopped = true;
    throw;
  }
  return value_or_raise(*std::move(outcome->result));
}

}  // namespace triplepoint::python
