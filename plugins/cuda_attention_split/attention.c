/* SPDX-License-Identifier: MIT
 *
 * cuda_attention_split: attention for a few queries of each row, with or without a cache, to which it appends. The keys
 * of a head are shared out to so many blocks that the device is busy.
 */
#include "cuda_attention/node.h"
#include "images.h"
#include "split.h"

enum { QUERIES_MAX = 8, WIDTH_MAX = 256, BLOCKS_PER_CORE = 2 };

/* What follows from a node. */
typedef struct split_plan {
  uint32_t width, rows; /* of the instance */
  uint32_t split_count;
  uint64_t tiles; /* of the batch and all key heads */
} split_plan;

static uint64_t at_least_one(int64_t count) { return count < 1 ? 1 : (uint64_t)count; }

/* Keys that a block has under way at once. */
static uint32_t keys_of_turn(const split_plan *plan, const ord_operand *key) {
  const uint32_t pieces = plan->width * key->block_bytes / 16;
  return SPLIT_WARPS * SPLIT_STEPS * (32 / (pieces < 32 ? pieces : 32));
}

static split_plan plan_of(const ord_node *node) {
  const ord_operand *q = attention_operand(node, "q", "q"), *key = attention_operand(node, "cache_k", "k"),
                    *value = attention_operand(node, "cache_v", "v");
  const int64_t width = key->dim[3] > value->dim[3] ? key->dim[3] : value->dim[3];
  const uint64_t rows = at_least_one(q->dim[1] / key->dim[1] * q->dim[2]);
  split_plan made = {.width = 32, .rows = rows == 1 ? 1 : SPLIT_ROWS};
  while (made.width < width) made.width *= 2;
  made.tiles = at_least_one(q->dim[0]) * (uint64_t)key->dim[1] * ((rows + made.rows - 1) / made.rows);
  const uint64_t turns = at_least_one((key->dim[2] + keys_of_turn(&made, key) - 1) / keys_of_turn(&made, key));
  uint64_t count = at_least_one((int64_t)(BLOCKS_PER_CORE * node->device->cores / made.tiles));
  if (count > turns) count = turns;
  made.split_count = count < SPLIT_COUNT_MAX ? (uint32_t)count : SPLIT_COUNT_MAX;
  return made;
}

static ord_status split_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  if (attention_check(node, answer) != ORD_OK) return ORD_NO;
  const ord_operand *q = attention_operand(node, "q", "q"), *key = attention_operand(node, "cache_k", "k"),
                    *value = attention_operand(node, "cache_v", "v");
  if (ord_node_output(node, 1) != ORD_NONE)
    return attention_refuse(answer, "probabilities as a second output; wanted the first output alone");
  if (q->dim[2] > QUERIES_MAX)
    return attention_refuse(answer, "%lld queries; wanted at most %d", (long long)q->dim[2], QUERIES_MAX);
  if (key->dim[3] > WIDTH_MAX || value->dim[3] > WIDTH_MAX)
    return attention_refuse(answer, "keys of width %lld, values of width %lld; wanted at most %d",
                            (long long)key->dim[3], (long long)value->dim[3], WIDTH_MAX);
  if (key->dtype != value->dtype)
    return attention_refuse(answer, "keys in %s, values in %s; wanted one type", attention_type_name(key->dtype),
                            attention_type_name(value->dtype));
  const split_plan plan = plan_of(node);
  answer->flags = ord_node_find(node, "cache_k") == ORD_NONE ? 0 : ORD_APPENDS;
  answer->phase_count = 1;
  answer->epilogue_served = 0;
  answer->persistent_bytes = plan.tiles * sizeof(uint32_t);
  if (plan.split_count > 1)
    answer->scratch_bytes =
        plan.tiles * plan.split_count * plan.rows * SPLIT_RECORD((uint64_t)plan.width) * sizeof(float);
  snprintf(answer->variant, sizeof answer->variant, "%s keys of width %u, tiles of %u, up to %u blocks each",
           attention_type_name(key->dtype), plan.width, plan.rows, plan.split_count);
  return ORD_OK;
}

static ord_status split_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  const split_plan plan = plan_of(node);
  const uint32_t shared_bytes = SPLIT_WARPS * plan.rows * SPLIT_RECORD(plan.width) * sizeof(float);
  char symbol[32];
  snprintf(symbol, sizeof symbol, "split_%s_%u_%u", attention_type_name(attention_operand(node, "cache_k", "k")->dtype),
           plan.width, plan.rows);
  attention_state *made;
  const ord_status status =
      attention_prepare(node, host, "attention", symbol, (uint32_t)(plan.tiles * plan.split_count), SPLIT_THREADS,
                        shared_bytes, &made, err);
  if (status != ORD_OK) return status;
  made->arguments.split_count = (int32_t)plan.split_count;
  *state = made;
  return ORD_OK;
}

static const ord_kernel split = {
    .struct_size = sizeof split,
    .priority = 20,
    .device = ORD_DEVICE_CUDA,
    .name = "cuda_attention_split",
    .op = "attention",
    .query = split_query,
    .prepare = split_prepare,
    .launch = attention_launch,
    .retire = attention_retire,
};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,  .flags = ORD_PLUGIN_UNLOADABLE, .name = "cuda_attention_split",
    .version = "0.1.0", .toolchain = "CUDA C++",
};

static const ord_kernel *const kernels[] = {&split};

static const ord_plugin plugin = {
    .struct_size = sizeof plugin,
    .kernel_count = 1,
    .image_count = plugin_image_count,
    .kernel = kernels,
    .image = plugin_images,
};

ord_status ord_plugin_open(const ord_host *host, const ord_plugin **out, ord_plugin_error *err) {
  (void)host, (void)err;
  *out = &plugin;
  return ORD_OK;
}
