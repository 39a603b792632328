/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The figures of an interval as lines of text for a terminal of a given size. The lines are
 * printable ASCII, even if names of the server are not. Thread: any. */

#pragma once

#include "plugin/app/top/figures.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_columns; /* values below TPS_VIEW_MIN_COLUMNS count as TPS_VIEW_MIN_COLUMNS */
  guint n_rows;    /* maximum number of lines; 0 = as many as needed for all figures */
} TpsViewSize;

#define TPS_VIEW_MIN_COLUMNS 60

/* Returns at most `n_rows` lines, without newlines, ended by NULL; the caller owns them. `message`
 * is shown below the head, for example the reason why there are no new figures; NULL = none. */
GStrv tps_view_render (const TpsFigures *figures, const gchar *message, const TpsViewSize *size);

G_END_DECLS
