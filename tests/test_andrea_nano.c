/* SPDX-License-Identifier: MIT
 *
 * The committed model against PyTorch: the logits of three prompts, all at once and token by token, and a greedy
 * text. models/andrea-nano/train.py wrote the wanted numbers, in f32 from the same bf16 weights.
 */
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#include "cli/npy.h"
#include "fixture.h"

enum { VOCAB = 257, PROMPTS = 3, PARAMETERS = 3408384, FILE_BYTES_MAX = 8000000 };

/* Of the largest difference to the largest logit of the prompt, both as absolute numbers. PyTorch's numbers are those
 * of f32; where products are made in bf16 or int8 the bound only says that nothing is wrong. */
#define TOLERANCE 1e-5
static double tolerance_of(const setup *how) {
  if (how->compute == ORD_I8) return 0.04;
  return how->compute == ORD_BF16 || how->kv_cache == ORD_BF16 ? 0.01 : TOLERANCE;
}

typedef struct array {
  ord_tensor tensor;
  void *data;
  int64_t count;
} array;

typedef struct example {
  array id;     // i32 [tokens]
  array logits; // f32 [tokens, VOCAB], what PyTorch says
  float largest;
} example;

static array read_array(const char *name, uint32_t dtype, uint32_t rank) {
  char path[512];
  ord_error err = ORD_ERROR_INIT;
  array made = {.count = 1};
  snprintf(path, sizeof path, "%s/%s", NANO_WEIGHTS, name);
  MUST(npy_read(path, &made.tensor, &made.data, &err));
  assert_int_equal(made.tensor.dtype, dtype);
  assert_int_equal(made.tensor.rank, rank);
  for (uint32_t axis = 0; axis < rank; axis++) made.count *= made.tensor.dim[axis];
  return made;
}

static float largest_of(const float *number, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; i++) largest = fmaxf(largest, fabsf(number[i]));
  return largest;
}

static example read_prompt(int number) {
  char name[32];
  snprintf(name, sizeof name, "prompt_%d.npy", number);
  example made = {.id = read_array(name, ORD_I32, 1)};
  snprintf(name, sizeof name, "logits_%d.npy", number);
  made.logits = read_array(name, ORD_F32, 2);
  assert_true(made.id.count > 0);
  assert_int_equal(made.logits.tensor.dim[0], made.id.count);
  assert_int_equal(made.logits.tensor.dim[1], VOCAB);
  made.largest = largest_of(made.logits.data, made.logits.count);
  assert_true(made.largest > 1);
  return made;
}

static void finish_prompt(example *prompt) {
  free(prompt->id.data);
  free(prompt->logits.data);
}

/* Rows from `first` of what is wanted against as many rows of the output. */
static void check_rows(const setup *how, const example *prompt, int64_t first, const ord_tensor *got) {
  const float *wanted = (const float *)prompt->logits.data + first * VOCAB, *found = got->data;
  const int64_t count = (int64_t)(got->bytes / sizeof *found);
  float worst = 0;
  assert_true(count > 0 && first * VOCAB + count <= prompt->logits.count);
  for (int64_t i = 0; i < count; i++) {
    assert_true(isfinite(found[i]));
    worst = fmaxf(worst, fabsf(found[i] - wanted[i]));
  }
  if (worst > tolerance_of(how) * prompt->largest)
    fail_msg("%s: rows from %lld: found a difference of %g; wanted at most %g of the largest logit %g", how->name,
             (long long)first, worst, tolerance_of(how), prompt->largest);
}

static void run_tokens(ord_session *session, const int32_t *id, int64_t count) {
  ord_error err = ORD_ERROR_INIT;
  MUST(ord_session_set_tokens(session, id, 1, count, &err));
  MUST(ord_session_run(session, &err));
}

static ord_tensor get(ord_session *session, const char *output) {
  ord_error err = ORD_ERROR_INIT;
  ord_tensor got = {.struct_size = sizeof got};
  MUST(ord_session_get(session, output, &got, &err));
  return got;
}

static stage open_output(const setup *how, const char *output) {
  const char *const name[] = {output};
  const ord_session_options options = {.struct_size = sizeof options, .output = name, .output_count = 1};
  return open_nano_for(how, 2, &options);
}

static void check_whole_prompts(const setup *how) {
  stage s = open_output(how, "logits");
  for (int i = 0; i < PROMPTS; i++) {
    example prompt = read_prompt(i);
    ord_session_reset(s.session);
    run_tokens(s.session, prompt.id.data, prompt.id.count);
    const ord_tensor got = get(s.session, "logits");
    assert_int_equal(got.bytes, prompt.logits.tensor.bytes);
    check_rows(how, &prompt, 0, &got);
    finish_prompt(&prompt);
  }
  close_stage(&s);
}

static void logits_of_a_prompt_equal_those_of_pytorch(void **state) {
  (void)state;
  for (int i = 0; i < SETUP_COUNT; i++) check_whole_prompts(&setups[i]);
}

/* The first `whole` tokens in one run, the others one by one; `next` is the last row of each run. */
static void decode(const setup *how, ord_session *session, const example *prompt, int64_t whole) {
  const int32_t *id = prompt->id.data;
  ord_session_reset(session);
  for (int64_t done = 0; done < prompt->id.count;) {
    const int64_t count = done ? 1 : whole;
    run_tokens(session, id + done, count);
    done += count;
    const ord_tensor got = get(session, "next");
    assert_int_equal(got.bytes, VOCAB * sizeof(float));
    check_rows(how, prompt, done - 1, &got);
  }
}

static void check_steps(const setup *how) {
  stage s = open_output(how, "next");
  for (int i = 0; i < PROMPTS; i++) {
    example prompt = read_prompt(i);
    decode(how, s.session, &prompt, 1);
    if (prompt.id.count > 2) decode(how, s.session, &prompt, prompt.id.count / 2);
    finish_prompt(&prompt);
  }
  close_stage(&s);
}

static void so_do_those_of_one_token_after_the_other(void **state) {
  (void)state;
  for (int i = 0; i < SETUP_COUNT; i++) check_steps(&setups[i]);
}

typedef struct generated {
  int32_t id[512];
  uint32_t count;
} generated;

static bool collect(void *context, int32_t id, const char *text, size_t bytes) {
  (void)text, (void)bytes;
  generated *out = context;
  out->id[out->count++] = id;
  return true;
}

/* Two logits that are each off by the tolerance can change places if they lie twice as near; from there on the texts
 * are different texts. */
static void the_greedy_text_is_the_same(void **state) {
  (void)state;
  example prompt = read_prompt(1);
  array wanted = read_array("greedy.npy", ORD_I32, 1), gaps = read_array("greedy_gaps.npy", ORD_F32, 1);
  const int32_t *id = wanted.data;
  const float *gap = gaps.data;
  assert_int_equal(wanted.count, 100);
  assert_int_equal(gaps.count, wanted.count);
  const ord_session_options options = {.struct_size = sizeof options, .generates = true};
  stage s = open_nano(2, &options);
  ord_error err = ORD_ERROR_INIT;
  generated got = {.count = 0};
  ord_generate_result result = {.struct_size = sizeof result};
  ord_generate_options greedy = ORD_GENERATE_INIT;
  greedy.max_tokens = (uint32_t)wanted.count;
  MUST(ord_session_generate(s.session, prompt.id.data, (size_t)prompt.id.count, &greedy, collect, &got, &result, &err));
  assert_int_equal(got.count, wanted.count);
  uint32_t same = 0;
  while (same < got.count && got.id[same] == id[same]) same++;
  if (same < got.count && gap[same] > 2 * TOLERANCE * prompt.largest)
    fail_msg("token %u: found %d; wanted %d, which leads by %g", same, got.id[same], id[same], gap[same]);
  close_stage(&s);
  finish_prompt(&prompt);
  free(wanted.data);
  free(gaps.data);
}

/* The JSON header of the weight file, which follows its length. */
static json_t *read_header(const char *path) {
  unsigned char prefix[8];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(prefix, 1, sizeof prefix, file), sizeof prefix);
  size_t bytes = 0;
  for (size_t i = sizeof prefix; i-- > 0;) bytes = bytes << 8 | prefix[i];
  assert_true(bytes > 0 && bytes < FILE_BYTES_MAX);
  char *text = malloc(bytes);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, bytes, file), bytes);
  fclose(file);
  json_t *header = json_loadb(text, bytes, 0, NULL);
  free(text);
  assert_non_null(header);
  return header;
}

static void the_file_is_small_enough_to_commit(void **state) {
  (void)state;
  const char *path = NANO_WEIGHTS "/model.safetensors";
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_true(status.st_size < FILE_BYTES_MAX);
  json_t *header = read_header(path);
  const char *name;
  json_t *tensor;
  int64_t parameters = 0;
  json_object_foreach(header, name, tensor) {
    if (strcmp(name, "__metadata__") == 0) continue;
    assert_string_equal(json_string_value(json_object_get(tensor, "dtype")), "BF16");
    int64_t count = 1;
    size_t axis;
    json_t *dim;
    json_array_foreach(json_object_get(tensor, "shape"), axis, dim) count *= json_integer_value(dim);
    parameters += count;
  }
  json_decref(header);
  assert_int_equal(parameters, PARAMETERS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_file_is_small_enough_to_commit),
      cmocka_unit_test(logits_of_a_prompt_equal_those_of_pytorch),
      cmocka_unit_test(so_do_those_of_one_token_after_the_other),
      cmocka_unit_test(the_greedy_text_is_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
