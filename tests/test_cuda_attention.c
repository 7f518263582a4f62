/* SPDX-License-Identifier: MIT
 *
 * The CUDA attention plugins: conformance of each; what several blocks, tiles, instances and
 * load paths bring; the same under the checks of memory and races; hidden values that are no numbers; what each
 * refuses, and which of them wins.
 */
#include "conformance.h"
#include "cuda_fixture.h"

#define PLUGIN(name) ORDITO_BUILD_DIRECTORY "/lib/ordito/plugins/cuda_attention_" name ".so"

static const char *const naive_refuses[] = {NULL};
static const char *const split_refuses[] = {"wanted at most 8", "probabilities as a second output", NULL};
static const char *const flash_refuses[] = {"products of f32", "probabilities as a second output", NULL};

/* On a device of `cores`, on which the number of blocks and the size of tiles depend. */
static void run_rows(const char *plugin, uint32_t cores, bool is_checked, const ord_case *rows) {
  cuda_stage s = open_cuda_stage(plugin, is_checked);
  ord_device_info info = s.device->info;
  info.cores = cores;
  s.cases.device = &info;
  for (; rows->operands; rows++) conformance_serves_on(s.plugin->kernel[0], &s.cases, rows->operands, rows->attributes);
  close_cuda_stage(&s);
}

/* ---- conformance ---- */

static void conform(const char *plugin, uint32_t cores, const char *const *refuses) {
  cuda_stage s = open_cuda_stage(plugin, false);
  ord_device_info info = s.device->info;
  info.cores = cores;
  s.cases.device = &info;
  conformance_run_on(s.plugin->kernel[0], &s.cases, refuses);
  close_cuda_stage(&s);
}

static void naive(void **state) {
  (void)state;
  conform(PLUGIN("naive"), 132, naive_refuses);
}

static void split(void **state) {
  (void)state;
  conform(PLUGIN("split"), 132, split_refuses);
}

static void flash(void **state) {
  (void)state;
  conform(PLUGIN("flash"), 132, flash_refuses);
}

static void test_conformance(void **state) {
  (void)state;
  run_in_child("naive", naive, NULL);
  run_in_child("split", split, NULL);
  run_in_child("flash", flash, NULL);
}

/* ---- split ---- */

static const ord_case split_rows[] = {
    {"q[1,2,1,$] k[1,2,1,$] v[1,2,1,$]", "causal=true cache=700 past=650 $=1,8,32,40,64,80,128,192,256"},
    {"q[1,2,1,$] k[1,2,1,$] v[1,2,1,$]", "causal=true cache=700:bf16 past=650 $=1,8,32,40,64,80,128,192,256"},
    {"q[1,2,1,64] k[1,2,1,64] v[1,2,1,64]", "causal=true cache=1030:bf16 past=$ $=0,62,63,64,65,127,128,511,1029"},
    {"q[1,2,1,64] k[1,2,1,64] v[1,2,1,64]", "causal=true cache=600:f16 past=530 window_before=100"},
    {"q[1,$,1,24] k[1,1,1,24] v[1,1,1,24]", "causal=true cache=300:bf16 past=213 $=1,2,3,4,6,8,12"},
    {"q[2,4,$,32] k[2,2,$,32] v[2,2,$,48]", "causal=true cache=200 past=150,3 $=1,2,3,5,8"},
    {"q[2,4,2/8,32] k[2,2,2/8,32] v[2,2,2/8,48] lengths:i32[2]=1,2", "causal=true cache=200:bf16 past=150,198"},
    {"q[1,4,3,32] k[1,2,3,32] v[1,2,3,32] mask[3,300]=0,-1,-inf,2", "causal=false cache=300 past=280 soft_cap=2"},
    {"q[3,2,1,32] k[3,2,1,32] v[3,2,1,32] lengths:i32[3]=0,1,1", "causal=true cache=150 past=0,149,70"},
    {"q[1,1,2,2] k[1,1,2,2]=1,2,nan,nan v[1,1,2,2]=1,2,nan,inf lengths:i32[1]=1", "causal=true cache=4 past=1"},
    {"q[2,2,1,$] k[2,1,1,$] v[2,1,1,$] lengths:i32[2]=1,0",
     "causal=true cache=40 past=7,39 $=3,5,17,33,65,127,129,255"},
    {"q[2,2,3,$] k[2,1,3,$] v[2,1,3,$] lengths:i32[2]=3,1",
     "causal=true cache=40:bf16 past=0,38 $=3,5,17,33,65,129,255"},
    {"q[3,2,2,8] k[3,2,2,8] v[3,2,2,8]", "causal=true cache=16 past=16,15,-1"}, // some keys lie outside the cache
    {"q[1,2,4,40] k+[1,2,500,40] v^[1,2,500,40] out+", "causal=false"},
    {"q[1,2,4,40] k[1,2,500,40] v[1,2,500,40]", "causal=false align=200 window_before=30 window_after=99"},
    {NULL, NULL},
};

static void split_in_blocks(void **state) {
  (void)state;
  run_rows(PLUGIN("split"), 132, false, split_rows);
  run_rows(PLUGIN("split"), 1, false, split_rows);
}

static const ord_case split_rows_checked[] = {
    {"q[1,4,1,64] k[1,2,1,64] v[1,2,1,64]", "causal=true cache=200:bf16 past=150"},
    {"q[1,4,1,16] k[1,2,1,16] v[1,2,1,16]", "causal=true cache=300 past=290"},
    {"q[2,2,2/3,7] k[2,2,2/3,7] v[2,2,2/3,9] mask[2/3,90]", "causal=true cache=90:f16 past=70,0"},
    {NULL, NULL},
};

static void split_checked(void **state) {
  (void)state;
  run_rows(PLUGIN("split"), 132, true, split_rows_checked);
}

static void test_split(void **state) {
  (void)state;
  run_in_child("in blocks", split_in_blocks, NULL);
}

/* ---- flash ---- */

static const ord_case flash_rows[] = {
    {"q[1,2,$,64] k[1,2,$,64] v[1,2,$,64]", "causal=true compute=bf16 $=1,63,64,65,129"},
    {"q[1,1,70,$] k[1,1,70,$] v[1,1,70,$]", "causal=true compute=bf16 $=1,7,8,31,32,72,80,96,128,160,192,256"},
    {"q:bf16[1,2,70,$] k:bf16[1,1,90,$] v:bf16[1,1,90,$]", "causal=true compute=bf16 $=8,40,64,100,192,256"},
    {"q:bf16[2,2,9,$] k:bf16[2,1,9,$] v:bf16[2,1,9,$] lengths:i32[2]=9,4",
     "causal=true align=first compute=bf16 $=3,5,17,33,65,97,127,129,193,255"},
    {"q:f16[1,2,70,$] k:f16[1,1,90,$] v:f16[1,1,90,$]", "causal=false compute=bf16 $=8,33,64,80,128,256"},
    {"q:bf16[1,2,20,64] k:bf16[1,1,150,64] v:bf16[1,1,150,64]", "causal=true"}, // products as good as those of f32
    {"q:f16[1,2,20,72] k:f16[1,1,150,72] v:f16[1,1,150,72]", "causal=true"},
    {"q^[1,4,30,32] k^[1,2,70,32] v^[1,2,70,40] out^", "causal=true compute=bf16"},
    {"q+:bf16[1,4,30,32] k+:bf16[1,2,70,32] v+:bf16[1,2,70,40] out+", "causal=true compute=bf16"},
    {"q[2,6,40,32] k[2,2,40,32] v[2,2,40,32]", "causal=true cache=150:bf16 past=100,7 compute=bf16"},
    {"q[2,6,20/40,32] k[2,2,20/40,32] v[2,2,20/40,32]", "causal=true cache=150 past=100,7 compute=bf16"},
    {"q[2,2,40,32] k[2,2,40,32] v[2,2,40,32] lengths:i32[2]=3,40", "causal=true cache=99 past=0,50 compute=bf16"},
    {"q[1,2,90,16] k[1,2,200,16] v[1,2,200,16]", "causal=true window_before=40 compute=bf16"},
    {"q:bf16[1,1,64,8] k:bf16[1,1,254,8] v:bf16[1,1,254,8]", "causal=true window_before=188"}, // hides keys 64, 191
    {"q[1,2,90,16] k[1,2,200,16] v[1,2,200,16]", "causal=false align=50 window_before=30 window_after=70 compute=bf16"},
    {"q[1,2,70,16] k[1,2,100,16] v[1,2,100,16] mask:bool[70,100]=1,0,1,1,0,0,1", "causal=true compute=bf16"},
    {"q[1,2,70,16] k[1,2,100,16] v[1,2,100,16] mask[100]=0,-1,-inf,2", "causal=false soft_cap=2 compute=bf16"},
    {"q[1,1,4,8] k[1,1,3,8] v[1,1,3,8] mask[4,3]=-3.4e38,-3.4e38,-3.4e38,3.4e38,3.4e38,0", "causal=false compute=bf16"},
    {"q[1,2,9,16] k[1,2,20,16] v[1,2,20,16]", "causal=false scale=-0.5 compute=bf16"},
    {"q[1,1,2,2] k[1,1,3,2]=1,2,3,4,nan,nan v[1,1,3,2]=1,2,3,4,nan,inf lengths:i32[1]=2", "causal=false compute=bf16"},
    {"q[1,1,2,2] k[1,1,2,2]=1,2,nan,nan v[1,1,2,2]=1,2,nan,inf mask:bool[2,2]=1,0,0,0", "causal=false compute=bf16"},
    {"q[1,1,2,2] k[1,1,64,2] v[1,1,64,2]=1,2,nan,inf mask[64]=0,-inf", "causal=false compute=bf16"}, // all of a tile
    {"q[1,1,3,2] k[1,1,3,2] v[1,1,3,2]=1,inf,inf,-inf,-inf,nan", "causal=true compute=bf16"},
    {"q[1,1,70,2] k[1,1,70,2] v[1,1,70,2]=1,2,3,inf,5,6,7,-inf,9,10", "causal=true window_before=2 compute=bf16"},
    {"q:f16[1,1,70,8] k:f16[1,1,70,8] v:f16[1,1,70,8]=1,inf,2,-inf,3,4,5,nan,7", "causal=true window_before=0"},
    {"q[1,1,2,2] k[1,1,3,2] v[1,1,3,2]=inf,2,nan,4,-inf,6 mask[2,3]=-inf,-inf,0,0,-inf,1", "causal=false compute=bf16"},
    {NULL, NULL},
};

static void flash_in_tiles(void **state) {
  (void)state;
  run_rows(PLUGIN("flash"), 132, false, flash_rows);
}

/* Few cores: blocks of 128 queries at width 64. */
static const ord_case flash_rows_large[] = {
    {"q[1,2,$,64] k[1,2,$,64] v[1,2,$,64]", "causal=true compute=bf16 $=1,64,127,129"},
    {"q:f16[1,2,140,50] k:f16[1,1,90,50] v:f16[1,1,90,64]", "causal=false compute=bf16"},
    {"q[1,2,30,64] k[1,2,100,64] v[1,2,100,64] mask:bool[30,100]=1,0,1,1,0,0,1", "causal=true compute=bf16"},
    {"q[1,2,140,64] k[1,2,200,64] v[1,2,200,64]",
     "causal=false align=50 window_before=30 window_after=70 compute=bf16"},
    {"q:bf16[1,2,20,64] k:bf16[1,1,150,64] v:bf16[1,1,150,64]", "causal=true"},
    {NULL, NULL},
};

static void flash_in_large_tiles(void **state) {
  (void)state;
  run_rows(PLUGIN("flash"), 1, false, flash_rows_large);
}

static const ord_case flash_rows_checked[] = {
    {"q[1,1,20,32] k[1,1,70,32] v[1,1,70,32]", "causal=true compute=bf16"},
    {"q:bf16[1,1,20,64] k:bf16[1,1,70,64] v:bf16[1,1,70,64]", "causal=true compute=bf16"},
    {"q[1,1,5,8] k[1,1,70,8] v[1,1,70,8] mask:bool[5,70]=1,0,1,1,0,0,1", "causal=false compute=bf16"},
    {"q:bf16[1,1,3,160] k:bf16[1,1,40,160] v:bf16[1,1,40,160]", "causal=false compute=bf16"},
    {"q:bf16[1,1,20,8] k:bf16[1,1,20,8] v:bf16[1,1,20,8]=1,inf,2,3,nan,4,5,-inf,6", "causal=true compute=bf16"},
    {NULL, NULL},
};

static void flash_checked(void **state) {
  (void)state;
  run_rows(PLUGIN("flash"), 132, true, flash_rows_checked);
}

static void test_flash(void **state) {
  (void)state;
  run_in_child("in tiles", flash_in_tiles, NULL);
  run_in_child("in large tiles", flash_in_large_tiles, NULL);
}

/* ---- naive ---- */

static const ord_case naive_rows_checked[] = {
    {"q[2,4,3,8] k[2,2,3,8] v[2,2,3,8] mask[3,20]", "causal=true cache=20:bf16 past=3,9"},
    {"q^[1,2,5,9] k[1,2,40,9] v+[1,2,40,7] out^", "causal=true results=2 soft_cap=2"},
    {NULL, NULL},
};

static void naive_checked(void **state) {
  (void)state;
  run_rows(PLUGIN("naive"), 132, true, naive_rows_checked);
}

/* ---- all of them ---- */

static void test_checked(void **state) {
  (void)state;
  static const char *const seeded[] = {"SEED", "3", NULL};
  run_in_child("split, in another order", split_checked, seeded);
  run_in_child("flash, in another order", flash_checked, seeded);
  run_in_child("naive, in another order", naive_checked, seeded);
}

/* ---- which one serves ---- */

/* What each answers to the row; the one of the highest priority that serves it is `winner`. */
static void expect_winner(const char *operands, const char *attributes, const char *winner) {
  static const char *const plugins[] = {PLUGIN("naive"), PLUGIN("split"), PLUGIN("flash")};
  const ord_case row = {operands, attributes};
  char name[40] = "nobody";
  int32_t best = INT32_MIN;
  for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
    cuda_stage s = open_cuda_stage(plugins[i], false);
    const ord_kernel *kernel = s.plugin->kernel[0];
    ord_error err = ORD_ERROR_INIT;
    ord_case_result result;
    MUST(ord_case_run(ord_op_find("attention"), &row, kernel, &s.cases, &result, &err));
    if (result.verdict == ORD_CASE_FAILED) fail_msg("%s: %s", kernel->name, result.text);
    if (result.verdict == ORD_CASE_PASSED && kernel->priority > best) {
      best = kernel->priority;
      snprintf(name, sizeof name, "%s", kernel->name);
    }
    close_cuda_stage(&s);
  }
  if (strcmp(name, winner) != 0) fail_msg("%s %s: found %s; wanted %s", operands, attributes, name, winner);
}

static void winners(void **state) {
  (void)state;
  expect_winner("q[1,2,1,8] k[1,2,1,8] v[1,2,1,8]", "causal=true cache=16 past=3", "cuda_attention_split");
  expect_winner("q[1,2,1,8] k[1,2,1,8] v[1,2,1,8]", "causal=true cache=16:bf16 past=3 compute=bf16",
                "cuda_attention_split");
  expect_winner("q[1,2,20,8] k[1,2,20,8] v[1,2,20,8]", "causal=true compute=bf16", "cuda_attention_flash");
  expect_winner("q[1,2,20,8] k[1,2,20,8] v[1,2,20,8]", "causal=true", "cuda_attention_naive");
  expect_winner("q[1,2,1,8] k[1,2,9,8] v[1,2,9,8]", "causal=true results=2", "cuda_attention_naive");
  expect_winner("q[1,1,1,300] k[1,1,9,300] v[1,1,9,300]", "causal=true compute=bf16", "cuda_attention_naive");
}

static void test_winners(void **state) {
  (void)state;
  run_in_child("winners", winners, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_conformance), cmocka_unit_test(test_split),   cmocka_unit_test(test_flash),
      cmocka_unit_test(test_checked),     cmocka_unit_test(test_winners),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
