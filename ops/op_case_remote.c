/* SPDX-License-Identifier: MIT
 *
 * The memory of a case on a device whose addresses are not ours: each block has a twin there, of exactly its bytes, so
 * that a device that guards its allocations sees what reaches beyond them.
 */
#include "ops/case.h"

#include <stdint.h>

bool ord_case_remote_add(ord_case_remote *remote, void *data, size_t bytes, bool is_kept, ord_error *err) {
  const ord_device_table *table = remote->queue->device->table;
  if (remote->count == ORD_CASE_BLOCK_MAX) return ord_fail(err, ORD_INTERNAL, "a case has too many blocks of memory");
  ord_case_twin *twin = &remote->twin[remote->count];
  *twin = (ord_case_twin){.data = data, .bytes = bytes, .is_kept = is_kept};
  if (!table->allocate(remote->queue->device, bytes, false, &twin->memory, err)) return false;
  remote->count++;
  return table->write(remote->queue, twin->memory, data, bytes, err);
}

bool ord_case_remote_write(const ord_case_remote *remote, ord_error *err) {
  const ord_device_table *table = remote->queue->device->table;
  for (uint32_t i = 0; i < remote->count; i++) {
    const ord_case_twin *twin = &remote->twin[i];
    if (!twin->is_kept && !table->write(remote->queue, twin->memory, twin->data, twin->bytes, err)) return false;
  }
  return true;
}

bool ord_case_remote_read(const ord_case_remote *remote, ord_error *err) {
  const ord_device_table *table = remote->queue->device->table;
  for (uint32_t i = 0; i < remote->count; i++) {
    const ord_case_twin *twin = &remote->twin[i];
    if (!twin->is_kept && !table->read(remote->queue, twin->data, twin->memory, twin->bytes, err)) return false;
  }
  return true;
}

void *ord_case_remote_address(const ord_case_remote *remote, const void *data) {
  for (uint32_t i = 0; i < remote->count; i++)
    if (remote->twin[i].data == data) return remote->twin[i].memory;
  return NULL;
}

void ord_case_remote_finish(ord_case_remote *remote) {
  if (!remote->queue) return;
  const ord_device_table *table = remote->queue->device->table;
  while (remote->count > 0) table->release(remote->queue->device, remote->twin[--remote->count].memory);
}
