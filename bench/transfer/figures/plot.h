/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The figures of the transfer benchmark as a picture. */

#pragma once

#include "bench/transfer/figures/transfer_figures.h"

G_BEGIN_DECLS

/* Draws GB/s over bytes for calls that were made one by one, with a curve for each system. `specs`
 * is an array of TpsTransferSystemSpec, `rows` of TpsTransferRow. The format follows from `path`:
 * .png or .svg. Blocks. Errors: UNAVAILABLE (gnuplot is missing or fails). */
gboolean tps_transfer_plot (const TpsFigures *figures, const GPtrArray *specs, const GArray *rows,
                            const gchar *path, GError **error);

G_END_DECLS
