// SPDX-License-Identifier: MIT
#include "checker.h"

#include <algorithm>
#include <cstring>

#include "block.h"

namespace simulated {

constexpr size_t recent_limit = 8, pending_copy_bytes = 16;
constexpr size_t kept_access_bytes = size_t{32} << 20; // of memory whose accesses stay remembered between launches
constexpr unsigned char fill = 0xff;                   // of device memory that nobody has written

// The checker of the launch that runs on this thread.
__attribute__((tls_model("initial-exec"))) static thread_local checker *active = nullptr;

void checker::add(const allocation &made, bool is_written) {
  auto added = std::make_unique<region>();
  added->where = {made.start, made.bytes};
  added->what = made.where == place::device ? kind::device : kind::host;
  if (!added->known.open(made.bytes)) throw std::bad_alloc();
  // The host writes mapped memory unseen.
  if (is_written || added->what == kind::host) added->known.set_written(0, made.bytes, true);
  regions[made.start] = std::move(added);
}

void checker::remove(uintptr_t start) { regions.erase(start); }

checker::region *checker::find(uintptr_t at) {
  auto found = regions.upper_bound(at);
  if (found == regions.begin()) return nullptr;
  region *before = (--found)->second.get();
  return before->where.holds(at) ? before : nullptr;
}

void checker::write(uintptr_t start, size_t bytes) {
  if (region *written = find(start)) written->known.set_written(start - written->where.start, bytes, true);
}

void checker::copy(uintptr_t into, uintptr_t from, size_t bytes) {
  region *written = find(into), *read = find(from);
  if (!written || written->what == kind::host) return;
  const size_t first = into - written->where.start;
  if (read)
    written->known.copy_written(first, read->known, from - read->where.start, bytes);
  else
    written->known.set_written(first, bytes, true);
}

void checker::write_unseen(const std::vector<unsigned char> &parameters) {
  for (size_t i = 0; i + sizeof(uintptr_t) <= parameters.size(); i += sizeof(uintptr_t)) {
    uintptr_t word;
    memcpy(&word, &parameters[i], sizeof word);
    if (region *written = find(word)) written->known.set_written(0, written->where.bytes, true);
  }
}

void checker::find_variable_ends() {
  const CUlib_st &library = *launch->library;
  variable_ends.assign(library.shared_bytes, library.variables.empty() ? library.shared_bytes : 0);
  for (const shared_variable &one : launch->kernel->variables)
    std::fill_n(variable_ends.begin() + static_cast<long>(one.offset), one.bytes, one.offset + one.bytes);
}

// What is remembered of memory that kernels touched is given back when it becomes too much.
void checker::forget_accesses() {
  size_t bytes = 0;
  for (auto &entry : regions)
    if (entry.second->known.has_accesses()) bytes += entry.second->where.bytes;
  if (bytes < kept_access_bytes) return;
  for (auto &entry : regions) entry.second->known.forget_accesses();
}

void checker::begin_launch(const kernel_launch &begun, const past_launches &ahead, span arguments, span parameters) {
  launch = &begun;
  beside.clear();
  for (const auto &one : ahead) {
    beside.insert(beside.end(), one->beside.begin(), one->beside.end());
    beside.push_back(one);
  }
  if (beside.empty()) forget_accesses();
  const CUlib_st &library = *begun.library;
  const auto address = [](const auto *object) { return reinterpret_cast<uintptr_t>(object); };
  plain = {{library.start, library.bytes}, parameters, arguments, {address(&device_services()), sizeof(services)}};
  recent.clear();
  find_variable_ends();
  std::vector<ordering::period> periods;
  for (const auto &one : beside) periods.push_back(one->when);
  order.begin_launch(std::move(periods));
  active = this;
}

std::shared_ptr<const past_launch> checker::end_launch(kernel_failure &failure) {
  active = nullptr;
  runner = nullptr;
  if (failure.code == CUDA_SUCCESS && !beside.empty() && !order.has_waited()) {
    failure.code = CUDA_ERROR_LAUNCH_FAILED;
    failure.text = std::string("kernel ") + launch->kernel->entry->name + ": it may begin before kernel " +
                   beside.back()->kernel->entry->name +
                   " has ended, and none of its threads waits for that, so what comes behind it would not either";
  }
  auto made = std::make_shared<past_launch>();
  *made = {launch->library, launch->kernel, launch->block, {order.launch_began(), order.now()}, {}};
  if (!order.keeps_next_back()) made->beside = std::move(beside);
  beside.clear();
  return made;
}

void checker::open_shared(region &opened, span where) {
  opened.where = where;
  if (opened.known.bytes() < where.bytes && !opened.known.open(where.bytes)) throw std::bad_alloc();
  if (where.bytes) opened.known.set_written(0, where.bytes, false);
}

void checker::begin_block(block_runner &of, uint64_t block, const block_memory &where) {
  runner = &of;
  memory = where;
  const dim3 size = launch->block;
  order.begin_block(block, size.x * size.y * size.z);
  open_shared(dynamic_shared, where.dynamic_shared);
  open_shared(static_shared, where.static_shared);
  unwritten.clear();
}

bool checker::end_block(std::string &text) {
  order.end_block();
  text = unwritten;
  return unwritten.empty();
}

bool checker::is_plain(uintptr_t at) const {
  return std::any_of(plain.begin(), plain.end(), [at](const span &one) { return one.holds(at); });
}

void checker::touch(uintptr_t at, size_t bytes, unsigned how, const void *code) {
  if (!bytes || runner->is_on_fiber(at) || memory.positions.holds(at)) return;
  if (dynamic_shared.where.holds(at)) return check(dynamic_shared, at, bytes, how, code);
  if (static_shared.where.holds(at)) {
    check_variable(at, bytes, how);
    return check(static_shared, at, bytes, how, code);
  }
  for (region *one : recent)
    if (one->where.holds(at)) return check(*one, at, bytes, how, code);
  if (is_plain(at)) return;
  region *found = nullptr;
  {
    const in_service entered(*runner);
    const lock held(d.guard);
    found = find(at);
    if (found) recent.insert(recent.begin(), found);
    if (recent.size() > recent_limit) recent.pop_back();
  }
  if (!found) fail_outside(at, bytes, how);
  check(*found, at, bytes, how, code);
}

static bool is_fill(uintptr_t at) { return *reinterpret_cast<const unsigned char *>(at) == fill; }

void checker::check(region &one, uintptr_t at, size_t bytes, unsigned how, const void *code) {
  const size_t first = at - one.where.start;
  if (bytes > one.where.bytes - first) fail_outside(one.where.start + one.where.bytes, bytes, how);
  if (how & touch_read) {
    const size_t written = one.known.find_unwritten(first, bytes);
    // Where device memory is not as it was made, somebody wrote it unseen.
    if (written < bytes && (one.what != kind::device || is_fill(at + written)))
      note_unwritten(one, at + written, bytes);
  }
  if (how & touch_write) one.known.set_written(first, bytes, true);
  const bool is_shared = one.what == kind::dynamic_shared || one.what == kind::static_shared;
  const auto offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code) - launch->library->start);
  const touching now = {runner->thread(), how, offset, is_shared ? order.block_began() : order.launch_began(),
                        !is_shared};
  touched other;
  if (!one.known.touch(first, bytes, now, order, other)) fail_race(one, at, bytes, how, other);
  if (how & touch_atomic) synchronise(now.thread, at, how);
}

void checker::synchronise(unsigned thread, uintptr_t at, unsigned how) {
  const in_service entered(*runner);
  if (how & touch_release) order.fence(thread, true);
  if (how & touch_read) order.acquire(thread, at);
  if (how & touch_write) order.release(thread, at, how & touch_read);
}

// The bytes change at any time from now on, and are there when they are written at the wait.
void checker::begin_copy(const pending_copy &copy, const void *code) {
  const auto into = reinterpret_cast<uintptr_t>(copy.into);
  touch(into, pending_copy_bytes, touch_write, code);
  for (region *one : {&dynamic_shared, &static_shared})
    if (one->where.holds(into)) one->known.set_written(into - one->where.start, pending_copy_bytes, false);
}

void checker::fence(bool is_for_device) {
  const in_service entered(*runner);
  order.fence(runner->thread(), is_for_device);
}

void checker::wait_for_launches() {
  const in_service entered(*runner);
  order.wait_for_launches(runner->thread());
}

void checker::let_next_begin() {
  const in_service entered(*runner);
  order.let_next_begin(runner->thread());
}

// The variable of the kernel that begins at or before the address, or null.
const shared_variable *checker::find_variable(uintptr_t at) const {
  const auto &all = launch->kernel->variables;
  const size_t offset = at - static_shared.where.start;
  const auto after = std::upper_bound(all.begin(), all.end(), offset,
                                      [](size_t wanted, const shared_variable &one) { return wanted < one.offset; });
  return after == all.begin() ? nullptr : &*(after - 1);
}

void checker::check_variable(uintptr_t at, size_t bytes, unsigned how) {
  const size_t offset = at - static_shared.where.start, end = variable_ends[offset];
  if (offset + bytes > end) fail_outside(static_shared.where.start + std::max(offset, end), bytes, how);
}

static void touched_by_image(const void *address, size_t bytes, unsigned how, const void *code) {
  if (active) active->touch(reinterpret_cast<uintptr_t>(address), bytes, how, code);
}

static void fenced_by_image(bool is_for_device) {
  if (active) active->fence(is_for_device);
}

static void misused_by_image(const char *text, source_place where) {
  active->fail(CUDA_ERROR_LAUNCH_FAILED, std::string(text) + " at " + describe(where));
}

const check_services &checking_services() {
  static const check_services made = {touched_by_image, fenced_by_image, misused_by_image};
  return made;
}

} // namespace simulated
