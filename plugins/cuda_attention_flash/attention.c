/* SPDX-License-Identifier: MIT
 *
 * cuda_attention_flash: attention for many queries, on tensor cores. Products are made of bf16, or of f16 where all is
 * f16 already; where the caller wants those of f32, only what is stored in these types is served.
 */
#include "cuda_attention/node.h"
#include "flash.h"
#include "images.h"

enum { WIDTH_MAX = 256 };

/* What follows from a node. */
typedef struct flash_plan {
  const char *type; /* of the tiles */
  uint32_t width;   /* of the instance */
  uint32_t tiles;   /* a warp has so many times 16 queries */
  uint32_t blocks;
} flash_plan;

/* The instances, see FLASH_KERNELS. */
static const uint32_t widths[] = {32, 64, 96, 128, 192, 256};

static uint32_t blocks_of(const ord_operand *q, uint32_t tiles) {
  const int64_t each = FLASH_QUERIES(tiles), blocks = q->dim[0] * q->dim[1] * ((q->dim[2] + each - 1) / each);
  return blocks < 1 ? 1 : (uint32_t)blocks;
}

static flash_plan plan_of(const ord_node *node) {
  const ord_operand *q = attention_operand(node, "q", "q"), *key = attention_operand(node, "cache_k", "k"),
                    *value = attention_operand(node, "cache_v", "v");
  const int64_t width = key->dim[3] > value->dim[3] ? key->dim[3] : value->dim[3];
  const bool is_f16 = q->dtype == ORD_F16 && key->dtype == ORD_F16 && value->dtype == ORD_F16;
  flash_plan made = {.type = is_f16 ? "f16" : "bf16", .tiles = 1};
  for (size_t i = 0; i < sizeof widths / sizeof *widths && made.width < width; i++) made.width = widths[i];
  /* The larger block reads keys half as often; it pays once there are enough of them. */
  const bool is_plain =
      FLASH_IS_PLAIN(ord_node_find(node, "mask") != ORD_NONE, (float)ord_node_number(node, "soft_cap", 0),
                     (float)ord_node_number(node, "scale", 1));
  if (is_plain && made.width == 64 && blocks_of(q, 2) >= node->device->cores) made.tiles = 2;
  made.blocks = blocks_of(q, made.tiles);
  return made;
}

static uint32_t shared_bytes_of(const flash_plan *plan) { return FLASH_SHARED_BYTES(plan->width, plan->tiles); }

/* Weights of keys in bf16 are less than either is worth. */
static bool wants_f32(const ord_node *node) { return node->compute == ORD_F32 || node->compute == ORD_TF32; }

static ord_status flash_query(const ord_kernel *kernel, const ord_node *node, ord_answer *answer) {
  (void)kernel;
  if (attention_check(node, answer) != ORD_OK) return ORD_NO;
  const ord_operand *q = attention_operand(node, "q", "q"), *key = attention_operand(node, "cache_k", "k"),
                    *value = attention_operand(node, "cache_v", "v");
  if (ord_node_output(node, 1) != ORD_NONE)
    return attention_refuse(answer, "probabilities as a second output; wanted the first output alone");
  if (key->dim[3] > WIDTH_MAX || value->dim[3] > WIDTH_MAX)
    return attention_refuse(answer, "keys of width %lld, values of width %lld; wanted at most %d",
                            (long long)key->dim[3], (long long)value->dim[3], WIDTH_MAX);
  const bool is_stored = q->dtype != ORD_F32 && key->dtype == q->dtype && value->dtype == q->dtype;
  if (wants_f32(node) && !is_stored)
    return attention_refuse(answer,
                            "products of f32, of queries in %s, keys in %s, values in %s; wanted products of bf16, or "
                            "all in bf16 or f16",
                            attention_type_name(q->dtype), attention_type_name(key->dtype),
                            attention_type_name(value->dtype));
  const flash_plan plan = plan_of(node);
  if (shared_bytes_of(&plan) > node->device->shared_bytes)
    return attention_refuse(answer, "%llu bytes of shared memory; wanted %u",
                            (unsigned long long)node->device->shared_bytes, shared_bytes_of(&plan));
  answer->phase_count = 1;
  answer->epilogue_served = 0;
  snprintf(answer->variant, sizeof answer->variant, "%s tiles of %d queries x %d keys, width %u%s", plan.type,
           FLASH_QUERIES((int)plan.tiles), FLASH_KEYS(plan.width), plan.width,
           wants_f32(node) ? ", weights in two parts" : "");
  return ORD_OK;
}

static ord_status flash_prepare(const ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                                const ord_host *host, void **state, ord_plugin_error *err) {
  (void)kernel, (void)answer;
  const flash_plan plan = plan_of(node);
  char image[32], symbol[32];
  snprintf(image, sizeof image, "flash_%s", plan.type);
  snprintf(symbol, sizeof symbol, "flash_%s_%u_%u", plan.type, plan.width, plan.tiles);
  attention_state *made;
  const ord_status status =
      attention_prepare(node, host, image, symbol, plan.blocks, FLASH_THREADS, shared_bytes_of(&plan), &made, err);
  if (status != ORD_OK) return status;
  made->arguments.is_exact = wants_f32(node);
  *state = made;
  return ORD_OK;
}

static const ord_kernel flash = {
    .struct_size = sizeof flash,
    .priority = 10,
    .device = ORD_DEVICE_CUDA,
    .name = "cuda_attention_flash",
    .op = "attention",
    .query = flash_query,
    .prepare = flash_prepare,
    .launch = attention_launch,
    .retire = attention_retire,
};

const ord_manifest ord_plugin_manifest = {
    ORD_MANIFEST_HEAD,  .flags = ORD_PLUGIN_UNLOADABLE, .name = "cuda_attention_flash",
    .version = "0.1.0", .toolchain = "CUDA C++",
};

static const ord_kernel *const kernels[] = {&flash};

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
