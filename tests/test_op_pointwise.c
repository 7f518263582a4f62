/* SPDX-License-Identifier: MIT
 *
 * The ops that work number by number: shapes and messages of their rules, their numbers, their conformance rows.
 */
#include "op_testing.h"

static const op_rule_row rules[] = {
    {"in[1,seq,384]", "", "f32 [1, seq, 384]"},
    {"in:bf16[]", "", "bf16 []"},
    {"in/ids:i32[2,3]", "", "in: silu: in 'ids' [2, 3] is i32; wanted f32, f16 or bf16"},
};

static const op_rule_row binary_rules[] = {
    {"in[1,seq,384] in[1,seq,384]", "", "f32 [1, seq, 384]"},
    {"in[1,seq,384] in*[384]", "", "f32 [1, seq, 384]"},
    {"in[384] in[2,seq,1]", "", "f32 [2, seq, 384]"},
    {"in[1] in[seq]", "", "f32 [seq]"},
    {"in[] in[3]", "", "f32 [3]"},
    {"in[0] in[1]", "", "f32 [0]"},
    {"in[2,3] in=2.5", "", "f32 [2, 3]"},
    {"in=1 in:i32[3]", "", "i32 [3]"},
    {"in=1 in=2", "", "in: add: in holds two numbers; wanted at least one value"},
    {"in[3]", "", "in: add: in has 1 entries; wanted 2"},
    {"in/x[2,seq]@3 in/y[2,3]@4", "",
     "in: add: in 'x' [2, seq] (line 3) and in 'y' [2, 3] (line 4) do not broadcast: axis -1 is seq and 3; wanted "
     "equal, "
     "or 1"},
    {"in/x[4] in/y[2,3]", "",
     "in: add: in 'x' [4] and in 'y' [2, 3] do not broadcast: axis -1 is 4 and 3; wanted equal, or 1"},
    {"in/x[4] in/i:i32[4]", "", "in: add: in 'x' [4] is f32, in 'i' [4] is i32; wanted the same"},
    {"in/m:bool[4] in=1", "", "in: add: in 'm' [4] is bool; wanted numbers"},
};

static void test_rules(void **state) {
  (void)state;
  op_testing_rules(ord_op_find("silu"), rules, op_testing_count(rules));
  op_testing_rules(ord_op_find("add"), binary_rules, op_testing_count(binary_rules));
}

/* Numbers from a calculator with 15 digits. */
static const op_named_value_row values[] = {
    {"gelu_erf", {"in[5]=0,1,-1,0.5,3", "", 0, "0 0.841344746 -0.158655254 0.345731231 2.99595031"}},
    {"gelu_tanh", {"in[5]=0,1,-1,0.5,3", "", 0, "0 0.841191991 -0.158808009 0.345714010 2.99636261"}},
    {"relu", {"in[5]=0,1,-1,inf,nan", "", 0, "0 1 0 inf nan"}},
    {"relu2", {"in[5]=0,1,-1,3,nan", "", 0, "0 1 0 9 nan"}},
    {"silu", {"in[4]=0,1,-1,-100", "", 0, "0 0.731058579 -0.268941421 -3.72e-42"}},
    {"sigmoid", {"in[5]=0,1,-1,inf,-inf", "", 0, "0.5 0.731058579 0.268941421 1 0"}},
    {"tanh", {"in[4]=0,1,-0.5,-inf", "", 0, "0 0.761594156 -0.462117157 -1"}},
    {"add", {"in[2,1]=1,2 in[2]=10,20", "", 0, "11 21 12 22"}},
    {"sub", {"in=1 in[3]=1,2,-0.5", "", 0, "0 -1 1.5"}},
    {"sub", {"in[3]=1,2,-0.5 in=1", "", 0, "0 1 -1.5"}},
    {"mul", {"in[2,2]=1,2,3,inf in^[2,2]=2,0.5,-1,0", "", 0, "2 1 -3 nan"}},
    {"mul", {"in:i32[2]=65537,-3 in:i32[2]=3,5", "", 0, "196611 -15"}},
    {"add", {"in:i32[2]=2147483647,-2147483648 in:i32[2]=1,-1", "", 0, "2147483647 -2147483648"}},
    {"add", {"in[2/3]=1,2,3 in[2/3]=10,20,30", "", 0, "11 22"}},
    {"add", {"in:f16[2]=65504,1 in:f16[2]=16,0.00048828125", "", 0, "inf 1"}},
};

static void test_values(void **state) {
  (void)state;
  op_testing_named_values(values, op_testing_count(values), 1e-7);
}

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < op_testing_count(values); i++) op_testing_cases(ord_op_find(values[i].op));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_values),
                                     cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
