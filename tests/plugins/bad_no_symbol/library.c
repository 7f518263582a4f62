/* SPDX-License-Identifier: MIT
 *
 * An ordinary shared object: no plugin, and no fault if it lies in a plugin folder.
 */
int ordinary_function(void);
int ordinary_function(void) { return 1; }
