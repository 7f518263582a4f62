/* SPDX-License-Identifier: MIT
 *
 * The plugin ABI of Ordito, version 0.9: everything the author of a kernel needs, in one header.
 *
 * A plugin is a shared object that exports two names and nothing else: `ord_plugin_manifest` (pure data, read from
 * the file before any code of it runs) and `ord_plugin_open`. It links nothing of the host; services arrive in
 * `ord_host`. A kernel has five verbs: query, pack, prepare, launch, retire. See docs/plugin_abi.md for the reasons.
 *
 * While the major version is 0 any minor may change any struct; a golden layout test moves with it.
 */
#ifndef ORDITO_PLUGIN_H
#define ORDITO_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ORD_ABI_MAJOR 0
#define ORD_ABI_MINOR 10
#define ORD_PLUGIN_MAGIC 0x4f524431u

/* True if the struct behind `p`, as its writer knew it, holds `field`. */
#define ORD_HAS(type, p, field) ((p)->struct_size >= offsetof(type, field) + sizeof((p)->field))

/* What an ABI call returns. A kernel returns the first six only; the host uses all of them in ord_error. */
typedef enum {
  ORD_OK,
  ORD_NO,            /* query: this kernel does not serve this node; `reason` says why */
  ORD_INVALID,       /* the model, the data or the caller's arguments are wrong */
  ORD_NO_MEMORY,     /* an allocation failed */
  ORD_DEVICE_FAILED, /* the device or its driver reported a fault */
  ORD_INTERNAL,      /* a mistake inside the callee */
  ORD_UNSUPPORTED,   /* no device or kernel can serve */
  ORD_IO,            /* a file could not be read or written */
  ORD_CANCELLED,     /* another thread asked for it */
  ORD_STATUS_MAX = 0x7fffffff
} ord_status;

/* Filled by the callee, owned by the caller: nobody frees anything across the boundary. */
typedef struct {
  uint32_t struct_size;
  int32_t native; /* the device library's own code, 0 if there is none */
  char text[240]; /* one sentence: what was found, what was wanted */
} ord_plugin_error;

/* The manifest holds inline bytes only, so that a reader needs neither relocation nor any code of the plugin. */
typedef struct {
  uint32_t magic, struct_size;
  uint16_t abi_major;
  uint16_t abi_minor_needed;     /* the host's minor must be at least this */
  uint16_t abi_minor_built;      /* for messages only */
  uint16_t reserved;             /* must be 0 */
  uint64_t host_features_needed; /* bits of ord_host.features that must be offered */
  uint64_t flags;                /* ORD_PLUGIN_UNLOADABLE; other bits must be 0 */
  char name[40], version[24];
  char build_id[40], toolchain[40]; /* for people; may be empty */
} ord_manifest;

/* Nothing of the plugin outlives the retiring of its last state, so that the host may unmap it. */
#define ORD_PLUGIN_UNLOADABLE 1u

/* The first fields of a manifest, the same in every plugin that is built against this header: {ORD_MANIFEST_HEAD,
 * .name = "mine", ..}. */
#define ORD_MANIFEST_HEAD                                                                                              \
  .magic = ORD_PLUGIN_MAGIC, .struct_size = sizeof(ord_manifest), .abi_major = ORD_ABI_MAJOR,                          \
  .abi_minor_needed = ORD_ABI_MINOR, .abi_minor_built = ORD_ABI_MINOR

/* ------------------------------------------------------------------ what a node is ---------------------------- */

/* Element types. Types from 64 on are block types: `block_elements` numbers share `block_bytes` bytes. */
enum {
  ORD_F32 = 1,
  ORD_F16,
  ORD_BF16,
  ORD_I8, /* a weight of this type has a companion operand `<slot>_scale`, f32 [out] */
  ORD_I32,
  ORD_I64,
  ORD_BOOL, /* one byte, 0 or 1 */
  ORD_TF32, /* of products alone, no tensor has it: f32 with 10 bits behind the point */
  ORD_Q8_0 = 64,
  ORD_Q4_0,
  ORD_Q4_1
};

/* Roles of operands. */
enum { ORD_INPUT, ORD_WEIGHT, ORD_STATE, ORD_SCALAR, ORD_OUTPUT, ORD_ABSENT };

#define ORD_RANK_MAX 6
#define ORD_PHASE_MAX 8
#define ORD_NONE 0xffffffffu /* no operand */
#define ORD_LAST INT64_MAX   /* attention's `align`: queries end at the last valid key */

/* `rows` rows (of a scalar: 1) of one weight; a fused weight is a list of them, in order. `weight_id` is unique in the
 * model. */
typedef struct {
  int64_t rows;
  uint64_t weight_id;
} ord_segment;

/* One operand of a node. Arrays of operands are passed by value: the layout is frozen within a major version.
 *
 * Order within a node: one entry per slot of the op, in the op table's order (an optional slot that is not given is
 * ORD_ABSENT; the entries of a list slot follow one another), then the outputs, then what the host adds: states,
 * `<slot>_scale`, operands of the epilogue in its order, scalars (past, then extents).
 *
 * Names: each entry bears its slot's name (all entries of a list slot the same). Each output is called out (find number
 * n with ord_node_output), what an epilogue item reads is called epilogue and what it writes epilogue_out (ord_epilogue
 * has their numbers); states are cache_k and cache_v, scalars past and extent. These names, and all that end in _scale,
 * are reserved: no slot has one.
 *
 * A weight is used as stored (or as packed), also where the result is wider: to the checks of a model every weight
 * counts as f32, so that in a copy or a gather (embedding, gather, slice, ..) the operand may be bf16 or blocks and the
 * output f32. A weight that is seen through a view is an INPUT: it has no segments and is never packed. */
typedef struct {
  const char *name;
  uint16_t role, dtype;
  uint32_t rank;
  int64_t dim[ORD_RANK_MAX];     /* exact, or the plan's maximum where `extent` names a scalar */
  int64_t stride[ORD_RANK_MAX];  /* in bytes; of a block type: bytes per block along the last dim */
  uint32_t extent[ORD_RANK_MAX]; /* the SCALAR operand, i64, that holds this dim in a run; ORD_NONE: `dim` is exact */
  uint16_t block_elements, block_bytes; /* 1 and the element's bytes for plain types */
  uint32_t align_log2;                  /* the address is a multiple of 1 << align_log2 */
  uint32_t segment_count, reserved0;
  const ord_segment *segment; /* WEIGHT: the rows it is made of, always at least one segment */
  uint64_t reserved[2];
} ord_operand;

/* An attribute, resolved, defaults filled in. */
enum { ORD_ATTR_INT, ORD_ATTR_NUMBER, ORD_ATTR_BOOL, ORD_ATTR_WORD, ORD_ATTR_INTS };
typedef struct {
  const char *name;
  uint32_t kind;  /* ORD_ATTR_* */
  uint32_t count; /* ORD_ATTR_INTS: how many; else 1 */
  union {
    int64_t i; /* INT, BOOL */
    double f;
    const char *s;
    const int64_t *ints;
  } value;
} ord_attr;

/* One item that the producer applies to its result before it is stored; items run in order.
 *   op "add": operand[0] is added (a bias [n] or a residual of the result's shape)
 *   op "mul": operand[0] is multiplied in
 *   a pointwise op (gelu_tanh, ..): no operand
 *   op "layernorm", "rmsnorm": operand[0] weight, operand[1] bias, each may be ORD_NONE; attr holds eps */
typedef struct {
  const char *op;
  uint32_t operand[2];
  uint32_t output; /* the operand that also receives the value after this item, or ORD_NONE */
  uint32_t attr_count;
  const ord_attr *attr;
} ord_epilogue;

/* Device kinds and CPU feature bits (ord_device_info.features of a CPU). */
enum { ORD_DEVICE_CPU = 1, ORD_DEVICE_CUDA = 2 };
enum {
  ORD_CPU_AVX2 = 1,   /* with FMA and F16C */
  ORD_CPU_AVX512 = 2, /* F, BW, VL, DQ */
  ORD_CPU_AVX512_BF16 = 4,
  ORD_CPU_AVX512_VNNI = 8
};

typedef struct {
  uint32_t struct_size, kind, ordinal;
  uint32_t compute_capability; /* CUDA: 10 * major + minor */
  uint32_t cores;              /* CPU: cores; CUDA: multiprocessors */
  uint32_t reserved;
  uint64_t features, l1_bytes, l2_bytes, l3_bytes, shared_bytes;
  const char *name;
} ord_device_info;

typedef struct {
  uint32_t struct_size, op_version;
  const char *op;
  const char *label; /* the layer path, for messages */
  uint32_t operand_count, attr_count, epilogue_count;
  uint32_t compute; /* the type in which products are wanted: ORD_F32, _TF32 (f32 will do), _BF16, _F16, _I8 */
  const ord_operand *operand;
  const ord_attr *attr;
  const ord_epilogue *epilogue;
  const ord_device_info *device;
} ord_node;

/* ------------------------------------------------------------------ what a kernel answers --------------------- */

/* How one weight is laid out by `pack`. Key 0: used as stored. The key names the layout, so that kernels and plans
 * that want the same layout share one copy. */
typedef struct {
  uint64_t key, bytes;
  /* Not 0: the rows are packed in groups of so many, and slice i of n packs groups [count * i / n, count * (i + 1) / n)
   * and reads no other rows. The host then reads and packs slice by slice, and only these rows are in memory. */
  uint64_t group_rows;
} ord_pack;

enum {
  ORD_RUNS_LIBRARY = 1, /* GPU: launch enqueues library calls on the stream, to be captured */
  ORD_APPENDS = 2       /* attention: writes the new keys and values into the cache itself */
};

/* The host zeroes it, sets struct_size, epilogue_served = node->epilogue_count and `pack` (one entry an operand,
 * zeroed). A kernel writes no field beyond struct_size.
 *
 * Scratch, worker, persistent and packed memory are 64-byte aligned; a pointer to memory of which 0 bytes were asked
 * for says nothing.
 *
 * alias_mask is a permission. The host uses it for the first output and an INPUT that another node made, that has the
 * same type, sizes and strides, whose memory nobody reads after this node, and this node through that operand only. */
typedef struct {
  uint32_t struct_size;
  uint32_t flags;            /* ORD_APPENDS, .. */
  uint64_t scratch_bytes;    /* for one launch; shared by all its chunks and phases, contents undefined at its start */
  uint64_t worker_bytes;     /* for each thread of a launch */
  uint64_t persistent_bytes; /* for the node's life, zeroed once, shared with nobody */
  uint32_t phase_count;      /* 1..ORD_PHASE_MAX. GPU: how many pieces of work a launch puts on the stream, at most */
  uint32_t chunk_limit[ORD_PHASE_MAX]; /* CPU: exactly so many chunks is each phase cut into, at least 1 */
  uint32_t alias_mask;                 /* bit i: the first output may overwrite operand i */
  uint32_t epilogue_served; /* items, from the first, that this kernel would fuse; lower it to refuse the rest */
  uint32_t reserved;
  ord_pack *pack;
  double estimate_us; /* orders the variants of one plugin only; 0: none */
  char variant[96];   /* of this kernel for this node: "avx512 12x32" */
  char reason[160];   /* with ORD_NO: why not, in words: what was found, what is wanted */
} ord_answer;

/* ------------------------------------------------------------------ running ----------------------------------- */

enum { ORD_WARMUP = 1, ORD_CAPTURING = 2 };

/* Where work for a GPU goes, in order. Own kernels go there through ord_host.gpu_launch; a library is given its handle
 * (a CUstream), which may be capturing. */
typedef struct {
  void *handle;
} ord_gpu_stream;

/* One chunk of one phase; chunk_count is the answer's chunk_limit[phase], whatever the number of threads. `operand[i]`
 * is the address of the node's operand i (packed weights already replaced, NULL where absent). */
typedef struct {
  uint32_t struct_size, flags;
  uint32_t phase, chunk, chunk_count, reserved;
  void *const *operand;
  void *scratch, *worker, *persistent;
  ord_gpu_stream *stream; /* GPU only */
} ord_exec;

/* The kernel waits for those before it by itself (ord_dependency_wait of ordito_device.h, executed by every thread),
 * and before that touches nothing but weights: the host may start it early. */
enum { ORD_LAUNCH_DEPENDENT = 1 };

/* One launch of device code. The argument values are copied; those that are addresses are of device memory. What is
 * reserved must be 0. */
typedef struct {
  uint32_t argument_count;
  uint32_t flags;        /* ORD_LAUNCH_* */
  uint32_t shared_bytes; /* of dynamic shared memory; more than 48 KiB must have been asked for in image_kernel */
  uint32_t reserved0;
  void *kernel; /* from image_kernel */
  uint32_t grid[3], block[3];
  const void *const *argument;
  const uint32_t *argument_bytes;
  uint64_t reserved[2];
} ord_gpu_launch;

enum { ORD_LOG_DEBUG, ORD_LOG_INFO, ORD_LOG_WARNING, ORD_LOG_ERROR };

/* Services of the host. Valid until the plugin is closed. allocate returns NULL when out of memory. */
typedef struct ord_host {
  uint32_t struct_size, abi_minor;
  uint64_t features; /* what a manifest may need of the host beyond its minor version; no bit is defined: 0 */
  void *context;
  void *(*allocate)(void *context, size_t bytes, size_t align);
  void (*release)(void *context, void *memory);
  void (*log)(void *context, int level, const char *text);
  /* For prepare: the kernel `symbol` of the plugin's image of this name, loaded, ready for up to dynamic_shared_bytes.
   * Valid while the plugin is. NULL on a CPU-only host. */
  ord_status (*image_kernel)(void *context, const char *image, const char *symbol, uint32_t dynamic_shared_bytes,
                             void **kernel, ord_plugin_error *err);
  /* For launch: puts the kernel on the stream of the ord_exec, or into the graph that is being recorded. */
  ord_status (*gpu_launch)(void *context, ord_gpu_stream *stream, const ord_gpu_launch *launch, ord_plugin_error *err);
  /* Extras by "name@1"; NULL = absent. "library.cublasLt@1", "library.cublas@1": the file to open (const char *). */
  void *(*find)(void *context, const char *name_and_version);
} ord_host;

/* A kernel. Threads: query and pack on any; prepare and retire one at a time per plugin; launch of one state by one
 * replay at a time (all its chunks in parallel). */
typedef struct ord_kernel {
  uint32_t struct_size;
  uint32_t flags;   /* must be 0; what holds for one node only is said in ord_answer.flags */
  int32_t priority; /* higher wins where nothing was measured or pinned */
  uint32_t device;  /* ORD_DEVICE_*: it is asked for nodes on such devices only; 0: the CPU */
  const char *name, *op;

  /* Pure: no allocation, no lock, the same answer twice. ORD_OK or ORD_NO with a reason. */
  ord_status (*query)(const struct ord_kernel *kernel, const ord_node *node, ord_answer *answer);

  /* Lays out slice `slice` of `slice_count` of operand `weight` into `packed` (answer->pack[weight].bytes long).
   * `segment[i]` is where row 0 of segment i lies, or would lie; rows are laid out as the operand's strides say. The
   * scales of an i8 weight are not there: launch applies them. May be NULL where every key is 0. */
  ord_status (*pack)(const struct ord_kernel *kernel, const ord_node *node, const ord_answer *answer, uint32_t weight,
                     const void *const *segment, uint32_t slice, uint32_t slice_count, void *packed);

  /* Reads attributes, chooses algorithms, creates handles. `node` and `answer` live as long as the state. */
  ord_status (*prepare)(const struct ord_kernel *kernel, const ord_node *node, const ord_answer *answer,
                        const ord_host *host, void **state, ord_plugin_error *err);

  /* CPU: computes chunk i of n of phase p; the host puts a barrier between phases. GPU: enqueues. No allocation,
   * no sync, no host read of device data. */
  ord_status (*launch)(void *state, const ord_exec *exec, ord_plugin_error *err);

  void (*retire)(void *state); /* accepts NULL */
} ord_kernel;

/* Device code as data; the host loads it. kind: ORD_IMAGE_*. */
enum { ORD_IMAGE_FATBIN = 1, ORD_IMAGE_SIMULATED = 2 };
typedef struct {
  const char *name;
  uint32_t kind, reserved;
  const void *bytes;
  size_t size;
} ord_image;

typedef struct {
  uint32_t struct_size, kernel_count, image_count;
  uint32_t reserved; /* must be 0 */
  const ord_kernel *const *kernel;
  const ord_image *image;
} ord_plugin;

/* The one function that a plugin exports, under the name ord_plugin_open. `*plugin` stays valid until unload. */
typedef ord_status (*ord_plugin_open_fn)(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err);

#if defined(__GNUC__)
#define ORD_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define ORD_PLUGIN_EXPORT
#endif

/* The two names, declared; a plugin defines them. */
#ifdef __cplusplus
extern "C" {
#endif
ORD_PLUGIN_EXPORT extern const ord_manifest ord_plugin_manifest;
ORD_PLUGIN_EXPORT ord_status ord_plugin_open(const ord_host *host, const ord_plugin **plugin, ord_plugin_error *err);
#ifdef __cplusplus
}
#endif

/* ------------------------------------------------------------------ conveniences ------------------------------ */

/* The first operand of this name, or ORD_NONE. */
static inline uint32_t ord_node_find(const ord_node *node, const char *name) {
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (node->operand[i].role != ORD_ABSENT && strcmp(node->operand[i].name, name) == 0) return i;
  return ORD_NONE;
}

/* Output number `which`, or ORD_NONE. Epilogue outputs come after the op's own. */
static inline uint32_t ord_node_output(const ord_node *node, uint32_t which) {
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (node->operand[i].role == ORD_OUTPUT && which-- == 0) return i;
  return ORD_NONE;
}

static inline const ord_attr *ord_node_attr(const ord_node *node, const char *name) {
  for (uint32_t i = 0; i < node->attr_count; i++)
    if (strcmp(node->attr[i].name, name) == 0) return &node->attr[i];
  return NULL;
}

/* The attribute's value, or `otherwise` where the node has none of this name. */
static inline int64_t ord_node_int(const ord_node *node, const char *name, int64_t otherwise) {
  const ord_attr *attr = ord_node_attr(node, name);
  return attr ? attr->value.i : otherwise;
}

static inline double ord_node_number(const ord_node *node, const char *name, double otherwise) {
  const ord_attr *attr = ord_node_attr(node, name);
  return attr ? attr->value.f : otherwise;
}

/* Dim `axis` of operand `which` in this run. */
static inline int64_t ord_exec_dim(const ord_node *node, const ord_exec *exec, uint32_t which, uint32_t axis) {
  const uint32_t scalar = node->operand[which].extent[axis];
  return scalar == ORD_NONE ? node->operand[which].dim[axis] : *(const int64_t *)exec->operand[scalar];
}

#endif
