/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Patterns of names: '*' stands for any bytes, none too, '?' for one byte, any other byte for
 * itself. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Takes at most the product of both lengths, since names come from peers. Thread: any. */
gboolean tps_glob_matches (const gchar *pattern, const gchar *text);

/* Whether one of `patterns`, ended by NULL, matches. */
gboolean tps_glob_matches_any (const gchar *const *patterns, const gchar *text);

G_END_DECLS
