/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plugin_elf.h"
#include "runtime/plugin_image.h"

#define PLUGINS ORDITO_BUILD_DIRECTORY "/tests/plugins/"

static ord_image_file read_whole(const char *path) {
  ord_image_file file;
  ord_error err = ORD_ERROR_INIT;
  if (!ord_image_file_read(path, &file, &err)) fail_msg("%s", err.text);
  return file;
}

static void test_symbols_of_real_files(void **state) {
  (void)state;
  static const struct {
    const char *path, *name;
    bool has_manifest, has_open;
    uint16_t major;
  } row[] = {{PLUGINS "good_relu.so", "good_relu", true, true, ORD_ABI_MAJOR},
             {PLUGINS "bad_version.so", "bad_version", true, true, 2},
             {PLUGINS "bad_no_open.so", "bad_no_open", true, false, ORD_ABI_MAJOR},
             {PLUGINS "bad_no_symbol.so", "", false, false, 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_image_file file = read_whole(row[i].path);
    ord_elf_plugin found;
    ord_error err = ORD_ERROR_INIT;
    assert_true(ord_elf_read_plugin("p.so", file.bytes, file.size, &found, &err));
    assert_int_equal(found.has_manifest, row[i].has_manifest);
    assert_int_equal(found.has_open, row[i].has_open);
    assert_string_equal(found.manifest.name, row[i].name);
    assert_int_equal(found.manifest.abi_major, row[i].major);
    if (row[i].has_manifest) assert_int_equal(found.manifest_bytes, sizeof found.manifest);
    ord_image_file_finish(&file);
  }
}

static void test_bytes_that_are_no_plugin(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t size;
    const char *found;
  } row[] = {
      {"", 0, "p.so: is not an ELF file; found an empty file; wanted a shared object for "},
      {"hello\n", 6, "found text;"},
      {"<!DOCTYPE html>", 15, "found a web page;"},
      {"version https://git-lfs.github.com/spec/v1\n", 43, "found a Git LFS pointer;"},
      {"!<arch>\n", 8, "found a static library;"},
      {"\x01\x02\x03", 3, "found other data;"},
      {"\177EL", 3, "found other data;"},
      {"\177ELF\2\1\1", 7, "p.so: ELF file is too short; found 7 bytes; wanted at least 64"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_elf_plugin found;
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_elf_read_plugin("p.so", (const unsigned char *)row[i].bytes, row[i].size, &found, &err));
    if (!strstr(err.text, row[i].found)) fail_msg("'%s' lacks '%s'", err.text, row[i].found);
  }
}

static void test_headers_of_other_machines(void **state) {
  (void)state;
  static const struct {
    size_t offset;
    unsigned char byte;
    const char *found;
  } row[] = {
      {EI_CLASS, ELFCLASS32, "found a 32-bit, little-endian ELF file"},
      {EI_DATA, ELFDATA2MSB, "found a 64-bit, big-endian ELF file"},
      {offsetof(Elf64_Ehdr, e_machine), EM_RISCV, "machine number 243; wanted"},
      {offsetof(Elf64_Ehdr, e_type), ET_REL, "is an ELF file but no shared object; found type 1; wanted type 3"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ord_image_file file = read_whole(PLUGINS "good_relu.so");
    file.bytes[row[i].offset] = row[i].byte;
    ord_elf_plugin found;
    ord_error err = ORD_ERROR_INIT;
    assert_false(ord_elf_read_plugin("p.so", file.bytes, file.size, &found, &err));
    if (!strstr(err.text, row[i].found)) fail_msg("'%s' lacks '%s'", err.text, row[i].found);
    ord_image_file_finish(&file);
  }
}

/* A copy of exactly `size` bytes, so that a sanitizer sees any read behind them. */
static void read_cut(const unsigned char *bytes, size_t size, bool must_fail) {
  unsigned char *cut = malloc(size ? size : 1);
  assert_non_null(cut);
  memcpy(cut, bytes, size);
  ord_elf_plugin found;
  ord_error err = ORD_ERROR_INIT;
  const bool is_read = ord_elf_read_plugin("p.so", cut, size, &found, &err);
  if (must_fail) assert_false(is_read);
  free(cut);
}

static void test_files_that_are_cut(void **state) {
  (void)state;
  ord_image_file file = read_whole(PLUGINS "good_relu.so");
  for (size_t size = 0; size < file.size; size += size < 4096 ? 1 : 61) read_cut(file.bytes, size, true);
  ord_image_file_finish(&file);
}

/* Every header and table field set to extremes in turn: refused or read, never a read outside. */
static void test_hostile_tables(void **state) {
  (void)state;
  static const uint64_t extreme[] = {0, 1, 0x7fffffffffffffff, 0xffffffffffffffff, 0xfffffffffffffff0, 1 << 20};
  ord_image_file file = read_whole(PLUGINS "good_relu.so");
  Elf64_Ehdr header;
  memcpy(&header, file.bytes, sizeof header);
  const struct {
    size_t begin, end;
  } range[] = {{EI_NIDENT, sizeof header},
               {header.e_phoff, header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr)},
               {header.e_shoff, file.size}};
  for (size_t i = 0; i < sizeof range / sizeof *range; i++)
    for (size_t at = range[i].begin; at + 8 <= range[i].end; at += 4)
      for (size_t value = 0; value < sizeof extreme / sizeof *extreme; value++) {
        unsigned char kept[8];
        memcpy(kept, file.bytes + at, sizeof kept);
        memcpy(file.bytes + at, &extreme[value], sizeof kept);
        read_cut(file.bytes, file.size, false);
        memcpy(file.bytes + at, kept, sizeof kept);
      }
  ord_image_file_finish(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_symbols_of_real_files),
      cmocka_unit_test(test_bytes_that_are_no_plugin),
      cmocka_unit_test(test_headers_of_other_machines),
      cmocka_unit_test(test_files_that_are_cut),
      cmocka_unit_test(test_hostile_tables),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
