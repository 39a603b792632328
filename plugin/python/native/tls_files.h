/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include "plugin/net/tls/tls.h"
#include "plugin/python/native/native.h"

G_BEGIN_DECLS

/* Reads the files named in `files` into `*tls`, which must be NULL before the call and belongs to
 * the caller. `*tls` stays NULL if `files` is NULL, or after an error. Errors: those of
 * tps_tls_new(). Thread: any. */
gboolean tps_python_read_tls (const TpsPythonTls *files, TpsTls **tls, GError **error);

G_END_DECLS
