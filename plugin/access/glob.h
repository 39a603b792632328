/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Patterns of names: '*' matches any number of bytes, including none; '?' matches one byte; any
 * other byte matches itself. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns TRUE if `pattern` matches the whole `text`. Names come from peers, so the time is
 * limited: it is at most proportional to the product of both lengths. Thread: any. */
gboolean tps_glob_matches (const gchar *pattern, const gchar *text);

/* Returns TRUE if one of `patterns`, ended by NULL, matches. Thread: any. */
gboolean tps_glob_matches_any (const gchar *const *patterns, const gchar *text);

G_END_DECLS
