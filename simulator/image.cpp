// SPDX-License-Identifier: MIT
// An image is a complete ELF shared object; its length is read from its own headers.
#include "image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace simulated {

size_t find_image_bytes(const void *code) {
  const auto *header = static_cast<const Elf64_Ehdr *>(code);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) return 0;
  if (header->e_type != ET_DYN || header->e_machine != EM_X86_64) return 0;
  const auto *bytes = static_cast<const char *>(code);
  size_t end = header->e_shoff + size_t{header->e_shnum} * header->e_shentsize;
  for (unsigned i = 0; i < header->e_phnum; i++) {
    const auto *segment = reinterpret_cast<const Elf64_Phdr *>(bytes + header->e_phoff + i * header->e_phentsize);
    end = std::max<size_t>(end, segment->p_offset + segment->p_filesz);
  }
  return end;
}

static void load_copy(const void *code, size_t bytes, CUlib_st &library) {
  library.file = memfd_create("simulated image", MFD_CLOEXEC);
  if (library.file < 0) return;
  const auto *rest = static_cast<const char *>(code);
  while (bytes) {
    const ssize_t written = write(library.file, rest, bytes);
    if (written <= 0) return;
    rest += written;
    bytes -= static_cast<size_t>(written);
  }
  // The loader knows an object by the name it was opened under: not /proc/self/fd, by which others in the process may
  // have opened what has since closed a descriptor of this number.
  const std::string name = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(library.file);
  library.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Where it was loaded, and how much thread-local storage it has: its __shared__ variables.
static void find_segments(CUlib_st &library) {
  const link_map *map = nullptr;
  if (dlinfo(library.handle, RTLD_DI_LINKMAP, &map) != 0) return;
  library.start = map->l_addr;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto *found = static_cast<CUlib_st *>(data);
        if (info->dlpi_addr != found->start) return 0;
        for (unsigned i = 0; i < info->dlpi_phnum; i++) {
          const Elf64_Phdr &segment = info->dlpi_phdr[i];
          if (segment.p_type == PT_TLS) found->shared_bytes = segment.p_memsz;
          if (segment.p_type == PT_LOAD) found->bytes = std::max(found->bytes, segment.p_vaddr + segment.p_memsz);
        }
        return 1;
      },
      &library);
  if (dlinfo(library.handle, RTLD_DI_TLS_MODID, &library.module_id) != 0) library.module_id = 0;
}

static void find_variables(const void *code, CUlib_st &library) {
  const auto *bytes = static_cast<const char *>(code);
  const auto *header = static_cast<const Elf64_Ehdr *>(code);
  const auto *sections = reinterpret_cast<const Elf64_Shdr *>(bytes + header->e_shoff);
  for (unsigned i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto *symbols = reinterpret_cast<const Elf64_Sym *>(bytes + sections[i].sh_offset);
    const char *names = bytes + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
      if (ELF64_ST_TYPE(symbols[k].st_info) == STT_TLS && symbols[k].st_shndx != SHN_UNDEF)
        library.variables.push_back({symbols[k].st_value, symbols[k].st_size, names + symbols[k].st_name});
  }
  std::sort(library.variables.begin(), library.variables.end(),
            [](const shared_variable &a, const shared_variable &b) { return a.offset < b.offset; });
}

void open_image(const void *code, size_t bytes, CUlib_st &library) {
  load_copy(code, bytes, library);
  if (!library.handle) return;
  find_segments(library);
  find_variables(code, library);
}

static bool is_declared_in(const shared_variable &one, const char *kernel) {
  const std::string start = "_ZZ" + std::to_string(strlen(kernel)) + kernel + "E";
  return one.symbol.compare(0, start.size(), start) == 0;
}

std::vector<shared_variable> find_shared_variables(const CUlib_st &library, const image &of, const char *kernel) {
  std::vector<shared_variable> found;
  for (const shared_variable &one : library.variables) {
    const bool is_of_other = std::any_of(of.first, of.last, [&](const kernel_entry *other) {
      return strcmp(other->name, kernel) != 0 && is_declared_in(one, other->name);
    });
    if (!is_of_other) found.push_back(one);
  }
  return found;
}

} // namespace simulated
