// SPDX-License-Identifier: MIT
// Barriers, shuffles, votes and the switch of a conditional graph node, for kernels compiled by g++. Every collective
// of a warp is one meeting at which each lane shows its value to all. Included by cuda_builtins.h.
#ifndef SIMULATOR_DEVICE_CUDA_COLLECTIVES_H
#define SIMULATOR_DEVICE_CUDA_COLLECTIVES_H

#include "interface.h"

namespace simulated {

enum meeting_kind { meeting_shuffle = meeting_sync + 1, meeting_vote };

template <typename Value> struct seen_by_warp {
  Value of_lane[warp_size];
  seen_by_warp(unsigned mask, int kind, const Value &own, source_place place) {
    static_assert(sizeof(Value) <= meet_bytes_limit, "a lane shows at most meet_bytes_limit bytes");
    host()->meet(mask, kind, &own, sizeof(Value), of_lane, place);
  }
};

inline unsigned lane() { return host()->position()->lane; }

// A lane outside the segment, or outside the mask, is not read: the own value is the result, as CUDA leaves it
// undefined only where the source lane is inactive.
template <typename Value>
Value shuffle(unsigned mask, const Value &own, int source, bool is_inside, source_place place) {
  const seen_by_warp<Value> seen(mask, meeting_shuffle, own, place);
  if (!is_inside) return own;
  if (!(mask >> source & 1)) host()->trap("a shuffle reads a lane that its mask does not name", place);
  return seen.of_lane[source];
}

template <typename Value> Value shuffle_index(unsigned mask, const Value &own, int index, int width, source_place at) {
  const int first = static_cast<int>(lane()) / width * width;
  return shuffle(mask, own, first + (index & (width - 1)), true, at);
}
template <typename Value>
Value shuffle_up(unsigned mask, const Value &own, unsigned delta, int width, source_place at) {
  const int source = static_cast<int>(lane()) - static_cast<int>(delta);
  return shuffle(mask, own, source, source >= static_cast<int>(lane()) / width * width, at);
}
template <typename Value>
Value shuffle_down(unsigned mask, const Value &own, unsigned delta, int width, source_place at) {
  const int source = static_cast<int>(lane()) + static_cast<int>(delta);
  return shuffle(mask, own, source, source < (static_cast<int>(lane()) / width + 1) * width, at);
}
template <typename Value> Value shuffle_xor(unsigned mask, const Value &own, int bits, int width, source_place at) {
  const int source = static_cast<int>(lane()) ^ bits;
  return shuffle(mask, own, source, source < (static_cast<int>(lane()) / width + 1) * width, at);
}

inline unsigned ballot(unsigned mask, int predicate, source_place place) {
  const seen_by_warp<int> seen(mask, meeting_vote, predicate, place);
  unsigned result = 0;
  for (unsigned i = 0; i < warp_size; i++)
    if ((mask >> i & 1) && seen.of_lane[i]) result |= 1u << i;
  return result;
}

inline void sync_warp(source_place place, unsigned mask = 0xffffffffu) {
  const seen_by_warp<char> seen(mask, meeting_sync, 0, place);
}

// The optional last argument of the shuffles is the width.
template <typename Value> Value shuffle_index(source_place at, unsigned mask, Value own, int index, int width = 32) {
  return shuffle_index(mask, own, index, width, at);
}
template <typename Value> Value shuffle_up(source_place at, unsigned mask, Value own, unsigned delta, int width = 32) {
  return shuffle_up(mask, own, delta, width, at);
}
template <typename Value>
Value shuffle_down(source_place at, unsigned mask, Value own, unsigned delta, int width = 32) {
  return shuffle_down(mask, own, delta, width, at);
}
template <typename Value> Value shuffle_xor(source_place at, unsigned mask, Value own, int bits, int width = 32) {
  return shuffle_xor(mask, own, bits, width, at);
}

} // namespace simulated

#define SIMULATED_HERE (simulated::source_place{__FILE__, __LINE__})
#define __syncthreads() ((void)simulated::host()->barrier(simulated::barrier_kind::plain, 0, SIMULATED_HERE))
#define __syncthreads_count(p) (simulated::host()->barrier(simulated::barrier_kind::count, (p), SIMULATED_HERE))
#define __syncthreads_and(p) (simulated::host()->barrier(simulated::barrier_kind::all, (p), SIMULATED_HERE))
#define __syncthreads_or(p) (simulated::host()->barrier(simulated::barrier_kind::any, (p), SIMULATED_HERE))
#define __syncwarp(...) (simulated::sync_warp(SIMULATED_HERE __VA_OPT__(, ) __VA_ARGS__))
#define __shfl_sync(...) (simulated::shuffle_index(SIMULATED_HERE, __VA_ARGS__))
#define __shfl_up_sync(...) (simulated::shuffle_up(SIMULATED_HERE, __VA_ARGS__))
#define __shfl_down_sync(...) (simulated::shuffle_down(SIMULATED_HERE, __VA_ARGS__))
#define __shfl_xor_sync(...) (simulated::shuffle_xor(SIMULATED_HERE, __VA_ARGS__))
#define __ballot_sync(mask, p) (simulated::ballot((mask), (p), SIMULATED_HERE))
#define __any_sync(mask, p) (simulated::ballot((mask), (p), SIMULATED_HERE) != 0)
#define __all_sync(mask, p) (simulated::ballot((mask), !(p), SIMULATED_HERE) == 0)

typedef unsigned long long cudaGraphConditionalHandle;
inline void cudaGridDependencySynchronize() { simulated::host()->dependency_wait(); }
inline void cudaTriggerProgrammaticLaunchCompletion() { simulated::host()->dependency_trigger(); }

inline void cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned value) {
  simulated::host()->set_condition(handle, value);
}

#endif
