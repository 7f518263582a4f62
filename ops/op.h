/* SPDX-License-Identifier: MIT
 *
 * What an op is: its slots, attributes, arity, shape rule, plain reference and conformance cases, in one table per op
 * (`const ord_op ord_op_matmul`), one file per op. ops.def is the one list. Nothing else in the program switches on
 * an op or compares its name; what a pass or the builder must know is a field here.
 */
#ifndef ORDITO_OPS_OP_H
#define ORDITO_OPS_OP_H

#include "runtime/size.h"
#include "runtime/tensor.h"

/* ---- slots: the tensors an op reads ------------------------------------------------------------------------- */
enum {
  ORD_SLOT_OPTIONAL = 1,
  ORD_SLOT_LIST = 2,   /* takes a list of one or more; only as the last slot */
  ORD_SLOT_NUMBER = 4, /* an entry may be a plain number (add, sub, mul) */
  ORD_SLOT_MATRIX = 8, /* a weight here must name its axes in and out */
  ORD_SLOT_TABLE = 16, /* rows are looked up (along attribute `axis`, else the first); named axes: rows = out */
  ORD_SLOT_INDEX = 32  /* i32 that name rows of the table slot, plus attribute `offset`; checked before a run */
};
typedef struct ord_slot {
  const char *name;
  uint32_t flags;
  uint32_t entries;  /* of a list with a fixed number of entries (add: 2); 0: any number */
  const char *shape; /* as the op table prints it behind the name, "i32 [b]"; NULL: nothing */
} ord_slot;

/* ---- attributes --------------------------------------------------------------------------------------------- */
typedef enum {
  ORD_RULE_INT,    /* a fixed expression, may be negative; ORD_ATTR_INT */
  ORD_RULE_NUMBER, /* what f32 holds; ORD_ATTR_NUMBER */
  ORD_RULE_BOOL,   /* ORD_ATTR_BOOL */
  ORD_RULE_WORD,   /* one of `word`; ORD_ATTR_WORD */
  ORD_RULE_INTS,   /* a list of fixed expressions; ORD_ATTR_INTS */
  ORD_RULE_SHAPE,  /* a list of sizes, run-time dims allowed; ord_infer.shape; not passed to kernels */
  ORD_RULE_ALIGN,  /* a word of `word` or a fixed expression; ORD_ATTR_INT (first: 0, last: ORD_LAST) */
  ORD_RULE_CACHE   /* the name of a cache; becomes node->cache; not passed to kernels */
} ord_rule_kind;

typedef struct ord_attr_rule {
  const char *name;
  ord_rule_kind kind;
  bool required;
  const char *default_text; /* as the op table prints it, "1/sqrt(d)"; NULL if required */
  ord_attr default_value;   /* used where the file says nothing; name NULL: the shape rule sets it or it stays away */
  const char *const *word;  /* WORD, ALIGN: the words, NULL-terminated */
  const char *wanted;       /* for "op lacks 'pairing'; wanted ..": the end of the sentence */
  const char *const *wrong_hint; /* pairs {word, hint}, NULL-terminated, for likely wrong words; may be NULL */
} ord_attr_rule;

/* ---- shape rule --------------------------------------------------------------------------------------------- */
typedef struct ord_infer_operand {
  uint32_t slot;  /* index into op->slot */
  bool is_absent; /* an optional slot that was not given, or a number */
  bool is_weight;
  bool has_number; /* a plain number stands here */
  double number;
  const char *name;      /* as in the file: "h.0.wq"; for messages */
  const char *described; /* "'h' [1, seq, 384] (line 29)", "weight 'h.0.wq' [out 384, in 768] (line 17)" */
  ord_dtype dtype;
  uint32_t rank;
  ord_size dim[ORD_RANK_MAX]; /* a weight with named axes: [out, in] whatever the file's order */
} ord_infer_operand;

typedef struct ord_infer_result {
  ord_dtype dtype;
  uint32_t rank;
  ord_size dim[ORD_RANK_MAX];
} ord_infer_result;

typedef struct ord_op ord_op;
typedef struct ord_infer ord_infer;

/* What a shape rule sees and fills. A rule returns false after it told one fault by ord_infer_fail. */
struct ord_infer {
  const ord_op *op;
  ord_arena *arena;
  const char *const *run_dim_name;
  const ord_infer_operand *operand; /* one per slot, a list slot's entries one after the other */
  uint32_t operand_count;
  ord_attr *attr; /* those of the op's rules that have a value; capacity holds one per rule */
  uint32_t attr_count;
  const ord_size *shape; /* of an ORD_RULE_SHAPE attribute */
  uint32_t shape_rank;
  bool has_cache;
  ord_size cache_length; /* with has_cache */
  uint32_t result_count; /* results asked for */
  ord_infer_result *result;
  bool out_of_memory; /* set with the fault that it causes */

  /* Set by the caller; tells one fault. `slot_or_attr`: the name of the slot or attribute whose value the message
   * points at, `entry` its number in a list; NULL: the op itself. `text` is complete but for the place. */
  void (*report)(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *text);
  void *report_context;
};

/* Tells a fault ("<op>: " is put before the text) and returns false. */
bool ord_infer_fail(ord_infer *infer, const char *slot_or_attr, uint32_t entry, const char *format, ...)
    ORD_PRINTF(4, 5);
/* The first operand of a slot; NULL if it is absent. */
const ord_infer_operand *ord_infer_slot(const ord_infer *infer, const char *slot);
const ord_attr *ord_infer_attr(const ord_infer *infer, const char *name);
/* Adds or replaces an attribute; for defaults that depend on shapes. `ints` are copied. */
bool ord_infer_set_int(ord_infer *infer, const char *name, int64_t value);
bool ord_infer_set_number(ord_infer *infer, const char *name, double value);
bool ord_infer_set_ints(ord_infer *infer, const char *name, const int64_t *ints, uint32_t count);
/* Counts an axis from 0 or from the end; tells a fault if it lies outside `rank`, else sets the attribute to it, so
 * that kernels and views see 0 .. rank - 1. */
bool ord_infer_axis(ord_infer *infer, const char *attr, uint32_t rank, uint32_t *out);
/* Tells the fault that a size operation gave; true if it gave none. */
bool ord_infer_size(ord_infer *infer, ord_size_status status);
bool ord_infer_fail_memory(ord_infer *infer);

/* The number of an operand in its slot: 0, or its place in a list. */
uint32_t ord_infer_entry(const ord_infer *infer, const ord_infer_operand *operand);

/* An attribute of a list by name; NULL if it is not there. */
const ord_attr *ord_attr_find(const ord_attr *attr, uint32_t count, const char *name);

/* ---- views: ops that only look at their input in another way ------------------------------------------------- */
/* Dims and strides of the plan's maximum, strides in elements. Rank and dims of the result are given; the op fills
 * its strides and offset, or returns false where bytes must move. */
typedef struct ord_view_request {
  const ord_attr *attr;
  uint32_t attr_count;
  uint32_t in_rank, out_rank, which; /* which: number of the result (split) */
  const int64_t *in_dim, *in_stride, *out_dim;
  const bool *in_runs, *out_runs;     /* per axis: a run-time size, so that `dim` is only its maximum */
  const ord_size *in_size, *out_size; /* per axis, in run-time dims; NULL: not known, then a reshape with several
                                         run-time axes is no view */
  int64_t out_stride[ORD_RANK_MAX];
  int64_t out_offset; /* elements */
} ord_view_request;

/* ---- composites: lowered to other ops where no kernel serves them -------------------------------------------- */
/* Implemented by graphs/; a lowering only calls `add`. Values are opaque numbers of the graph. */
typedef struct ord_lowering ord_lowering;
struct ord_lowering {
  void *graph;
  const uint32_t *in; /* values, one per slot, ORD_NONE where absent */
  const ord_attr *attr;
  uint32_t attr_count;
  const ord_size *in_dim; /* of the first operand */
  ord_arena *arena;
  /* Adds a node with op `name`; `in` has one value per slot. `shape` is for reshape. False on failure. */
  bool (*add)(ord_lowering *lowering, const char *name, const uint32_t *in, uint32_t in_count, const ord_attr *attr,
              uint32_t attr_count, const ord_size *shape, uint32_t shape_rank, uint32_t *out);
  uint32_t result; /* set by the op's lower function: the value that stands for the result */
};

/* ---- work: what a run of a node cannot do without ------------------------------------------------------------- */
typedef struct ord_work {
  uint64_t operations;  /* a multiply-add counts twice; nothing but products is counted */
  uint64_t state_bytes; /* of the cache that are read */
} ord_work;

/* ---- conformance cases ---------------------------------------------------------------------------------------- */
/* One row of the grid that every kernel of the op is tested on. `operands` lists them by slot name, dtype (default
 * f32) and dims, with the values they get: "in[3,130] weight[7,130] index:i32[4]<7 mask:bool[5,7]"; see cases.h.
 * A scalar attribute as "eps=1e-5", words and lists as "shape=3,4 pairing=halves". */
typedef struct ord_case {
  const char *operands;
  const char *attributes;
} ord_case;

/* ---- the table ------------------------------------------------------------------------------------------------ */
enum {
  ORD_OP_POINTWISE = 1,   /* one input, same shape; may be an epilogue and an mlp's activation */
  ORD_OP_COMPOSITE = 2,   /* has `lower` */
  ORD_OP_HOST = 4,        /* written by the host only, never in a model file */
  ORD_OP_PROJECTION = 8,  /* matmul: siblings fuse, epilogues fold into it */
  ORD_OP_NORM = 16,       /* may be an epilogue: works on the last axis; in, weight?, bias? */
  ORD_OP_ADDS = 32,       /* add: a bias or residual epilogue */
  ORD_OP_MULTIPLIES = 64, /* mul: a gate epilogue */
  ORD_OP_JOINS = 128,     /* concat: its inputs may be written straight into its result */
  ORD_OP_ATTENDS = 256    /* attention: may read a cache */
};

struct ord_op {
  const char *name;
  uint32_t version, flags;
  const ord_slot *slot;
  uint32_t slot_count;
  const ord_attr_rule *attr;
  uint32_t attr_count;
  uint32_t result_min, result_max; /* max UINT32_MAX: any number */
  const char *about;               /* the result column of the op table, one line */
  bool (*infer)(ord_infer *infer);
  bool (*view)(ord_view_request *request); /* NULL: not a view */
  bool (*lower)(ord_lowering *lowering);   /* NULL: not a composite */
  /* Adds the work of one run; reads nothing but sizes, lengths and past. NULL: the op multiplies no matrices. */
  void (*work)(const ord_node *node, const ord_exec *exec, ord_work *out);
  const ord_kernel *reference; /* slow, complete, obvious; sees only ordito_plugin.h */
  const ord_case *cases;       /* ended by {NULL, NULL} */
};

/* The op table of docs/model_format.md as markdown (op_table.c); false when out of memory. */
ORD_MUST_CHECK bool ord_op_table_print(ord_text *text);

uint32_t ord_op_count(void);
const ord_op *ord_op_get(uint32_t index);
/* NULL if there is none. */
const ord_op *ord_op_find(const char *name);
/* The number of a slot, which is the place of its operand in a node (of a list slot: of the first one); ORD_NONE if the
 * op has no such slot. */
uint32_t ord_op_find_slot(const ord_op *op, const char *slot);

/* The reference plugin, static: one kernel per op. */
extern const ord_manifest ord_reference_manifest;
ord_status ord_reference_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err);

#endif
