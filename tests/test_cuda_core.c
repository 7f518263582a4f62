/* SPDX-License-Identifier: MIT
 *
 * plugin cuda_core, all but its matmul and norms: the conformance rows of every op; rows that
 * bring vectors, long grids, many parts and every path of sample; the same under the checks of memory and races; what
 * is refused and why; a state that finds no memory or no image.
 */
#include "conformance.h"
#include "cuda_fixture.h"

#define PLUGIN ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cuda_core.so"

/* test_cuda_matmul.c has the others. */
static const char *const kernels[] = {
    "add_cuda",          "sub_cuda",    "mul_cuda",       "gelu_erf_cuda",     "gelu_tanh_cuda", "relu_cuda",
    "relu2_cuda",        "silu_cuda",   "sigmoid_cuda",   "tanh_cuda",         "reshape_cuda",   "transpose_cuda",
    "split_cuda",        "concat_cuda", "embedding_cuda", "position_cuda",     "rope_cuda",      "pool_cuda",
    "cache_append_cuda", "sample_cuda", "softmax_cuda",   "l2_normalize_cuda", "slice_cuda",     "gather_cuda"};
enum { KERNEL_COUNT = sizeof kernels / sizeof *kernels };

static const ord_kernel *find_kernel(const cuda_stage *s, const char *op) {
  char name[64];
  snprintf(name, sizeof name, "%s_cuda", op);
  for (uint32_t i = 0; i < s->plugin->kernel_count; i++)
    if (strcmp(s->plugin->kernel[i]->name, name) == 0) return s->plugin->kernel[i];
  fail_msg("the plugin has no kernel %s", name);
  return NULL;
}

/* ---- conformance ---- */

static void conform(void **state) {
  static const char *const reason[] = {"is i32; wanted f32, f16 or bf16", NULL};
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  int found = 0;
  for (uint32_t i = 0; i < s.plugin->kernel_count; i++)
    for (int k = 0; k < KERNEL_COUNT; k++) {
      if (strcmp(s.plugin->kernel[i]->name, kernels[k]) != 0) continue;
      conformance_run_on(s.plugin->kernel[i], &s.cases, reason);
      found++;
    }
  assert_int_equal(found, KERNEL_COUNT);
  close_cuda_stage(&s);
}

static void test_conformance(void **state) {
  (void)state;
  run_in_child("conformance", conform, NULL);
}

/* ---- more rows ---- */

typedef struct row {
  const char *op, *operands, *attributes;
} row;

#define SAMPLED "seed:i64[2]<1000 counter:i64[2]=$"

/* Each is served, and right; these under checks too. */
static const row short_rows[] = {
    {"add", "in[3,64] in[64]", ""},
    {"add", "in[2,3/8,64] in[2,3/8,1]", ""},
    {"add", "in[1001] in[1001]", ""},
    {"mul", "in[5,64] in=2.5", ""},
    {"sub", "in[2,3,8] in+[3,8]", ""},
    {"gelu_erf", "in[2,3/8,64]", ""},
    {"silu", "in+[5,8]", ""},
    {"reshape", "in[6,64]", "shape=3,128"},
    {"reshape", "in[6,10]", "shape=4,15"},
    {"transpose", "in[2,5,3,64]", "axes=0,2,1,3"},
    {"transpose", "in:f16[2,5,3,16]", "axes=0,2,1,3"},
    {"concat", "in[2,3/8,8] in[2,2,8] in[2,1/4,8] in[2,3/8,8]", "axis=1"},
    {"concat", "in[1] in[2] in[1] in[3] in[1] in[1] in[2] in[1] in[1] in[5] in[1/2] in[1] in[2] in[1] in[1] in[2]",
     "axis=0"},
    {"split", "in[3,40]", "axis=1 results=10"},
    {"split", "in[3,17]", "axis=1 results=17"},
    {"slice", "in[2,5/8,64]", "axis=1 start=-1"},
    {"slice", "in[2,2/8,64]", "axis=1 start=-4 step=3"},
    {"gather", "in[3,7,64] index:i32[2,2]=0,-1,7,-8", "axis=1"},
    {"gather", "in*:bf16[6,32] index:i32[2,3/4]=5,-6,6", "axis=0"},
    {"embedding", "in:i32[2,5]<7 weight[7,64]", ""},
    {"embedding", "in:i32[2,5]=0,7,-1,6 weight:bf16[7,64]", ""},
    {"embedding", "in:i32[5]<7 weight:f16[7,12]", ""},
    {"embedding", "in:i32[2,3/8]<7 weight:i8[7,64]", ""},
    {"position", "in[2,5,64] positions:i32[2,5]<9 weight:f16[7,64]", "offset=-1"},
    {"position", "in:f16[2,5,8] positions:i32[2,5]<9 weight:i8[7,8]", ""},
    {"rope", "in[2,12,3,64] positions:i32[2,3]=131071,99999,1", "pairing=halves theta=10000"},
    {"rope", "in[1,5,3,20] positions:i32[1,3]<2000 factors[6]=1,2,4,8,16,32",
     "pairing=interleaved theta=500000 rotary=12"},
    {"pool", "in[2,19,40] lengths:i32[2]=17,3", "kind=mean"},
    {"pool", "in[3,19/40,33] lengths:i32[3]=17,40,-1", "kind=last"},
    {"cache_append", "k[2,2,3/8,64] v[2,2,3/8,64] lengths:i32[2]=2,3", "cache=16:bf16 past=0,15"},
    {"cache_append", "k[2,2,3,8] v[2,2,3,5] lengths:i32[2]=2,3", "cache=16:f16 past=-1,9"},
    {"cache_append", "k[1,1,2,2]=1,2,nan,nan v[1,1,2,2]=1,2,nan,inf lengths:i32[1]=1", "cache=4 past=1"},
    {"softmax", "in[3,600]", ""},
    {"softmax", "in[3,600,5]", "axis=1"},
    {"softmax", "in[4,8]=-inf,1,nan,2,3,-inf,-inf,-inf,-inf", ""},
    {"softmax", "in[2,3]=-inf,nan,-inf", ""}, /* no row of -infinity alone */
    {"l2_normalize", "in[3,600]", ""},
    {"l2_normalize", "in[2,8]=1e30,-1e30,3e38", ""},
    {"l2_normalize", "in[2,8]=1e-30", "eps=1e-38"},
    {"sample", "in[2,700] temperature[2]=0,-1 top_k:i32[2]=0 top_p[2]=1 " SAMPLED, "$=1"},
    {"sample", "in[2,700] temperature[2]=0.1 top_k:i32[2]=40,5 top_p[2]=1,0.9 " SAMPLED, "$=1..3"},
    {"sample", "in[2,700]=1,2,2,1,3 temperature[2]=1 top_k:i32[2]=257,300 top_p[2]=1,0.5 " SAMPLED, "$=1..2"},
};

/* More rows than blocks, so that a block works on several, under checks. */
static const row many_rows[] = {
    {"softmax", "in[2060,3]", ""},
    {"l2_normalize", "in[2060,4]", ""},
    {"pool", "in[2060,3,2]", "kind=mean"},
    {"sample", "in[131,9] temperature[131]=1,0 top_k:i32[131]=5,0,0 top_p[131]=0.9 seed:i64[131]<9 counter:i64[131]<9",
     ""},
};

static const row long_rows[] = {
    {"add", "in[3000001] in[3000001]", ""},
    {"relu", "in[3001,2001]", ""},
    {"concat", "in[2000001] in[2000002]", "axis=0"},
    {"slice", "in[700001,4]", "axis=0 start=1"},
    {"embedding", "in:i32[300000]<3 weight[3,5]", ""},
    {"softmax", "in[2,5000]", ""},
    {"pool", "in[1100,2,70]", "kind=mean"},
    {"rope", "in[3,5,3000,8] positions:i32[3,3000]<3000", "pairing=halves theta=10000"},
    {"cache_append", "k[2,3,1500,50] v[2,3,1500,50]", "cache=1600 past=0,100"},
    /* the list of the first tokens holds what is kept; does not; would be too long */
    {"sample", "in[2,5003] temperature[2]=0.1 top_k:i32[2]=50,256 top_p[2]=0.8,1 " SAMPLED, "$=1..5"},
    {"sample", "in[2,5003] temperature[2]=0.01,1 top_k:i32[2]=0 top_p[2]=0.5,0.99 " SAMPLED, "$=1..5"},
    {"sample", "in[2,5003]=1 temperature[2]=1 top_k:i32[2]=256,40 top_p[2]=1,0.5 " SAMPLED, "$=1..5"},
    {"sample", "in[2,5003]=1,1,1,2 temperature[2]=1 top_k:i32[2]=0 top_p[2]=0.9,0.3 " SAMPLED, "$=1..5"},
    {"sample", "in[2,5003]=0,1,1,1 temperature[2]=1 top_k:i32[2]=0 top_p[2]=0,-1 " SAMPLED, "$=1"},
    {"sample", "in[2,5003] temperature[2]=1 top_k:i32[2]=1000,4000 top_p[2]=1,0.9 " SAMPLED, "$=1..5"},
    {"sample", "in[2,5003]=-0,0,nan,-inf temperature[2]=0.7 top_k:i32[2]=3,2000 top_p[2]=0,-1 " SAMPLED, "$=1..3"},
    {"sample", "in[2,5003]=inf,3e38,1,-3e38 temperature[2]=1e-30,1e30 top_k:i32[2]=0 top_p[2]=1 " SAMPLED, "$=1..5"},
    {"sample", "in^[2,5003] temperature[2]=1 top_k:i32[2]=0,9 top_p[2]=1 " SAMPLED, "$=1..3"},
    {"sample", "in:f16[2,5003] temperature[2]=1 top_k:i32[2]=0,9 top_p[2]=0.9 " SAMPLED, "$=1..3"},
};

static void serve(bool is_checked, const row *rows, size_t count) {
  cuda_stage s = open_cuda_stage(PLUGIN, is_checked);
  for (size_t i = 0; i < count; i++)
    conformance_serves_on(find_kernel(&s, rows[i].op), &s.cases, rows[i].operands, rows[i].attributes);
  close_cuda_stage(&s);
}

static void serve_short(void **state) {
  (void)state;
  serve(false, short_rows, sizeof short_rows / sizeof *short_rows);
}

static void serve_checked(void **state) {
  (void)state;
  serve(true, short_rows, sizeof short_rows / sizeof *short_rows);
  serve(true, many_rows, sizeof many_rows / sizeof *many_rows);
}

static void serve_long(void **state) {
  (void)state;
  serve(false, long_rows, sizeof long_rows / sizeof *long_rows);
}

static void test_short_rows(void **state) {
  (void)state;
  run_in_all_orders("short rows", serve_short);
}

static void test_checked_rows(void **state) {
  (void)state;
  run_in_child("rows under checks", serve_checked, NULL);
}

static void test_long_rows(void **state) {
  (void)state;
  run_in_child("long rows", serve_long, NULL);
}

/* ---- refusals ---- */

static void expect_refusal(const cuda_stage *s, const row *r, const char *reason) {
  const ord_case one = {r->operands, r->attributes};
  ord_error err = ORD_ERROR_INIT;
  ord_case_result result;
  MUST(ord_case_run(ord_op_find(r->op), &one, find_kernel(s, r->op), &s->cases, &result, &err));
  assert_int_equal(result.verdict, ORD_CASE_REFUSED);
  assert_string_equal(result.text, reason);
}

static void refuse(void **state) {
  static const struct {
    row row;
    const char *reason;
  } refused[] = {
      {{"mul", "in:i32[7] in:i32[7]", ""}, "in is i32; wanted f32, f16 or bf16"},
      {{"embedding", "in:i32[3]<7 weight:q8_0[7,32]", ""}, "weight is q8_0; wanted f32, f16, bf16 or i8"},
      {{"concat",
        "in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] in[1/2] "
        "in[1/2] in[1/2] in[1/2] in[1/2]",
        "axis=0"},
       "found 17 parts of a run-time size; wanted at most 16"},
  };
  (void)state;
  cuda_stage s = open_cuda_stage(PLUGIN, false);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) expect_refusal(&s, &refused[i].row, refused[i].reason);
  close_cuda_stage(&s);
}

static void test_refusals(void **state) {
  (void)state;
  run_in_child("refusals", refuse, NULL);
}

/* ---- no memory for a state ---- */

static void test_out_of_memory(void **unused) {
  (void)unused;
  float in[3], out[3];
  void *state = NULL;
  hand made;
  ord_plugin_error err = {.struct_size = sizeof err};
  hand_open(&made, PLUGIN, "relu");
  hand_add(&made, "in", ORD_INPUT, ORD_F32, 1, (const int64_t[]){3}, in);
  hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 1, (const int64_t[]){3}, out);
  made.is_out_of_memory = true;
  assert_int_equal(made.kernel->prepare(made.kernel, &made.node, &made.answer, &made.host, &state, &err),
                   ORD_NO_MEMORY);
  assert_non_null(strstr(err.text, "out of memory"));
  assert_non_null(strstr(err.text, "relu"));
  hand_close(&made);
}

static ord_status find_no_kernel(void *context, const char *image, const char *symbol, uint32_t shared_bytes,
                                 void **kernel, ord_plugin_error *err) {
  (void)context, (void)image, (void)symbol, (void)shared_bytes, (void)kernel, (void)err;
  return ORD_DEVICE_FAILED;
}

/* What was begun is released by prepare itself. */
static void test_no_image(void **unused) {
  static const char *const op[] = {"relu", "mul", "softmax", "reshape", "slice", "cache_append"};
  (void)unused;
  float memory[3];
  for (size_t i = 0; i < sizeof op / sizeof *op; i++) {
    void *state = NULL;
    hand made;
    ord_plugin_error err = {.struct_size = sizeof err};
    hand_open(&made, PLUGIN, op[i]);
    const bool is_append = strcmp(op[i], "cache_append") == 0;
    static const char *const slot[] = {"k", "v", "cache_k", "cache_v"};
    for (int j = 0; j < 4; j++)
      hand_add(&made, is_append ? slot[j] : "in", ORD_INPUT, ORD_F32, 1, (const int64_t[]){3}, memory);
    hand_add(&made, "out", ORD_OUTPUT, ORD_F32, 1, (const int64_t[]){3}, memory);
    made.host.image_kernel = find_no_kernel;
    assert_int_equal(made.kernel->prepare(made.kernel, &made.node, &made.answer, &made.host, &state, &err),
                     ORD_DEVICE_FAILED);
    assert_null(state);
    hand_close(&made);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance), cmocka_unit_test(test_short_rows), cmocka_unit_test(test_checked_rows),
      cmocka_unit_test(test_long_rows),   cmocka_unit_test(test_refusals),   cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_no_image),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
