// SPDX-License-Identifier: MIT
// Kernels that may begin before the one ahead of them has ended: what a checked run finds, on a stream and in a graph.
#include <fstream>

#include "harness.h"

using namespace harness;

constexpr unsigned threads = 64;

struct chain {
  std::vector<const char *> kernels; // each may begin before the one ahead has ended
  std::vector<const char *> parts;   // of the fault's text; none: there is no fault
  const char *mark = nullptr;        // the line that the text names
};

static const chain chains[] = {
    {{"produce", "consume", "consume", "produce", "consume"}, {}},
    {{"produce", "read_weights_first"}, {}},
    {{"produce", "wait_for_all"}, {}},
    {{"produce", "missing_wait"}, {"a race", "read of 4 bytes", "of kernel produce", "no wait for it"}, "missing_wait"},
    {{"produce", "late_wait"}, {"a race", "against the write", "of kernel produce"}, "late_wait"},
    {{"produce", "trigger_for_wait"}, {"a race", "against the write", "of kernel produce"}, "trigger_for_wait"},
    {{"produce", "wait_in_one_thread"}, {"a race", "against the write", "of kernel produce"}, "wait_in_one_thread"},
    {{"produce", "consume", "early_write"}, {"a race", "against the read", "of kernel consume"}, "early_write"},
    {{"consume", "never_waits"},
     {"kernel never_waits", "before kernel consume has ended", "none of its threads waits"}},
    // The first is over when the third begins, unless the second lets that begin before it has waited itself.
    {{"produce", "wait_then_trigger", "late_wait"}, {}},
    {{"produce", "consume", "wait_then_trigger", "late_wait"}, {}},
    {{"produce", "trigger_then_wait", "late_wait"}, {"a race", "of kernel produce"}, "late_wait"},
    {{"produce", "trigger_then_wait", "trigger_then_wait", "late_wait"}, {"a race", "of kernel produce"}, "late_wait"},
    {{"produce", "trigger_then_wait", "consume"}, {}},
};

static std::string marked_place(const char *name) {
  if (!SIMULATED_LINES) return "";
  std::ifstream source(SIMULATED_SOURCES "/dependent_kernels.cu");
  const std::string mark = std::string("[") + name + "]";
  std::string line;
  for (int number = 1; std::getline(source, line); number++)
    if (line.find(mark) != std::string::npos) return "dependent_kernels.cu:" + std::to_string(number);
  expect(false, name, __FILE__, __LINE__);
  return {};
}

static void expect_part(const std::string &text, const std::string &part) {
  if (text.find(part) == std::string::npos) expect(false, (text + "\n  lacks: " + part).c_str(), __FILE__, __LINE__);
}

struct bench {
  CUlibrary library;
  CUstream stream;
  CUdeviceptr x, y;
};

static bench make_bench(const char *image) {
  make_context();
  bench made = {load_image(image), make_stream(), allocate(2 * threads * 4), allocate(threads * 4)};
  MUST(cu.cuMemsetD32Async(made.x, 0, 2 * threads, made.stream));
  return made;
}

static void launch_all(const bench &t, const chain &one, bool is_programmatic) {
  for (const char *name : one.kernels)
    launch(get_kernel(t.library, name), t.stream, {1, threads, 0, is_programmatic}, t.x, t.y);
}

static void expect_outcome(const bench &t, const chain &one) {
  const CUresult code = cu.cuStreamSynchronize(t.stream);
  EXPECT_CODE(one.parts.empty() ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED, code);
  if (one.parts.empty()) return;
  for (const char *part : one.parts) expect_part(fault_text(code), part);
  if (one.mark) expect_part(fault_text(code), marked_place(one.mark));
}

static size_t chosen; // of the chains

static void on_a_stream() {
  const bench t = make_bench("dependent_kernels.checked.so");
  launch_all(t, chains[chosen], true);
  expect_outcome(t, chains[chosen]);
}

static void in_a_graph() {
  const bench t = make_bench("dependent_kernels.checked.so");
  CUgraph graph;
  MUST(cu.cuStreamBeginCapture_v2(t.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  launch_all(t, chains[chosen], true);
  MUST(cu.cuStreamEndCapture(t.stream, &graph));
  cu.cuGraphLaunch(instantiate(graph), t.stream);
  expect_outcome(t, chains[chosen]);
}

// Of kernels that follow each other as usual nothing is wanted.
static void one_after_the_other() {
  const bench t = make_bench("dependent_kernels.checked.so");
  for (const chain &one : chains) launch_all(t, one, false);
  MUST(cu.cuStreamSynchronize(t.stream));
}

// A plain image shows none of it.
static void in_a_plain_image() {
  const bench t = make_bench("dependent_kernels.so");
  for (const chain &one : chains) launch_all(t, one, true);
  MUST(cu.cuStreamSynchronize(t.stream));
}

// The other work of a stream is waited for.
static void behind_a_memset() {
  const bench t = make_bench("dependent_kernels.checked.so");
  const launch_shape shape = {1, threads, 0, true};
  MUST(launch(get_kernel(t.library, "produce"), t.stream, shape, t.x, t.y));
  MUST(cu.cuMemsetD32Async(t.y, 0, threads, t.stream));
  MUST(launch(get_kernel(t.library, "missing_wait"), t.stream, shape, t.x, t.y));
  MUST(cu.cuStreamSynchronize(t.stream));
}

// What the host has waited for is over.
static void behind_a_wait() {
  const bench t = make_bench("dependent_kernels.checked.so");
  const launch_shape shape = {1, threads, 0, true};
  MUST(launch(get_kernel(t.library, "produce"), t.stream, shape, t.x, t.y));
  MUST(cu.cuStreamSynchronize(t.stream));
  MUST(launch(get_kernel(t.library, "missing_wait"), t.stream, shape, t.x, t.y));
  MUST(cu.cuStreamSynchronize(t.stream));
}

int main() {
  int failed = 0;
  for (chosen = 0; chosen < sizeof chains / sizeof *chains; chosen++) {
    std::string name;
    for (const char *kernel : chains[chosen].kernels) name += std::string(name.empty() ? "" : ", ") + kernel;
    const std::string in_graph = name + ", in a graph";
    failed |= run({{name.c_str(), on_a_stream, eager | lazy}, {in_graph.c_str(), in_a_graph, eager}});
    failed |= run({{in_graph.c_str(), in_a_graph, eager, {{"SEED", "5"}}}});
  }
  failed |= run({
      {"one after the other", one_after_the_other, eager},
      {"in a plain image", in_a_plain_image, eager},
      {"behind a memset", behind_a_memset, eager},
      {"behind a wait", behind_a_wait},
  });
  return failed;
}
