/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the rest of this folder knows of initializers, besides tps_initializer_fill_row(). */

#pragma once

#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

/* Fills in defaults and checks, for rows of elements of `dtype`: no value that is drawn may be
 * infinite. What the kind does not use must not be given (unless 0) and is NAN afterwards; the seed
 * of ZEROS is 0. Errors: TPS_ERROR_INVALID_ARGUMENT, "`what`.stdev: …". */
gboolean tps_initializer_resolve (TpsInitializer *initializer, TpsDType dtype, const gchar *what,
                                  GError **error);

/* Names the first value that differs between resolved ones, "stdev: 1, not 2"; NULL when none does.
 * g_free(). */
gchar *tps_initializer_dup_difference (const TpsInitializer *a, const TpsInitializer *b);

/* "NORMAL", … as on the wire; static. NULL for an unknown kind. */
const gchar *tps_initializer_kind_name (TpsInitializerKind kind);

G_END_DECLS
