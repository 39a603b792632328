/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Takes in structs that begin with their size, see TPS_INIT() in thriftps/error.h. */

#pragma once

#include <string.h>
#include <thriftps/error.h>

/* Copies a struct of a program, which may have fewer fields. Aborts if it has more, because a field
 * that is unknown here must not be ignored. */
static inline void
tps_sized_copy (gpointer to, gsize n_bytes, gconstpointer from)
{
  gsize size = *(const gsize *) from;

  if (size > n_bytes)
    g_error ("the program was compiled with headers of a later version than " TPS_VERSION);
  memset (to, 0, n_bytes);
  memcpy (to, from, size != 0 ? size : n_bytes);
}

/* As above, for the variable `to`. */
#define TPS_SIZED_COPY(to, from) tps_sized_copy (&(to), sizeof (to), from)
