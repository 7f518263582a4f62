/* SPDX-License-Identifier: MIT
 *
 * The part of ELF that finding two symbols takes: header, section headers, the dynamic symbol table with its strings,
 * and the load segments that say where in the file an address lies. Structures are copied out byte by byte, for
 * nothing in a foreign file is aligned for certain.
 */
#include "runtime/plugin_elf.h"

#include <ctype.h>
#include <elf.h>
#include <string.h>

#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
static const char host_machine[] = "x86-64";
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
static const char host_machine[] = "AArch64";
#else
enum { HOST_MACHINE = EM_NONE };
static const char host_machine[] = "a machine without plugins";
#endif

typedef struct {
  const char *path;
  const unsigned char *bytes;
  size_t size;
  Elf64_Ehdr header;
} elf_file;

/* Copies `count` bytes at `offset`; false if they do not all lie in the file. */
static bool read_at(const elf_file *file, uint64_t offset, uint64_t count, void *into) {
  if (offset > file->size || count > file->size - offset) return false;
  memcpy(into, file->bytes + offset, count);
  return true;
}

static bool read_entry(const elf_file *file, uint64_t table, uint64_t index, size_t entry_bytes, void *into) {
  uint64_t offset;
  return !__builtin_mul_overflow(index, (uint64_t)entry_bytes, &offset) &&
         !__builtin_add_overflow(offset, table, &offset) && read_at(file, offset, entry_bytes, into);
}

static bool begins_with(const elf_file *file, const char *start) {
  const size_t length = strlen(start);
  return file->size >= length && !memcmp(file->bytes, start, length);
}

static const char *describe_bytes(const elf_file *file) {
  static const struct {
    const char *start, *looks_like;
  } known[] = {{"!<arch>", "a static library"},
               {"PK\003\004", "a zip archive"},
               {"\x1f\x8b", "gzip data"},
               {"MZ", "a Windows program or library"},
               {"\xcf\xfa\xed\xfe", "a macOS object"},
               {"<!DOCTYPE", "a web page"},
               {"<html", "a web page"},
               {"version https://git-lfs", "a Git LFS pointer"}};
  if (!file->size) return "an empty file";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (begins_with(file, known[i].start)) return known[i].looks_like;
  const size_t looked_at = file->size < 256 ? file->size : 256;
  for (size_t i = 0; i < looked_at; i++)
    if (!isprint(file->bytes[i]) && !isspace(file->bytes[i])) return "other data";
  return "text";
}

static bool check_header(elf_file *file, ord_error *err) {
  if (!begins_with(file, ELFMAG))
    return ord_fail(err, ORD_INVALID, "%s: is not an ELF file; found %s; wanted a shared object for %s", file->path,
                    describe_bytes(file), host_machine);
  if (!read_at(file, 0, sizeof file->header, &file->header))
    return ord_fail(err, ORD_INVALID, "%s: ELF file is too short; found %zu bytes; wanted at least %zu", file->path,
                    file->size, sizeof file->header);
  const Elf64_Ehdr *header = &file->header;
  const unsigned char class = header->e_ident[EI_CLASS], order = header->e_ident[EI_DATA];
  if (class != ELFCLASS64 || order != ELFDATA2LSB || header->e_machine != HOST_MACHINE)
    return ord_fail(err, ORD_INVALID,
                    "%s: is for another machine; found a %s-bit, %s-endian ELF file, machine number %u; wanted %s",
                    file->path, class == ELFCLASS32 ? "32" : "64", order == ELFDATA2MSB ? "big" : "little",
                    header->e_machine, host_machine);
  if (header->e_type != ET_DYN)
    return ord_fail(err, ORD_INVALID, "%s: is an ELF file but no shared object; found type %u; wanted type %u",
                    file->path, header->e_type, ET_DYN);
  return true;
}

static bool fail_damaged(const elf_file *file, const char *what, ord_error *err) {
  return ord_fail(err, ORD_INVALID, "%s: ELF file is damaged or cut; %s lies outside its %zu bytes", file->path, what,
                  file->size);
}

static uint64_t end_of(uint64_t offset, uint64_t count, uint64_t entry_bytes) {
  uint64_t end;
  const bool is_beyond = __builtin_mul_overflow(count, entry_bytes, &end) || __builtin_add_overflow(end, offset, &end);
  return is_beyond ? UINT64_MAX : end;
}

/* The system's loader trusts segments: one that reaches beyond the file would end the process on first touch. The
 * section table comes last in a file, so that its end shows whether the file is whole. */
static bool check_extent(const elf_file *file, ord_error *err) {
  const Elf64_Ehdr *header = &file->header;
  const uint64_t sections = header->e_shnum ? end_of(header->e_shoff, header->e_shnum, sizeof(Elf64_Shdr)) : 0;
  uint64_t wanted = end_of(header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr));
  Elf64_Phdr segment;
  if (sections > wanted) wanted = sections;
  for (uint32_t i = 0; i < header->e_phnum && read_entry(file, header->e_phoff, i, sizeof segment, &segment); i++) {
    const uint64_t end = segment.p_type == PT_LOAD ? end_of(segment.p_offset, segment.p_filesz, 1) : 0;
    if (end > wanted) wanted = end;
  }
  return wanted <= file->size ||
         ord_fail(err, ORD_INVALID, "%s: ELF file is damaged or cut; found %zu bytes; wanted at least %llu", file->path,
                  file->size, (unsigned long long)wanted);
}

bool ord_elf_check(const char *path, const unsigned char *bytes, size_t size, ord_error *err) {
  elf_file file = {.path = path, .bytes = bytes, .size = size};
  return check_header(&file, err) && check_extent(&file, err);
}

/* The bytes of the file that stand at `address` once it is loaded; as many as the segment holds, at most `wanted`. */
static uint32_t read_address(const elf_file *file, uint64_t address, uint32_t wanted, void *into) {
  for (uint32_t i = 0; i < file->header.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!read_entry(file, file->header.e_phoff, i, sizeof segment, &segment)) return 0;
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz)
      continue;
    const uint64_t inside = address - segment.p_vaddr, rest = segment.p_filesz - inside;
    const uint32_t count = rest < wanted ? (uint32_t)rest : wanted;
    uint64_t offset;
    return !__builtin_add_overflow(segment.p_offset, inside, &offset) && read_at(file, offset, count, into) ? count : 0;
  }
  return 0;
}

/* Is the string at `offset` of the section exactly `name`? */
static bool is_named(const elf_file *file, const Elf64_Shdr *strings, uint64_t offset, const char *name) {
  char found[32];
  const size_t bytes = strlen(name) + 1;
  uint64_t at;
  return bytes <= sizeof found && offset <= strings->sh_size && bytes <= strings->sh_size - offset &&
         !__builtin_add_overflow(strings->sh_offset, offset, &at) && read_at(file, at, bytes, found) &&
         !memcmp(found, name, bytes);
}

static void read_symbol(const elf_file *file, const Elf64_Shdr *strings, const Elf64_Sym *symbol, ord_elf_plugin *out) {
  const unsigned char type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
  if (symbol->st_shndx == SHN_UNDEF || binding == STB_LOCAL) return;
  if (type == STT_FUNC && is_named(file, strings, symbol->st_name, "ord_plugin_open")) out->has_open = true;
  if (type != STT_OBJECT || !is_named(file, strings, symbol->st_name, "ord_plugin_manifest")) return;
  const uint32_t known = sizeof out->manifest;
  const uint32_t wanted = symbol->st_size < known ? (uint32_t)symbol->st_size : known;
  out->manifest_bytes = read_address(file, symbol->st_value, wanted, &out->manifest);
  out->has_manifest = out->manifest_bytes > 0;
}

static bool read_symbols(const elf_file *file, const Elf64_Shdr *table, ord_elf_plugin *out, ord_error *err) {
  Elf64_Shdr strings;
  if (table->sh_link >= file->header.e_shnum ||
      !read_entry(file, file->header.e_shoff, table->sh_link, sizeof strings, &strings))
    return fail_damaged(file, "its string table", err);
  if (table->sh_offset > file->size || table->sh_size > file->size - table->sh_offset)
    return fail_damaged(file, "its symbol table", err);
  const uint64_t count = table->sh_size / sizeof(Elf64_Sym);
  for (uint64_t i = 0; i < count; i++) {
    Elf64_Sym symbol;
    if (!read_entry(file, table->sh_offset, i, sizeof symbol, &symbol))
      return fail_damaged(file, "its symbol table", err);
    read_symbol(file, &strings, &symbol, out);
  }
  return true;
}

bool ord_elf_read_plugin(const char *path, const unsigned char *bytes, size_t size, ord_elf_plugin *out,
                         ord_error *err) {
  *out = (ord_elf_plugin){0};
  elf_file file = {.path = path, .bytes = bytes, .size = size};
  if (!check_header(&file, err) || !check_extent(&file, err)) return false;
  for (uint32_t i = 0; i < file.header.e_shnum; i++) {
    Elf64_Shdr section;
    if (!read_entry(&file, file.header.e_shoff, i, sizeof section, &section))
      return fail_damaged(&file, "its section table", err);
    if (section.sh_type == SHT_DYNSYM) return read_symbols(&file, &section, out, err); /* there is at most one */
  }
  return true;
}
