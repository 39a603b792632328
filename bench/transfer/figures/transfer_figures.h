/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The figures of the transfer benchmark: a line for each row on each system, with its rate, times
 * and CPU. */

#pragma once

#include "bench/report/figures.h"
#include "bench/transfer/calls/idle.h"
#include "bench/transfer/system/system.h"

G_BEGIN_DECLS

extern const TpsFigureStyle tps_transfer_figure_style;

/* Adds the systems that ours are compared with. `specs`: of TpsTransferSystemSpec, static. */
void tps_transfer_figures_add_limits (TpsFigures *figures, const GPtrArray *specs);

/* Adds a run. Its rate is that of the typical call where calls come one by one, else of the whole
 * run. */
void tps_transfer_figures_add_run (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                   const TpsTransferRow *row, const TpsTransferTimes *times);

/* Adds a load of small calls (call_load.h). */
void tps_transfer_figures_add_calls (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                     gdouble calls_per_s);

/* Adds a rate of handshakes (bench/transfer/tls). */
void tps_transfer_figures_add_handshakes (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                          gdouble handshakes_per_s);
/* A line for each of the systems, owned by the caller; "" where there is none. */
gchar *tps_transfer_show_handshakes (const TpsFigures *figures, const GPtrArray *specs);

/* "push 16 MiB tcp", as the figure is named; owned by the caller. */
gchar *tps_transfer_figures_name (const TpsTransferSystemSpec *spec, const TpsTransferRow *row);

/* The cost of idle connections: text, owned by the caller, and figures of ours. */
gchar *tps_transfer_show_idle (const TpsTransferIdle *idle);
void tps_transfer_output_idle (const TpsTransferIdle *idle, TpsBenchOutput *output);

G_END_DECLS
