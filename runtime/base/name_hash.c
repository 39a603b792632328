/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/name_hash.h"

#include <string.h>

#define FACTOR G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) /* 2^64 divided by the golden ratio */

static guint64
add (guint64 hash, guint64 word)
{
  hash = (hash ^ word) * FACTOR;
  return hash ^ hash >> 32;
}

static guint64
load_8 (const gchar *bytes)
{
  guint64 word;

  memcpy (&word, bytes, sizeof word);
  return word;
}

static guint64
load_4 (const gchar *bytes)
{
  guint32 word;

  memcpy (&word, bytes, sizeof word);
  return word;
}

/* Returns a name of up to seven bytes as one word. Two overlapping loads cover a name of four bytes
 * or more. */
static guint64
load_short (const gchar *bytes, gsize n_bytes)
{
  if (n_bytes >= 4)
    return load_4 (bytes) << 32 | load_4 (bytes + n_bytes - 4);
  if (n_bytes == 0)
    return 0;
  return (guint64) (guint8) bytes[0] << 16 | (guint64) (guint8) bytes[n_bytes / 2] << 8
         | (guint8) bytes[n_bytes - 1];
}

/* The last load covers the last eight bytes, and may overlap the load before it. */
guint
tps_name_hash (gconstpointer name)
{
  const gchar *bytes = name;
  gsize n_bytes = strlen (bytes);
  guint64 hash = n_bytes;

  if (n_bytes < 8)
    return (guint) add (hash, load_short (bytes, n_bytes));
  for (gsize i = 0; i + 8 < n_bytes; i += 8)
    hash = add (hash, load_8 (bytes + i));
  return (guint) add (hash, load_8 (bytes + n_bytes - 8));
}
