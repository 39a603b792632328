/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A JSON object of options: {"ntrainer": 2, "listen": ["127.0.0.1:0", "unix:/run/ps"]}. */

#pragma once

#include "runtime/base/options.h"

G_BEGIN_DECLS

#define TPS_CONFIG_MAX_BYTES ((gsize) 1 << 20)

/* Adds every member of the file's object to `arguments`, behind the command line. Values are
 * strings, numbers, true, false, or arrays of them. Errors: TPS_ERROR_INVALID_ARGUMENT, naming the
 * file and the fault. Reads no more than TPS_CONFIG_MAX_BYTES; a pipe is read to its
 * end. */
gboolean tps_config_file_read (const gchar *path, TpsArguments *arguments, GError **error);

G_END_DECLS
