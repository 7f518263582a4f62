/* SPDX-License-Identifier: MIT
 *
 * What a description holds, and that every key of the format changes something. Faults are tested by the files of
 * tests/bad_models.
 */
#include "model_fixture.h"

/* Every key of the format stands in it. */
static const char whole[] =
    "ordito: 1\n"
    "name: whole\n"
    "about: a model of everything\n"
    "sizes:\n"
    "  small: {d: 16, n_layer: 2}\n"
    "  large: {d: 32, n_layer: 3}\n"
    "dims:\n"
    "  n_head: 2\n"
    "  vocab: 300\n"
    "  context: 64\n"
    "  batch: 1\n"
    "  seq: {min: 1, max: context}\n"
    "inputs:\n"
    "  tokens:    {dtype: i32, shape: [batch, seq], fill: tokens}\n"
    "  positions: {dtype: i32, shape: [batch, seq], fill: positions}\n"
    "  lengths:   {dtype: i32, shape: [batch], fill: lengths}\n"
    "  scale:     {dtype: f32, shape: [1], fill: 0.5}\n"
    "  extra:     {dtype: f32, shape: [batch, seq]}\n"
    "weights:\n"
    "  wte:          {shape: [out: vocab, in: d]}\n"
    "  h.<layer>.wq: {shape: [out: d, in: d], from: enc.<layer>.q, slice: {axis: 0, start: d}}\n"
    "checkpoint:\n"
    "  ignore: [pooler.*]\n"
    "  order:\n"
    "    - wte\n"
    "    - repeat: {count: n_layer, index: i, body: [h.<i>.wq]}\n"
    "caches:\n"
    "  kv.<layer>: {length: context}\n"
    "blocks:\n"
    "  attend:\n"
    "    takes: {x: value, lengths: value, layer: int}\n"
    "    gives: [y]\n"
    "    body:\n"
    "      - matmul: {in: x, weight: h.<layer>.wq, out: q}\n"
    "      - reshape: {in: q, shape: [batch, seq, n_head, d / n_head], out: q}\n"
    "      - transpose: {in: q, axes: [0, 2, 1, 3], out: q}\n"
    "      - attention: {q: q, k: q, v: q, lengths: lengths, causal: true, cache: kv.<layer>, out: q}\n"
    "      - transpose: {in: q, axes: [0, 2, 1, 3], out: q}\n"
    "      - reshape: {in: q, shape: [batch, seq, d], out: y}\n"
    "graph:\n"
    "  - embedding: {in: tokens, weight: wte, out: x}\n"
    "  - position: {in: x, positions: positions, weight: wte, out: x}\n"
    "  - mul: {in: [x, scale], out: x}\n"
    "  - repeat:\n"
    "      count: n_layer\n"
    "      index: layer\n"
    "      body:\n"
    "        - attend: {x: x, lengths: lengths, layer: layer, out: x}\n"
    "  - pool: {in: x, lengths: lengths, kind: last, out: vector}\n"
    "  - matmul: {in: vector, weight: wte, out: next}\n"
    "  - relu: {in: extra, out: extra}\n"
    "outputs: [next, vector, extra]\n"
    "tokenizer: {kind: bytes, first: 3, before: [vocab - 1], after: [2], cut: 32}\n"
    "generate:\n"
    "  logits: next\n"
    "  stop: [vocab - 298]\n";

/* The same with what a model may say besides, though no verb reads it */
static char *with_unread(void) {
  static const char unread[] = "  chat:\n"
                               "    system: [\"<s>\", \"</s>\"]\n"
                               "    user: [\"<u>\", \"</u>\"]\n"
                               "    assistant: [\"<a>\", \"</a>\"]\n"
                               "    opening: be kind\n"
                               "embed: {vector: vector}\n";
  ord_text text = {0};
  ord_text_add(&text, "%s%s", whole, unread);
  assert_false(text.failed);
  return text.bytes;
}

static const ord_description_options small = {.size = "small"};

static void test_every_key_changes_something(void **state) {
  (void)state;
  static const struct {
    const char *key, *old, *new_text;
  } row[] = {
      {"name", "name: whole", "name: half"},
      {"about", "about: a model", "about: the model"},
      {"about left out", "about: a model of everything\n", ""},
      {"a dim of a size", "small: {d: 16", "small: {d: 8"},
      {"a fixed dim", "n_head: 2", "n_head: 4"},
      {"min", "min: 1", "min: 0"},
      {"max", "max: context", "max: 32"},
      {"dtype", "extra:     {dtype: f32", "extra:     {dtype: bf16"},
      {"shape of an input", "shape: [1]", "shape: [d]"},
      {"fill left out", ", fill: lengths", ""},
      {"fill with a number", "fill: 0.5", "fill: 0.25"},
      {"shape of a weight", "wte:          {shape: [out: vocab, in: d]", "wte:          {shape: [in: d, out: vocab]"},
      {"an attribute with a default", "position: {in: x, positions: positions, weight: wte",
       "position: {in: x, positions: positions, weight: wte, offset: 2"},
      {"from", "from: enc.", "from: dec."},
      {"from left out", "from: enc.<layer>.q, ", ""},
      {"slice left out", ", slice: {axis: 0, start: d}", ""},
      {"slice axis", "axis: 0, start", "axis: 1, start"},
      {"slice start", "start: d", "start: 0"},
      {"ignore", "ignore: [pooler.*]", "ignore: [roller.*]"},
      {"order", "    - wte\n    - repeat: {count: n_layer, index: i, body: [h.<i>.wq]}\n",
       "    - repeat: {count: n_layer, index: i, body: [h.<i>.wq]}\n    - wte\n"},
      {"length", "length: context", "length: 128"},
      {"body of a block",
       "- transpose: {in: q, axes: [0, 2, 1, 3], out: q}\n      - reshape: {in: q, shape: [batch, seq, d]",
       "- transpose: {in: q, axes: [0, 2, -3, 3], out: q}\n      - relu: {in: q, out: q}\n      - reshape: {in: q, "
       "shape: [batch, seq, d]"},
      {"gives", "gives: [y]\n    body:\n      - matmul: {in: x, weight: h.<layer>.wq, out: q}",
       "gives: [z]\n    body:\n      - relu: {in: x, out: z}\n      - matmul: {in: z, weight: h.<layer>.wq, out: q}"},
      {"index", "index: layer\n", "index: level\n"},
      {"an attribute", "causal: true", "causal: false"},
      {"out", "out: vector}", "out: vec}"},
      {"outputs", "outputs: [next, vector, extra]", "outputs: [vector, next, extra]"},
      {"kind", "kind: bytes, first: 3, before: [vocab - 1], after: [2]", "kind: file, before: [299], after: [2]"},
      {"first", "first: 3", "first: 4"},
      {"before", "before: [vocab - 1]", "before: [vocab - 3]"},
      {"before left out", "before: [vocab - 1], ", ""},
      {"before empty", "before: [vocab - 1]", "before: []"},
      {"after", "after: [2]", "after: [1]"},
      {"cut", "cut: 32", "cut: 16"},
      {"logits", "logits: next", "logits: vector"},
      {"stop", "stop: [vocab - 298]", "stop: []"},
  };
  ord_text base = {0};
  built_model made = build_good_model(whole, &small);
  describe_model(&base, &made);
  finish_model(&made);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *text = replace_in(whole, row[i].old, row[i].new_text);
    /* Where a name is changed at one of its places, the readers of the old name follow. */
    if (strcmp(row[i].key, "out") == 0) {
      char *renamed = replace_in(text, "in: vector", "in: vec");
      free(text);
      text = replace_in(renamed, "outputs: [next, vector", "outputs: [next, vec");
      free(renamed);
    }
    if (strcmp(row[i].key, "index") == 0) {
      char *renamed = replace_in(text, "layer: layer", "layer: level");
      free(text);
      text = renamed;
    }
    ord_text changed = {0};
    made = build_model(text, &small);
    if (!made.graph) print_error("%s: %s\n", row[i].key, made.list.entry[0].text);
    assert_non_null(made.graph);
    describe_model(&changed, &made);
    if (strcmp(base.bytes, changed.bytes) == 0) print_error("key '%s' changes nothing\n", row[i].key);
    assert_string_not_equal(base.bytes, changed.bytes);
    ord_text_finish(&changed);
    finish_model(&made);
    free(text);
  }
  ord_text_finish(&base);
}

/* Without effect in this version: told once each, not dropped in silence. */
static void test_keys_that_nothing_reads(void **state) {
  (void)state;
  static const struct {
    const char *old, *new_text, *warning;
  } row[] = {
      {"be kind", "be brief", "chat, with its opening, is read by no verb of this version"},
      {"    opening: be kind\n", "", "chat is read by no verb of this version"},
      {"{vector: vector}", "{vector: next}", "embed is read by no verb of this version"},
      {"kind: bytes, first: 3,", "kind: file,", "a tokenizer of kind file is read by no verb of this version"},
      {"kind: bytes, first: 3,", "kind: gguf,", "a tokenizer of kind gguf is read by no verb of this version"},
  };
  char *all = with_unread();
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *text = replace_in(all, row[i].old, row[i].new_text);
    built_model made = build_model(text, &small);
    uint32_t found = 0;
    assert_non_null(made.graph);
    for (uint32_t e = 0; e < made.list.count; e++) {
      const ord_diagnostic *entry = &made.list.entry[e];
      found += entry->warning && !strcmp(entry->warning, "unread-key") && !strcmp(entry->text, row[i].warning);
    }
    if (found != 1) fail_msg("%u warnings '%s'; wanted one", found, row[i].warning);
    finish_model(&made);
    free(text);
  }
  free(all);
}

static void test_order_of_the_keys_does_not_matter(void **state) {
  (void)state;
  static const char *const part[] = {"name: m\n",
                                     "dims: {rows: 4, d: 8}\n",
                                     "inputs: {x: {dtype: f32, shape: [rows, d]}}\n",
                                     "weights: {w: {shape: [d]}}\n",
                                     "graph: [add: {in: [x, w], out: y}]\n",
                                     "outputs: [y]\n",
                                     "ordito: 1\n"};
  enum { PART_COUNT = sizeof part / sizeof *part };
  ord_text first = {0};
  for (int turn = 0; turn < PART_COUNT; turn++) {
    ord_text text = {0}, found = {0};
    for (int i = 0; i < PART_COUNT; i++) ord_text_add(&text, "%s", part[(i + turn) % PART_COUNT]);
    built_model made = build_good_model(text.bytes, NULL);
    describe_model(turn ? &found : &first, &made);
    if (turn) assert_string_equal(found.bytes, first.bytes);
    finish_model(&made);
    ord_text_finish(&text);
    ord_text_finish(&found);
  }
  ord_text_finish(&first);
}

static void test_sizes_are_chosen_by_name(void **state) {
  (void)state;
  static const struct {
    const char *size, *full_name, *message;
  } row[] = {
      {"small", "whole-small", NULL},
      {"large", "whole-large", NULL},
      {NULL, NULL, "the model comes in sizes small, large; found no choice; wanted one (--size)"},
      {"smal", NULL, "the model comes in sizes small, large; found --size smal; did you mean 'small'?"},
      {"12m", NULL, "the model comes in sizes small, large; found --size 12m; wanted one of them"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    built_model made = build_model(whole, &(ord_description_options){.size = row[i].size});
    assert_int_equal(made.list.error_count, row[i].message ? 1 : 0);
    if (row[i].message) {
      assert_string_equal(made.list.entry[0].text, row[i].message);
      assert_int_equal(made.list.entry[0].line, 5);
    } else {
      assert_string_equal(ord_description_full_name(made.description), row[i].full_name);
      assert_string_equal(ord_description_name(made.description), "whole");
      assert_string_equal(made.graph->model_name, row[i].full_name);
    }
    finish_model(&made);
  }
  built_model made = build_model("ordito: 1\nname: m\ninputs: {x: {dtype: f32, shape: []}}\n"
                                 "graph: [relu: {in: x, out: y}]\noutputs: [y]\n",
                                 &small);
  assert_int_equal(made.list.error_count, 1);
  assert_string_equal(made.list.entry[0].text, "the model has no sizes; found --size small; wanted none");
  finish_model(&made);
}

static void test_context_bounds_caches_and_the_token_axis_alone(void **state) {
  (void)state;
  static const struct {
    int64_t context;
    const char *cache, *seq; /* NULL: an error */
  } row[] = {{0, "64", "1..64"}, {48, "48", "1..48"}, {64, "64", "1..64"}, {1000, "64", "1..64"}, {1, "1", "1..1"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const ord_description_options options = {.size = "small", .context = row[i].context};
    built_model made = build_good_model(whole, &options);
    const char *value;
    ord_text length = {0};
    ord_size_print(&length, made.graph->cache[1].length, made.graph->run_dim_name);
    assert_string_equal(length.bytes, row[i].cache);
    assert_string_equal(ord_description_dim(made.description, 6, &value), "seq");
    assert_string_equal(value, row[i].seq);
    assert_string_equal(ord_description_dim(made.description, 4, &value), "context");
    assert_string_equal(value, "64");
    assert_null(ord_description_dim(made.description, 7, &value));
    ord_text_finish(&length);
    finish_model(&made);
  }
  char *text = replace_in(whole, "min: 1", "min: 8");
  built_model made = build_model(text, &(ord_description_options){.size = "small", .context = 7});
  assert_int_equal(made.list.error_count, 1);
  assert_string_equal(made.list.entry[0].text, "--context 7 is too small; the token axis 'seq' is at least 8");
  finish_model(&made);
  free(text);
}

static void test_ignore_takes_stars(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *tensor;
    bool is_ignored;
  } row[] = {{"pooler.*", "pooler.weight", true},
             {"pooler.*", "poolers", false},
             {"*", "x", true},
             {"h.*.bias", "h.0.attn.bias", true},
             {"h.*.bias", "h.0.bias2", false},
             {"a", "a", true},
             {"a", "ab", false},
             {"*a*b", "xaxbxab", true},
             {"*a*b", "xaxbxa", false},
             {"**", "", true}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_text text = {0};
    ord_text_add(&text,
                 "ordito: 1\nname: m\ninputs: {x: {dtype: f32, shape: []}}\ncheckpoint: {ignore: ['%s']}\n"
                 "graph: [relu: {in: x, out: y}]\noutputs: [y]\n",
                 row[i].pattern);
    built_model made = build_good_model(text.bytes, NULL);
    assert_int_equal(ord_description_ignores(made.description, row[i].tensor), row[i].is_ignored);
    finish_model(&made);
    ord_text_finish(&text);
  }
}

static void test_the_caller_may_raise_bytes_and_items(void **state) {
  (void)state;
  enum { BYTES = 3 << 20 };
  static const char head[] = "ordito: 1\nname: m\ninputs: {x: {dtype: f32, shape: []}}\ngraph:\n"
                             "  - repeat: {count: 100, index: i, body: [relu: {in: x, out: x}]}\noutputs: [x]\n#";
  char *text = malloc(BYTES + 1);
  assert_non_null(text);
  memset(text, 'x', BYTES);
  text[BYTES] = '\0';
  memcpy(text, head, strlen(head));
  static const struct {
    size_t byte_limit;
    uint32_t item_limit;
    const char *message;
  } row[] = {{0, 0, "the text is too long; found 3145728 bytes; wanted at most 1048576"},
             {BYTES, 0, NULL},
             {BYTES, 200, NULL},
             {BYTES, 199, "the graph grows too large; found more than 199 items after expansion; wanted fewer"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    built_model made =
        build_model(text, &(ord_description_options){.byte_limit = row[i].byte_limit, .item_limit = row[i].item_limit});
    assert_int_equal(made.list.error_count, row[i].message ? 1 : 0);
    if (row[i].message) assert_string_equal(made.list.entry[0].text, row[i].message);
    finish_model(&made);
  }
  free(text);
}

static void test_unknown_keys_are_errors_everywhere(void **state) {
  (void)state;
  static const struct {
    const char *old, *new_text, *message;
  } row[] = {
      {"about: a", "abuot: a", "a model has no key 'abuot'; did you mean 'about'?"},
      {"min: 1", "minn: 1", "a run-time dim has no key 'minn'; did you mean 'min'?"},
      {"fill: 0.5", "filll: 0.5", "an input has no key 'filll'; did you mean 'fill'?"},
      {"from: enc", "form: enc", "a weight has no key 'form'; did you mean 'from'?"},
      {"axis: 0, start", "axes: 0, start", "slice has no key 'axes'; did you mean 'axis'?"},
      {"ignore: [", "ignroe: [", "checkpoint has no key 'ignroe'; did you mean 'ignore'?"},
      {"index: i,", "indx: i,", "repeat has no key 'indx'; did you mean 'index'?"},
      {"length: context", "lenght: context", "a cache has no key 'lenght'; did you mean 'length'?"},
      {"gives: [", "gievs: [", "a block has no key 'gievs'; did you mean 'gives'?"},
      {"cut: 32", "cutt: 32", "tokenizer has no key 'cutt'; did you mean 'cut'?"},
      {"stop: [", "stopp: [", "generate has no key 'stopp'; did you mean 'stop'?"},
      {"opening:", "openning:", "chat has no key 'openning'; did you mean 'opening'?"},
      {"embed: {vector", "embed: {vectr", "embed has no key 'vectr'; did you mean 'vector'?"},
      {"      count: n_layer", "      cuont: n_layer", "repeat has no key 'cuont'; did you mean 'count'?"},
      {"causal: true", "casual: true", "attention has no key 'casual'; did you mean 'causal'?"},
  };
  char *all = with_unread();
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char *text = replace_in(all, row[i].old, row[i].new_text);
    built_model made = build_model(text, &small);
    assert_true(made.list.error_count >= 1);
    assert_null(made.graph);
    bool is_told = false;
    for (uint32_t entry = 0; entry < made.list.count; entry++) {
      const char *found = made.list.entry[entry].text;
      is_told |= strncmp(found, row[i].message, strlen(row[i].message)) == 0;
    }
    if (!is_told) print_error("wanted %s, found %s\n", row[i].message, made.list.entry[0].text);
    assert_true(is_told);
    finish_model(&made);
    free(text);
  }
  free(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_key_changes_something),
      cmocka_unit_test(test_keys_that_nothing_reads),
      cmocka_unit_test(test_order_of_the_keys_does_not_matter),
      cmocka_unit_test(test_sizes_are_chosen_by_name),
      cmocka_unit_test(test_context_bounds_caches_and_the_token_axis_alone),
      cmocka_unit_test(test_ignore_takes_stars),
      cmocka_unit_test(test_the_caller_may_raise_bytes_and_items),
      cmocka_unit_test(test_unknown_keys_are_errors_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
