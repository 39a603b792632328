/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A JSON object of flags, as the command line would say them. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Appends "--name=value" for every member of the file's object, except those whose flag stands in `argv` already: the command
 * line wins. Names may have dashes or underscores. Values are strings, numbers, or arrays of them: an array becomes one
 * flag a value. Errors: TPS_ERROR_INVALID_ARGUMENT, naming the file and what is wrong with it. */
gboolean tps_config_file_read (const gchar *path, const gchar *const *argv, GPtrArray *flags,
                               GError **error);

/* Whether "--name" or "--name=…" stands in `argv` (dashes). */
gboolean tps_config_has_flag (const gchar *const *argv, const gchar *name);

/* An owned copy of an argument, the underscores of a flag's name made dashes. */
gchar *tps_config_normalize_flag (const gchar *argument);

G_END_DECLS
