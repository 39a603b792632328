/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A device whose exported memory can be opened in the exporting process. It checks CUDA's rule that
 * memory must be closed before it is freed. */

#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "runtime/device/backend.h"
#include "runtime/base/error.h"

namespace thriftps {

class ExportingDevice
{
public:
  static TpsDevice *
  get ()
  {
    static TpsDeviceOps ops = make_ops ();
    static TpsDevice device = { &ops, "far:0", FALSE };

    return &device;
  }

  static int
  n_exported ()
  {
    return static_cast<int> (exports ().size ());
  }
  static int
  n_open ()
  {
    int n = 0;

    for (auto &[number, one] : exports ())
      n += one.n_open;
    return n;
  }

  /* If true, all opens fail. */
  static inline bool refuses = false;
  /* This number of copies, and their streams, fail from now on. */
  static inline int n_failing_copies = 0;
  /* If true, memory may be freed while it is open, as after the end of a connection. */
  static inline bool may_free_open = false;

private:
  struct Export
  {
    int number;
    gpointer data;
    int n_open;
  };

  static std::map<int, Export> &
  exports ()
  {
    static std::map<int, Export> all;

    return all;
  }

  static TpsDeviceOps
  make_ops ()
  {
    TpsDeviceOps ops = *tps_device_find ("cpu", nullptr)->ops;

    ops.alloc = [] (TpsDevice *device, gsize n_bytes, GError **) {
      gpointer data = g_malloc (MAX (n_bytes, 1));

      return tps_buffer_new_foreign (data, n_bytes, device, g_free, data);
    };
    ops.stream_sync = stream_sync;
    ops.alloc_exported = alloc_exported;
    ops.open_exported = open_exported;
    return ops;
  }

  static gboolean
  stream_sync (TpsStream *stream, GError **error)
  {
    if (n_failing_copies == 0)
      return tps_device_find ("cpu", nullptr)->ops->stream_sync (stream, error);
    n_failing_copies--;
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "far:0: cannot be copied");
    return FALSE;
  }

  static TpsBuffer *
  alloc_exported (TpsDevice *device, gsize n_bytes, guint8 *handle, GError **)
  {
    static int last;
    Export &one = exports ()[++last];

    one = { last, g_malloc (n_bytes), 0 };
    memset (handle, 0, TPS_EXPORT_HANDLE_BYTES);
    memcpy (handle, &last, sizeof last);
    return tps_buffer_new_foreign (one.data, n_bytes, device, free_exported, &one);
  }

  static void
  free_exported (gpointer data)
  {
    auto *one = static_cast<Export *> (data);

    if (one->n_open > 0)
      {
        EXPECT_TRUE (may_free_open) << "memory is freed that is still open";
        return; /* it is then never freed in this process */
      }
    g_free (one->data);
    exports ().erase (one->number);
  }

  static TpsBuffer *
  open_exported (TpsDevice *device, const guint8 *handle, gsize n_bytes, GError **error)
  {
    int number;

    memcpy (&number, handle, sizeof number);
    if (refuses || exports ().count (number) == 0)
      {
        g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "far:0: cannot be opened");
        return nullptr;
      }
    exports ()[number].n_open++;
    return tps_buffer_new_foreign (
        exports ()[number].data, n_bytes, device,
        [] (gpointer one) { static_cast<Export *> (one)->n_open--; }, &exports ()[number]);
  }
};

}
