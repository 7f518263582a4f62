/* SPDX-License-Identifier: MIT
 *
 * Device code for the authors of CUDA kernels: what CUDA C++ has no word for, and what several kernels share. A source
 * that includes this header first is compiled by nvcc for a real device and by g++ for the simulated driver
 * (simulator/README.md), where a stand-in does what the instruction would and finds its misuse. It needs nothing but
 * the CUDA toolkit, and is the only place of Ordito with inline PTX.
 *
 *   #include "ordito_device.h"
 *   extern "C" __global__ void scale(const float *x, float *y) { ord_dependency_wait(); .. }
 *   ORD_EXPORT_KERNEL(scale);
 */
#ifndef ORDITO_DEVICE_H
#define ORDITO_DEVICE_H

#ifndef __CUDACC__
#include "cuda_builtins.h"
#endif

#include <stdint.h>
#include <string.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef __CUDACC__

/* Behind each kernel, with its name. */
#define ORD_EXPORT_KERNEL(name) static_assert(true, "")

/* In a kernel: the launch's dynamic shared memory as `type name[]`, 16-byte aligned. One type for each name in a source
 * (of templates too). Static shared memory is declared with __shared__ as usual. */
#define ORD_DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]

/* ---- copies that do not pass through registers ------------------------------------------------------------------ */

/* Begins to copy 16 bytes from global to shared memory, both aligned to 16; zeros, and nothing is read, where
 * !is_valid. They are there for this thread after ord_copy_wait, for others after a barrier behind it. */
static __device__ __forceinline__ void ord_copy16_async(void *shared, const void *global, bool is_valid) {
  const uint32_t into = (uint32_t)__cvta_generic_to_shared(shared);
  const int bytes = is_valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(into), "l"(global), "r"(bytes) : "memory");
}

/* The copies begun since the last call are a group. */
static __device__ __forceinline__ void ord_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Waits until all but the last `groups_left` groups are there. */
template <unsigned groups_left> static __device__ __forceinline__ void ord_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
}

/* 16 bytes, aligned to 16, that nobody writes while the kernel runs and that are not read again soon. Not through
 * ld.global.nc: the assembler moves such loads behind ord_dependency_wait, and weights shall be under way before it. */
static __device__ __forceinline__ uint4 ord_load16(const void *global) {
  uint4 value;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(global));
  return value;
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------
 *
 * All 32 lanes of a warp call these together. With g = lane / 4 and t = lane % 4 a lane holds, two numbers to a
 * register, the lower one first:
 *   a    [16, 16] row g, columns 2t, 2t + 1; row g + 8, the same; row g, columns 2t + 8, 2t + 9; row g + 8, the same
 *   b    [16, 8]  column g, rows 2t, 2t + 1; rows 2t + 8, 2t + 9
 *   sum  [16, 8]  row g, columns 2t, 2t + 1; row g + 8, the same
 */

/* sum += a b, products of bf16 summed in f32. */
static __device__ __forceinline__ void ord_mma_bf16(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same of f16. */
static __device__ __forceinline__ void ord_mma_f16(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four matrices of 8 x 8 numbers of two bytes from shared memory: lanes 8i .. 8i + 7 give the rows of matrix i, 16
 * bytes each, aligned to 16. Register i gets row g, columns 2t, 2t + 1 of matrix i. */
static __device__ __forceinline__ void ord_load_matrix_x4(uint32_t (&out)[4], const void *row) {
  const uint32_t from = (uint32_t)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(from)
               : "memory");
}

/* The same, but register i gets rows 2t, 2t + 1 of column g. */
static __device__ __forceinline__ void ord_load_matrix_x4_transposed(uint32_t (&out)[4], const void *row) {
  const uint32_t from = (uint32_t)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(from)
               : "memory");
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

/* 2 to the power of x as one instruction, to 2 units in the last place; 0 where that is below 2^-126. */
static __device__ __forceinline__ float ord_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/* ---- words that the host reads and writes while the device works ------------------------------------------------- */

/* Everything that this thread wrote before is seen by who reads the value. */
static __device__ __forceinline__ void ord_store_release_system(uint64_t *at, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
static __device__ __forceinline__ void ord_store_release_system(uint32_t *at, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

static __device__ __forceinline__ uint64_t ord_load_acquire_system(const uint64_t *at) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
static __device__ __forceinline__ uint32_t ord_load_acquire_system(const uint32_t *at) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

#else

#define ORD_EXPORT_KERNEL(name) EXPORT_KERNEL(name)
#define ORD_DYNAMIC_SHARED(type, name) DYNAMIC_SHARED(type, name)
#include "cuda_ptx.h"

#endif

/* ---- between kernels --------------------------------------------------------------------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

/* Every thread of a kernel that is launched with ORD_LAUNCH_DEPENDENT calls it, once, before it touches anything but
 * weights: it returns when the kernels before are over and what they wrote can be read. */
static __device__ __forceinline__ void ord_dependency_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/* The next kernel may begin, up to its own wait, once every block has called this or ended. */
static __device__ __forceinline__ void ord_dependency_trigger() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#elif defined(__CUDACC__)

/* Devices before compute capability 9.0 run kernels one after the other. */
static __device__ __forceinline__ void ord_dependency_wait() {}
static __device__ __forceinline__ void ord_dependency_trigger() {}

#else

static inline void ord_dependency_wait() { cudaGridDependencySynchronize(); }
static inline void ord_dependency_trigger() { cudaTriggerProgrammaticLaunchCompletion(); }

#endif

/* Whether the WHILE node of this handle runs its body again. One thread of a <<<1, 1>>> kernel in the body sets it. */
static __device__ __forceinline__ void ord_set_condition(uint64_t handle, bool value) {
  cudaGraphSetConditional(handle, value);
}

/* ---- numbers of two bytes ---------------------------------------------------------------------------------------- */

/* To nearest even; the first number in the lower half. */
static __device__ __forceinline__ uint32_t ord_pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
static __device__ __forceinline__ uint32_t ord_pack_f16(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

static __device__ __forceinline__ float2 ord_unpack_bf16(uint32_t bits) {
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}
static __device__ __forceinline__ float2 ord_unpack_f16(uint32_t bits) {
  __half2_raw pair;
  memcpy(&pair, &bits, sizeof bits);
  return __half22float2(__half2(pair));
}

/* ---- what a warp or a block knows together ----------------------------------------------------------------------- */

/* In every lane, all 32 of which call it; always in the same order. */
static __device__ __forceinline__ float ord_warp_sum(float value) {
  for (int distance = 16; distance; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}
static __device__ __forceinline__ float ord_warp_max(float value) {
  for (int distance = 16; distance; distance /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

/* In every thread, all of which call it, of a block of whole warps along x. `scratch` is shared memory, one number for
 * each warp, and free again when the call returns. */
static __device__ __forceinline__ float ord_block_sum(float value, float *scratch) {
  const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = ord_warp_sum(value);
  if (lane == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = ord_warp_sum(lane < warps ? scratch[lane] : 0.0f);
  __syncthreads();
  return value;
}
static __device__ __forceinline__ float ord_block_max(float value, float *scratch) {
  const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = ord_warp_max(value);
  if (lane == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = ord_warp_max(lane < warps ? scratch[lane] : -INFINITY);
  __syncthreads();
  return value;
}

/* True in all threads of the last of `count` blocks that comes here; what the others wrote to global memory before, it
 * can read. All threads of each block call it. `ticket` is 0 at first and again at the end (ord_exec.persistent);
 * `scratch` is a word of shared memory. No block waits for another. */
static __device__ __forceinline__ bool ord_is_last_block(unsigned *ticket, unsigned count, unsigned *scratch) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *scratch = atomicInc(ticket, count - 1);
  __syncthreads();
  __threadfence();
  return *scratch == count - 1;
}

#endif
