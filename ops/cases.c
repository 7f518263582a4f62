/* SPDX-License-Identifier: MIT
 *
 * Runs a kernel on a conformance row, as the host would, and judges it: query, pack, prepare, launch, retire.
 */
#include "ops/cases.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/case.h"

/* ---- a host of our own ------------------------------------------------------------------------------------------- */

/* `context` counts what is not released yet. */
static void *host_allocate(void *context, size_t bytes, size_t align) {
  if (align < sizeof(void *)) align = sizeof(void *);
  void *memory = bytes > SIZE_MAX - align ? NULL : aligned_alloc(align, (bytes + align) / align * align);
  if (memory) ++*(uint32_t *)context;
  return memory;
}

static void host_release(void *context, void *memory) {
  if (memory) --*(uint32_t *)context;
  free(memory);
}

static void host_log(void *context, int level, const char *text) { (void)context, (void)level, (void)text; }

static void *host_find(void *context, const char *name) {
  (void)context, (void)name;
  return NULL;
}

/* ---- one run of one row -------------------------------------------------------------------------------------------
 */

/* Memory of `bytes` between margins that must stay as they are. */
typedef struct guarded {
  unsigned char *data;
  size_t bytes;
} guarded;

typedef struct case_trial {
  ord_case_setup *setup;
  const ord_kernel *kernel;
  const ord_host *host;
  ord_case_result *result;
  ord_case_wanted wanted;
  ord_answer answer;
  void *state;
  void *address[ORD_CASE_TENSOR_MAX];
  unsigned char *before[ORD_CASE_TENSOR_MAX]; /* each block as it is before a launch */
  guarded scratch, worker, persistent;
  ord_case_remote remote;
} case_trial;

enum { MARGIN_BYTE = 0xa5 };

/* Does it exceed all memory that there is? A system may promise it all the same and then end the process. */
static bool exceeds_machine(size_t bytes) {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (bytes > SIZE_MAX - 4 * ORD_CASE_MARGIN) return true;
  return pages > 0 && page_bytes > 0 && bytes / (size_t)page_bytes >= (size_t)pages;
}

static bool guard(case_trial *trial, size_t bytes, const char *what, guarded *out) {
  if (exceeds_machine(bytes))
    return ord_case_fail(trial->result, "query: wants %zu bytes of %s, more than this machine has", bytes, what);
  const size_t all = bytes + 3 * ORD_CASE_MARGIN;
  unsigned char *block = ord_arena_take(trial->setup->arena, all, 1);
  if (!block) return ord_case_out_of_memory(trial->setup);
  memset(block, MARGIN_BYTE, all);
  out->data = block + 2 * ORD_CASE_MARGIN - (uintptr_t)block % ORD_CASE_MARGIN;
  out->bytes = bytes;
  return true;
}

static bool check_guard(case_trial *trial, const guarded *memory, const char *what) {
  for (size_t i = 1; i <= ORD_CASE_MARGIN; i++)
    if (memory->data[-(ptrdiff_t)i] != MARGIN_BYTE || memory->data[memory->bytes + i - 1] != MARGIN_BYTE)
      return ord_case_fail(trial->result, "%s: %zu bytes were asked for, and bytes beyond them were written", what,
                           memory->bytes);
  return true;
}

/* The bytes of a tensor without its margins. */
static size_t bytes_of(const ord_case_tensor *tensor) {
  return tensor->block_bytes - (size_t)(tensor->data - tensor->block) - ORD_CASE_MARGIN;
}

static bool add_twin(case_trial *trial, void *data, size_t bytes, bool is_kept) {
  ord_error fault = ORD_ERROR_INIT;
  if (!trial->remote.queue || ord_case_remote_add(&trial->remote, data, bytes, is_kept, &fault)) return true;
  return ord_case_fail(trial->result, "making memory on the device: %s", fault.text);
}

/* ---- query and pack -------------------------------------------------------------------------------------------- */

static bool ask(case_trial *trial, ord_answer *answer, ord_status *out_status) {
  const ord_node *node = &trial->setup->node;
  memset(answer, 0, sizeof *answer);
  answer->struct_size = sizeof *answer;
  answer->epilogue_served = node->epilogue_count;
  answer->pack = ord_arena_take(trial->setup->arena, node->operand_count, sizeof *answer->pack);
  if (!answer->pack) return ord_case_out_of_memory(trial->setup);
  *out_status = trial->kernel->query(trial->kernel, node, answer);
  return true;
}

static bool refuse(case_trial *trial, const char *format, ...) ORD_PRINTF(2, 3);
static bool refuse(case_trial *trial, const char *format, ...) {
  trial->result->verdict = ORD_CASE_REFUSED;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(trial->result->text, sizeof trial->result->text, format, arguments);
  va_end(arguments);
  return false;
}

static bool check_answer(case_trial *trial) {
  const ord_answer *answer = &trial->answer;
  const ord_node *node = &trial->setup->node;
  if (answer->phase_count < 1 || answer->phase_count > ORD_PHASE_MAX)
    return ord_case_fail(trial->result, "query: found %u phases; wanted 1 to %d", answer->phase_count, ORD_PHASE_MAX);
  for (uint32_t phase = 0; !trial->remote.queue && phase < answer->phase_count; phase++)
    if (!answer->chunk_limit[phase]) return ord_case_fail(trial->result, "query: phase %u has no chunk", phase);
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (!answer->pack[i].key) continue;
    if (node->operand[i].role != ORD_WEIGHT)
      return ord_case_fail(trial->result, "query: operand %u is packed and no weight", i);
    if (!trial->kernel->pack)
      return ord_case_fail(trial->result, "query: operand %u has a pack key, but there is no pack", i);
  }
  if (answer->epilogue_served > node->epilogue_count)
    return ord_case_fail(trial->result, "query: serves %u of %u epilogue items", answer->epilogue_served,
                         node->epilogue_count);
  if (answer->epilogue_served < node->epilogue_count)
    return refuse(trial, "serves %u of %u epilogue items", answer->epilogue_served, node->epilogue_count);
  return true;
}

static bool is_same(const ord_answer *a, const ord_answer *b, uint32_t operand_count) {
  for (uint32_t i = 0; i < operand_count; i++)
    if (a->pack[i].key != b->pack[i].key || a->pack[i].bytes != b->pack[i].bytes) return false;
  return a->flags == b->flags && a->scratch_bytes == b->scratch_bytes && a->worker_bytes == b->worker_bytes &&
         a->persistent_bytes == b->persistent_bytes && a->phase_count == b->phase_count &&
         memcmp(a->chunk_limit, b->chunk_limit, sizeof a->chunk_limit) == 0 && a->alias_mask == b->alias_mask &&
         a->epilogue_served == b->epilogue_served && a->estimate_us == b->estimate_us &&
         strncmp(a->variant, b->variant, sizeof a->variant) == 0 &&
         strncmp(a->reason, b->reason, sizeof a->reason) == 0;
}

/* Asks twice: a pure function gives the same answer. */
static bool query(case_trial *trial) {
  ord_answer again;
  ord_status status, status_again;
  if (!ask(trial, &trial->answer, &status) || !ask(trial, &again, &status_again)) return false;
  if (status != status_again || !is_same(&trial->answer, &again, trial->setup->node.operand_count))
    return ord_case_fail(trial->result, "query: gives two answers to one question");
  if (status == ORD_NO && !trial->answer.reason[0])
    return ord_case_fail(trial->result, "query: refuses without a reason");
  if (status == ORD_NO) return refuse(trial, "%.*s", (int)sizeof trial->answer.reason, trial->answer.reason);
  if (status != ORD_OK) return ord_case_fail(trial->result, "query: status %d; wanted ORD_OK or ORD_NO", (int)status);
  memcpy(trial->result->variant, trial->answer.variant, sizeof trial->result->variant - 1);
  return check_answer(trial);
}

/* Packs operand `which` in slices, the last one first, as threads may. */
static bool pack(case_trial *trial, uint32_t which) {
  enum { SLICES = 3, SEGMENT_MAX = 8 };
  const ord_case_tensor *tensor = &trial->setup->tensor[which];
  const void *segment[SEGMENT_MAX] = {tensor->data};
  int64_t row = 0;
  for (uint32_t i = 0; i < tensor->segment_count; i++) {
    segment[i] = tensor->data + row * tensor->stride[0];
    row += tensor->segment[i].rows;
  }
  guarded packed;
  if (!guard(trial, trial->answer.pack[which].bytes, "packed weights", &packed)) return false;
  for (uint32_t slice = SLICES; slice-- > 0;) {
    const ord_status status = trial->kernel->pack(trial->kernel, &trial->setup->node, &trial->answer, which, segment,
                                                  slice, SLICES, packed.data);
    if (status != ORD_OK)
      return ord_case_fail(trial->result, "pack: status %d of operand %s", (int)status, tensor->name);
  }
  trial->address[which] = packed.data;
  return check_guard(trial, &packed, "pack") && add_twin(trial, packed.data, packed.bytes, true);
}

/* ---- launch --------------------------------------------------------------------------------------------------------
 */

/* Chunk number `place` of a shuffled order: steps of a number that shares no factor with the count. */
static uint32_t shuffled(uint32_t place, uint32_t count) {
  if (count < 2) return place;
  uint32_t step = count / 2 + 1;
  for (;;) {
    uint32_t a = step, b = count;
    while (b) {
      const uint32_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return (uint32_t)(((uint64_t)place * step + count / 3) % count);
    step++;
  }
}

/* All memory goes to the device, its work comes back. */
static bool launch_remote(case_trial *trial) {
  ord_error fault = ORD_ERROR_INIT;
  const ord_case_remote *remote = &trial->remote;
  const ord_device_table *table = remote->queue->device->table;
  void *address[ORD_CASE_TENSOR_MAX];
  for (uint32_t i = 0; i < trial->setup->tensor_count; i++)
    address[i] = ord_case_remote_address(remote, trial->address[i]);
  ord_exec exec = {.struct_size = sizeof exec,
                   .operand = address,
                   .scratch = ord_case_remote_address(remote, trial->scratch.data),
                   .persistent = ord_case_remote_address(remote, trial->persistent.data)};
  memset(trial->scratch.data, 0xff, trial->scratch.bytes);
  if (!table->stream(remote->queue, &exec.stream, &fault) || !ord_case_remote_write(remote, &fault))
    return ord_case_fail(trial->result, "launch: %s", fault.text);
  ord_plugin_error err = {.struct_size = sizeof err};
  const ord_status status = trial->kernel->launch(trial->state, &exec, &err);
  const bool is_alive = table->wait(remote->queue, &fault); /* else it tells more than err.text has room for */
  if (is_alive && status != ORD_OK) return ord_case_fail(trial->result, "launch: status %d: %s", (int)status, err.text);
  return (is_alive && ord_case_remote_read(remote, &fault)) || ord_case_fail(trial->result, "launch: %s", fault.text);
}

/* Scratch starts undefined, and a worker's memory may have served another chunk before. */
static bool launch(case_trial *trial, bool is_shuffled) {
  if (trial->remote.queue) return launch_remote(trial);
  memset(trial->scratch.data, 0xff, trial->scratch.bytes);
  ord_exec exec = {.struct_size = sizeof exec,
                   .operand = trial->address,
                   .scratch = trial->scratch.data,
                   .worker = trial->worker.data,
                   .persistent = trial->persistent.data};
  for (exec.phase = 0; exec.phase < trial->answer.phase_count; exec.phase++) {
    exec.chunk_count = trial->answer.chunk_limit[exec.phase];
    for (uint32_t place = 0; place < exec.chunk_count; place++) {
      exec.chunk = is_shuffled ? shuffled(place, exec.chunk_count) : place;
      memset(trial->worker.data, 0xff, trial->worker.bytes);
      ord_plugin_error err = {.struct_size = sizeof err};
      const ord_status status = trial->kernel->launch(trial->state, &exec, &err);
      if (status != ORD_OK) return ord_case_fail(trial->result, "launch: status %d: %s", (int)status, err.text);
    }
  }
  return check_guard(trial, &trial->scratch, "scratch") && check_guard(trial, &trial->worker, "worker") &&
         check_guard(trial, &trial->persistent, "persistent");
}

/* Sets every element of the plan's maximum to zero bytes, so that what is left to compare lies around them. */
static void erase_elements(const ord_case_tensor *tensor, unsigned char *block) {
  ord_reference_tensor view = ord_case_view_whole(tensor);
  view.data = (char *)block + (tensor->data - tensor->block);
  int64_t index[ORD_RANK_MAX] = {0};
  for (int64_t i = 0; i < ord_reference_count(&view); i++) {
    ord_reference_index(&view, i, index);
    memset(ord_reference_at(&view, index), 0, ord_dtype_get(tensor->dtype)->block_bytes);
  }
}

/* Inputs are as they were, and around results and states nothing was written. */
static bool check_memory(case_trial *trial) {
  for (uint32_t i = 0; i < trial->setup->tensor_count; i++) {
    const ord_case_tensor *tensor = &trial->setup->tensor[i];
    if (tensor->role == ORD_ABSENT) continue;
    const bool is_written = tensor->role == ORD_OUTPUT || tensor->role == ORD_STATE;
    unsigned char *now = ord_arena_copy(trial->setup->arena, tensor->block, tensor->block_bytes, 1);
    unsigned char *before = ord_arena_copy(trial->setup->arena, trial->before[i], tensor->block_bytes, 1);
    if (!now || !before) return ord_case_out_of_memory(trial->setup);
    if (is_written) erase_elements(tensor, now), erase_elements(tensor, before);
    if (memcmp(now, before, tensor->block_bytes) != 0)
      return ord_case_fail(trial->result,
                           is_written ? "%s: bytes outside the tensor were written" : "%s: an input was written",
                           tensor->name);
  }
  return true;
}

/* ---- the whole
 * ---------------------------------------------------------------------------------------------------------- */

static void restore(case_trial *trial) {
  for (uint32_t i = 0; i < trial->setup->tensor_count; i++)
    if (trial->before[i]) memcpy(trial->setup->tensor[i].block, trial->before[i], trial->setup->tensor[i].block_bytes);
}

/* Chunks in another order, on the same state: the same bits. */
static bool run_shuffled(case_trial *trial) {
  unsigned char *first[ORD_CASE_TENSOR_MAX] = {NULL};
  for (uint32_t i = 0; i < trial->setup->tensor_count; i++) {
    const ord_case_tensor *tensor = &trial->setup->tensor[i];
    if (tensor->role != ORD_OUTPUT) continue;
    first[i] = ord_arena_copy(trial->setup->arena, tensor->block, tensor->block_bytes, 1);
    if (!first[i]) return ord_case_out_of_memory(trial->setup);
  }
  restore(trial);
  if (!launch(trial, true)) return false;
  for (uint32_t i = 0; i < trial->setup->tensor_count; i++)
    if (first[i] && memcmp(first[i], trial->setup->tensor[i].block, trial->setup->tensor[i].block_bytes) != 0)
      return ord_case_fail(trial->result, "%s: a second launch with its chunks in another order gives other bits",
                           trial->setup->tensor[i].name);
  return true;
}

static bool lie_alike(const ord_case_tensor *a, const ord_case_tensor *b) {
  return a->dtype == b->dtype && a->rank == b->rank && a->block_bytes == b->block_bytes &&
         memcmp(a->dim, b->dim, sizeof a->dim) == 0 && memcmp(a->run, b->run, sizeof a->run) == 0 &&
         memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

/* The first result on top of each input that the kernel said it may overwrite. */
static bool run_aliased(case_trial *trial) {
  const uint32_t result = trial->setup->entry_count;
  for (uint32_t i = 0; i < result && i < 32; i++) {
    const ord_case_tensor *input = &trial->setup->tensor[i], *output = &trial->setup->tensor[result];
    if (!(trial->answer.alias_mask >> i & 1) || input->role != ORD_INPUT || !trial->setup->result_count ||
        !lie_alike(input, output))
      continue;
    restore(trial);
    memcpy(output->data, input->data, bytes_of(output));
    trial->address[i] = output->data;
    const bool is_right =
        launch(trial, false) && check_memory(trial) && ord_case_judge(trial->setup, &trial->wanted, trial->result);
    trial->address[i] = input->data;
    if (is_right) continue;
    char text[sizeof trial->result->text];
    memcpy(text, trial->result->text, sizeof text);
    if (trial->result->verdict == ORD_CASE_FAILED)
      ord_case_fail(trial->result, "with the result on top of %s: %.400s", input->name, text);
    return false;
  }
  return true;
}

static bool run_prepared(case_trial *trial) {
  for (uint32_t i = 0; i < trial->setup->tensor_count; i++) {
    const ord_case_tensor *tensor = &trial->setup->tensor[i];
    if (tensor->role == ORD_ABSENT) continue;
    trial->before[i] = ord_arena_copy(trial->setup->arena, tensor->block, tensor->block_bytes, 1);
    if (!trial->before[i]) return ord_case_out_of_memory(trial->setup);
  }
  return launch(trial, false) && check_memory(trial) && ord_case_judge(trial->setup, &trial->wanted, trial->result) &&
         run_shuffled(trial) && run_aliased(trial);
}

static bool make_twins(case_trial *trial) {
  for (uint32_t i = 0; i < trial->setup->tensor_count; i++) {
    const ord_case_tensor *tensor = &trial->setup->tensor[i];
    if (tensor->role != ORD_ABSENT && !add_twin(trial, tensor->data, bytes_of(tensor), false)) return false;
  }
  return add_twin(trial, trial->scratch.data, trial->scratch.bytes, false) &&
         add_twin(trial, trial->persistent.data, trial->persistent.bytes, true);
}

static bool run_trial(case_trial *trial) {
  ord_case_setup *setup = trial->setup;
  if (!query(trial)) return false;
  if (!ord_case_expect(setup, &trial->wanted)) return false;
  if (!ord_case_append(setup, setup->op, &trial->answer, setup->tensor, setup->tensor_count)) return false;
  for (uint32_t i = 0; i < setup->tensor_count; i++) {
    trial->address[i] = setup->tensor[i].data;
    if (trial->answer.pack[i].key && !pack(trial, i)) return false;
  }
  if (!guard(trial, trial->answer.scratch_bytes, "scratch", &trial->scratch) ||
      !guard(trial, trial->answer.worker_bytes, "worker memory", &trial->worker) ||
      !guard(trial, trial->answer.persistent_bytes, "persistent memory", &trial->persistent))
    return false;
  memset(trial->persistent.data, 0, trial->persistent.bytes);
  if (!make_twins(trial)) return false;
  ord_plugin_error err = {.struct_size = sizeof err};
  const ord_status status =
      trial->kernel->prepare(trial->kernel, &setup->node, &trial->answer, trial->host, &trial->state, &err);
  if (status != ORD_OK) return ord_case_fail(trial->result, "prepare: status %d: %s", (int)status, err.text);
  const bool is_right = run_prepared(trial);
  trial->kernel->retire(trial->state);
  return is_right;
}

/* False if the row is wrong or memory runs out. */
static bool run_once(const ord_op *op, const ord_case *row, const ord_kernel *kernel, const ord_case_options *options,
                     ord_case_result *result, ord_error *err) {
  ord_arena arena = {NULL};
  ord_error fault = ORD_ERROR_INIT;
  uint32_t live = 0;
  const ord_host own = {.struct_size = sizeof own,
                        .abi_minor = ORD_ABI_MINOR,
                        .context = &live,
                        .allocate = host_allocate,
                        .release = host_release,
                        .log = host_log,
                        .find = host_find};
  ord_case_setup *setup = ord_arena_take(&arena, 1, sizeof *setup);
  case_trial *tried = ord_arena_take(&arena, 1, sizeof *tried);
  bool is_made = false;
  if (!setup || !tried) {
    ord_fail_memory(&fault, "making a case");
  } else {
    *setup = (ord_case_setup){.op = op, .row = row, .options = options, .arena = &arena, .err = &fault};
    *tried =
        (case_trial){.setup = setup, .kernel = kernel, .host = options->host ? options->host : &own, .result = result};
    is_made = ord_case_read(setup) && ord_case_make(setup);
    tried->remote.queue = options->queue && !options->queue->device->is_host_memory ? options->queue : NULL;
    if (is_made && run_trial(tried) && live) ord_case_fail(result, "retire: %u allocations are not released", live);
    ord_case_remote_finish(&tried->remote);
  }
  ord_arena_finish(&arena);
  if (fault.code == ORD_OK) return true;
  if (err) *err = fault;
  return false;
}

/* ---- sweeps
 * -------------------------------------------------------------------------------------------------------------- */

/* Appends `text` with `number` for each $, but without the word $=.. */
static void substitute(ord_text *into, const char *text, int64_t number) {
  for (const char *at = text; *at; at++) {
    if (*at == '$' && at[1] == '=')
      at += strcspn(at, " ") - 1;
    else if (*at == '$')
      ord_text_add(into, "%lld", (long long)number);
    else
      ord_text_add_n(into, at, 1);
  }
}

static bool run_number(const ord_op *op, const ord_case *row, int64_t number, const ord_kernel *kernel,
                       const ord_case_options *options, ord_case_result *result, ord_error *err) {
  ord_text operands = {0}, attributes = {0};
  ord_text_add_n(&operands, "", 0);
  ord_text_add_n(&attributes, "", 0);
  substitute(&operands, row->operands, number);
  substitute(&attributes, row->attributes, number);
  const ord_case plain = {operands.bytes, attributes.bytes};
  const bool is_run = operands.failed || attributes.failed ? ord_fail_memory(err, "making a case")
                                                           : run_once(op, &plain, kernel, options, result, err);
  ord_text_finish(&operands);
  ord_text_finish(&attributes);
  return is_run;
}

/* Adds the result of one number of a sweep: a failure ends it, a refusal is counted. */
static void add_result(ord_case_result *all, const ord_case_result *one) {
  all->run_count++;
  if (one->error > all->error) all->error = one->error;
  if (one->verdict == ORD_CASE_REFUSED) {
    if (!all->refused_count++) memcpy(all->text, one->text, sizeof all->text);
    return;
  }
  memcpy(all->variant, one->variant, sizeof all->variant);
}

const ord_device_info ord_case_cpu = {
    .struct_size = sizeof ord_case_cpu, .kind = ORD_DEVICE_CPU, .cores = 1, .name = "cpu without extensions"};

bool ord_case_run(const ord_op *op, const ord_case *row, const ord_kernel *kernel, const ord_case_options *options,
                  ord_case_result *out, ord_error *err) {
  ord_case_options chosen = {0};
  if (options) chosen = *options;
  if (!chosen.device) chosen.device = &ord_case_cpu;
  *out = (ord_case_result){.verdict = ORD_CASE_PASSED};
  const char *sweep = strstr(row->attributes, "$=");
  if (sweep) sweep += 2;
  do {
    char *end = NULL;
    const int64_t first = sweep ? strtoll(sweep, &end, 10) : 0;
    const int64_t last = sweep && strncmp(end, "..", 2) == 0 ? strtoll(end + 2, &end, 10) : first;
    for (int64_t number = first; number <= last; number++) {
      ord_case_result one = {.verdict = ORD_CASE_PASSED};
      if (!run_number(op, row, number, kernel, &chosen, &one, err)) return false;
      add_result(out, &one);
      if (one.verdict != ORD_CASE_FAILED) continue;
      out->verdict = ORD_CASE_FAILED;
      if (sweep)
        snprintf(out->text, sizeof out->text, "$=%lld: %.740s", (long long)number, one.text);
      else
        memcpy(out->text, one.text, sizeof out->text);
      return true;
    }
    sweep = sweep && *end == ',' ? end + 1 : NULL;
  } while (sweep);
  if (out->refused_count == out->run_count) out->verdict = ORD_CASE_REFUSED;
  return true;
}
