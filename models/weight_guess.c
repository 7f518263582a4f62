/* SPDX-License-Identifier: MIT
 *
 * What a file looks like that was given as weights and is none: the half download, the pickle, the web page. The table
 * is read from the top, so that a special text comes before text.
 */
#include <string.h>
#include <strings.h>

#include "models/weight_format.h"

enum { LOOKED_AT = 512 };

typedef struct file_look {
  const char *start; /* the first bytes, after white space where `is_text` */
  uint32_t bytes;
  bool is_text;
  const char *words;
} file_look;

static const file_look looks[] = {
    {"PK\x03\x04", 4, false, "; it looks like a zip archive (a PyTorch file?)"},
    {"\x80\x02", 2, false, "; it looks like a Python pickle (a PyTorch file?)"},
    {"\x80\x03", 2, false, "; it looks like a Python pickle (a PyTorch file?)"},
    {"\x80\x04", 2, false, "; it looks like a Python pickle (a PyTorch file?)"},
    {"\x80\x05", 2, false, "; it looks like a Python pickle (a PyTorch file?)"},
    {"GGUF", 4, false, "; it looks like a GGUF file"},
    {"\x93NUMPY", 6, false, "; it looks like a .npy array"},
    {"\x89HDF", 4, false, "; it looks like an HDF5 file"},
    {"\x1f\x8b", 2, false, "; it looks like a gzip archive"},
    {"\x7f"
     "ELF",
     4, false, "; it looks like a program or shared object"},
    {"version https://git-lfs", 23, true,
     "; it is a git-lfs pointer, the weights themselves were not fetched (git lfs pull)"},
    {"<!doctype", 9, true, "; it looks like a web page (HTML)"},
    {"<html", 5, true, "; it looks like a web page (HTML)"},
    {"<?xml", 5, true, "; it looks like an XML text"},
    {"{", 1, true, "; it looks like a JSON text"},
};

static bool is_printable(const unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bytes[i] < 0x20 && (bytes[i] < '\t' || bytes[i] > '\r')) return false;
  return true;
}

static bool is_zero(const unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bytes[i]) return false;
  return true;
}

const char *ord_weight_guess(const ord_weight_disk *disk) {
  unsigned char start[LOOKED_AT + 1] = {0};
  const size_t count = disk->bytes < LOOKED_AT ? (size_t)disk->bytes : LOOKED_AT;
  if (count == 0) return "; it is empty";
  if (!ord_weight_disk_read(disk, 0, count, start, NULL)) return "";
  const char *text = (const char *)start + strspn((const char *)start, " \t\r\n");
  for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
    const file_look *look = &looks[i];
    if (look->is_text ? strncasecmp(text, look->start, look->bytes) == 0
                      : count >= look->bytes && memcmp(start, look->start, look->bytes) == 0)
      return look->words;
  }
  /* A header's size, then its opening brace: the one thing here that can be right in itself. */
  if (count > 8 && start[8] == '{' && !start[6] && !start[7])
    return "; it looks like a safetensors file (NAME.safetensors)";
  if (is_printable(start, count)) return "; it looks like text";
  if (is_zero(start, count)) return "; it begins with zeros (an unfinished download?)";
  return "";
}
