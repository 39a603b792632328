/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The figures of an interval as lines of text for a terminal of a given size. Lines are printable
 * ASCII, also if names of the server are not. Thread: any.
 */

#pragma once

#include "plugin/app/top/figures.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_columns; /* at least TPS_VIEW_MIN_COLUMNS are used */
  guint n_rows;    /* 0 = as many as there are figures */
} TpsViewSize;

#define TPS_VIEW_MIN_COLUMNS 60

/* `message` is shown below the head: why there is nothing new; NULL = nothing. At most `n_rows`
 * lines, without newlines; owned by the caller. */
GStrv tps_view_render (const TpsFigures *figures, const gchar *message, const TpsViewSize *size);

G_END_DECLS
