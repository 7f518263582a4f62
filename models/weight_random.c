/* SPDX-License-Identifier: MIT
 *
 * Weights from a seed, for trying a model without its file. Each number depends on seed, name and place alone. The
 * normal distribution is the sum of eight uniform 16-bit numbers: whole numbers up to one last product, so that no
 * machine's logarithm or cosine can give other bits.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "models/weight_file.h"

enum { UNIFORM_COUNT = 8 };

/* The sum has mean 8 * 65535 / 2 and deviation 65536 * sqrt(8 / 12); these make it 0 and 1. */
static const int32_t sum_mean = UNIFORM_COUNT * 65535 / 2;
static const float sum_scale = 1.0f / 53509.92f;
static const float width = 0.02f;

typedef struct random_weight {
  uint64_t key; /* of seed and name */
  size_t bytes;
  float base; /* 1 for vectors, 0 for all others */
} random_weight;

/* A counter-based generator: number `counter` of the stream `key` (the finaliser of splitmix64). */
static uint64_t mix(uint64_t key, uint64_t counter) {
  uint64_t bits = key + counter * 0x9e3779b97f4a7c15u;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

static float number_at(const random_weight *weight, uint64_t element) {
  int32_t sum = 0;
  for (uint64_t half = 0; half < 2; half++) {
    const uint64_t bits = mix(weight->key, 2 * element + half);
    sum += (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) +
           (int32_t)(bits >> 48);
  }
  const float normal = (float)(sum - sum_mean) * sum_scale;
  return weight->base + width * normal;
}

static ord_weight_stored random_stored(void *context, uint32_t weight) {
  const random_weight *weights = context;
  return (ord_weight_stored){.dtype = ORD_F32, .bytes = weights[weight].bytes};
}

static bool random_read(void *context, uint32_t weight, size_t offset, size_t bytes, void *into, ord_error *err) {
  const random_weight *from = (const random_weight *)context + weight;
  if (offset > from->bytes || bytes > from->bytes - offset)
    return ord_fail(err, ORD_INTERNAL, "random weights: bytes %zu to %zu asked for; there are %zu", offset,
                    offset + bytes, from->bytes);
  unsigned char *to = into;
  while (bytes) {
    const float number = number_at(from, offset / sizeof number);
    const size_t skipped = offset % sizeof number, rest = sizeof number - skipped;
    const size_t part = bytes < rest ? bytes : rest;
    memcpy(to, (const unsigned char *)&number + skipped, part);
    to += part;
    offset += part;
    bytes -= part;
  }
  return true;
}

static bool random_read_scale(void *context, uint32_t weight, void *into, ord_error *err) {
  (void)context;
  (void)into;
  return ord_fail(err, ORD_INTERNAL, "random weights: weight %u has no scales", weight);
}

bool ord_random_source(const ord_graph *graph, uint64_t seed, ord_weight_source *out, ord_error *err) {
  random_weight *weights = calloc((size_t)graph->weight_count + 1, sizeof *weights);
  if (!weights) return ord_fail_memory(err, "making random weights");
  for (uint32_t i = 0; i < graph->weight_count; i++) {
    const ord_graph_weight *from = &graph->weight[i];
    weights[i].key = XXH64(from->name, strlen(from->name), seed);
    weights[i].base = from->stored_rank == 1 ? 1.0f : 0.0f;
    if (ord_tensor_bytes(ORD_F32, from->stored_rank, from->stored_dim, &weights[i].bytes)) continue;
    free(weights);
    return ord_fail(err, ORD_INVALID, "weight '%s' is too large for any memory", from->name);
  }
  *out = (ord_weight_source){.context = weights,
                             .weight_count = graph->weight_count,
                             .stored = random_stored,
                             .read = random_read,
                             .read_scale = random_read_scale,
                             .destroy = free};
  return true;
}
