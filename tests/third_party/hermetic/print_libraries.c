/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Prints the paths of the shared libraries of this program, one per line. */

#include <glib.h>
#include <link.h>

static int
print_library (struct dl_phdr_info *library, size_t size, void *user_data)
{
  if (*library->dlpi_name != '\0')
    g_print ("%s\n", library->dlpi_name);
  return 0;
}

int
main (void)
{
  return dl_iterate_phdr (print_library, NULL);
}
