// SPDX-License-Identifier: MIT
// Where the callbacks that -fsanitize=thread and -fsanitize=alignment,bounds,signed-integer-overflow,shift put into a
// kernel's code lead. The names are the compiler's. This file itself is compiled without them.
#include "checks.h"

#include <stdint.h>
#include <stdio.h>

using namespace simulated;

image_checks simulated_checks = {checks_version, __FILE__, nullptr};

#define CALLER __builtin_return_address(0)

// Constructors of the image run before the driver has filled in its services.
static void report(const volatile void *address, size_t bytes, unsigned how, const void *code) {
  if (simulated_checks.host) simulated_checks.host->touched(const_cast<const void *>(address), bytes, how, code);
}

// The orders of <stdatomic.h>: of 3 and above, all are at least a release.
static unsigned release_of(int order) { return order >= __ATOMIC_RELEASE ? unsigned{touch_release} : 0u; }

template <typename Word, typename Change>
static Word change(volatile Word *at, int order, const void *code, Change changed) {
  report(at, sizeof *at, touch_read | touch_write | touch_atomic | release_of(order), code);
  Word old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &old, changed(old), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return old;
}

template <typename Word>
static bool compare_exchange(volatile Word *at, Word *wanted, Word with, int order, const void *code) {
  report(at, sizeof *at, touch_read | touch_write | touch_atomic | release_of(order), code);
  return __atomic_compare_exchange_n(at, wanted, with, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

extern "C" {

void __tsan_init() {}

#define PLAIN(bytes)                                                                                                   \
  void __tsan_read##bytes(void *at) { report(at, bytes, touch_read, CALLER); }                                         \
  void __tsan_write##bytes(void *at) { report(at, bytes, touch_write, CALLER); }                                       \
  void __tsan_volatile_read##bytes(void *at) { report(at, bytes, touch_read | touch_atomic, CALLER); }                 \
  void __tsan_volatile_write##bytes(void *at) { report(at, bytes, touch_write | touch_atomic, CALLER); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
#undef PLAIN

void __tsan_read_range(void *at, size_t bytes) { report(at, bytes, touch_read, CALLER); }
void __tsan_write_range(void *at, size_t bytes) { report(at, bytes, touch_write, CALLER); }

#define CHANGE(bits, name, expression)                                                                                 \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *at, uint##bits##_t by, int order) {             \
    return change(at, order, CALLER, [by](uint##bits##_t old) { return static_cast<uint##bits##_t>(expression); });    \
  }
#define ATOMIC(bits)                                                                                                   \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int) {                                  \
    report(at, bits / 8, touch_read | touch_atomic, CALLER);                                                           \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                      \
  }                                                                                                                    \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order) {                     \
    report(at, bits / 8, touch_write | touch_atomic | release_of(order), CALLER);                                      \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                     \
  }                                                                                                                    \
  CHANGE(bits, exchange, (static_cast<void>(old), by))                                                                 \
  CHANGE(bits, fetch_add, old + by)                                                                                    \
  CHANGE(bits, fetch_sub, old - by)                                                                                    \
  CHANGE(bits, fetch_and, old &by)                                                                                     \
  CHANGE(bits, fetch_or, old | by)                                                                                     \
  CHANGE(bits, fetch_xor, old ^ by)                                                                                    \
  CHANGE(bits, fetch_nand, ~(old & by))                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *at, uint##bits##_t *wanted,               \
                                                    uint##bits##_t with, int order, int) {                             \
    return compare_exchange(at, wanted, with, order, CALLER);                                                          \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t *at, uint##bits##_t *wanted,                 \
                                                  uint##bits##_t with, int order, int) {                               \
    return compare_exchange(at, wanted, with, order, CALLER);                                                          \
  }
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
#undef ATOMIC
#undef CHANGE

// A fence of acquire-release order is one for the block only.
void __tsan_atomic_thread_fence(int order) {
  if (simulated_checks.host) simulated_checks.host->fence(order == __ATOMIC_SEQ_CST);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}

// The linker leads the kernel's calls of these three here.
void *__real_memcpy(void *into, const void *from, size_t bytes);
void *__real_memmove(void *into, const void *from, size_t bytes);
void *__real_memset(void *into, int value, size_t bytes);
void *__wrap_memcpy(void *into, const void *from, size_t bytes) {
  report(from, bytes, touch_read, CALLER);
  report(into, bytes, touch_write, CALLER);
  return __real_memcpy(into, from, bytes);
}
void *__wrap_memmove(void *into, const void *from, size_t bytes) {
  report(from, bytes, touch_read, CALLER);
  report(into, bytes, touch_write, CALLER);
  return __real_memmove(into, from, bytes);
}
void *__wrap_memset(void *into, int value, size_t bytes) {
  report(into, bytes, touch_write, CALLER);
  return __real_memset(into, value, bytes);
}
}

// What the compiler tells of undefined behaviour: records that it lays down beside the code.
struct code_location {
  const char *file;
  uint32_t line, column;
};
struct type_descriptor {
  uint16_t kind, info; // kind 0 is an integer: info holds whether it is signed, and the logarithm of its bits above
  char name[];
};
struct overflow_data {
  code_location location;
  const type_descriptor *type;
};
struct shift_data {
  code_location location;
  const type_descriptor *left, *right;
};
struct bounds_data {
  code_location location;
  const type_descriptor *array, *index;
};
struct mismatch_data {
  code_location location;
  const type_descriptor *type;
  unsigned char alignment_log, kind;
};

static void misuse(const code_location &at, const char *text) {
  simulated_checks.host->misuse(text, {at.file, static_cast<int>(at.line)});
}

static bool is_signed(const type_descriptor &type) { return type.info & 1; }

// A value of at most 64 bits is passed as it is; of a wider one, which no CUDA kernel has, the pointer is shown.
static long long value_of(const type_descriptor &type, uintptr_t passed) {
  const unsigned bits = 1u << (type.info >> 1);
  if (bits >= 64) return static_cast<long long>(passed);
  const uint64_t low = passed & ((uint64_t{1} << bits) - 1);
  const bool is_negative = is_signed(type) && (low >> (bits - 1) & 1);
  return static_cast<long long>(is_negative ? low | ~uint64_t{0} << bits : low);
}

static void overflow(const overflow_data &data, const char *sign, uintptr_t left, uintptr_t right) {
  char text[160];
  snprintf(text, sizeof text, "a signed overflow: %lld %s %lld does not fit into %s", value_of(*data.type, left), sign,
           value_of(*data.type, right), data.type->name);
  misuse(data.location, text);
}

extern "C" {

void __ubsan_handle_add_overflow_abort(overflow_data *data, uintptr_t left, uintptr_t right) {
  overflow(*data, "+", left, right);
}
void __ubsan_handle_sub_overflow_abort(overflow_data *data, uintptr_t left, uintptr_t right) {
  overflow(*data, "-", left, right);
}
void __ubsan_handle_mul_overflow_abort(overflow_data *data, uintptr_t left, uintptr_t right) {
  overflow(*data, "*", left, right);
}
void __ubsan_handle_divrem_overflow_abort(overflow_data *data, uintptr_t left, uintptr_t right) {
  overflow(*data, "/", left, right);
}
void __ubsan_handle_negate_overflow_abort(overflow_data *data, uintptr_t value) { overflow(*data, "-", 0, value); }

void __ubsan_handle_shift_out_of_bounds_abort(shift_data *data, uintptr_t left, uintptr_t right) {
  char text[160];
  snprintf(text, sizeof text, "a bad shift: %lld of %s by %lld bits", value_of(*data->left, left), data->left->name,
           value_of(*data->right, right));
  misuse(data->location, text);
}

void __ubsan_handle_out_of_bounds_abort(bounds_data *data, uintptr_t index) {
  char text[160];
  snprintf(text, sizeof text, "index %lld is out of bounds of %s", value_of(*data->index, index), data->array->name);
  misuse(data->location, text);
}

void __ubsan_handle_type_mismatch_v1_abort(mismatch_data *data, uintptr_t address) {
  char text[160];
  snprintf(text, sizeof text, "a misaligned address: 0x%llx, where %s needs a multiple of %u",
           static_cast<unsigned long long>(address), data->type->name, 1u << data->alignment_log);
  misuse(data->location, text);
}
}
