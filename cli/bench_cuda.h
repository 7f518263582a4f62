/* SPDX-License-Identifier: MIT
 *
 * ordito bench on a GPU, between its files: bench_cuda.c (what is opened, what is asked for), bench_cuda_rounds.c (what
 * is timed), bench_cuda_rivals.c (sessions and kernels beside which it is timed), bench_cuda_generate.c (how tokens
 * follow one another), bench_cuda_report.c (what is told). bench_cuda.def lists the figures.
 */
#ifndef ORDITO_CLI_BENCH_CUDA_H
#define ORDITO_CLI_BENCH_CUDA_H

#include "cli/bench.h"

/* What a section needs: a model that generates; a plan for one new token that is captured. */
enum { BENCH_DECODES = 1, BENCH_CAPTURE = 2 };

enum {
#define SECTION(id, needs, title) BENCH_SECTION_##id,
#define COUNT(section, name, label)
#define FIGURE(section, name, unit, label)
#define RATIO(section, name, over, under, label)
#define DIFFERENCE(section, name, from, less, unit, label)
#include "cli/bench_cuda.def"
  BENCH_SECTIONS
};

enum {
#define SECTION(id, needs, title)
#define COUNT(section, name, label) BENCH_##section##_##name,
#define FIGURE(section, name, unit, label) BENCH_##section##_##name,
#define RATIO(section, name, over, under, label) BENCH_##section##_##name,
#define DIFFERENCE(section, name, from, less, unit, label) BENCH_##section##_##name,
#include "cli/bench_cuda.def"
  BENCH_ROWS
};

/* Tokens of one generation, in order. */
typedef struct bench_tokens {
  int32_t *id;
  uint32_t count;
} bench_tokens;

typedef struct bench_cuda {
  const cli_request *request;
  const ord_device_info *device;
  bool is_simulated; /* no time means anything */
  uint32_t compute, kv_cache;
  cli_stage stage;
  bool decodes;     /* the model generates; else there are only runs */
  int64_t tokens;   /* of a prefill */
  int64_t position; /* at which a step is timed */
  int64_t start;    /* from which a generation goes on, so that `position` is the middle of it */
  int64_t steps;    /* in a row: runs, replays, tokens of a generation */
  ord_probe *probe;
  uint64_t probe_bytes;
  ord_probe_result read;  /* the fastest one */
  double eager_ns;        /* wall time of the last eager run: for so long the device must be kept busy before one */
  ord_model *short_model; /* with no more context than `position` needs; NULL: not made */
  ord_session *short_session;
  cli_stage plain;                   /* without dependent launches */
  bench_tokens wanted, got;          /* those of --loop off, and others */
  bench_samples sample[BENCH_ROWS];  /* of counts and figures */
  char why_not[BENCH_SECTIONS][256]; /* "": it is measured */
  bench_table decode, prefill;       /* of the last round */
} bench_cuda;

/* Adds a sample; of a count, the one that holds. */
bool bench_cuda_note(bench_cuda *b, int row, double value, ord_error *err);
bool bench_cuda_count(bench_cuda *b, int row, double value, ord_error *err);
bool bench_cuda_is_measured(const bench_cuda *b, int section);
/* Says of a section why it is not measured. Returns true, so that measuring goes on. */
bool bench_cuda_leave_out(bench_cuda *b, int section, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same where something failed because the device, the driver or the session cannot do it; another failure is one of
 * bench: false. */
bool bench_cuda_forgive(bench_cuda *b, int section, const ord_error *err);

/* bench_cuda_rounds.c: exit codes. */
int bench_cuda_measure(bench_cuda *b);
/* From what the caches hold to the position at which decoding is timed. */
bool bench_cuda_go_to_position(const bench_cuda *b, ord_session *session, ord_error *err);
/* A decode step; the session then is where it was. */
bool bench_cuda_step(const bench_cuda *b, ord_session *session, ord_timing *timing, ord_error *err);
/* One with the caches emptied before, by the device's clock, into this row. */
bool bench_cuda_cold(bench_cuda *b, int row, ord_error *err);
/* The device's time of one of `steps` replays back to back. */
bool bench_cuda_replays(const bench_cuda *b, ord_session *session, ord_replay_timing *timing, double *out_us,
                        ord_error *err);

/* bench_cuda_generate.c: one round of each way that tokens can follow one another. */
bool bench_cuda_generations(bench_cuda *b, ord_error *err);
/* Tokens of a greedy generation with this loop (ORD_LOOP_*). */
bool bench_cuda_tokens(const bench_cuda *b, ord_session *session, uint32_t loop, bench_tokens *out, ord_error *err);
/* How many differ. */
uint32_t bench_cuda_other_tokens(const bench_tokens *a, const bench_tokens *b);

/* bench_cuda_rivals.c. open: an exit code. */
int bench_cuda_open_rivals(bench_cuda *b);
bool bench_cuda_rivals(bench_cuda *b, ord_error *err); /* one round */
void bench_cuda_close_rivals(bench_cuda *b);

/* bench_cuda_report.c */
void bench_cuda_print(bench_cuda *b);

#endif
