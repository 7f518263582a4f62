/* SPDX-License-Identifier: MIT
 *
 * The ops that move numbers without changing them (reshape, transpose, slice, split, concat): shapes and messages of
 * their rules, their numbers, their conformance rows, and when the first four are views. A view must show, in every
 * run, the numbers that the reference would copy.
 */
#include "op_testing.h"

static const op_named_rule_row rules[] = {
    {"reshape", {"in[1,seq,384]", "shape=1,seq,12,32", "f32 [1, seq, 12, 32]"}},
    {"reshape", {"in:i32[2,3]", "shape=6", "i32 [6]"}},
    {"reshape",
     {"in/q[1,seq,384]@29", "shape=1,seq,12,64",
      "shape: reshape: in 'q' [1, seq, 384] holds 384*seq numbers, shape [1, seq, 12, 64] holds 768*seq; wanted "
      "equal"}},
    {"reshape",
     {"in/q[seq,2]", "shape=past,2",
      "shape: reshape: in 'q' [seq, 2] holds 2*seq numbers, shape [past, 2] "
      "holds 2*past; wanted equal"}},
    {"transpose", {"in[1,seq,12,32]", "axes=0,2,1,3", "f32 [1, 12, seq, 32]"}},
    {"transpose", {"in[2,3]", "axes=-1,0", "f32 [3, 2]"}},
    {"transpose", {"in/x[2,3]", "axes=1", "axes: transpose: axes names 1, in 'x' [2, 3] has 2; wanted each axis once"}},
    {"transpose", {"in/x[2,3]", "axes=1,2", "axes: transpose: axis 2 lies outside in 'x' [2, 3]; wanted -2 to 1"}},
    {"transpose",
     {"in/x[2,3]", "axes=1,-1", "axes: transpose: axis -1 of in 'x' [2, 3] is listed twice; wanted each axis once"}},
    {"slice", {"in[2,10]", "axis=1 start=2 end=-1 step=3", "f32 [2, 3]"}},
    {"slice", {"in[2,10]", "axis=-1 start=-4 step=1", "f32 [2, 4]"}},
    {"slice", {"in[2,10]", "axis=1 start=10 end=10 step=1", "f32 [2, 0]"}},
    {"slice", {"in[2,seq]", "axis=1 start=0 step=1", "f32 [2, seq]"}},
    {"slice", {"in[2,seq]", "axis=1 start=-1 step=1", "f32 [2, 1]"}},
    {"slice", {"in[2,seq]", "axis=1 start=-5 end=-1 step=3", "f32 [2, 2]"}},
    {"slice", {"in[2,seq]", "axis=0 start=1 step=1", "f32 [1, seq]"}},
    {"slice",
     {"in/x[2,10]", "axis=1 start=11 step=1",
      "start: slice: start 11 lies outside axis 1 of in 'x' [2, 10]; wanted -10 to 10"}},
    {"slice",
     {"in/x[2,10]", "axis=1 start=0 end=-11 step=1",
      "end: slice: end -11 lies outside axis 1 of in 'x' [2, 10]; wanted -10 to 10"}},
    {"slice",
     {"in/x[2,10]", "axis=1 start=5 end=3 step=1",
      "start: slice: start 5 lies behind end 3 on axis 1 of in 'x' [2, 10]; wanted start <= end"}},
    {"slice", {"in/x[2,10]", "axis=1 start=0 step=0", "step: slice: step 0 is too small; wanted at least 1"}},
    {"slice",
     {"in/x[2,seq]", "axis=1 start=2 step=1",
      "start: slice: axis 1 of in 'x' [2, seq] is seq; wanted the whole axis, or start and end counted from its "
      "end (-1, ..)"}},
    {"slice",
     {"in/x[2,seq]", "axis=1 start=0 end=4 step=1",
      "start: slice: axis 1 of in 'x' [2, seq] is seq; wanted the whole axis, or start and end counted from its "
      "end (-1, ..)"}},
    {"split", {"in[2,seq,36]", "axis=2 results=3", "f32 [2, seq, 12]; f32 [2, seq, 12]; f32 [2, seq, 12]"}},
    {"split", {"in[7]", "axis=-1 sizes=3,0,4 results=3", "f32 [3]; f32 [0]; f32 [4]"}},
    {"split",
     {"in/x[7]", "axis=0 results=2",
      "-: split: axis 0 of in 'x' [7] leaves a rest of 1 in 2 parts; wanted equal parts, or sizes"}},
    {"split",
     {"in/x[7]", "axis=0 sizes=3,4 results=3",
      "sizes: split: sizes lists 2 parts, out names 3; wanted one size per name"}},
    {"split",
     {"in/x[7]", "axis=0 sizes=3,3 results=2",
      "sizes: split: sizes add up to 6, axis 0 of in 'x' [7] is 7; wanted equal"}},
    {"split",
     {"in/x[7]", "axis=0 sizes=8,-1 results=2", "sizes: split: part 8 of axis 0 of in 'x' [7]; wanted 0 to 7"}},
    {"split",
     {"in/x[2,seq]", "axis=1 results=2", "axis: split: axis 1 of in 'x' [2, seq] is seq; wanted a fixed size"}},
    {"concat", {"in[2,seq] in[2,past] in[2,3]", "axis=1", "f32 [2, seq + past + 3]"}},
    {"concat", {"in[2,seq]", "axis=0", "f32 [2, seq]"}},
    {"concat",
     {"in/x[2,3] in/y[3]", "axis=0", "in: concat: in 'y' [3] and in 'x' [2, 3] differ in rank; wanted equal"}},
    {"concat",
     {"in/x[2,3] in/y:i32[2,3]", "axis=0", "in: concat: in 'y' [2, 3] is i32, in 'x' [2, 3] is f32; wanted the same"}},
    {"concat",
     {"in/x[2,3] in/y[2,4]", "axis=0",
      "in: concat: axis 1 of in 'y' [2, 4] is 4, of in 'x' [2, 3] is 3; wanted equal but for axis 0"}},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_named_rules(rules, op_testing_count(rules));
}

static const op_named_value_row values[] = {
    {"reshape", {"in^[2,3]=1,2,3,4,5,6", "shape=3,2", 0, "1 2 3 4 5 6"}},
    {"reshape", {"in[2,2/4]=1,2,3,4,5,6,7,8", "shape=2/4*2", 0, "1 2 5 6"}},
    {"transpose", {"in[2,3]=1,2,3,4,5,6", "axes=1,0", 0, "1 4 2 5 3 6"}},
    {"transpose", {"in[1,2,3]=1,2,3,4,5,6", "axes=2,0,1", 0, "1 4 2 5 3 6"}},
    {"slice", {"in[2,4]=1,2,3,4,5,6,7,8", "axis=1 start=1 step=2", 0, "2 4 6 8"}},
    {"slice", {"in[4]=1,2,3,4", "axis=0 start=-3 end=-1", 0, "2 3"}},
    {"slice", {"in[2/4]=1,2,3,4", "axis=0 start=-1", 0, "2"}},
    {"slice", {"in[2/4]=1,2,3,4", "axis=0 start=-3", 0, "0 1 2"}},
    {"split", {"in[2,3]=1,2,3,4,5,6", "axis=1 sizes=1,2 results=2", 1, "2 3 5 6"}},
    {"split", {"in[4]=1,2,3,4", "axis=0 results=2", 1, "3 4"}},
    {"concat", {"in[2,1]=1,2 in[2,2]=3,4,5,6", "axis=1", 0, "1 3 4 2 5 6"}},
    {"concat", {"in[1/3]=1,2,3 in[2]=4,5", "axis=0", 0, "1 4 5"}},
    {"concat", {"in:bool[2]=1,0 in:bool[1]=1", "axis=0", 0, "1 0 1"}},
};

static void test_values(void **state) {
  (void)state;
  op_testing_named_values(values, op_testing_count(values), 0);
}

static void test_cases(void **state) {
  (void)state;
  static const char *const ops[] = {"reshape", "transpose", "slice", "split", "concat"};
  for (size_t i = 0; i < op_testing_count(ops); i++) op_testing_cases(ord_op_find(ops[i]));
}

/* ---- views --------------------------------------------------------------------------------------------------- */

/* A shape of up to 6 axes, closed by 0. In `runs`, letters name run-time dims: "r" of axis i means that dim[i] is the
 * maximum of run-time dim r times a factor. */
typedef struct {
  const char *runs; /* one character an axis: '.' fixed, 'r' or 's' a run-time dim */
  int64_t dim[ORD_RANK_MAX + 1];
} view_shape;

static const int64_t maximum_of_r = 8, maximum_of_s = 8;

static uint32_t rank_of(const view_shape *shape) { return (uint32_t)strlen(shape->runs); }

/* Dim `axis` when r and s have these values. */
static int64_t dim_in_run(const view_shape *shape, uint32_t axis, int64_t r, int64_t s) {
  if (shape->runs[axis] == 'r') return shape->dim[axis] / maximum_of_r * r;
  if (shape->runs[axis] == 's') return shape->dim[axis] / maximum_of_s * s;
  return shape->dim[axis];
}

static ord_size size_of(ord_arena *arena, const view_shape *shape, uint32_t axis) {
  ord_size size, factor;
  const bool runs = shape->runs[axis] != '.';
  assert_int_equal(ord_size_constant(arena, runs ? shape->dim[axis] / maximum_of_r : shape->dim[axis], &factor),
                   ORD_SIZE_OK);
  if (!runs) return factor;
  assert_int_equal(ord_size_run_dim(arena, shape->runs[axis] == 's', &size), ORD_SIZE_OK);
  assert_int_equal(ord_size_product(arena, size, factor, &size), ORD_SIZE_OK);
  return size;
}

/* Row-major number `number` in a run as an offset in elements. */
static int64_t offset_of(const view_shape *shape, const int64_t *stride, int64_t number, int64_t r, int64_t s) {
  int64_t offset = 0;
  for (uint32_t axis = rank_of(shape); axis-- > 0;) {
    const int64_t dim = dim_in_run(shape, axis, r, s);
    offset += number % dim * stride[axis];
    number /= dim;
  }
  return offset;
}

typedef struct {
  view_shape in, out;
  int64_t in_stride[ORD_RANK_MAX]; /* all 0: dense */
  bool is_view, needs_sizes;
} reshape_view_row;

static const reshape_view_row reshape_views[] = {
    {{"...", {1, 4, 384}}, {"....", {1, 4, 12, 32}}, {0}, true, false},
    {{"...", {2, 3, 4}}, {".", {24}}, {0}, true, false},
    {{".", {24}}, {"...", {2, 3, 4}}, {0}, true, false},
    {{"..", {6, 4}}, {"..", {8, 3}}, {0}, true, false},
    {{"..", {1, 6}}, {"....", {1, 2, 1, 3}}, {0}, true, false},
    {{"..", {6, 1}}, {".", {6}}, {0}, true, false},
    {{"", {0}}, {"..", {1, 1}}, {0}, true, false},
    {{"..", {6, 35}}, {"...", {2, 3, 35}}, {1, 6}, true, false},
    {{"..", {6, 35}}, {".", {210}}, {1, 6}, false, false},
    {{"..", {6, 35}}, {"..", {35, 6}}, {1, 6}, false, false},
    {{"..", {6, 32}}, {"...", {6, 4, 8}}, {40, 1}, true, false},
    {{"..", {6, 32}}, {".", {192}}, {40, 1}, false, false},
    {{"...", {6, 1, 32}}, {".", {192}}, {32, 7, 1}, true, false},
    {{"..", {0, 4}}, {".", {0}}, {0}, false, false},
    {{".r.", {1, 8, 12}}, {".r..", {1, 8, 3, 4}}, {0}, true, false},
    {{".r..", {2, 8, 3, 4}}, {".r", {2, 96}}, {0}, true, false},
    {{".r", {2, 96}}, {".r..", {2, 8, 3, 4}}, {0}, true, false},
    {{"r.", {8, 4}}, {"r", {32}}, {0}, true, false},
    {{"r", {32}}, {"r.", {8, 4}}, {0}, true, false},
    {{"r", {32}}, {".r", {4, 8}}, {0}, false, false},
    {{".r", {4, 8}}, {"r", {32}}, {0}, false, false},
    {{".r.", {2, 8, 4}}, {"r.", {16, 4}}, {0}, false, false},
    {{".r.", {1, 8, 4}}, {"r.", {8, 4}}, {0}, true, false},
    {{"r.", {8, 8}}, {".r", {8, 8}}, {0}, false, false},
    {{".r", {16, 8}}, {".r.", {2, 8, 8}}, {0}, false, false},
    {{".r.", {2, 8, 8}}, {".r", {16, 8}}, {0}, false, false},
    {{"rs.", {8, 8, 12}}, {"rs..", {8, 8, 3, 4}}, {0}, true, true},
    {{"rs..", {8, 8, 3, 4}}, {"rs", {8, 96}}, {0}, true, true},
    {{"rs", {8, 8}}, {"sr", {8, 8}}, {0}, false, false},
    {{"rs", {8, 16}}, {"sr", {16, 8}}, {0}, false, false},
};

static void dense(const view_shape *shape, int64_t *stride) {
  int64_t step = 1;
  for (uint32_t axis = rank_of(shape); axis-- > 0; step *= shape->dim[axis]) stride[axis] = step;
}

/* In every run, number i of the result lies where number i of the input does. */
static void check_runs(const reshape_view_row *row, const int64_t *in_stride, const ord_view_request *request) {
  for (int64_t r = 1; r <= maximum_of_r; r += 2)
    for (int64_t s = 1; s <= maximum_of_s; s += 3) {
      int64_t count = 1;
      for (uint32_t axis = 0; axis < rank_of(&row->in); axis++) count *= dim_in_run(&row->in, axis, r, s);
      for (int64_t i = 0; i < count; i++)
        assert_int_equal(offset_of(&row->in, in_stride, i, r, s),
                         request->out_offset + offset_of(&row->out, request->out_stride, i, r, s));
    }
}

/* Is it a view? If so, of the right numbers. */
static bool try_reshape_view(const reshape_view_row *row, bool has_sizes) {
  ord_arena arena = {0};
  bool in_runs[ORD_RANK_MAX] = {false}, out_runs[ORD_RANK_MAX] = {false};
  ord_size in_size[ORD_RANK_MAX], out_size[ORD_RANK_MAX];
  int64_t in_stride[ORD_RANK_MAX];
  for (uint32_t axis = 0; axis < rank_of(&row->in); axis++) {
    in_runs[axis] = row->in.runs[axis] != '.';
    in_size[axis] = size_of(&arena, &row->in, axis);
  }
  for (uint32_t axis = 0; axis < rank_of(&row->out); axis++) {
    out_runs[axis] = row->out.runs[axis] != '.';
    out_size[axis] = size_of(&arena, &row->out, axis);
  }
  memcpy(in_stride, row->in_stride, sizeof in_stride);
  if (!in_stride[0]) dense(&row->in, in_stride);
  ord_view_request request = {.in_rank = rank_of(&row->in),
                              .out_rank = rank_of(&row->out),
                              .in_dim = row->in.dim,
                              .in_stride = in_stride,
                              .out_dim = row->out.dim,
                              .in_runs = in_runs,
                              .out_runs = out_runs,
                              .in_size = has_sizes ? in_size : NULL,
                              .out_size = has_sizes ? out_size : NULL};
  const bool is_view = ord_op_find("reshape")->view(&request);
  if (is_view) check_runs(row, in_stride, &request);
  ord_arena_finish(&arena);
  return is_view;
}

static void test_reshape_view(void **state) {
  (void)state;
  for (size_t i = 0; i < op_testing_count(reshape_views); i++) {
    const reshape_view_row *row = &reshape_views[i];
    if (try_reshape_view(row, true) != row->is_view) fail_msg("row %zu with sizes", i);
    if (try_reshape_view(row, false) != (row->is_view && !row->needs_sizes)) fail_msg("row %zu without sizes", i);
  }
}

static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 16;
}

/* Cuts the factors, in a random order, into axes that hold one run-time dim at most. */
static void random_shape(uint32_t *seed, char runs[ORD_RANK_MAX + 1], int64_t *dim) {
  char factor[] = {'r', 's', 2, 2, 3, 4, 1};
  for (uint32_t i = sizeof factor - 1; i > 0; i--) {
    const uint32_t other = next_random(seed) % (i + 1);
    const char kept = factor[i];
    factor[i] = factor[other];
    factor[other] = kept;
  }
  uint32_t rank = 0;
  for (uint32_t i = 0; i < sizeof factor; i++) {
    const bool runs_now = factor[i] == 'r' || factor[i] == 's';
    const bool must_cut = !rank || (runs_now && runs[rank - 1] != '.');
    if (must_cut || (rank < ORD_RANK_MAX - 1 && next_random(seed) % 2)) runs[rank] = '.', dim[rank++] = 1;
    if (runs_now) runs[rank - 1] = factor[i];
    dim[rank - 1] *= runs_now ? maximum_of_r : factor[i];
  }
  runs[rank] = '\0';
}

/* Whatever is said to be a view shows the right numbers in every run. */
static void test_random_reshape_views(void **state) {
  (void)state;
  uint32_t seed = 1, views = 0;
  for (int i = 0; i < 30000; i++) {
    char in_runs[ORD_RANK_MAX + 1], out_runs[ORD_RANK_MAX + 1];
    reshape_view_row row = {.in.runs = in_runs, .out.runs = out_runs};
    random_shape(&seed, in_runs, row.in.dim);
    random_shape(&seed, out_runs, row.out.dim);
    views += try_reshape_view(&row, true);
    try_reshape_view(&row, false);
  }
  assert_in_range(views, 100, 20000);
}

/* The other three never look at run-time flags: they keep each axis apart. */
static void test_other_views(void **state) {
  (void)state;
  static const int64_t axes[] = {2, 0, 1}, sizes[] = {1, 0, 4};
  static const ord_attr attr[] = {{"axes", ORD_ATTR_INTS, 3, {.ints = axes}},
                                  {"axis", ORD_ATTR_INT, 1, {.i = 1}},
                                  {"sizes", ORD_ATTR_INTS, 3, {.ints = sizes}},
                                  {"start", ORD_ATTR_INT, 1, {.i = 2}},
                                  {"step", ORD_ATTR_INT, 1, {.i = 3}}};
  static const struct {
    const char *op;
    uint32_t which;
    int64_t offset, stride[3];
  } row[] = {{"transpose", 0, 0, {1, 100, 10}},
             {"slice", 0, 20, {100, 30, 1}},
             {"split", 0, 0, {100, 10, 1}},
             {"split", 2, 10, {100, 10, 1}}};
  for (size_t i = 0; i < op_testing_count(row); i++) {
    ord_view_request request = {.attr = attr,
                                .attr_count = op_testing_count(attr),
                                .in_rank = 3,
                                .out_rank = 3,
                                .which = row[i].which,
                                .in_stride = (const int64_t[]){100, 10, 1}};
    assert_true(ord_op_find(row[i].op)->view(&request));
    assert_int_equal(request.out_offset, row[i].offset);
    for (int axis = 0; axis < 3; axis++) assert_int_equal(request.out_stride[axis], row[i].stride[axis]);
  }
}

/* A slice that counts from the end of a run-time axis begins elsewhere in each run. */
static void test_slice_from_the_end_is_no_view(void **state) {
  (void)state;
  static const ord_attr attr[] = {
      {"axis", ORD_ATTR_INT, 1, {.i = 0}}, {"start", ORD_ATTR_INT, 1, {.i = -1}}, {"step", ORD_ATTR_INT, 1, {.i = 1}}};
  ord_view_request request = {
      .attr = attr, .attr_count = 3, .in_rank = 1, .out_rank = 1, .in_stride = (const int64_t[]){1}};
  assert_false(ord_op_find("slice")->view(&request));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules),
                                     cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_cases),
                                     cmocka_unit_test(test_reshape_view),
                                     cmocka_unit_test(test_random_reshape_views),
                                     cmocka_unit_test(test_other_views),
                                     cmocka_unit_test(test_slice_from_the_end_is_no_view)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
