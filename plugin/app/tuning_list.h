/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The list that --tuning prints: the cores, and all values that depend on the machine. */

#pragma once

#include "plugin/app/flags.h"

G_BEGIN_DECLS

/* Returns a table of text with the columns name, value, unit and origin, and one line for each
 * value that a server with `flags` would use on this machine. The columns are separated by two
 * blanks or more. The caller owns the result. */
gchar *tps_tuning_list_write (const TpsServerFlags *flags);

G_END_DECLS
