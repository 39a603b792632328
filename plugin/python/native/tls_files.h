/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include "plugin/net/tls/tls.h"
#include "plugin/python/native/native.h"

G_BEGIN_DECLS

/* Reads the files of `files` into `*tls`, which the caller owns; NULL gives NULL. Errors: those of
 * tps_tls_new(); `*tls` stays NULL. Thread: any. */
gboolean tps_python_read_tls (const TpsPythonTls *files, TpsTls **tls, GError **error);

G_END_DECLS
