// SPDX-License-Identifier: MIT
// The instructions of ordito_device.h that CUDA C++ has no word for, as the simulated device does them. Included by it,
// behind cuda_builtins.h; what each function is for stands there.
#ifndef SIMULATOR_DEVICE_CUDA_PTX_H
#define SIMULATOR_DEVICE_CUDA_PTX_H

#include <stdint.h>
#include <string.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "interface.h"

namespace simulated {

enum ptx_meeting_kind { meeting_mma = 16, meeting_matrix_load };

// As a default argument: where the caller stands.
inline source_place place_of(const char *file, int line) { return {file, line}; }
#define SIMULATED_CALLER simulated::place_of(__builtin_FILE(), __builtin_LINE())

inline void check_aligned(const void *address, const char *text, source_place place) {
  if (reinterpret_cast<uintptr_t>(address) % 16) host()->trap(text, place);
}

// Between the copy's begin and its wait either the old or the new bytes may be there; these are neither. What an
// instrumented kernel knows about the memory does not change.
__attribute__((no_sanitize("thread"), noinline)) inline void spoil(void *into) { memset(into, 0xff, 16); }

inline float float_of_bf16(uint16_t bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
inline float float_of_f16(uint16_t bits) { return __half2float(__half(bits_as<__half_raw>(bits))); }

// What one lane shows of its matrices.
struct mma_fragment {
  uint32_t a[4], b[2];
};

// Rows g and g + 8 of a by columns 2t and 2t + 1 of b, which four lanes each hold together.
template <float (*number)(uint16_t)>
__attribute__((no_sanitize("thread"), noinline)) void multiply(float *sum, const mma_fragment *of_lane, unsigned lane) {
  const unsigned g = lane / 4, t = lane % 4;
  float a[2][16], b[2][16];
  for (unsigned k = 0; k < 16; k++) {
    const unsigned holder = k % 8 / 2, upper = k / 8, shift = k % 2 * 16;
    for (unsigned i = 0; i < 2; i++) {
      a[i][k] = number(static_cast<uint16_t>(of_lane[g * 4 + holder].a[upper * 2 + i] >> shift));
      b[i][k] = number(static_cast<uint16_t>(of_lane[(t * 2 + i) * 4 + holder].b[upper] >> shift));
    }
  }
  for (unsigned i = 0; i < 4; i++)
    for (unsigned k = 0; k < 16; k++) sum[i] += a[i / 2][k] * b[i % 2][k];
}

template <float (*number)(uint16_t)>
void mma(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, source_place place) {
  const seen_by_warp<mma_fragment> seen(0xffffffffu, meeting_mma, {{a[0], a[1], a[2], a[3]}, {b0, b1}}, place);
  multiply<number>(sum, seen.of_lane, lane());
}

typedef const uint16_t *matrix_row;

// Each lane reads by itself what it gets.
template <bool is_transposed> void load_matrix(uint32_t (&out)[4], const void *row, source_place place) {
  check_aligned(row, "ldmatrix of a row that is not aligned to 16 bytes", place);
  const seen_by_warp<matrix_row> seen(0xffffffffu, meeting_matrix_load, static_cast<matrix_row>(row), place);
  const unsigned g = lane() / 4, t = lane() % 4;
  for (unsigned i = 0; i < 4; i++) {
    const matrix_row *rows = seen.of_lane + i * 8;
    const uint32_t low = is_transposed ? rows[t * 2][g] : rows[g][t * 2];
    const uint32_t high = is_transposed ? rows[t * 2 + 1][g] : rows[g][t * 2 + 1];
    out[i] = low | high << 16;
  }
}

} // namespace simulated

inline void ord_copy16_async(void *shared, const void *global, bool is_valid,
                             simulated::source_place place = SIMULATED_CALLER) {
  simulated::check_aligned(shared, "cp.async to shared memory that is not aligned to 16 bytes", place);
  if (is_valid) simulated::check_aligned(global, "cp.async of memory that is not aligned to 16 bytes", place);
  simulated::host()->copy_begin({shared, is_valid ? global : nullptr}, place);
  simulated::spoil(shared);
}

inline void ord_copy_commit() { simulated::host()->copy_commit(); }

template <unsigned groups_left> void ord_copy_wait() {
  for (simulated::pending_copy copy; simulated::host()->copy_take(groups_left, &copy);) {
    uint4 value = {0, 0, 0, 0};
    if (copy.from) value = *static_cast<const uint4 *>(copy.from);
    *static_cast<uint4 *>(copy.into) = value;
  }
}

inline uint4 ord_load16(const void *global, simulated::source_place place = SIMULATED_CALLER) {
  simulated::check_aligned(global, "a load of 16 bytes that are not aligned to 16", place);
  return *static_cast<const uint4 *>(global);
}

inline void ord_mma_bf16(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                         simulated::source_place place = SIMULATED_CALLER) {
  simulated::mma<simulated::float_of_bf16>(sum, a, b0, b1, place);
}
inline void ord_mma_f16(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                        simulated::source_place place = SIMULATED_CALLER) {
  simulated::mma<simulated::float_of_f16>(sum, a, b0, b1, place);
}

inline void ord_load_matrix_x4(uint32_t (&out)[4], const void *row, simulated::source_place place = SIMULATED_CALLER) {
  simulated::load_matrix<false>(out, row, place);
}
inline void ord_load_matrix_x4_transposed(uint32_t (&out)[4], const void *row,
                                          simulated::source_place place = SIMULATED_CALLER) {
  simulated::load_matrix<true>(out, row, place);
}

inline float ord_exp2(float x) {
  const float power = exp2f(x);
  return power < 0x1p-126f ? 0 : power;
}

inline void ord_store_release_system(uint64_t *at, uint64_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
inline void ord_store_release_system(uint32_t *at, uint32_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
inline uint64_t ord_load_acquire_system(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
inline uint32_t ord_load_acquire_system(const uint32_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }

#endif
