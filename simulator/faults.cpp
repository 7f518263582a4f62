// SPDX-License-Identifier: MIT
// Faults and time-outs of kernels. The handler looks whether the thread was on a fiber; if so the thread goes on, after
// the handler returned, on a stack kept for it, and leaves the block. Other faults go to whoever had the signal before.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <mutex>

#include "block.h"

namespace simulated {

constexpr size_t stack_bytes = 64 << 10;
constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction before[65];

static int time_signal() { return SIGRTMAX - 3; }

// What one thread needs to survive a fault: a stack for the handler and one to go on with.
struct rescue {
  rescue();
  ~rescue();
  char *stacks = nullptr;
  timer_t timer = {};
  bool has_timer = false;
  stack_t replaced = {};
  int signal = 0;
  uintptr_t address = 0;
};
static thread_local rescue mine;
// The handler must not be the first to touch `mine`, nor may looking here allocate.
__attribute__((tls_model("initial-exec"))) static thread_local rescue *mine_made = nullptr;

rescue::rescue() {
  void *made = mmap(nullptr, 2 * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  stacks = static_cast<char *>(made);
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = time_signal();
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  has_timer = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
}

rescue::~rescue() {
  mine_made = nullptr;
  if (has_timer) timer_delete(timer);
  munmap(stacks, 2 * stack_bytes);
}

static void go_on() {
  block_runner &runner = *current_runner();
  const bool is_memory = mine.signal == SIGSEGV || mine.signal == SIGBUS;
  if (mine.signal == time_signal())
    runner.fail(CUDA_ERROR_LAUNCH_TIMEOUT, "it ran for longer than the watchdog allows");
  if (is_memory) runner.fail_at(mine.address);
  runner.fail(CUDA_ERROR_LAUNCH_FAILED, mine.signal == SIGFPE ? "a division by zero" : "an illegal instruction");
}

static void pass_on(int signal, siginfo_t *info, void *context) {
  const struct sigaction &old = before[signal];
  if (signal == time_signal() || old.sa_handler == SIG_IGN) return;
  if (old.sa_flags & SA_SIGINFO)
    old.sa_sigaction(signal, info, context);
  else if (old.sa_handler != SIG_DFL)
    old.sa_handler(signal);
  else
    sigaction(signal, &old, nullptr); // the fault happens again, and ends the process as it would have
}

static void handle(int signal, siginfo_t *info, void *context) {
  auto &registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
  const block_runner *runner = mine_made ? current_runner() : nullptr;
  if (!runner || !runner->is_on_fiber(static_cast<uintptr_t>(registers[REG_RSP])) ||
      (signal == time_signal() && runner->is_in_service)) {
    pass_on(signal, info, context);
    return;
  }
  mine_made->signal = signal;
  mine_made->address = reinterpret_cast<uintptr_t>(info->si_addr);
  const uintptr_t top = reinterpret_cast<uintptr_t>(mine_made->stacks) + 2 * stack_bytes;
  registers[REG_RSP] = static_cast<greg_t>(top - sizeof(void *)); // as after a call
  registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(&go_on));
}

static void install() {
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : fault_signals) sigaction(signal, &action, &before[signal]);
  sigaction(time_signal(), &action, &before[time_signal()]);
}

static void set_timer(unsigned milliseconds) {
  if (!mine.has_timer) return;
  // Again and again, since one that comes at a bad moment is ignored.
  const itimerspec wanted = {{0, milliseconds ? 10000000 : 0},
                             {milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1000000}};
  timer_settime(mine.timer, 0, &wanted, nullptr);
}

kernel_watch::kernel_watch(unsigned milliseconds) {
  static std::once_flag is_installed;
  std::call_once(is_installed, install);
  mine_made = &mine;
  stack_t wanted = {};
  wanted.ss_sp = mine.stacks;
  wanted.ss_size = stack_bytes;
  sigaltstack(&wanted, &mine.replaced);
  set_timer(milliseconds);
}

kernel_watch::~kernel_watch() {
  set_timer(0);
  sigaltstack(&mine.replaced, nullptr);
}

} // namespace simulated
