/* SPDX-License-Identifier: MIT
 *
 * The lesson: one attention layer written three ways (a matrix each for Q, K and V; one fused matrix; small matrices
 * per head) gives the same numbers from the same weights.
 */
#include <unistd.h>

#include "fixture.h"

#define WIDTH 384
#define ROWS 20

static float noise(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return ((float)(*seed >> 8) / 8388608.0f - 1) * 0.1f;
}

/* wqkv holds the rows of wq, wk and wv one behind the other; all three models find what they want in this file. */
static void write_weights(const char *path) {
  static float qkv[3 * WIDTH * WIDTH], out[WIDTH * WIDTH];
  const size_t one = sizeof out;
  char header[512];
  uint32_t seed = 1;
  for (size_t i = 0; i < 3 * WIDTH * WIDTH; i++) qkv[i] = noise(&seed);
  for (size_t i = 0; i < WIDTH * WIDTH; i++) out[i] = noise(&seed);
  int bytes = snprintf(header, sizeof header,
                       "{\"wq\":{\"dtype\":\"F32\",\"shape\":[384,384],\"data_offsets\":[0,%zu]},"
                       "\"wk\":{\"dtype\":\"F32\",\"shape\":[384,384],\"data_offsets\":[%zu,%zu]},"
                       "\"wv\":{\"dtype\":\"F32\",\"shape\":[384,384],\"data_offsets\":[%zu,%zu]},"
                       "\"wo\":{\"dtype\":\"F32\",\"shape\":[384,384],\"data_offsets\":[%zu,%zu]},"
                       "\"wqkv\":{\"dtype\":\"F32\",\"shape\":[1152,384],\"data_offsets\":[%zu,%zu]}}",
                       one, one, 2 * one, 2 * one, 3 * one, 3 * one, 4 * one, 4 * one, 7 * one);
  while (bytes % 8) header[bytes++] = ' ';
  const uint64_t length = (uint64_t)bytes;
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(&length, sizeof length, 1, file) + fwrite(header, 1, (size_t)bytes, file), 1 + (size_t)bytes);
  assert_int_equal(
      fwrite(qkv, sizeof qkv, 1, file) + fwrite(out, sizeof out, 1, file) + fwrite(qkv, sizeof qkv, 1, file), 3);
  assert_int_equal(fclose(file), 0);
}

static void compute(const char *model, const char *weights, float *y) {
  ord_error err = ORD_ERROR_INIT;
  static float x[ROWS * WIDTH];
  uint32_t seed = 2;
  for (size_t i = 0; i < ROWS * WIDTH; i++) x[i] = 10 * noise(&seed);
  stage s = {.context = open_context(2, ALL_PLUGINS)};
  s.model = open_model(s.context, model, NULL, weights);
  s.session = open_session(s.model, NULL);
  const ord_tensor in = {
      .struct_size = sizeof in, .dtype = ORD_F32, .rank = 3, .dim = {1, ROWS, WIDTH}, .data = x, .bytes = sizeof x};
  ord_tensor out = {.struct_size = sizeof out};
  MUST(ord_session_set(s.session, "x", &in, &err));
  MUST(ord_session_run(s.session, &err));
  MUST(ord_session_get(s.session, "y", &out, &err));
  assert_int_equal(out.bytes, ROWS * WIDTH * sizeof *y);
  memcpy(y, out.data, out.bytes);
  close_stage(&s);
}

static void three_ways_give_the_same_numbers(void **state) {
  (void)state;
  static float apart[ROWS * WIDTH], fused[ROWS * WIDTH], heads[ROWS * WIDTH];
  char path[] = "/tmp/ordito-lesson-XXXXXX.safetensors";
  assert_true(close(mkstemps(path, 12)) == 0);
  write_weights(path);
  compute(MODEL("attention-only"), path, apart);
  compute(MODEL("attention-fused"), path, fused);
  compute(MODEL("attention-heads"), path, heads);
  unlink(path);
  float largest = 0;
  for (size_t i = 0; i < ROWS * WIDTH; i++) {
    if (apart[i] > largest) largest = apart[i];
    if (apart[i] != fused[i]) fail_msg("number %zu: %g apart, %g fused", i, (double)apart[i], (double)fused[i]);
    if (apart[i] != heads[i]) fail_msg("number %zu: %g apart, %g per head", i, (double)apart[i], (double)heads[i]);
  }
  assert_true(largest > 0.01f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(three_ways_give_the_same_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
