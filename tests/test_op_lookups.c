/* SPDX-License-Identifier: MIT
 *
 * The ops that look rows up (gather, embedding, position): shapes and messages of their rules, their numbers, their
 * conformance rows.
 */
#include "op_testing.h"

static const op_named_rule_row rules[] = {
    {"embedding", {"in:i32[1,seq] weight*[257,384]", "", "f32 [1, seq, 384]"}},
    {"embedding", {"in:i32[] weight*[257,384]", "", "f32 [384]"}},
    {"embedding", {"in/x[1,seq] weight*[257,384]", "", "in: embedding: in 'x' [1, seq] is f32; wanted i32"}},
    {"embedding",
     {"in:i32[3] weight/w*[257]", "", "weight: embedding: weight 'w' [257] has 1 axis; wanted [rows, width]"}},
    {"embedding",
     {"in/x:i32[1,1,1,1,1,1] weight*[2,3]", "",
      "in: embedding: in 'x' [1, 1, 1, 1, 1, 1] has 6 axes and the result one more; wanted at most 6"}},
    {"position", {"in[1,seq,384] positions:i32[1,seq] weight*[64,384]", "offset=0", "f32 [1, seq, 384]"}},
    {"position",
     {"in/x[1,seq,384] positions/p:i32[1,past] weight*[64,384]", "offset=0",
      "positions: position: in 'x' [1, seq, 384] has tokens = seq, positions 'p' [1, past] has tokens = past; wanted "
      "equal"}},
    {"position",
     {"in/x[1,seq,384] positions:i32[1,seq] weight/w*[64,7]", "offset=0",
      "weight: position: in 'x' [1, seq, 384] ends in 384, weight 'w' [64, 7] has width = 7; wanted equal"}},
    {"gather", {"in[2,seq,8] index:i32[3,4]", "axis=1", "f32 [2, 3, 4, 8]"}},
    {"gather", {"in:i32[2,5] index:i32[]", "axis=-1", "i32 [2]"}},
    {"gather", {"in[2,5] index/i[3]", "axis=0", "index: gather: index 'i' [3] is f32; wanted i32"}},
    {"gather",
     {"in[2,5] index:i32[3]", "axis=2", "axis: gather: axis 2 lies outside a tensor of 2 axes; wanted -2 to 1"}},
    {"gather",
     {"in/x[2,5,1,1] index/i:i32[1,1,1,1]", "axis=0",
      "index: gather: in 'x' [2, 5, 1, 1] and index 'i' [1, 1, 1, 1] make 7 axes; wanted at most 6"}},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_named_rules(rules, op_testing_count(rules));
}

static const op_named_value_row values[] = {
    {"embedding", {"in:i32[2,2]=1,0,2,1 weight[3,2]=1,2,3,4,5,6", "", 0, "3 4 1 2 5 6 3 4"}},
    {"embedding", {"in:i32[4]=-1,3,2147483647,2 weight[3,1]=1,2,3", "", 0, "0 0 0 3"}},
    {"embedding", {"in:i32[2]=1,0 weight^:bf16[2,2]=1,2,3,4", "", 0, "3 4 1 2"}},
    {"position", {"in[1,2,2]=1,2,3,4 positions:i32[1,2]=2,0 weight[3,2]=10,20,30,40,50,60", "", 0, "51 62 13 24"}},
    {"position", {"in[1,2,1]=1,2 positions:i32[1,2]=0,1 weight[3,1]=10,20,30", "offset=2", 0, "31 2"}},
    {"position", {"in[1,2,1]=1,2 positions:i32[1,2]=0,1 weight[3,1]=10,20,30", "offset=-1", 0, "1 12"}},
    {"gather", {"in[3,2]=1,2,3,4,5,6 index:i32[2]=2,0", "axis=0", 0, "5 6 1 2"}},
    {"gather", {"in[3,2]=1,2,3,4,5,6 index:i32[2]=1,1", "axis=1", 0, "2 2 4 4 6 6"}},
    {"gather", {"in[3,2]=1,2,3,4,5,6 index:i32[]=-1", "axis=0", 0, "5 6"}},
    {"gather", {"in[3]=1,2,3 index:i32[4]=-3,-4,3,2", "axis=0", 0, "1 0 0 3"}},
    {"gather", {"in[2/3]=1,2,3 index:i32[3]=-1,2,1", "axis=0", 0, "2 0 2"}},
};

static void test_values(void **state) {
  (void)state;
  op_testing_named_values(values, op_testing_count(values), 0);
}

static void test_cases(void **state) {
  (void)state;
  op_testing_cases(ord_op_find("gather"));
  op_testing_cases(ord_op_find("embedding"));
  op_testing_cases(ord_op_find("position"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
