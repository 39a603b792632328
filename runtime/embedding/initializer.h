/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Initializers: checks and names, for the other files of this folder. tps_initializer_fill_row() is
 * declared in table_spec.h. */

#pragma once

#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

/* Fills in the defaults and checks the initializer for rows of `dtype`: all values that it draws
 * must be finite. Fields that the kind does not use must be unset or 0, and become NAN; the seed of
 * ZEROS becomes 0. Errors: INVALID_ARGUMENT, "`what`.stdev: …". */
gboolean tps_initializer_resolve (TpsInitializer *initializer, TpsDType dtype, const gchar *what,
                                  GError **error);

/* Names the first value that differs between two resolved initializers, "stdev: 1, not 2"; NULL if
 * they are equal. The caller must free the string with g_free(). */
gchar *tps_initializer_dup_difference (const TpsInitializer *a, const TpsInitializer *b);

/* Returns the name on the wire, such as "NORMAL", or NULL for an unknown kind. The string is
 * static. */
const gchar *tps_initializer_kind_name (TpsInitializerKind kind);

G_END_DECLS
