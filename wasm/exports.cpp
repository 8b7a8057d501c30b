// SPDX-License-Identifier: Apache-2.0
// What the page calls: memory to write a request into, files, and one call, JSON in, JSON out.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "triplepoint/base/json.h"

#include "wasm/calls.h"
#include "wasm/host.h"

namespace {

std::string answer;  // of the last call

std::string answer_to(std::string_view name, std::string_view request) try {
  return triplepoint::explore::call(name, request);
} catch (const std::exception& problem) {
  return triplepoint::json_text(triplepoint::Json{{"error", problem.what()}}, -1);
}

}  // namespace

extern "C" {

// Debian's compiler runtime was built with stack protection.
std::uintptr_t __stack_chk_guard = 0x5bd1e995;  // NOLINT(bugprone-reserved-identifier)
[[noreturn]] void __stack_chk_fail() {
  std::abort();
}  // NOLINT(bugprone-reserved-identifier)

// The one thread never ends, and neither do its objects.
int __cxa_thread_atexit(void (*)(void*), void*, void*) {
  return 0;
}  // NOLINT(bugprone-reserved-identifier)

[[clang::export_name("tpt_alloc")]] void* tpt_alloc(std::size_t bytes) {
  return std::malloc(bytes);
}
[[clang::export_name("tpt_free")]] void tpt_free(void* memory) {
  std::free(memory);
}
[[clang::export_name("tpt_mount")]] int tpt_mount(const char* pack, std::size_t bytes) {
  return triplepoint::mount({pack, bytes}) ? 1 : 0;
}
/// The text lives until the next call; tpt_length() is its length.
[[clang::export_name("tpt_call")]] const char* tpt_call(const char* name, std::size_t name_bytes,
                                                        const char* request, std::size_t bytes) {
  answer = answer_to({name, name_bytes}, {request, bytes});
  return answer.data();
}
[[clang::export_name("tpt_length")]] std::size_t tpt_length() {
  return answer.size();
}

}  // extern "C"
