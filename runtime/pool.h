/* SPDX-License-Identifier: MIT
 *
 * A pool of threads that runs numbered chunks. One lease at a time: a replay leases the pool, runs its phases, gives
 * it back; between the phases of a lease the workers spin for a bounded time and then sleep. No allocation per phase,
 * and no lock while all are awake. Which thread takes which chunk is not fixed; results must not depend on it.
 */
#ifndef ORDITO_RUNTIME_POOL_H
#define ORDITO_RUNTIME_POOL_H

#include "runtime/error.h"

typedef struct ord_pool ord_pool;

/* The cores that this process may use (its affinity counts), at least 1. */
uint32_t ord_pool_cores(void);

/* Computes one chunk. `worker` is 0 .. ord_pool_threads - 1, unique among the threads of the phase. Returns false to
 * make ord_pool_phase return false; chunks that have not begun are then skipped. */
typedef bool (*ord_pool_chunk_fn)(void *context, uint32_t chunk, uint32_t chunk_count, uint32_t worker);

/* threads: 0 = the machine's cores (those this process may use), 1 = the caller alone, negative = ORD_INVALID; at
 * most ORD_THREADS_MAX. More than the cores is allowed; *out_oversubscribed tells (may be NULL). The calling thread
 * takes part, so `threads - 1` threads are started. */
ORD_MUST_CHECK bool ord_pool_create(int threads, ord_pool **out, bool *out_oversubscribed, ord_error *err);
void ord_pool_destroy(ord_pool *pool);
uint32_t ord_pool_threads(const ord_pool *pool);

/* Takes the pool for this thread; waits while another holds it. Not recursive. */
void ord_pool_lease(ord_pool *pool);
void ord_pool_release(ord_pool *pool);

/* Runs chunk 0 .. chunk_count - 1 and returns when all are done. Only between lease and release. Neighbours go to one
 * thread as far as the threads keep pace, so that each walks through memory of its own. */
bool ord_pool_phase(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count);

/* A lease for one phase. Without a pool the caller runs the chunks alone. */
bool ord_pool_run(ord_pool *pool, ord_pool_chunk_fn chunk_fn, void *context, uint32_t chunk_count);

#endif
