/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The configuration file: a JSON object of options, {"ntrainer": 2, "listen": ["127.0.0.1:0",
 * "unix:/run/ps"]}. */

#pragma once

#include "runtime/base/options.h"

G_BEGIN_DECLS

#define TPS_CONFIG_MAX_BYTES ((gsize) 1 << 20)

/* Adds every member of the file's object to `arguments`, after those of the command line, which
 * take precedence. Values must be strings, numbers, true, false, or arrays of them. Files larger
 * than TPS_CONFIG_MAX_BYTES are refused; a pipe is read to its end. Errors: INVALID_ARGUMENT, which
 * names the file and the reason. */
gboolean tps_config_file_read (const gchar *path, TpsArguments *arguments, GError **error);

G_END_DECLS
