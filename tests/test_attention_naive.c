/* SPDX-License-Identifier: MIT
 *
 * plugins/attention_naive: the conformance rows of attention; a query alone against the same query among others; what
 * it refuses and why.
 */
#include "tests/conformance.h"

#define NAIVE ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/attention_naive.so"

static void test_conformance(void **unused) {
  (void)unused;
  static const char *const reason[] = {"is f16; wanted", "is bf16; wanted f32", "bytes apart; wanted", NULL};
  hand made;
  hand_open(&made, NAIVE, "attention");
  conformance_run(made.kernel, reason);
  hand_close(&made);
}

static void test_serves(void **unused) {
  (void)unused;
  static const struct {
    const char *operands, *attributes;
  } row[] = {
      {"q[2,9,5,16] k[2,3,7,16] v[2,3,7,24]", "causal=true"},
      {"q[2,4,5,16] k[2,4,33,16] v[2,4,33,16] lengths:i32[2]=0,33", "causal=true align=last"},
      {"q[2,4,5,16] k[2,4,9,16] v[2,4,9,16] lengths:i32[2]=9,3", "causal=true align=2 window_before=1"},
      {"q[2,4,5,16] k[2,4,9,16] v[2,4,9,16] mask:bool[5,9]=0,1,1,0,0", "causal=false soft_cap=5"},
      {"q[1,2,3,8] k[1,2,4,8] v[1,2,4,8] mask[3,4]=-inf,-3e38,0,1", "causal=false results=2"},
      {"q[2,4,3/16,16] k[2,2,3/16,16] v[2,2,3/16,16]", "causal=true cache=32 past=29,0"},
      {"q[2,4,3,16] k[2,2,3,16] v[2,2,3,16] lengths:i32[2]=1,3", "causal=true cache=32:bf16 past=7,0"},
  };
  hand made;
  hand_open(&made, NAIVE, "attention");
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    conformance_serves(made.kernel, row[i].operands, row[i].attributes);
  hand_close(&made);
}

enum { HEADS = 6, KEY_HEADS = 2, KEYS = 40, WIDTH = 20 };

/* Causal attention of `queries` queries that end at the last key. */
static void attend(int queries, float *q, float *k, float *v, float *out) {
  hand made;
  ord_plugin_error err;
  hand_open(&made, NAIVE, "attention");
  hand_add(&made, "q", ORD_INPUT, ORD_F32, 4, (const int64_t[]){1, HEADS, queries, WIDTH}, q);
  hand_add(&made, "k", ORD_INPUT, ORD_F32, 4, (const int64_t[]){1, KEY_HEADS, KEYS, WIDTH}, k);
  hand_add(&made, "v", ORD_INPUT, ORD_F32, 4, (const int64_t[]){1, KEY_HEADS, KEYS, WIDTH}, v);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 4, (const int64_t[]){1, HEADS, queries, WIDTH}, out);
  hand_attr(&made, (ord_attr){.name = "causal", .kind = ORD_ATTR_BOOL, .value.i = 1});
  hand_attr(&made, (ord_attr){.name = "scale", .kind = ORD_ATTR_NUMBER, .value.f = 0.25});
  assert_int_equal(hand_run(&made, &err), ORD_OK);
  hand_close(&made);
}

/* The last of 33 queries gives the same bits when it comes alone: prefill and decode agree. */
static void test_one_equals_many(void **unused) {
  (void)unused;
  enum { MANY = 33 };
  static float q[HEADS * MANY * WIDTH], last[HEADS * WIDTH], k[KEY_HEADS * KEYS * WIDTH], v[KEY_HEADS * KEYS * WIDTH];
  static float out[HEADS * MANY * WIDTH], alone[HEADS * WIDTH];
  hand_fill(q, HEADS * MANY * WIDTH);
  hand_fill(k, KEY_HEADS * KEYS * WIDTH);
  hand_fill(v, KEY_HEADS * KEYS * WIDTH);
  for (int head = 0; head < HEADS; head++)
    memcpy(last + head * WIDTH, q + (head * MANY + MANY - 1) * WIDTH, WIDTH * sizeof *q);
  attend(MANY, q, k, v, out);
  attend(1, last, k, v, alone);
  for (int head = 0; head < HEADS; head++)
    assert_memory_equal(alone + head * WIDTH, out + (head * MANY + MANY - 1) * WIDTH, WIDTH * sizeof *q);
}

static void test_refusals(void **unused) {
  (void)unused;
  static float numbers[64];
  hand made;
  hand_open(&made, NAIVE, "attention");
  for (int i = 0; i < 3; i++) {
    static const char *const slot[] = {"q", "k", "v"};
    hand_add(&made, slot[i], ORD_INPUT, ORD_F32, 4, (const int64_t[]){1, 1, 4, 4}, numbers);
  }
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 4, (const int64_t[]){1, 1, 4, 4}, numbers);
  made.operand[1].stride[3] = 16;
  hand_refuses(&made, "last axis of k lie 16 bytes apart; wanted 4");
  made.operand[1].stride[3] = 4;
  made.operand[2].dtype = ORD_Q8_0;
  hand_refuses(&made, "v is a block type; wanted f32");
  made.operand[2].dtype = ORD_F32;
  made.device.kind = ORD_DEVICE_CUDA;
  hand_refuses(&made, "wanted a CPU");
  made.device.kind = ORD_DEVICE_CPU;
  made.node.op_version = 2;
  hand_refuses(&made, "op version 2");
  hand_close(&made);
}

static void test_out_of_memory(void **unused) {
  (void)unused;
  static float numbers[64];
  hand made;
  ord_plugin_error err;
  hand_open(&made, NAIVE, "attention");
  for (int i = 0; i < 3; i++) {
    static const char *const slot[] = {"q", "k", "v"};
    hand_add(&made, slot[i], ORD_INPUT, ORD_F32, 4, (const int64_t[]){1, 1, 4, 4}, numbers);
  }
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 4, (const int64_t[]){1, 1, 4, 4}, numbers);
  made.is_out_of_memory = true;
  assert_int_equal(hand_run(&made, &err), ORD_NO_MEMORY);
  assert_non_null(strstr(err.text, "out of memory"));
  hand_close(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance), cmocka_unit_test(test_serves),        cmocka_unit_test(test_one_equals_many),
      cmocka_unit_test(test_refusals),    cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
