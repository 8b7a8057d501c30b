// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "triplepoint/base/result.h"

namespace triplepoint::telemetry {

/// A shared library opened at run time: nothing of a vendor is linked.
class Library {
 public:
  static Result<std::unique_ptr<Library>> open(const std::string& name);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  Library(Library&&) = delete;
  Library& operator=(Library&&) = delete;
  ~Library();

  /// The first of these symbols that the library has, newest name first; null if it has none.
  template <class Function>
  void find(Function*& function, std::initializer_list<const char*> names) const {
    function = reinterpret_cast<Function*>(symbol(names));
  }

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* symbol(std::initializer_list<const char*> names) const;
  void* handle_;
};

}  // namespace triplepoint::telemetry
