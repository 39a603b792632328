/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The table of files, which embed.py generates in embedded.c. */

#pragma once

#include "plugin/http/console/console_files.h"

extern const TpsConsoleFile tps_console_embedded[]; /* sorted by path */
extern const gsize tps_n_console_embedded;
