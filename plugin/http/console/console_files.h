/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files of the web console, embedded in the program by embed.py. They must be served without a
 * token (TPS_RIGHT_OPEN), because browsers send none when they load a page. They contain no data:
 * the page prompts for the token and sends it with each request. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const gchar *path;         /* of the URL: "/" for the page, otherwise "/console/..." */
  const gchar *content_type; /* with its charset */
  const gchar *etag;         /* in quotes, as the header has it; changes with the bytes */
  const guint8 *bytes;       /* static memory */
  gsize n_bytes;
} TpsConsoleFile;

/* Returns the file with this path of a URL; NULL if there is none. The file is static
 * and must not be freed. Thread: any. */
const TpsConsoleFile *tps_console_find_file (const gchar *path);

/* Returns all files, sorted by path, and their number. Static. Thread: any. */
const TpsConsoleFile *tps_console_list_files (gsize *n_files);

G_END_DECLS
