// SPDX-License-Identifier: MIT
// Atomics, fences, bit and fast-math functions of CUDA C++ for kernels compiled by g++. The fast functions are computed
// with the exact ones: a test may not rely on their rounding. Included by cuda_builtins.h.
#ifndef SIMULATOR_DEVICE_CUDA_SCALARS_H
#define SIMULATOR_DEVICE_CUDA_SCALARS_H

#include <math.h>
#include <string.h>

namespace simulated {

template <typename To, typename From> To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}

// Replaces *at by change(*at) in one step and returns what was there.
template <typename Value, typename Change> Value replace(Value *at, Change change) {
  Value old, wanted;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  do wanted = change(old);
  while (!__atomic_compare_exchange(at, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

template <typename Value> struct same { using type = Value; };
template <typename Value> using same_t = typename same<Value>::type; // keeps an argument out of deduction

} // namespace simulated

template <typename Value> Value atomicAdd(Value *at, simulated::same_t<Value> by) {
  return simulated::replace(at, [by](Value old) { return static_cast<Value>(old + by); });
}
template <typename Value> Value atomicSub(Value *at, simulated::same_t<Value> by) {
  return simulated::replace(at, [by](Value old) { return static_cast<Value>(old - by); });
}
template <typename Value> Value atomicMax(Value *at, simulated::same_t<Value> with) {
  return simulated::replace(at, [with](Value old) { return old < with ? with : old; });
}
template <typename Value> Value atomicMin(Value *at, simulated::same_t<Value> with) {
  return simulated::replace(at, [with](Value old) { return with < old ? with : old; });
}
template <typename Value> Value atomicAnd(Value *at, simulated::same_t<Value> with) {
  return simulated::replace(at, [with](Value old) { return old & with; });
}
template <typename Value> Value atomicOr(Value *at, simulated::same_t<Value> with) {
  return simulated::replace(at, [with](Value old) { return old | with; });
}
template <typename Value> Value atomicXor(Value *at, simulated::same_t<Value> with) {
  return simulated::replace(at, [with](Value old) { return old ^ with; });
}
template <typename Value> Value atomicExch(Value *at, simulated::same_t<Value> with) {
  return simulated::replace(at, [with](Value) { return with; });
}
template <typename Value> Value atomicCAS(Value *at, simulated::same_t<Value> wanted, simulated::same_t<Value> with) {
  return simulated::replace(at, [wanted, with](Value old) { return old == wanted ? with : old; });
}
inline unsigned atomicInc(unsigned *at, unsigned limit) {
  return simulated::replace(at, [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned *at, unsigned limit) {
  return simulated::replace(at, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_ACQ_REL); } // a checked build knows it by its order
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) {}
#define __trap() KERNEL_TRAP("trap")

template <typename Value> Value __ldg(const Value *at) { return *at; }
template <typename Value> Value __ldcg(const Value *at) { return *at; }

inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
inline int __clz(int value) { return value ? __builtin_clz(static_cast<unsigned>(value)) : 32; }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline unsigned __float_as_uint(float value) { return simulated::bits_as<unsigned>(value); }
inline int __float_as_int(float value) { return simulated::bits_as<int>(value); }
inline float __uint_as_float(unsigned value) { return simulated::bits_as<float>(value); }
inline float __int_as_float(int value) { return simulated::bits_as<float>(value); }
// Each of the four lower digits of the selector chooses one of the eight bytes of (high, low).
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
  unsigned made = 0;
  for (unsigned i = 0; i < 4; i++) made |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return made;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a > b ? a : b; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline float __expf(float value) { return expf(value); }
inline float __exp2f(float value) { return exp2f(value); }
inline float __logf(float value) { return logf(value); }
inline float __log2f(float value) { return log2f(value); }
inline float __sinf(float value) { return sinf(value); }
inline float __cosf(float value) { return cosf(value); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float value) { return 1.0f / value; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __saturatef(float value) { return value < 0 ? 0 : value > 1 ? 1 : value; }
inline int __float2int_rn(float value) { return static_cast<int>(lrintf(value)); }

#endif
