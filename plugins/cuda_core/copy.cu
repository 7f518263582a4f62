// SPDX-License-Identifier: MIT
//
// Kernels that only move numbers, between tensors of any strides: element by element, or in vectors of 16 bytes where
// the host saw that both sides have them. A thread reads several before it writes, so that its loads are under way
// together.
#include "copy.h"
#include "tensor.cuh"

// Long divisions take longer than a load.
template <typename Index> constexpr int steps_of = sizeof(Index) > 4 ? 1 : COPY_IN_FLIGHT;

// ---- the bytes of an element ---------------------------------------------------------------------------------------

// A float of any type on its way to f32.
struct widened {
  float number;
};

template <typename Element> INLINE void read_element(const core_tensor &, const char *at, Element *value) {
  *value = *(const Element *)at;
}
INLINE void read_element(const core_tensor &from, const char *at, widened *value) {
  value->number = read_number(at, from.type);
}

// ---- parts of equal counts -----------------------------------------------------------------------------------------

template <typename Element, typename Index>
INLINE void copy_elements(const core_tensor &into, const core_tensor &from, int64_t shift) {
  constexpr int STEPS = steps_of<Index>;
  const int64_t count = count_of(into, into.rank), step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; first < count; first += STEPS * step) {
    int64_t offset[STEPS];
    Element value[STEPS];
    UNROLL
    for (int i = 0; i < STEPS; i++) {
      if (first + i * step >= count) continue;
      int64_t source;
      find_offsets<Index>(from, from.rank, first + i * step, &source, from);
      find_offsets<Index>(into, into.rank, first + i * step, &offset[i], into);
      read_element(from, from.data + source, &value[i]);
    }
    UNROLL
    for (int i = 0; i < STEPS; i++)
      if (first + i * step < count) *(Element *)(into.data + shift + offset[i]) = value[i];
  }
}

template <typename Index> INLINE void copy_by_element(const copy_arguments &a, const copy_part &part, int64_t shift) {
  if (a.element.is_wider) return copy_elements<widened, Index>(part.into, part.from, shift);
  switch (a.element.bytes) {
  case 1:
    return copy_elements<uint8_t, Index>(part.into, part.from, shift);
  case 2:
    return copy_elements<uint16_t, Index>(part.into, part.from, shift);
  case 4:
    return copy_elements<uint32_t, Index>(part.into, part.from, shift);
  case 8:
    return copy_elements<uint64_t, Index>(part.into, part.from, shift);
  default:
    return copy_elements<uint4, Index>(part.into, part.from, shift);
  }
}

extern "C" __global__ void copy_parts(const copy_arguments a) {
  ord_dependency_wait();
  const copy_part &part = a.part[blockIdx.y];
  int64_t shift = 0;
  for (uint32_t i = 0; i < a.extent_count[blockIdx.y]; i++) shift += *a.extent[i] * a.into_stride;
  if (a.is_small)
    copy_by_element<uint32_t>(a, part, shift);
  else
    copy_by_element<uint64_t>(a, part, shift);
}
ORD_EXPORT_KERNEL(copy_parts);

// ---- places along an axis ------------------------------------------------------------------------------------------

// Place number `number` of in's axis that stands at place number `number` of the result's; outside of the axis: none.
template <typename Index> INLINE int64_t find_place(const take_arguments &a, int64_t number) {
  const int64_t size = axis_size(a.axis, 0);
  if (!a.index.data) return (a.start < 0 ? a.start + size : a.start) + number * a.step;
  int64_t offset;
  find_offsets<Index>(a.index, a.index.rank, number, &offset, a.index);
  const int64_t given = *(const int32_t *)(a.index.data + offset);
  return given < 0 ? given + size : given;
}

template <typename Element, typename Index> INLINE void take_elements(const take_arguments &a) {
  const int64_t places = count_of(a.into_place, a.into_place.rank),
                behind = count_of(a.into_behind, a.into_behind.rank);
  const int64_t count = count_of(a.into_before, a.into_before.rank) * places * behind, size = axis_size(a.axis, 0);
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = (Index)i / (Index)behind, before = row / (Index)places;
    int64_t into_place, side[2][2]; // [before or behind][into, from]
    find_offsets<Index>(a.into_before, a.into_before.rank, before, side[0], a.into_before, a.from_before);
    find_offsets<Index>(a.into_behind, a.into_behind.rank, i - (int64_t)row * behind, side[1], a.into_behind,
                        a.from_behind);
    const int64_t number = row - before * (Index)places, place = find_place<Index>(a, number);
    find_offsets<Index>(a.into_place, a.into_place.rank, number, &into_place, a.into_place);
    Element value = {};
    if (place >= 0 && place < size)
      read_element(a.from_before, a.from_before.data + side[0][1] + place * a.axis.stride[0] + side[1][1], &value);
    *(Element *)(a.into_before.data + side[0][0] + into_place + side[1][0]) = value;
  }
}

template <typename Index> INLINE void take_by_element(const take_arguments &a) {
  if (a.element.is_wider) return take_elements<widened, Index>(a);
  switch (a.element.bytes) {
  case 1:
    return take_elements<uint8_t, Index>(a);
  case 2:
    return take_elements<uint16_t, Index>(a);
  case 4:
    return take_elements<uint32_t, Index>(a);
  case 8:
    return take_elements<uint64_t, Index>(a);
  default:
    return take_elements<uint4, Index>(a);
  }
}

extern "C" __global__ void take_places(const take_arguments a) {
  ord_dependency_wait();
  if (a.is_small)
    take_by_element<uint32_t>(a);
  else
    take_by_element<uint64_t>(a);
}
ORD_EXPORT_KERNEL(take_places);
