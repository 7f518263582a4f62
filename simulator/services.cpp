// SPDX-License-Identifier: MIT
// What kernels call. An exception would find nobody on a fiber's stack, so none leaves these functions.
#include "block.h"

namespace simulated {

static const thread_position *position() { return current_runner()->position(); }

static void *dynamic_shared() { return current_runner()->dynamic_shared(); }

static int barrier(barrier_kind kind, int predicate, source_place place) {
  block_runner &runner = *current_runner();
  const in_service entered(runner);
  try {
    return runner.barrier(kind, predicate, place);
  } catch (...) {
    runner.fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for a barrier");
  }
}

static void meet(unsigned mask, int kind, const void *own, size_t bytes, void *all, source_place place) {
  block_runner &runner = *current_runner();
  const in_service entered(runner);
  try {
    runner.meet(mask, kind, own, bytes, all, place);
  } catch (...) {
    runner.fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for a collective");
  }
}

static void set_condition(unsigned long long handle, unsigned value) {
  block_runner &runner = *current_runner();
  const in_service entered(runner);
  runner.set_condition(handle, value);
}

static void trap(const char *text, source_place place) {
  block_runner &runner = *current_runner();
  const in_service entered(runner);
  runner.fail(CUDA_ERROR_LAUNCH_FAILED, std::string(text) + " at " + place.file + ":" + std::to_string(place.line));
}

static void copy_begin(pending_copy copy, source_place) {
  block_runner &runner = *current_runner();
  if (runner.checks()) runner.checks()->begin_copy(copy, __builtin_return_address(0));
  const in_service entered(runner);
  try {
    runner.copies().begin(copy);
  } catch (...) {
    runner.fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for an asynchronous copy");
  }
}

static void copy_commit() {
  block_runner &runner = *current_runner();
  const in_service entered(runner);
  try {
    runner.copies().commit();
  } catch (...) {
    runner.fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for a group of copies");
  }
}

static bool copy_take(unsigned groups_left, pending_copy *copy) {
  block_runner &runner = *current_runner();
  const in_service entered(runner);
  return runner.copies().take(groups_left, copy);
}

static void dependency_wait() {
  block_runner &runner = *current_runner();
  if (runner.checks()) runner.checks()->wait_for_launches();
}

static void dependency_trigger() {
  block_runner &runner = *current_runner();
  if (runner.checks()) runner.checks()->let_next_begin();
}

const services &device_services() {
  static const services made = {position,   barrier,     meet,      dynamic_shared,  set_condition,     trap,
                                copy_begin, copy_commit, copy_take, dependency_wait, dependency_trigger};
  return made;
}

} // namespace simulated
