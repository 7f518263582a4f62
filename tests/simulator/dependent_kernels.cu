// SPDX-License-Identifier: MIT
// Kernels that may begin before the one ahead of them has ended. A mistake is on the line that is marked with the
// kernel's name. x, y [threads]; all are launched with one block of 64 threads.
#include "ordito_device.h"

// x[t] = t, y untouched.
extern "C" __global__ void produce(float *x, float *) {
  ord_dependency_wait();
  x[threadIdx.x] = static_cast<float>(threadIdx.x);
}
ORD_EXPORT_KERNEL(produce);

// Reads x.
extern "C" __global__ void consume(float *x, float *y) {
  ord_dependency_wait();
  y[threadIdx.x] = x[threadIdx.x];
}
ORD_EXPORT_KERNEL(consume);

// x [threads, 64 and more]: what nobody ahead has touched may be read before.
extern "C" __global__ void read_weights_first(float *x, float *y) {
  const float weight = x[64 + threadIdx.x];
  ord_dependency_wait();
  y[threadIdx.x] = x[threadIdx.x] + weight;
}
ORD_EXPORT_KERNEL(read_weights_first);

extern "C" __global__ void wait_for_all(float *x, float *y) {
  if (threadIdx.x == 0) ord_dependency_wait();
  __syncthreads();
  y[threadIdx.x] = x[threadIdx.x];
}
ORD_EXPORT_KERNEL(wait_for_all);

extern "C" __global__ void missing_wait(float *x, float *y) {
  y[threadIdx.x] = x[threadIdx.x]; // [missing_wait]
}
ORD_EXPORT_KERNEL(missing_wait);

extern "C" __global__ void late_wait(float *x, float *y) {
  const float first = x[threadIdx.x]; // [late_wait]
  ord_dependency_wait();
  y[threadIdx.x] = first;
}
ORD_EXPORT_KERNEL(late_wait);

// That the next kernel may begin says nothing of what the one ahead has written.
extern "C" __global__ void trigger_for_wait(float *x, float *y) {
  ord_dependency_trigger();
  y[threadIdx.x] = x[threadIdx.x]; // [trigger_for_wait]
  ord_dependency_wait();
}
ORD_EXPORT_KERNEL(trigger_for_wait);

extern "C" __global__ void wait_in_one_thread(float *x, float *y) {
  if (threadIdx.x == 0) ord_dependency_wait();
  y[threadIdx.x] = x[threadIdx.x]; // [wait_in_one_thread]
}
ORD_EXPORT_KERNEL(wait_in_one_thread);

// Behind consume: what that reads is overwritten.
extern "C" __global__ void early_write(float *x, float *) {
  x[threadIdx.x] = 0.0f; // [early_write]
  ord_dependency_wait();
}
ORD_EXPORT_KERNEL(early_write);

extern "C" __global__ void never_waits(float *, float *) {}
ORD_EXPORT_KERNEL(never_waits);

// Neither touches x: they let the next kernel begin before and behind their wait.
extern "C" __global__ void trigger_then_wait(float *, float *) {
  ord_dependency_trigger();
  ord_dependency_wait();
}
ORD_EXPORT_KERNEL(trigger_then_wait);
extern "C" __global__ void wait_then_trigger(float *, float *) {
  ord_dependency_wait();
  ord_dependency_trigger();
}
ORD_EXPORT_KERNEL(wait_then_trigger);
