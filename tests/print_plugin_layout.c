/* SPDX-License-Identifier: MIT
 *
 * Prints size and offsets of every struct of the plugin ABI, one line a field. test_plugin_layout compares it with the
 * committed tests/plugin_layout.txt: while the major version is 0 the file may change, on purpose and with the minor.
 */
#include <stdio.h>

#include "ordito_plugin.h"

#define STRUCT(type) printf("%s %zu\n", #type, sizeof(type));
#define FIELD(type, field)                                                                                             \
  printf("  %s.%s %zu %zu\n", #type, #field, offsetof(type, field), sizeof(((type *)0)->field));

int main(void) {
#include "plugin_layout.def"
  return 0;
}
