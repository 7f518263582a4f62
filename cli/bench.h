/* SPDX-License-Identifier: MIT
 *
 * ordito bench, between its files: bench.c (the verb), bench_startup.c and bench_measure.c (what is timed),
 * bench_table.c (time by step, op and layer), bench_numbers.c (medians and shares), bench_text.c and bench_json.c (what
 * is told). Everything is measured in one process and in turn, so that ratios hold where absolute figures drift.
 */
#ifndef ORDITO_CLI_BENCH_H
#define ORDITO_CLI_BENCH_H

#include "cli/cli.h"
#include "ordito_measure.h"

/* ---- bench_numbers.c ---- */

/* Grows as numbers are added. */
typedef struct bench_samples {
  double *value;
  uint32_t count, capacity;
} bench_samples;

/* Median, tenth and ninetieth percentile of `count` samples; all 0 where there are none. */
typedef struct bench_spread {
  double median, low, high;
  uint32_t count;
} bench_spread;

bool bench_add(bench_samples *samples, double value); /* false: out of memory */
/* The sample that this share of them does not exceed; 0 where there are none. Sorts them. */
double bench_quantile(bench_samples *samples, double share);
bench_spread bench_spread_of(bench_samples *samples);

/* How much of what the machine can read, or multiply and add, in `ns` nanoseconds was read or computed. */
double bench_share(double done, double ns, double possible_per_s);
/* Part of a run in which its busiest threads were in no kernel. The time that timing itself took is left out. */
double bench_overhead(const ord_timing *timing);
/* The same in nanoseconds for each phase. */
double bench_overhead_ns(const ord_timing *timing);
/* Width of a spread as a part of its median. */
double bench_noise(const bench_spread *spread);
/* Beyond this no figure of this run means much. */
#define BENCH_NOISE_LIMIT 0.2

/* ---- bench_table.c ---- */

/* One step, or the sum over the steps of an op or a layer. */
typedef struct bench_part {
  const char *name; /* borrowed from the session; not terminated */
  size_t name_length;
  const char *op, *kernel; /* of a step */
  double ns, busy_ns;      /* of one run */
  uint32_t phases;
  uint64_t operations, weight_bytes, cache_bytes;
} bench_part;

typedef struct bench_table {
  bench_part *step, *op, *layer; /* op and layer: slowest first */
  uint32_t step_count, op_count, layer_count;
  bench_part all;
} bench_table;

/* From the session's step times; call it right after a run that was timed by step. */
bool bench_table_make(const ord_session *session, bench_table *out);
void bench_table_finish(bench_table *table);

/* ---- what was measured ---- */

enum {
  BENCH_OPEN_NS, /* start-up: reading the model file, finding and checking the weights, loading plugins */
  BENCH_READ_NS,
  BENCH_PACK_NS,
  BENCH_PLAN_NS,
  BENCH_CAPTURE_NS,
  BENCH_FIRST_NS, /* the first run */
  BENCH_START_NS, /* all of the above */
  BENCH_START_PROBE_NS,
  BENCH_START_RATIO, /* start-up over its probe */
  BENCH_READ_SPEED,  /* of the read probe, bytes a second */
  BENCH_PEAK_SPEED,  /* of the peak probe for the compute type, operations a second */
  BENCH_STEP_NS,     /* decoding one token, replayed */
  BENCH_STEP_EAGER_NS,
  BENCH_EAGER_RATIO,  /* eager over replay, step by step in turn */
  BENCH_READ_SHARE,   /* of a decode step, one a round */
  BENCH_PREFILL_NS,   /* or one run of a model that does not generate */
  BENCH_PEAK_SHARE,   /* of a prefill */
  BENCH_OVERHEAD,     /* of a decode step, or of a run */
  BENCH_OVERHEAD_NS,  /* for each phase */
  BENCH_AGAINST_STEP, /* the rival's decode step over ours, in turn */
  BENCH_AGAINST_PREFILL,
  BENCH_SAMPLES
};

/* The types that a CPU makes products in. */
enum {
  BENCH_PEAK_TYPES = 0
#define COMPUTE(name, type, half_step) +1
#define COMPUTE_GPU(name, type, half_step)
#include "ordito_compute.def"
};
extern const uint32_t bench_peak_types[BENCH_PEAK_TYPES];

typedef struct bench {
  const cli_request *request;
  cli_stage stage;
  ord_session *rival; /* with the kernels of --against; NULL: none is asked for */
  ord_probe *probe;
  uint32_t compute, kv_cache;
  bool decodes; /* the model generates, so that a step is one token; else there are only runs */
  int64_t tokens, position;
  bench_samples samples[BENCH_SAMPLES];
  double first_prefill_ns, first_step_ns, first_start_ns; /* cold */
  bench_table prefill, decode;
  uint32_t phases; /* of a decode step, or of a run */
  ord_memory_report memory;
  ord_probe_result read, peak[BENCH_PEAK_TYPES]; /* peak: of bench_peak_types */
} bench;

/* Adds a sample. */
bool bench_note(bench *b, int which, double value, ord_error *err);
bool bench_fail_memory(ord_error *err); /* returns false */

/* Sorts the samples. */
static inline bench_spread bench_get(bench *b, int which) { return bench_spread_of(&b->samples[which]); }

/* The peak probe of the type that is computed in. */
const ord_probe_result *bench_peak(const bench *b);
/* Whether the probes drifted too much to say anything. */
bool bench_is_noisy(bench *b);

/* bench.c: the types in which products are made and keys and values kept. */
void bench_read_types(const cli_request *request, uint32_t *out_compute, uint32_t *out_kv_cache);
/* bench.c: the position at which decoding is timed: the one that is asked for, which has to be one of the context; else
 * the usual one, or the last. Of a model that generates. An exit code. */
int bench_choose_position(const cli_request *request, const ord_model *model, int64_t *out);
/* bench_cuda.c: all of it, for a GPU. An exit code. */
int bench_run_cuda(const cli_request *request);

/* bench_startup.c: opens everything, as often as is asked for, and leaves the last stage open. An exit code. */
int bench_start(bench *b);
/* bench_measure.c: an exit code. */
int bench_measure(bench *b);

void bench_print_text(bench *b);
void bench_print_json(bench *b);
/* bench_json.c: the parts of a table as a member of an object. phases: what they are called; print_times: members. */
typedef void (*bench_times_fn)(void *context, const bench_part *part);
void bench_print_json_parts(const char *name, const bench_part *list, uint32_t count, const char *phases,
                            bench_times_fn print_times, void *context);

#endif
