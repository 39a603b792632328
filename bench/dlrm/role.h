/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The child processes: a trainer, or the single process, which has its own tables. A child prints
 * "ready", and then reads orders from its standard input until the end of the input. For a line
 * "FIRST STEPS FILE", it trains STEPS steps from number FIRST on, and writes its measurements to
 * FILE (pass_file.h). It replies "ok SECONDS" or "error TEXT". */

#pragma once

#include "bench/dlrm/options.h"

/* Runs the role options->role until the end of the input. Returns the exit status. Blocks. */
gint tps_dlrm_run_role (const TpsDlrmOptions *options);
