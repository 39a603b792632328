/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Remembers push ids, so that a request that is sent again is applied once and answered as the first time.
 *
 * Per client a window of the newest TPS_PUSH_WINDOW sequences, in any order inside it; the clients least recently heard of
 * go first when there are too many, of clients or of remembered requests in all. Not thread-safe.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_PUSH_WINDOW 1024
#define TPS_PUSH_MAX_CLIENTS 65536
#define TPS_PUSH_MAX_REMEMBERED (1 << 18)

typedef struct TpsPushWindow TpsPushWindow;

typedef enum
{
  TPS_PUSH_NEW = 1,    /* apply it, then tps_push_window_remember() */
  TPS_PUSH_REPEAT = 2, /* `answer` is what was remembered */
  TPS_PUSH_REFUSED =
      3, /* with an error: STALE below the window, DUPLICATE where the request is another one */
} TpsPushVerdict;

TpsPushWindow *tps_push_window_new (void);
void tps_push_window_free (TpsPushWindow *window);

/* `name` is the client's; `request` is what makes two requests the same. */
TpsPushVerdict tps_push_window_check (TpsPushWindow *window, const gchar *name, gint64 sequence,
                                      const gchar *request, gint64 *answer, GError **error);

/* For a push id that was TPS_PUSH_NEW. */
void tps_push_window_remember (TpsPushWindow *window, const gchar *name, gint64 sequence,
                               const gchar *request, gint64 answer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPushWindow, tps_push_window_free)

G_END_DECLS
