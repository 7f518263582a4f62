// SPDX-License-Identifier: MIT
// When work runs in each order, streams among each other, events.
#include <atomic>
#include <set>

#include "harness.h"

using namespace harness;

struct bench {
  CUlibrary library;
  CUkernel set, add;
  CUstream a, b;
  CUdeviceptr x;
};

static bench make_bench() {
  make_context();
  CUlibrary library = load_image("good_kernels.so");
  bench made = {
      library,    get_kernel(library, "set_value"), get_kernel(library, "add_value"), make_stream(), make_stream(),
      allocate(4)};
  return made;
}

static int *mapped_word() {
  void *word;
  MUST(cu.cuMemHostAlloc(&word, 8, CU_MEMHOSTALLOC_DEVICEMAP));
  int *words = static_cast<int *>(word);
  words[0] = words[1] = 0;
  return words;
}

// A host that reads before it waits sees nothing in the lazy order.
static void early_reader_is_caught() {
  const bench t = make_bench();
  int *word = mapped_word();
  MUST(launch(t.set, t.a, {}, reinterpret_cast<CUdeviceptr>(word), 5));
  EXPECT(*word == (is_order("eager") ? 5 : 0));
  MUST(cu.cuStreamSynchronize(t.a));
  EXPECT(*word == 5);
}

static void streams_keep_their_order() {
  const bench t = make_bench();
  MUST(launch(t.set, t.a, {}, t.x, 1));
  for (int i = 0; i < 20; i++) MUST(launch(t.add, t.a, {}, t.x, 2));
  EXPECT(read_back<int>(t.x, 1, t.a)[0] == 41);
}

static void events_order_streams() {
  const bench t = make_bench();
  CUevent event = make_event();
  for (int i = 0; i < 16; i++) {
    MUST(launch(t.set, t.a, {}, t.x, i));
    MUST(cu.cuEventRecord(event, t.a));
    MUST(cu.cuStreamWaitEvent(t.b, event, 0));
    MUST(launch(t.add, t.b, {}, t.x, 10));
    EXPECT(read_back<int>(t.x, 1, t.b)[0] == i + 10);
  }
  MUST(cu.cuEventQuery(event));
  MUST(cu.cuEventDestroy_v2(event));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuEventQuery(event));
}

// Two streams write one word without an event between them; returns who came last. The case runs once for each seed.
static void unordered_streams_vary() {
  std::set<int> seen;
  const bench t = make_bench();
  for (int i = 0; i < 32; i++) {
    MUST(launch(t.set, t.a, {}, t.x, 1));
    MUST(launch(t.set, t.b, {}, t.x, 2));
    MUST(cu.cuStreamSynchronize(t.a));
    MUST(cu.cuStreamSynchronize(t.b));
    seen.insert(read_back<int>(t.x, 1, t.a)[0]);
  }
  EXPECT(seen == (std::set<int>{1, 2}));
}

static void polling_gets_on() {
  const bench t = make_bench();
  CUevent event = make_event();
  MUST(launch(t.set, t.a, {}, t.x, 1));
  MUST(cu.cuEventRecord(event, t.a));
  int looks = 0;
  while (cu.cuStreamQuery(t.a) == CUDA_ERROR_NOT_READY) looks++;
  EXPECT(looks < 10000000);
  MUST(cu.cuEventQuery(event));
  EXPECT(!is_order("lazy") || looks == 1);
}

static void events_measure() {
  const bench t = make_bench();
  CUevent start = make_event(), end = make_event(), untimed;
  float ms = -1;
  MUST(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&ms, start, end));
  MUST(cu.cuEventRecord(start, t.a));
  MUST(cu.cuEventRecord(end, t.a));
  MUST(cu.cuEventRecord(untimed, t.a));
  MUST(cu.cuEventSynchronize(end));
  MUST(cu.cuEventElapsedTime(&ms, start, end));
  EXPECT(ms >= 0);
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&ms, start, untimed));
}

static void legacy_stream_waits_for_blocking_ones() {
  const bench t = make_bench();
  CUstream blocking;
  MUST(cu.cuStreamCreateWithPriority(&blocking, CU_STREAM_DEFAULT, 0));
  MUST(launch(t.set, blocking, {}, t.x, 1));
  MUST(launch(t.add, nullptr, {}, t.x, 2));
  MUST(launch(t.add, blocking, {}, t.x, 4));
  EXPECT(read_back<int>(t.x, 1, blocking)[0] == 7);
}

// Only where the device is a thread: the kernel runs while the host answers it.
static void host_and_kernel_talk() {
  const bench t = make_bench();
  int *words = mapped_word();
  MUST(launch(get_kernel(t.library, "answer_host"), t.a, {}, reinterpret_cast<CUdeviceptr>(words)));
  EXPECT_CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(t.a));
  __atomic_store_n(&words[0], 6, __ATOMIC_RELEASE);
  while (__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) != 7) {
  }
  MUST(cu.cuStreamSynchronize(t.a));
}

static void handles_are_checked() {
  const bench t = make_bench();
  MUST(cu.cuStreamDestroy_v2(t.b));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery(t.b));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, launch(t.set, t.b, {}, t.x, 1));
  EXPECT_CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamDestroy_v2(nullptr));
}

int main() {
  return run({
      {"an early reader is caught", early_reader_is_caught, eager | lazy},
      {"streams keep their order", streams_keep_their_order},
      {"streams keep their order, another order", streams_keep_their_order, all, {{"SEED", "5"}}},
      {"events order streams", events_order_streams, all, {{"SEED", "5"}}},
      {"unordered streams vary", unordered_streams_vary, lazy, {{"SEED", "1"}}},
      {"polling gets on", polling_gets_on},
      {"events measure", events_measure},
      {"the legacy stream waits for blocking ones", legacy_stream_waits_for_blocking_ones, all, {{"SEED", "9"}}},
      {"host and kernel talk", host_and_kernel_talk, thread},
      {"handles are checked", handles_are_checked},
  });
}
