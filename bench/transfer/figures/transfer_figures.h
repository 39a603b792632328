/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The figures of the transfer benchmark: for each row and system, the rate, times and CPU time. */

#pragma once

#include "bench/report/figures.h"
#include "bench/transfer/calls/calls.h"
#include "bench/transfer/system/system.h"

G_BEGIN_DECLS

/* The style of the figures. */
extern const TpsFigureStyle tps_transfer_figure_style;

/* Adds the systems for comparison with ours. `specs` are static TpsTransferSystemSpecs. */
void tps_transfer_figures_add_limits (TpsFigures *figures, const GPtrArray *specs);

/* Adds a run. If calls were made one by one, the rate follows from the median of the calls;
 * otherwise from the time of the whole run. */
void tps_transfer_figures_add_run (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                   const TpsTransferRow *row, const TpsTransferTimes *times);

/* Adds the rate of a load of small calls (call_load.h). */
void tps_transfer_figures_add_calls (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                     gdouble calls_per_s);

/* Adds a rate of handshakes (bench/transfer/tls). */
void tps_transfer_figures_add_handshakes (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                          gdouble handshakes_per_s);
/* Formats a line with the handshakes of each system, or "". The caller owns the result. */
gchar *tps_transfer_show_handshakes (const TpsFigures *figures, const GPtrArray *specs);

/* Returns the name of a figure, such as "push 16 MiB tcp". The caller owns the result. */
gchar *tps_transfer_figures_name (const TpsTransferSystemSpec *spec, const TpsTransferRow *row);

/* Formats the cost of idle connections as text, owned by the caller, or adds it to our figures. */
gchar *tps_transfer_show_idle (const TpsTransferIdle *idle);
void tps_transfer_output_idle (const TpsTransferIdle *idle, TpsBenchOutput *output);

G_END_DECLS
