/* SPDX-License-Identifier: MIT
 *
 * Captures, and what breaks them: a call that waits for the whole context, in whatever thread. Captures share a gate,
 * and what may wait for the context takes it alone: freeing memory, loading and unloading code, making and freeing the
 * handles of libraries. There is one gate for the process, since all devices that it opens are one context.
 */
#include "runtime/cuda.h"

static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static _Thread_local uint32_t pause_depth; /* of this thread */

void ord_cuda_begin_capturing(void) { pthread_rwlock_rdlock(&gate); }
void ord_cuda_end_capturing(void) { pthread_rwlock_unlock(&gate); }

void ord_cuda_pause_captures(void) {
  if (pause_depth++ == 0) pthread_rwlock_wrlock(&gate);
}

void ord_cuda_resume_captures(void) {
  if (--pause_depth == 0) pthread_rwlock_unlock(&gate);
}
