/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arrays whose lengths a peer chooses. They grow with the elements that have arrived, never with
 * announced ones, and fail where GArray would end the process. Thread: one at a time. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* `*elems` is the array, or NULL while `*n_elems` is 0; the caller frees it with g_free(). Appends
 * a zeroed element of `elem_size` bytes and returns its address; the call may move the array.
 * Errors: RESOURCE_EXHAUSTED, and the array stays as it is. */
gpointer tps_growing_array_add (gpointer *elems, guint *n_elems, gsize elem_size, GError **error);

/* For an array whose memory is kept when its length changes: `*n_room` is the number of
 * elements that it has memory for. Makes room for at least `n_elems` elements by doubling
 * `*n_room`; the contents of additional elements are undefined. Errors: RESOURCE_EXHAUSTED, and the
 * array stays as it is. */
gboolean tps_growing_array_make_room (gpointer *elems, guint *n_room, guint n_elems,
                                      gsize elem_size, GError **error);

/* Sets the length of `*bytes`, which the call may replace by another array; additional bytes are
 * undefined. FALSE: there is no memory, and the array stays as it is. */
gboolean tps_byte_array_try_set_size (GByteArray **bytes, guint n_bytes);

G_END_DECLS
