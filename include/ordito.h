/* SPDX-License-Identifier: MIT
 *
 * Ordito, embedded in a program: load a model, open a session, run or generate. C11 and C++17.
 *
 * Conventions. A function that can fail returns bool and fills the caller's ord_error when it returns false; nothing
 * is lost then, and the objects stay usable; `err` may be NULL. create/load make an object, destroy frees it and
 * accepts NULL; what is returned as `const char *` is borrowed, valid while its owner lives. Options may be NULL: the
 * defaults, which are zeros where nothing else is said. A struct with struct_size carries its size, which the caller
 * sets, also in what is filled for it: the library reads and writes no byte beyond, and takes as zero what is not
 * there, so that a program works with a later library whose structs are longer. What options point to is needed during
 * the call only, but for the log of a context and the progress of weights. The library never prints, exits or aborts.
 *
 * Threads. A context and a model may be used from several threads; a session belongs to one thread at a time, but for
 * ord_session_cancel. Destroy sessions before their model, models before their context.
 */
#ifndef ORDITO_H
#define ORDITO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ordito_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ORD_MUST_CHECK __attribute__((warn_unused_result))
#define ORD_API __attribute__((visibility("default")))
#else
#define ORD_MUST_CHECK
#define ORD_API
#endif

#define ORD_VERSION "0.1.0"

/* Filled by the callee, owned by the caller; text is complete, with the place in front. Set struct_size (or use
 * ORD_ERROR_INIT). */
typedef struct ord_error {
  uint32_t struct_size;
  ord_status code;
  uint32_t line, column; /* 0: no place in a file */
  char file[256];        /* "": none */
  char text[2048];
} ord_error;
#define ORD_ERROR_INIT                                                                                                 \
  {                                                                                                                    \
    sizeof(ord_error), ORD_OK, 0, 0, {0}, { 0 }                                                                        \
  }

typedef void (*ord_log_fn)(void *context, int level, const char *text); /* ORD_LOG_*; any thread */
/* Bytes done of all; returning false cancels (ORD_CANCELLED). */
typedef bool (*ord_progress_fn)(void *context, uint64_t done, uint64_t all);

/* Text that a function made; free with ord_text_free. */
ORD_API void ord_text_free(char *text);

/* ------------------------------------------------------------------ words ------------------------------------- */
/* How many bytes at the start of a text can go to a terminal as they are: up to the first that is no UTF-8 or begins a
 * control character other than tab and newline. Messages and text reports may hold such bytes, which came out of a file
 * or a name; JSON reports do not. */
ORD_API size_t ord_text_printable(const char *text);
/* Writes the first character of a text that is not empty as it stands in a JSON string, with a 0 behind it, and returns
 * how many bytes of the text it was. What is no UTF-8 becomes U+FFFD, byte by byte. */
#define ORD_JSON_BYTES 8
ORD_API size_t ord_text_json(const char *text, char out[ORD_JSON_BYTES]);
/* The candidate nearest to `name` by edit distance (a transposition counts one, letters in another case nothing), or
 * NULL if none is near enough to be worth a "did you mean". `candidate` may hold NULLs, which are skipped. */
ORD_API const char *ord_nearest_name(const char *name, const char *const *candidate, size_t count);
/* What a failed call on a file means, by its errno: ORD_INVALID where the name or the permission is wrong,
 * ORD_NO_MEMORY, else ORD_IO. */
ORD_API ord_status ord_status_of_errno(int number);

/* ------------------------------------------------------------------ context ----------------------------------- */
typedef struct ord_context ord_context;

#define ORD_THREADS_MAX 256

typedef struct ord_context_options {
  uint32_t struct_size;
  int threads;               /* at most ORD_THREADS_MAX; 0: the cores; negative: an error */
  const char *const *plugin; /* files to load, in order */
  uint32_t plugin_count;
  bool no_default_plugins; /* do not look into the folders */
  const char *cpu;         /* which instructions kernels may use: "baseline", "avx2", "avx512"; NULL or "native": all */
  ord_log_fn log;          /* may be NULL */
  void *log_context;
  const char *device;       /* "cpu" or "cuda"; NULL: cpu. What cannot be had is an error, nothing takes its place */
  bool simulated;           /* cuda: on the simulated driver, which runs on the CPU and says nothing about speed; of the
                               folder ORDITO_SIMULATOR_PATH or, without it, of the library's own */
  bool checked;             /* simulated: kernels that look at each access to memory */
  bool no_dependent_launch; /* cuda: no kernel starts before the one before it has ended */
} ord_context_options;

/* Opens the device and the plugins: the built-in reference, `plugin`, the folders of ORDITO_PLUGIN_PATH, and the
 * folder ordito/plugins beside the library. Never the working directory. */
ORD_API ORD_MUST_CHECK bool ord_context_create(const ord_context_options *options, ord_context **out, ord_error *err);
ORD_API void ord_context_destroy(ord_context *context);
/* Loads one more plugin. Each load maps a private copy of the file, so that a rebuilt plugin can be loaded beside the
 * old one while its kernels run; bytes that are loaded already are an error. *out_name (may be NULL) is the name that
 * pins select it by: the plugin's own, or with "#2", "#3", .. behind it where that is taken. A node that no pin gives
 * to it stays with an older plugin whose kernel has the same name and priority. Not while another thread makes a
 * session or a report or swaps a kernel with this context; sessions may run. */
ORD_API ORD_MUST_CHECK bool ord_context_load_plugin(ord_context *context, const char *file, const char **out_name,
                                                    ord_error *err);
/* How many threads compute, the calling one included. */
ORD_API uint32_t ord_context_threads(const ord_context *context);
/* What kernels are told of the device. Borrowed, valid until the context is destroyed. `name` is what it calls itself:
 * "cpu", "NVIDIA H200", "SIMULATED CUDA device (sm_90)"; that of a device whose times mean nothing begins so. */
ORD_API const ord_device_info *ord_context_device_info(const ord_context *context);
/* Which kernels there are, per plugin, and which files were refused and why. */
ORD_API ORD_MUST_CHECK bool ord_context_report_kernels(ord_context *context, bool json, char **out, ord_error *err);

/* ------------------------------------------------------------------ model ------------------------------------- */
typedef struct ord_model ord_model;

typedef struct ord_model_options {
  uint32_t struct_size;
  const char *size;    /* one of the file's sizes; NULL: none */
  int64_t context;     /* bounds caches and the token axis; 0: as the file says */
  bool strict;         /* warnings are errors */
  size_t byte_limit;   /* 0: 1 MiB */
  uint32_t item_limit; /* 0: 65,536 */
} ord_model_options;

/* Reads a model file. With `out_messages`, all errors and warnings come back as text, each with its line and caret
 * (also on success: warnings); free it. `*out` is NULL on failure. */
ORD_API ORD_MUST_CHECK bool ord_model_load(ord_context *context, const char *file, const ord_model_options *options,
                                           ord_model **out, char **out_messages, ord_error *err);
/* As ord_model_load, from memory; `name` stands for the file in messages. */
ORD_API ORD_MUST_CHECK bool ord_model_load_text(ord_context *context, const char *name, const char *text, size_t bytes,
                                                const ord_model_options *options, ord_model **out, char **out_messages,
                                                ord_error *err);
ORD_API void ord_model_destroy(ord_model *model);
ORD_API const char *ord_model_name(const ord_model *model);  /* the full name, with the size */
ORD_API const char *ord_model_about(const ord_model *model); /* one line for people; NULL: none */
/* How many tokens fit: the length of the shortest cache; without caches the maximum of the token axis; 0: the model has
 * neither. */
ORD_API int64_t ord_model_context(const ord_model *model);
ORD_API int64_t ord_model_vocab(const ord_model *model); /* width of the logits, 0: no generation */

typedef struct ord_weight_options {
  uint32_t struct_size;
  const char *path; /* a file or folder; NULL: NAME/ beside the model file, then ORDITO_MODELS */
  bool random;      /* no file: random weights from `seed` */
  uint64_t seed;
  ord_progress_fn progress;
  void *progress_context;
} ord_weight_options;

/* Opens and checks the weights; an error if they are open. They are read when the first session is made, which is when
 * `progress` is called. A model without weights needs no file. `out_messages` as in ord_model_load. */
ORD_API ORD_MUST_CHECK bool ord_model_open_weights(ord_model *model, const ord_weight_options *options,
                                                   char **out_messages, ord_error *err);

/* What maps where, missing, unused, wrong: the dry run. *out_faults: how many weights cannot be served. */
ORD_API ORD_MUST_CHECK bool ord_model_report_weights(ord_model *model, const char *path, bool json, char **out,
                                                     uint32_t *out_faults, ord_error *err);

typedef enum { ORD_FILE_SAFETENSORS, ORD_FILE_CHECKPOINT } ord_file_kind;
/* Writes the weights of `from` to `to`; the file is whole or absent. A file that cannot serve the model is an error
 * before anything is written; `out_messages` as in ord_model_load. dtype: ORD_F32, ORD_F16, ORD_BF16; ORD_I8 for what a
 * matmul multiplies (one scale a row, tensor NAME.scale), with the rest as it is; 0: all as it is. */
ORD_API ORD_MUST_CHECK bool ord_model_convert(ord_model *model, const char *from, const char *to, ord_file_kind kind,
                                              uint32_t dtype, ord_progress_fn progress, void *progress_context,
                                              char **out_messages, ord_error *err);

/* ------------------------------------------------------------------ session ----------------------------------- */
typedef struct ord_session ord_session;

/* What becomes of a plan that cannot be captured. */
typedef enum {
  ORD_CAPTURE_REQUIRE, /* making the session fails */
  ORD_CAPTURE_PREFER,  /* its runs are eager; ord_session_capture_report says why */
  ORD_CAPTURE_OFF      /* none is captured, all runs are eager */
} ord_capture_policy;

typedef struct ord_session_options {
  uint32_t struct_size;
  /* "SELECTOR=KERNEL[@PLUGIN]". A pin holds in each plan where its kernel serves every node that it selects; a plan
   * that goes without is told in the log, and it is an error where a pin holds in none. */
  const char *const *pin;
  uint32_t pin_count;
  const char *const *disabled_pass; /* of ord_pass_name */
  uint32_t disabled_pass_count;
  const char *const *output; /* outputs that are wanted; 0: all of a run, the logits of a generation */
  uint32_t output_count;
  const char *const *keep; /* layer paths of values to keep, read with ord_session_get */
  uint32_t keep_count;
  bool deny_fallback; /* a node that only the reference serves is an error */
  bool generates;     /* sample is appended to the logits, for one row; needed by ord_session_generate */
  bool poison;        /* overwrite outputs before each run, to find readers of old ones */
  uint32_t compute;   /* the type in which matmuls make products, one of ordito_compute.def; 0: f32 */
  uint32_t kv_cache;  /* the type in which caches are kept: ORD_F32, ORD_BF16; 0: f32 */
  uint32_t capture;   /* ORD_CAPTURE_* */
} ord_session_options;

/* The passes that can be left out, in their order; NULL past the end. */
ORD_API const char *ord_pass_name(uint32_t index);

/* Makes the plans (one for a single new token, one for all lengths, where the model has a token axis; on a GPU some for
 * lengths between), packs the weights, captures. */
ORD_API ORD_MUST_CHECK bool ord_session_create(ord_model *model, const ord_session_options *options, ord_session **out,
                                               ord_error *err);
ORD_API void ord_session_destroy(ord_session *session);

/* A dense tensor, row-major. As an input it is copied; as an output it is borrowed until the next run, reset or
 * destroy of the session (a swap of kernels leaves it alone). */
typedef struct ord_tensor {
  uint32_t struct_size, dtype, rank; /* dtype: ORD_F32, .. */
  int64_t dim[ORD_RANK_MAX];
  const void *data;
  size_t bytes;
} ord_tensor;

/* Sets an input; takes effect with the next run and stays until it is set again. The shape must fit the model's, and
 * the run-time dims of all inputs must agree, which the run checks. */
ORD_API ORD_MUST_CHECK bool ord_session_set(ord_session *session, const char *input, const ord_tensor *tensor,
                                            ord_error *err);
/* Sets the input with `fill: tokens` to ids [rows, count], whatever its name. */
ORD_API ORD_MUST_CHECK bool ord_session_set_tokens(ord_session *session, const int32_t *id, int64_t rows, int64_t count,
                                                   ord_error *err);
/* One run. Caches grow by the rows' lengths. Past + new beyond a cache is an error before anything is launched. */
ORD_API ORD_MUST_CHECK bool ord_session_run(ord_session *session, ord_error *err);
/* An output, or a kept value by its path, of the last run. */
ORD_API ORD_MUST_CHECK bool ord_session_get(ord_session *session, const char *name, ord_tensor *out, ord_error *err);
/* Empties the caches. */
ORD_API void ord_session_reset(ord_session *session);
/* Keeps the first `tokens` tokens of each row in the caches and forgets the rest. A row that holds fewer keeps them. */
ORD_API void ord_session_rewind(ord_session *session, int64_t tokens);
/* Asks a running call in another thread to stop at the next step (ORD_CANCELLED). The one call from other threads,
 * and from handlers of signals: it only stores a word, which a GPU in a loop of its own sees too. */
ORD_API void ord_session_cancel(ord_session *session);

typedef struct ord_swap_options {
  uint32_t struct_size;
  /* "SELECTOR=KERNEL[@PLUGIN]". They come behind the pins that the session has, which still hold where these do not. */
  const char *const *pin;
  uint32_t pin_count;
  double tolerance; /* the largest difference that is allowed; 0: derived from the swapped kernels, see below */
} ord_swap_options;

typedef struct ord_swap_result {
  uint32_t struct_size;
  uint32_t node_count; /* nodes that got another kernel, in the plan where they are most */
  double difference;   /* measured; infinite where one side has a NaN */
  double tolerance;    /* what was allowed */
  uint64_t prepare_ns; /* making plans, packing weights, capturing, beside the running session */
  uint64_t compare_ns, flip_ns;
} ord_swap_result;

/* Gives nodes other kernels while the session lives: between two runs, or inside the token callback of
 * ord_session_generate, called by the session's own thread. Prepares new plans beside those that run, compares them
 * with these, and lets them take over from the next run on by the exchange of one pointer. Caches, inputs, positions
 * and the outputs of the last run stay.
 *
 * Compared is, in each plan, a run of the inputs that are set, cut to the tokens that the plan serves, in copies of the
 * caches, at the place where the last run was; so there must have been one since the session was made or reset,
 * and none that failed or was refused since. (Inputs
 * that cannot be cut, as an index that names a token behind the cut, leave that plan out.) The difference is that of
 * the outputs (and kept values) with floating-point numbers and of what the run appended to the caches: in each the
 * largest difference of two numbers, over the largest number that the kernels in use have there; the worst of all
 * counts. Rows behind a row's length do not. A NaN differs from everything. The default tolerance is that of the
 * conformance tests: 2^-23 * (16 + n) + 8 * p, n the largest dim of an operand of the swapped nodes, p half a step of
 * the coarsest type that products are made or keys and values kept in (ordito_compute.def; of f32 0).
 *
 * An error where a pin selects nothing, holds in no plan or changes nothing (the same kernel of a plugin with the same
 * digest), where a kernel fails or differs by more than the tolerance: then the session goes on as it was, bit for bit.
 * `out` (may be NULL) is filled in either case. */
ORD_API ORD_MUST_CHECK bool ord_session_swap_kernel(ord_session *session, const ord_swap_options *options,
                                                    ord_swap_result *out, ord_error *err);
/* Goes back to the kernels before the last swap, from the next run on; called again, takes that back. They are kept
 * with their memory until the next swap. An error where nothing was swapped. Where and by whom as a swap. */
ORD_API ORD_MUST_CHECK bool ord_session_rollback_kernel(ord_session *session, ord_error *err);

/* Names and shapes, for programs that do not know the model: "x f32 [batch, seq, 384]"; NULL past the end. */
ORD_API const char *ord_session_input(const ord_session *session, uint32_t index);
ORD_API const char *ord_session_output(const ord_session *session, uint32_t index);

/* ------------------------------------------------------------------ run configuration ------------------------- */
typedef struct ord_run_config ord_run_config;

/* Reads from a YAML file how to run models: plugins, kernels, threads and the like (docs/run_config.md). `out_messages`
 * as in ord_model_load. */
ORD_API ORD_MUST_CHECK bool ord_run_config_load(const char *file, ord_run_config **out, char **out_messages,
                                                ord_error *err);
ORD_API void ord_run_config_destroy(ord_run_config *config);
/* Writes what the configuration says into the options; what it does not mention stays as it is. Each may be NULL; one
 * without its struct_size is left alone. The options then borrow from the configuration. A configuration does not
 * change: several threads may apply it. */
ORD_API void ord_run_config_apply(const ord_run_config *config, ord_context_options *context, ord_model_options *model,
                                  ord_session_options *session);

/* ------------------------------------------------------------------ generation -------------------------------- */
/* How the tokens behind the first are made. */
typedef enum {
  ORD_LOOP_AUTO,  /* on a GPU, in a captured session, ORD_LOOP_WHOLE where the driver can, else ORD_LOOP_AHEAD; neither
                     where the device cannot move the inputs on, as two with fill: positions */
  ORD_LOOP_OFF,   /* a run for each, as ord_session_run makes it */
  ORD_LOOP_WHOLE, /* on the device, all in one launch */
  ORD_LOOP_AHEAD, /* on the device, a launch for each, some of them ahead */
  ORD_LOOP_DEAF   /* as ORD_LOOP_WHOLE, but the device does not look whether the host wants it to end, and so goes on to
                     a stop token or the limit: to measure what looking costs */
} ord_loop_mode;

typedef struct ord_generate_options {
  uint32_t struct_size;
  uint32_t max_tokens;
  float temperature; /* 0: greedy; must be finite and not negative */
  int32_t top_k;     /* 0: all */
  float top_p;       /* 1: all; in (0, 1] */
  uint64_t seed;
  bool ignore_stop; /* go on after a stop token */
  uint32_t loop;    /* ORD_LOOP_*; an error where the device or the session cannot what is asked for */
} ord_generate_options;
#define ORD_GENERATE_INIT                                                                                              \
  { sizeof(ord_generate_options), 128, 0.0f, 0, 1.0f, 0, false, ORD_LOOP_AUTO }

/* One token and the text that it completes (may be empty), not terminated beyond `bytes`. Returning false ends the
 * generation after this token; that is no error. */
typedef bool (*ord_token_fn)(void *context, int32_t id, const char *text, size_t bytes);

typedef enum { ORD_ENDED_LIMIT, ORD_ENDED_STOP, ORD_ENDED_CALLER } ord_ended;
typedef struct ord_generate_result {
  uint32_t struct_size;
  ord_ended ended;
  uint32_t prompt_count, token_count;
  uint64_t prefill_ns, decode_ns;
  uint32_t loop; /* ORD_LOOP_*, what was done; not ORD_LOOP_AUTO */
} ord_generate_result;

/* Token ids of a text with the tokens around it; free with ord_ids_free. */
ORD_API ORD_MUST_CHECK bool ord_model_encode(const ord_model *model, const char *text, size_t bytes, int32_t **out,
                                             size_t *out_count, ord_error *err);
ORD_API void ord_ids_free(int32_t *ids);

/* Goes on from what the caches hold (batch 1). An empty prompt in an empty session starts from the model's start
 * token (its `before`), or is an error where it has none. Prompt + max_tokens beyond the context is an error before
 * anything is launched, with needed and available. A prompt longer than the token axis is read in pieces of its
 * maximum. In a loop on the device the tokens come while it goes on: outputs other than tokens cannot be read then or
 * behind it, and what `token_fn` changes in the session (kernels, inputs, positions) ends the loop and holds from the
 * next token on, as it would without. */
ORD_API ORD_MUST_CHECK bool ord_session_generate(ord_session *session, const int32_t *prompt, size_t prompt_count,
                                                 const ord_generate_options *options, ord_token_fn token_fn,
                                                 void *context, ord_generate_result *result, ord_error *err);

/* ------------------------------------------------------------------ reports ----------------------------------- */
typedef struct ord_show_options {
  uint32_t struct_size;
  bool json;
  bool passes;                        /* what each pass did; in text this alone, unless `plan` is asked for too */
  bool plan;                          /* steps, kernels, memory; the same */
  const ord_session_options *session; /* pins, passes, outputs; may be NULL */
} ord_show_options;
/* The resolved model: dims, ops, shapes, parameters per part. Needs no weights. */
ORD_API ORD_MUST_CHECK bool ord_model_report_show(ord_model *model, const ord_show_options *options, char **out,
                                                  ord_error *err);
/* Kernel, plugin and variant per node of the plans that a session with these options would have, with each loser's
 * reason. Weights that are not open count as f32. */
ORD_API ORD_MUST_CHECK bool ord_model_report_explain(ord_model *model, const ord_session_options *options, bool json,
                                                     char **out, ord_error *err);

/* Memory by kind, in bytes. */
typedef struct ord_memory_report {
  uint32_t struct_size;
  uint64_t weights, packed; /* as stored, and as kernels keep them; shared by all sessions of the model */
  uint64_t cache;           /* keys and values */
  uint64_t arena;           /* values between steps */
  uint64_t worker;          /* of the threads, during a launch */
  uint64_t captures;
  uint64_t peak; /* the most that all of it was at a time */
} ord_memory_report;
ORD_API ORD_MUST_CHECK bool ord_session_memory(const ord_session *session, ord_memory_report *out, ord_error *err);
/* What a session with these options will need, before anything is allocated for it: weights, packed, cache, arena and
 * their sum as peak. Weights that are not open count as f32. */
ORD_API ORD_MUST_CHECK bool ord_model_estimate_memory(ord_model *model, const ord_session_options *options,
                                                      ord_memory_report *out, ord_error *err);

/* What became of a plan of a session. Text is borrowed, valid until the session is destroyed or swaps kernels. */
typedef struct ord_capture_state {
  uint32_t struct_size;
  bool is_captured;
  const char *plan;       /* "all lengths", "one new token" .. */
  const char *why_not;    /* NULL where it is captured */
  uint32_t steps;         /* of the plan; a capture has them all */
  uint32_t launches;      /* of kernels */
  uint32_t library_steps; /* steps whose work a library put there */
  uint32_t graph_nodes;   /* on a GPU, with those inside of child graphs */
  uint64_t bytes;         /* in the caller's memory */
  uint64_t capture_ns;
} ord_capture_state;
/* Of plan number `index`; an error behind the last. */
ORD_API ORD_MUST_CHECK bool ord_session_capture_report(const ord_session *session, uint32_t index,
                                                       ord_capture_state *out, ord_error *err);

/* The op table of docs/model_format.md. */
ORD_API ORD_MUST_CHECK bool ord_report_ops(char **out, ord_error *err);

/* A row of a kernel test. Text is borrowed, valid during the call. */
#define ORD_ROW_NAME_BYTES 192
typedef enum { ORD_ROW_BEGINS, ORD_ROW_PASSED, ORD_ROW_REFUSED, ORD_ROW_FAILED } ord_row_state;
typedef struct ord_kernel_row {
  uint32_t struct_size;
  uint32_t index, count; /* its number among the `count` rows that the options choose */
  ord_row_state state;
  const char *device; /* its name, as ord_context_device_info has it */
  const char *row;    /* "matmul_plain:12", its name, shorter than ORD_ROW_NAME_BYTES */
  const char *kernel, *op, *operands, *attributes;
  const char *text; /* why it was refused or failed */
  double error;     /* the largest difference, as a part of its tolerance */
} ord_kernel_row;
/* Told when a row begins, so that a crash can be put down to it, and when it has ended. */
typedef void (*ord_row_fn)(void *context, const ord_kernel_row *row);
typedef struct ord_kernel_test_options {
  uint32_t struct_size;
  const char *row;    /* only the row of this name; NULL: all */
  const char *cpu;    /* as in ord_context_options; so are device, simulated and checked */
  uint32_t first;     /* leaves out the rows with a lower index */
  const char *device; /* kernels for other devices have no rows */
  bool simulated, checked;
} ord_kernel_test_options;
/* Runs the conformance cases of every op that a plugin file claims, in this process: a plugin that crashes takes it
 * along, and one whose kernel faults on a GPU takes that GPU from the rows behind it. The plugin is unloaded before
 * this returns. True also where rows fail. */
ORD_API ORD_MUST_CHECK bool ord_kernel_test(const char *file, const ord_kernel_test_options *options, ord_row_fn row_fn,
                                            void *context, ord_error *err);

#ifdef __cplusplus
}
#endif

#endif
