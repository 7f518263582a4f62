/* SPDX-License-Identifier: MIT
 *
 * What the opaque handles of ordito.h and ordito_measure.h hold. Only files of session/ include this.
 *   context: device, pool, plugins    model: description, op graph, weight store
 *   session: inputs, caches, and lanes: plans with their memory and captures
 */
#ifndef ORDITO_SESSION_PARTS_H
#define ORDITO_SESSION_PARTS_H

#include <pthread.h>

#include "models/tokenizer.h"
#include "models/weight_file.h"
#include "ordito_measure.h"
#include "runtime/clock.h"
#include "runtime/device.h"
#include "session/lanes.h"

struct ord_context {
  ord_device *device;
  ord_registry *registry;
  ord_log_fn log;
  void *log_context;
};

struct ord_model {
  ord_context *context;
  char *file; /* as messages name it */
  char *text; /* the description and its messages point into it */
  ord_description *description;
  ord_graph *graph;         /* as built: unbound, no pass has run */
  ord_tokenizer *tokenizer; /* NULL: the model has none */
  ord_weight_store *store;  /* NULL until the weights are opened */
  char *weight_path;        /* where they come from, for messages; NULL: random or not opened */
};

/* What the caller has set for an input, dense. */
typedef struct ord_input_state {
  void *data;
  size_t capacity, bytes;
  int64_t dim[ORD_RANK_MAX];
  bool is_set;
} ord_input_state;

/* Memory of the host that an output was copied to. */
typedef struct ord_output_copy {
  void *data;
  size_t capacity;
} ord_output_copy;

struct ord_session {
  ord_model *model;
  ord_graph *graph;            /* the model's, with `sample` if it generates */
  ord_session_options options; /* its lists lie in `arena`; the pins are those of the lanes */
  ord_arena arena;
  ord_queue *queue;    /* of all that the session does on the device */
  ord_lanes *lanes;    /* those that run */
  ord_lanes *former;   /* those before the last swap, for a way back, or NULL */
  ord_lanes *kept;     /* lanes before those, for the outputs of the last run alone, or NULL */
  ord_size new_tokens; /* tokens of a row in a run: of the input with `fill: tokens`, or of what enters the caches */
  bool has_tokens;
  uint32_t token_dim;                 /* the run-time dim that new_tokens is, or ORD_NONE */
  uint32_t token_input, length_input; /* graph->input, or ORD_NONE */
  const ord_lane *last;               /* of the last run, for reading outputs */
  bool has_run;                       /* one has ended since the last reset; the inputs are still its */
  ord_lane *looping;                  /* whose loop runs on the device, or NULL */
  bool is_generating;                 /* the caller is in ord_session_generate, behind its checks */

  ord_input_state *input; /* [graph->input_count] */
  int64_t *run_dim;       /* [graph->run_dim_count], of the run being made; -1: not known yet */
  int64_t rows;           /* of the batch in the run being made */
  int32_t *past;          /* [batch_max] */
  int32_t *length;        /* [batch_max], tokens of each row in the run being made */
  int64_t batch_max;
  void **cache;          /* [2 * cache_count] */
  int64_t *cache_length; /* [cache_count] */
  uint64_t cache_bytes;

  ord_output_copy *output_copy; /* [outputs of the lane]: of outputs that cannot be read in place, made on demand */
  uint32_t output_copy_count;
  ord_output_copy strided_copy; /* on the way to one of them */
  char **described;             /* ord_session_input, ord_session_output */
  ord_startup_times startup;
};

/* context.c: where the library lies. */
ORD_MUST_CHECK bool ord_library_folder(char *out, size_t bytes);
/* device_open.c */
ORD_MUST_CHECK bool ord_device_open(const ord_context_options *options, ord_device **out, bool *out_oversubscribed,
                                    ord_error *err);

/* swap_compare.c: by how much two lanes differ, and where that is. */
typedef struct ord_difference {
  double part;      /* the largest difference over the largest value; infinite: a NaN, or a value where all is zero */
  const char *name; /* of the output or the cache; NULL: nothing was compared. Borrowed from the session's graphs. */
} ord_difference;
/* Makes the run of the inputs that are set, at the place of the last run, with the lanes that run and with `other`; in
 * copies of all that a run changes. */
ORD_MUST_CHECK bool ord_lanes_compare(ord_session *session, const ord_lanes *other, ord_difference *out,
                                      ord_error *err);

/* runs.c: the outputs of the last run can no longer be read. */
void ord_session_forget_outputs(ord_session *session);

/* session.c: a session for reports, which has dry plans and nothing that a run needs. `options` NULL: the defaults. */
ORD_MUST_CHECK bool ord_session_create_dry(ord_model *model, const ord_session_options *options, ord_session **out,
                                           ord_error *err);
/* Bytes of the keys (part 0) or the values (part 1) of a cache at the largest batch. */
ORD_MUST_CHECK bool ord_cache_part_bytes(const ord_graph_cache *cache, const int64_t *maximum, int part, size_t *out,
                                         ord_error *err);
/* The largest value of each run-time dim. */
void ord_run_dim_maxima(const ord_graph *graph, int64_t *maximum);

/* inputs.c: what a run reads. Works out the run-time dims from what was set, checks everything that the caller gave,
 * and writes the inputs of the lane. */
ORD_MUST_CHECK bool ord_inputs_resolve(ord_session *session, ord_error *err);
ORD_MUST_CHECK bool ord_inputs_write(ord_session *session, const ord_lane *lane, ord_error *err);
/* inputs_cut.c: copies of the inputs that are set, with the first `tokens` tokens of each row; `out` (untouched on
 * failure) goes to ord_inputs_free. */
ORD_MUST_CHECK bool ord_inputs_cut(const ord_session *session, int64_t tokens, ord_input_state **out, ord_error *err);
void ord_inputs_free(const ord_session *session, ord_input_state *input);
/* The rows that the runtime counts: the largest batch of the caches and of the inputs that it fills. */
ORD_MUST_CHECK bool ord_rows_count(const ord_graph *graph, const int64_t *run_dim, int64_t *out, ord_error *err);

/* loop.c: generation on the device, of one row. prepare: makes the loop of the lane for one new token, as ORD_LOOP_*
 * asks; *out_mode: what a generation will do, never ORD_LOOP_AUTO. */
ORD_MUST_CHECK bool ord_loop_prepare(ord_session *session, ord_lanes *lanes, uint32_t asked, uint32_t *out_mode,
                                     ord_error *err);
/* Behind ord_loop_prepare of session->lanes: goes on from `token`, of which the caches know nothing yet. */
ORD_MUST_CHECK bool ord_loop_begin(ord_session *session, int32_t token, uint32_t limit, const int32_t *stop,
                                   uint32_t stop_count, ord_error *err);
/* The token behind `token`, while session->looping. */
ORD_MUST_CHECK bool ord_loop_take(ord_session *session, int32_t token, int32_t *out, ord_error *err);
/* Stops the loop if one runs. The session is then as after the run that made the last token that was taken. A failure
 * is that of the device, which tells it again at the next call. */
bool ord_loop_end(ord_session *session, ord_error *err);

/* generate.c: a session that generates samples greedily until a generation says otherwise. */
ORD_MUST_CHECK bool ord_generation_defaults(ord_session *session, ord_error *err);

/* runs.c: one run; with a `timing`, which may be NULL, as that says. */
ORD_MUST_CHECK bool ord_session_run_once(ord_session *session, ord_timing *timing, ord_error *err);
/* What comes before a run: a loop is ended, the inputs are checked and written; *out_lane: which one makes the run. */
ORD_MUST_CHECK bool ord_run_prepare(ord_session *session, ord_lane **out_lane, ord_error *err);
/* What comes behind one that the lane has made. */
void ord_run_end(ord_session *session, const ord_lane *lane);

/* bench_device.c: the marks of a timed run on the device. begin: makes them, *out NULL where none are asked for, and
 * launches the reads of the probe. end: before the run is waited for. */
ORD_MUST_CHECK bool ord_run_marks_begin(ord_session *session, ord_timing *timing, ord_device_clock **out,
                                        ord_error *err);
ORD_MUST_CHECK bool ord_run_marks_end(const ord_session *session, ord_device_clock *clock, ord_error *err);
ORD_MUST_CHECK bool ord_run_marks_read(const ord_session *session, ord_device_clock *clock, ord_timing *timing,
                                       ord_error *err);
void ord_run_marks_destroy(const ord_session *session, ord_device_clock *clock);

/* bench_probe.c: reads the memory of the probe so often, in the order of the queue; on the CPU at once. */
ORD_MUST_CHECK bool ord_probe_launch(ord_probe *probe, ord_queue *queue, uint32_t passes, ord_error *err);

/* bench_times.c: makes room for what `timing` asks for and sets it in the run's options. */
ORD_MUST_CHECK bool ord_lane_times_begin(const ord_session *session, ord_lane *lane, const ord_timing *timing,
                                         ord_run_options *options, ord_error *err);
/* Notes a run that ended well; what it did in each step is counted too, as past and lengths still are those of the run.
 */
void ord_lane_times_end(const ord_session *session, ord_lane *lane, ord_timing *timing);
void ord_lane_times_destroy(ord_lane_times *times);

/* The dense bytes of an input as the caller gives them; checks dtype, rank and fixed dims. */
ORD_MUST_CHECK bool ord_inputs_set(ord_session *session, uint32_t input, const int64_t *dim, const void *data,
                                   size_t bytes, ord_error *err);

/* Sets an input of the batch's shape to one element in every row; allocates the first time only. */
ORD_MUST_CHECK bool ord_inputs_set_all(ord_session *session, uint32_t input, const void *element, ord_error *err);

/* report_kernels.c: a step's paths, op, epilogues, kernel and plugin as members of a JSON object. */
void ord_report_step_json(ord_text *text, const ord_step *step);

/* structs.c. Reads a struct of the caller into one of ours: NULL is all zeros, and so is what a shorter one lacks; what
 * a longer one has more is not ours. `name` is the type's. Fails at a struct_size that was not set. */
ORD_MUST_CHECK bool ord_struct_take(const void *given, const char *name, void *out, size_t bytes, ord_error *err);
/* Writes as much of ours as the caller's struct has room for, and leaves its struct_size. */
ORD_MUST_CHECK bool ord_struct_give(const void *made, const char *name, void *out, size_t bytes, ord_error *err);

/* model.c: the messages as text for the caller, who frees it; NULL where there is nothing to say. A list that lost a
 * message for want of memory is a failure, whether or not the caller wants to read it. */
ORD_MUST_CHECK bool ord_messages_give(ord_diagnostics *list, char **out, ord_error *err);

/* model.c: a text file as a caller names it, with a 0 behind it; one byte more than `limit` is read of a file that has
 * more. Free *out. */
ORD_MUST_CHECK bool ord_text_file_read(const char *file, size_t limit, char **out, size_t *out_bytes, ord_error *err);

/* Bytes of all weights as they are stored. */
uint64_t ord_model_weight_bytes(const ord_model *model);

/* Weights that nobody has opened: an error that says how to. */
ORD_MUST_CHECK bool ord_model_need_weights(const ord_model *model, ord_error *err);

#endif
