/* SPDX-License-Identifier: MIT
 *
 * cache_append: writes the new keys and values of each row behind its past in the cache. The host puts it before an
 * attention with a cache whose kernel does not append itself; it is never written in a model file. Row n of the run is
 * row n of the cache; new token i < lengths[n] (or every token) goes to place past[n] + i, and nowhere if that lies
 * outside the cache.
 */
#include "ops/op_check.h"
#include "ops/reference.h"

/* ---- the reference --------------------------------------------------------------------------------------------- */

/* Both are [batch, heads, tokens or length, width]. */
static void append_row(const ord_reference_tensor *from, const ord_reference_tensor *cache, int64_t n, int64_t past,
                       int64_t count) {
  for (int64_t head = 0; head < from->dim[1]; head++)
    for (int64_t i = 0; i < count; i++) {
      const int64_t place = past + i;
      if (place < 0 || place >= cache->dim[2]) continue;
      for (int64_t d = 0; d < from->dim[3]; d++)
        ord_reference_move(from, (int64_t[]){n, head, i, d}, cache, (int64_t[]){n, head, place, d});
    }
}

static ord_status cache_append_launch(void *state, const ord_exec *exec, ord_plugin_error *err) {
  (void)err;
  const ord_node *node = state;
  const ord_reference_tensor k = ord_reference_slot(node, exec, "k");             // [batch, heads, tokens, width]
  const ord_reference_tensor v = ord_reference_slot(node, exec, "v");             // [batch, heads, tokens, width of v]
  const ord_reference_tensor lengths = ord_reference_slot(node, exec, "lengths"); // i32 [batch]
  const ord_reference_tensor cache_k = ord_reference_slot(node, exec, "cache_k"); // [batch, heads, length, width]
  const ord_reference_tensor cache_v = ord_reference_slot(node, exec, "cache_v"); // [batch, heads, length, width of v]
  const ord_reference_tensor past = ord_reference_slot(node, exec, "past");       // i32 [batch]
  for (int64_t n = 0; n < k.dim[0]; n++) {
    const int64_t place = (int64_t)ord_reference_read(&past, &n);
    const int64_t length = lengths.data ? (int64_t)ord_reference_read(&lengths, &n) : k.dim[2];
    const int64_t count = length < k.dim[2] ? length : k.dim[2];
    append_row(&k, &cache_k, n, place, count);
    append_row(&v, &cache_v, n, place, count);
  }
  return ORD_OK;
}

static const ord_kernel cache_append_reference = {
    .struct_size = sizeof cache_append_reference,
    .priority = ORD_REFERENCE_PRIORITY,
    .name = "cache_append_reference",
    .op = "cache_append",
    .query = ord_reference_query,
    .prepare = ord_reference_prepare,
    .launch = cache_append_launch,
    .retire = ord_reference_retire,
};

/* ---- the shape rule -------------------------------------------------------------------------------------------- */

static bool cache_append_infer(ord_infer *infer) {
  const ord_infer_operand *k = ord_infer_slot(infer, "k"), *v = ord_infer_slot(infer, "v");
  const ord_infer_operand *lengths = ord_infer_slot(infer, "lengths");
  return ord_infer_check_float(infer, k) && ord_infer_check_float(infer, v) &&
         ord_infer_check_rank(infer, k, 4, "[batch, heads, tokens, width]") &&
         ord_infer_check_rank(infer, v, 4, "[batch, heads, tokens, width]") &&
         ord_infer_check_equal(infer, (ord_axis){k, 0, "batch"}, (ord_axis){v, 0, "batch"}) &&
         ord_infer_check_equal(infer, (ord_axis){k, 1, "heads"}, (ord_axis){v, 1, "heads"}) &&
         ord_infer_check_equal(infer, (ord_axis){k, 2, "tokens"}, (ord_axis){v, 2, "tokens"}) &&
         ord_infer_check_dtype(infer, lengths, ORD_I32) && ord_infer_check_rank(infer, lengths, 1, "[batch]") &&
         ord_infer_check_equal(infer, (ord_axis){k, 0, "batch"}, (ord_axis){lengths, 0, "batch"});
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static const ord_slot cache_append_slots[] = {
    {"k", 0, 0, "[b, g, t, d]"},
    {"v", 0, 0, "[b, g, t, e]"},
    {"lengths", ORD_SLOT_OPTIONAL, 0, "i32 [b]"},
};

static const ord_case cache_append_cases[] = {
    {"k[1,1,$,4] v[1,1,$,4]", "cache=130 past=0 $=1..130"},
    {"k[2,3,1,8] v[2,3,1,8]", "cache=16 past=$,3 $=0..15"},
    {"k[3,2,4,8] v[3,2,4,5]", "cache=16 past=0,7,12"},
    {"k[3,2,4,8] v[3,2,4,8] lengths:i32[3]=0,1,4", "cache=16 past=5,0,12"},
    {"k[3,2,4,8] v[3,2,4,8] lengths:i32[3]=4,9,-1", "cache=16 past=12,0,3"},
    {"k[2,2,4,8] v[2,2,4,8]", "cache=4 past=0,0"},
    {"k[2,2,3/8,8] v[2,2,3/8,6]", "cache=16 past=0,9"},
    {"k[2,2,0/8,8] v[2,2,0/8,6]", "cache=16 past=0,9"},
    {"k[2/4,2,3/8,8] v[2/4,2,3/8,6] lengths:i32[2/4]=2,3", "cache=16 past=0,9"},
    {"k^[2,2,3,8] v+[2,2,3,8]", "cache=16 past=1,2"},
    {"k[2,2,3,8] v[2,2,3,8]", "cache=16:bf16 past=1,2"},
    {"k[2,2,3,8] v[2,2,3,8]", "cache=16:f16 past=1,2"},
    {"k:bf16[2,2,3,8] v:bf16[2,2,3,8]", "cache=16:bf16 past=1,2"},
    {NULL, NULL},
};

const ord_op ord_op_cache_append = {
    .name = "cache_append",
    .version = 1,
    .flags = ORD_OP_HOST,
    .slot = cache_append_slots,
    .slot_count = sizeof cache_append_slots / sizeof *cache_append_slots,
    .result_min = 0,
    .result_max = 0,
    .about = "none; before an attention whose kernel does not append, not written in a file",
    .infer = cache_append_infer,
    .reference = &cache_append_reference,
    .cases = cache_append_cases,
};
