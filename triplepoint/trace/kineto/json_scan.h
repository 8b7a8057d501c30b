// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace triplepoint::trace::json_scan {

// Steps over JSON text behind which Input keeps zero bytes: no scan runs past the end, because a
// zero stops all of them. Where that zero is the end of what was read, the caller reads on and
// tries the whole event again; so nothing here has a state.

/// What a scan may read behind the end of the text.
inline constexpr size_t padding = 64;
/// Deeper nesting is nothing a profiler writes.
inline constexpr int most_levels = 512;

/// Sixteen bytes, compared at once; one bit each in the results.
class SimdBytes {
 public:
#if defined(__SSE2__)
  explicit SimdBytes(const char* text)
      : bytes_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(text))) {}
  unsigned equal(char c) const {
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes_, _mm_set1_epi8(c))));
  }
  /// Quote, backslash, and everything below a space.
  unsigned string_marks() const {
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes_, _mm_set1_epi8(0x1f)), bytes_);
    const __m128i quote = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('"'));
    const __m128i escape = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('\\'));
    return static_cast<unsigned>(
        _mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, escape))));
  }
  /// Quote, brackets and braces, and the zero that ends it all.
  unsigned nesting_marks() const {
    // [ and { differ in one bit, as ] and } do.
    const __m128i folded = _mm_or_si128(bytes_, _mm_set1_epi8(0x20));
    const __m128i open = _mm_cmpeq_epi8(folded, _mm_set1_epi8('{'));
    const __m128i close = _mm_cmpeq_epi8(folded, _mm_set1_epi8('}'));
    const __m128i quote = _mm_cmpeq_epi8(bytes_, _mm_set1_epi8('"'));
    const __m128i zero = _mm_cmpeq_epi8(bytes_, _mm_setzero_si128());
    return static_cast<unsigned>(
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(open, close), _mm_or_si128(quote, zero))));
  }
  unsigned spaces() const {
    return equal(' ') | equal('\n') | equal('\r') | equal('\t');
  }

 private:
  __m128i bytes_;
#else
  explicit SimdBytes(const char* text) {
    std::memcpy(bytes_, text, sizeof bytes_);
  }
  unsigned equal(char c) const {
    return bits([c](char b) { return b == c; });
  }
  unsigned string_marks() const {
    return bits([](char b) { return b == '"' || b == '\\' || static_cast<uint8_t>(b) < 0x20; });
  }
  unsigned nesting_marks() const {
    return bits(
        [](char b) { return b == '"' || b == 0 || (b | 0x20) == '{' || (b | 0x20) == '}'; });
  }
  unsigned spaces() const {
    return bits([](char b) { return b == ' ' || b == '\n' || b == '\r' || b == '\t'; });
  }

 private:
  unsigned bits(auto test) const {
    unsigned all = 0;
    for (unsigned i = 0; i < 16; ++i)
      all |= static_cast<unsigned>(test(bytes_[i])) << i;
    return all;
  }
  char bytes_[16];
#endif
};

inline unsigned first_bit(unsigned bits) {
  return static_cast<unsigned>(__builtin_ctz(bits));
}

inline bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

inline const char* after_space(const char* at) {
  if (!is_space(*at)) return at;
  ++at;
  while (is_space(*at)) {
    const unsigned others = ~SimdBytes(at).spaces() & 0xffffU;
    if (others != 0) return at + first_bit(others);
    at += 16;
  }
  return at;
}

/// Where the string ends that begins behind an opening quote: its closing quote. A line break or a
/// zero ends it too, and then it is none: profilers break no lines inside of strings, so a quote
/// was missing or one too many.
inline const char* string_end(const char* at) {
  for (;;) {
    const unsigned marks = SimdBytes(at).string_marks();
    if (marks == 0) {
      at += 16;
      continue;
    }
    at += first_bit(marks);
    if (*at == '"' || *at == '\n' || *at == '\0') return at;
    if (*at == '\\' && at[1] != '\0') ++at;
    ++at;
  }
}

// These move `at` behind what they read. Where they fail, skip_* leave it where the text is wrong
// or ends; read_* leave it where it was.

bool skip_value(const char*& at);
/// An object or array.
bool skip_nested(const char*& at);
/// A string, from its opening quote; `text` is what is between the quotes, escapes as they are.
inline bool skip_string(const char*& at, std::string_view& text) {
  const char* const begin = at + 1;
  at = string_end(begin);
  if (*at != '"') return false;
  text = {begin, static_cast<size_t>(at - begin)};
  ++at;
  return true;
}

// Numbers may stand in quotes, as the profilers of 2021 wrote them.

/// A whole number; a fraction is rounded half up.
bool read_integer(const char*& at, int64_t& value);
/// Microseconds as decimal text, in whole nanoseconds: no float in between. More than three
/// decimals are rounded half up.
bool read_microseconds(const char*& at, int64_t& nanoseconds);
/// Any number, to a float's precision.
bool read_float(const char*& at, float& value);

}  // namespace triplepoint::trace::json_scan
