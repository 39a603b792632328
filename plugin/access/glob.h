/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Patterns of names: '*' matches any bytes, also none; '?' matches one byte; any other byte matches
 * itself. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns whether the pattern matches. The time is at most proportional to the product of both
 * lengths, because names come from peers. Thread: any. */
gboolean tps_glob_matches (const gchar *pattern, const gchar *text);

/* Returns whether one of `patterns`, ended by NULL, matches. */
gboolean tps_glob_matches_any (const gchar *const *patterns, const gchar *text);

G_END_DECLS
