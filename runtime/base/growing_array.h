/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arrays whose lengths a peer chooses. They grow with the elements that have arrived, never by an
 * announced length, and report an error where GArray would abort the process. Thread: one at a
 * time. */

#pragma once

#include <glib.h>

/* Appends a zeroed element of `elem_size` bytes and returns its address. `*elems` is NULL while
 * `*n_elems` is 0; the caller must g_free() it. Errors: RESOURCE_EXHAUSTED, without a change. */
gpointer tps_growing_array_add (gpointer *elems, guint *n_elems, gsize elem_size, GError **error);

/* Makes room for at least `n_elems` elements by doubling `*n_room`; new elements are undefined. For
 * arrays that keep their memory. Errors: RESOURCE_EXHAUSTED, without a change. */
gboolean tps_growing_array_make_room (gpointer *elems, guint *n_room, guint n_elems,
                                      gsize elem_size, GError **error);

/* Sets the length of `*bytes`, which the call may replace by a new array; additional bytes are
 * undefined. Returns FALSE if there is no memory; length and contents do not change then. */
gboolean tps_byte_array_try_set_size (GByteArray **bytes, guint n_bytes);
