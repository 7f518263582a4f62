/* SPDX-License-Identifier: MIT
 *
 * session/session.c, inputs.c, runs.c: what a run accepts, what it gives, that an input always takes effect, and that
 * a session stays usable after every error.
 */
#include "fixture.h"

static const char *const TINY = "ordito: 1\nname: tiny\ndims: {d: 4, seq: {min: 1, max: 5}}\n"
                                "inputs:\n  x: {dtype: f32, shape: [seq, d]}\n  y: {dtype: f32, shape: [seq, d]}\n"
                                "graph:\n  - add: {in: [x, y], out: z}\n  - relu: {in: z, out: r}\noutputs: [z, r]\n";

static ord_tensor tensor_of(const float *data, int64_t rows, int64_t columns) {
  return (ord_tensor){.struct_size = sizeof(ord_tensor),
                      .dtype = ORD_F32,
                      .rank = 2,
                      .dim = {rows, columns},
                      .data = data,
                      .bytes = (size_t)(rows * columns) * sizeof *data};
}

static stage open_tiny(const ord_session_options *options) {
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  ord_error err = ORD_ERROR_INIT;
  MUST(ord_model_load_text(s.context, "tiny.yaml", TINY, strlen(TINY), NULL, &s.model, NULL, &err));
  s.session = open_session(s.model, options);
  return s;
}

static void an_input_takes_effect_on_the_next_run(void **state) {
  (void)state;
  stage s = open_tiny(NULL);
  ord_error err = ORD_ERROR_INIT;
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float y[8] = {-9, 1, 1, 1, 1, 1, 1, 1};
  ord_tensor in = tensor_of(x, 2, 4), other = tensor_of(y, 2, 4), out = {.struct_size = sizeof out};
  MUST(ord_session_set(s.session, "x", &in, &err));
  MUST(ord_session_set(s.session, "y", &other, &err));
  for (int round = 0; round < 3; round++) {
    x[1] = (float)round;
    MUST(ord_session_set(s.session, "x", &in, &err));
    MUST(ord_session_run(s.session, &err));
    MUST(ord_session_get(s.session, "z", &out, &err));
    assert_int_equal(out.rank, 2);
    assert_int_equal(out.dim[0], 2);
    assert_float_equal(((const float *)out.data)[0], -8, 0);
    assert_float_equal(((const float *)out.data)[1], round + 1, 0);
    MUST(ord_session_get(s.session, "r", &out, &err));
    assert_float_equal(((const float *)out.data)[0], 0, 0);
  }
  close_stage(&s);
}

static void wrong_inputs_are_told_and_nothing_is_lost(void **state) {
  (void)state;
  stage s = open_tiny(NULL);
  ord_error err = ORD_ERROR_INIT;
  const float data[32] = {0};
  ord_tensor good = tensor_of(data, 2, 4), out = {.struct_size = sizeof out};
  ord_tensor narrow = tensor_of(data, 2, 3), longer = tensor_of(data, 3, 4), too_long = tensor_of(data, 6, 4);
  ord_tensor whole = good, flat = good, short_data = good, negative = good, endless = good;
  whole.dtype = ORD_I32;
  flat.rank = 1;
  short_data.bytes = 4;
  negative.dim[0] = -2;
  endless.dim[0] = INT64_MAX / 2;
  endless.bytes = 0;
  MUST_FAIL(ord_session_run(s.session, &err), "run-time dim 'seq' is not known");
  MUST_FAIL(ord_session_get(s.session, "z", &out, &err), "no finished run");
  MUST_FAIL(ord_session_set(s.session, "xx", &good, &err), "did you mean 'x'");
  MUST_FAIL(ord_session_set(s.session, "x", &whole, &err), "found i32; wanted f32");
  MUST_FAIL(ord_session_set(s.session, "x", &narrow, &err), "found shape [2, 3]; wanted [seq, 4]");
  MUST_FAIL(ord_session_set(s.session, "x", &flat, &err), "wanted [seq, 4]");
  MUST_FAIL(ord_session_set(s.session, "x", &negative, &err), "wanted [seq, 4]");
  MUST_FAIL(ord_session_set(s.session, "x", &short_data, &err), "found 4 bytes; wanted 32");
  MUST_FAIL(ord_session_set(s.session, "x", &endless, &err), "wanted [seq, 4]");
  MUST(ord_session_set(s.session, "x", &good, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "input 'y' is not set");
  MUST(ord_session_set(s.session, "y", &longer, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "wanted equal");
  MUST(ord_session_set(s.session, "x", &too_long, &err));
  MUST(ord_session_set(s.session, "y", &too_long, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "found seq = 6; wanted 1 to 5");
  MUST(ord_session_set(s.session, "x", &good, &err));
  MUST(ord_session_set(s.session, "y", &good, &err));
  MUST(ord_session_run(s.session, &err));
  MUST_FAIL(ord_session_get(s.session, "q", &out, &err), "wanted one of: z, r");
  MUST(ord_session_get(s.session, "z", &out, &err));
  close_stage(&s);
}

static void outputs_can_be_chosen_and_inner_values_kept(void **state) {
  (void)state;
  const char *const output[] = {"r"}, *const keep[] = {"z"}, *const unknown[] = {"zz"};
  ord_session_options options = {.struct_size = sizeof options, .output = output, .output_count = 1};
  ord_error err = ORD_ERROR_INIT;
  const float data[4] = {-1, 2, -3, 4};
  ord_tensor in = tensor_of(data, 1, 4), out = {.struct_size = sizeof out};
  stage s = open_tiny(&options);
  MUST(ord_session_set(s.session, "x", &in, &err));
  MUST(ord_session_set(s.session, "y", &in, &err));
  MUST(ord_session_run(s.session, &err));
  MUST_FAIL(ord_session_get(s.session, "z", &out, &err), "wanted one of: r");
  ord_session_destroy(s.session);
  options.keep = keep;
  options.keep_count = 1;
  s.session = open_session(s.model, &options);
  MUST(ord_session_set(s.session, "x", &in, &err));
  MUST(ord_session_set(s.session, "y", &in, &err));
  MUST(ord_session_run(s.session, &err));
  MUST(ord_session_get(s.session, "z", &out, &err));
  assert_float_equal(((const float *)out.data)[0], -2, 0);
  ord_session *none = NULL;
  options.keep = unknown;
  MUST_FAIL(ord_session_create(s.model, &options, &none, &err), "zz");
  options.keep_count = 0;
  options.output = unknown;
  MUST_FAIL(ord_session_create(s.model, &options, &none, &err), "zz");
  close_stage(&s);
}

static void ids_and_lengths_are_checked_before_the_launch(void **state) {
  (void)state;
  static const char *const text = "ordito: 1\nname: look\ndims: {rows: 3, d: 2, batch: 2, seq: {min: 1, max: 4}}\n"
                                  "inputs:\n  ids: {dtype: i32, shape: [batch, seq], fill: tokens}\n"
                                  "  lengths: {dtype: i32, shape: [batch], fill: lengths}\n"
                                  "weights:\n  table: {shape: [rows, d]}\n"
                                  "graph:\n  - embedding: {in: ids, weight: table, out: x}\n"
                                  "  - pool: {in: x, kind: mean, lengths: lengths, out: y}\noutputs: [y]\n";
  ord_error err = ORD_ERROR_INIT;
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  const ord_weight_options random = {.struct_size = sizeof random, .random = true};
  MUST(ord_model_load_text(s.context, "look.yaml", text, strlen(text), NULL, &s.model, NULL, &err));
  ord_session *none = NULL;
  MUST_FAIL(ord_session_create(s.model, NULL, &none, &err), "weights of look are not open");
  MUST(ord_model_open_weights(s.model, &random, NULL, &err));
  s.session = open_session(s.model, NULL);
  const int32_t right[4] = {0, 1, 2, 0}, high[4] = {0, 3, 0, 0}, wild[4] = {(int32_t)4294967294u, 0, 0, 0};
  const int32_t too_long[2] = {1, 3}, negative[2] = {-1, 1};
  ord_tensor length = {.struct_size = sizeof length, .dtype = ORD_I32, .rank = 1, .dim = {2}, .bytes = 8};
  MUST(ord_session_set_tokens(s.session, high, 2, 2, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "holds 3 at 1; wanted 0 to 2");
  MUST(ord_session_set_tokens(s.session, wild, 2, 2, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "holds -2 at 0; wanted 0 to 2");
  MUST(ord_session_set_tokens(s.session, right, 2, 2, &err));
  length.data = too_long;
  MUST(ord_session_set(s.session, "lengths", &length, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "length 3 of row 1; wanted 0 to 2");
  length.data = negative;
  MUST(ord_session_set(s.session, "lengths", &length, &err));
  MUST_FAIL(ord_session_run(s.session, &err), "length -1 of row 0");
  const int32_t lengths[2] = {2, 0};
  length.data = lengths;
  MUST(ord_session_set(s.session, "lengths", &length, &err));
  MUST(ord_session_run(s.session, &err));
  ord_tensor out = {.struct_size = sizeof out};
  MUST(ord_session_get(s.session, "y", &out, &err));
  assert_float_equal(((const float *)out.data)[2], 0, 0); /* over no token: zeros */
  close_stage(&s);
}

static void pins_that_cannot_serve_are_errors_with_reasons(void **state) {
  (void)state;
  stage s = {.context = open_context(1, ALL_PLUGINS)};
  s.model = open_model(s.context, MODEL("andrea-nano"), NULL, NANO_WEIGHTS);
  ord_session *none = NULL;
  ord_error err = ORD_ERROR_INIT;
  static const struct {
    const char *pin, *part;
  } row[] = {
      {"attention=no_such_kernel", "attention_naive"},
      {"no.such.path=attention_naive", "no.such.path"},
      {"attention=matmul_plain", "attention"},
      {"attention", "attention"},
      {"=x", "="},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_session_options options = {.struct_size = sizeof options, .pin = &row[i].pin, .pin_count = 1};
    MUST_FAIL(ord_session_create(s.model, &options, &none, &err), row[i].part);
  }
  const char *const pass = "no_such_pass";
  const ord_session_options passes = {.struct_size = sizeof passes, .disabled_pass = &pass, .disabled_pass_count = 1};
  MUST_FAIL(ord_session_create(s.model, &passes, &none, &err), "fuse_siblings");
  close_stage(&s);
}

/* A shorter run leaves what the longer one wrote behind its end; poisoned, a reader of old outputs sees NaN there. */
static void poisoned_outputs_do_not_survive_a_run(void **state) {
  (void)state;
  for (int poison = 0; poison < 2; poison++) {
    const ord_session_options options = {.struct_size = sizeof options, .poison = poison == 1};
    stage s = open_tiny(&options);
    ord_error err = ORD_ERROR_INIT;
    float data[20];
    for (int i = 0; i < 20; i++) data[i] = 1;
    ord_tensor out = {.struct_size = sizeof out};
    for (int64_t rows = 5; rows > 0; rows -= 4) {
      const ord_tensor in = tensor_of(data, rows, 4);
      MUST(ord_session_set(s.session, "x", &in, &err));
      MUST(ord_session_set(s.session, "y", &in, &err));
      MUST(ord_session_run(s.session, &err));
      MUST(ord_session_get(s.session, "z", &out, &err));
    }
    const float old = ((const float *)out.data)[16]; /* the fifth row, of the first run */
    assert_true(poison ? old != old : old == 2);
    close_stage(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_input_takes_effect_on_the_next_run),
      cmocka_unit_test(poisoned_outputs_do_not_survive_a_run),
      cmocka_unit_test(wrong_inputs_are_told_and_nothing_is_lost),
      cmocka_unit_test(outputs_can_be_chosen_and_inner_values_kept),
      cmocka_unit_test(ids_and_lengths_are_checked_before_the_launch),
      cmocka_unit_test(pins_that_cannot_serve_are_errors_with_reasons),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
