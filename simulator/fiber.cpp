// SPDX-License-Identifier: MIT
#include "fiber.h"

#include <sys/mman.h>

asm(R"(
.text
.globl simulated_switch
.hidden simulated_switch
.type simulated_switch, @function
simulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simulated_switch, .-simulated_switch
)");

namespace simulated {

constexpr size_t guard_bytes = 4096;
constexpr size_t saved_words = 8; // six registers, the entry, and a word that aligns the stack as a call would

fiber::~fiber() {
  if (stack) munmap(stack, stack_bytes);
}

bool fiber::open() {
  void *made = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return false;
  stack = static_cast<char *>(made);
  return mprotect(stack, guard_bytes, PROT_NONE) == 0;
}

void fiber::begin_at(void (*entry)()) {
  auto **words = reinterpret_cast<void **>(stack + stack_bytes) - saved_words;
  for (size_t i = 0; i < saved_words; i++) words[i] = nullptr;
  words[6] = reinterpret_cast<void *>(entry);
  stack_pointer = words;
  is_begun = true;
}

} // namespace simulated
