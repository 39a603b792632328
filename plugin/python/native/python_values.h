/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Values as Python passes them, converted to those of the runtime. Elements of tensors are
 * borrowed. Private to this folder. Thread: any. */

#pragma once

#include "plugin/python/native/native.h"
#include "plugin/wire/wire_embedding_table.h"

/* Initialize arrays of tensors with and without names. The caller must clear them. */
TpsTensorList tps_python_borrow_list (const TpsTensorView *views, guint n_views);
TpsNamedTensor *tps_python_borrow_named (const gchar *const *names, const TpsTensorView *views,
                                         guint n_views);

/* Initializes a gradient, which must be zero. */
void tps_python_borrow_gradient (TpsGradient *to, const TpsPythonGradient *from);

/* Appends `tables` to `specs`, which must be zero before the call. The caller must clear it, even
 * after a failure. Errors: those of tps_table_spec_init_from(). */
gboolean tps_python_tables_to_specs (const TpsRemoteTable *tables, guint n_tables,
                                     TpsTableSpecs *specs, GError **error);

/* Reads the files named in `files` into `*tls`, which must be NULL before the call and belongs to
 * the caller. `*tls` stays NULL if `files` is NULL, or after an error. Errors: those of
 * tps_tls_new(). */
gboolean tps_python_read_tls (const TpsPythonTls *files, TpsTls **tls, GError **error);
