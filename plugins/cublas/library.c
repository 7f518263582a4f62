/* SPDX-License-Identifier: MIT */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>

enum { VERSION_MAJOR = 13, VERSION_UNITS = 10000 }; /* 130100 is 13.1.0 */

/* Where each call is kept, by name. */
typedef struct call_place {
  const char *name;
  size_t offset;
} call_place;

static const call_place calls[] = {
#define CALL(name) {"cublasLt" #name, offsetof(library, name)},
#include "calls.def"
#undef CALL
};

static ord_status refuse(library *out, ord_plugin_error *err) {
  library_close(out);
  err->native = 0;
  return ORD_UNSUPPORTED;
}

ord_status library_open(const ord_host *host, library *out, ord_plugin_error *err) {
  const char *path = host->find ? host->find(host->context, "library.cublasLt@1") : NULL;
  *out = (library){0};
  if (!path) {
    snprintf(err->text, sizeof err->text, "the host names no library.cublasLt@1; wanted the file to open");
    return refuse(out, err);
  }
  out->file = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!out->file) {
    snprintf(err->text, sizeof err->text, "cuBLASLt cannot be opened: %s", dlerror());
    return refuse(out, err);
  }
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    void *call = dlsym(out->file, calls[i].name);
    if (!call) {
      snprintf(err->text, sizeof err->text, "%s lacks %s", path, calls[i].name);
      return refuse(out, err);
    }
    memcpy((char *)out + calls[i].offset, &call, sizeof call);
  }
  const size_t version = out->GetVersion();
  if (version / VERSION_UNITS == VERSION_MAJOR) return ORD_OK;
  snprintf(err->text, sizeof err->text, "%s is version %zu; wanted %d.x (%d0000 and up)", path, version, VERSION_MAJOR,
           VERSION_MAJOR);
  return refuse(out, err);
}

void library_close(library *opened) {
  if (opened->file) dlclose(opened->file);
  opened->file = NULL;
}

ord_status library_check(const library *opened, cublasStatus_t status, const char *call, ord_plugin_error *err) {
  if (status == CUBLAS_STATUS_SUCCESS) return ORD_OK;
  err->native = (int32_t)status;
  snprintf(err->text, sizeof err->text, "cublasLt%s: %s", call, opened->GetStatusString(status));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH) return ORD_UNSUPPORTED;
  return status == CUBLAS_STATUS_ALLOC_FAILED ? ORD_NO_MEMORY : ORD_DEVICE_FAILED;
}
