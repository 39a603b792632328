/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An event of a failed stream reports the stream's failure to its waiters. It is recorded
 * nevertheless, because the work that was queued before the failure still runs, and a waiter may
 * release the memory of this work afterwards. */

#include "cuda/device/device.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

typedef struct
{
  TpsEvent parent;
  cudaEvent_t handle;

  TpsMutex lock; /* guards the fields below */
  gboolean is_recorded;
  GError *error; /* of the stream at the time of recording; owned */
} CudaEvent;

static TpsCudaDevice *
device_of (CudaEvent *event)
{
  return (TpsCudaDevice *) event->parent.device;
}

TpsEvent *
tps_cuda_event_new (TpsDevice *base, GError **error)
{
  CudaEvent *event;
  cudaEvent_t handle;

  if (!tps_cuda_device_enter ((TpsCudaDevice *) base, error)
      || !tps_cuda_device_check ((TpsCudaDevice *) base,
                                 cudaEventCreateWithFlags (&handle, cudaEventBlockingSync),
                                 "new event", error))
    return NULL;
  event = g_new0 (CudaEvent, 1);
  event->parent.device = base;
  event->handle = handle;
  tps_mutex_init (&event->lock);
  return &event->parent;
}

void
tps_cuda_event_free (TpsEvent *base)
{
  CudaEvent *event = (CudaEvent *) base;

  if (tps_cuda_device_enter (device_of (event), NULL))
    tps_cuda_device_check (device_of (event), cudaEventDestroy (event->handle), "freeing an event",
                           NULL);
  g_clear_error (&event->error);
  tps_mutex_clear (&event->lock);
  g_free (event);
}

/* Makes the device of the stream the current one, even if the stream has failed. Returns FALSE if
 * the device is lost. */
static gboolean
enter_any_stream (TpsCudaStream *stream)
{
  GError *lost = NULL;

  if (tps_cuda_device_enter ((TpsCudaDevice *) stream->parent.device, &lost))
    return TRUE;
  tps_cuda_stream_fail (stream, lost);
  return FALSE;
}

void
tps_cuda_event_record (TpsEvent *base, TpsStream *stream_base)
{
  CudaEvent *event = (CudaEvent *) base;
  TpsCudaStream *stream = (TpsCudaStream *) stream_base;

  if (enter_any_stream (stream)
      && !tps_cuda_stream_check (stream, cudaEventRecord (event->handle, stream->handle),
                                 "recording an event"))
    /* The event still marks an older point, so a wait for it would not cover the work that was
     * queued since then. This thread waits for that work instead. */
    cudaStreamSynchronize (stream->handle);
  tps_mutex_lock (&event->lock);
  g_clear_error (&event->error);
  event->error = stream->error != NULL ? g_error_copy (stream->error) : NULL;
  event->is_recorded = TRUE;
  tps_mutex_unlock (&event->lock);
}

/* Returns the failure stored in the event, owned by the caller; NULL = none. */
static GError *
dup_failure (CudaEvent *event)
{
  GError *error;

  tps_mutex_lock (&event->lock);
  error = event->error != NULL ? g_error_copy (event->error) : NULL;
  tps_mutex_unlock (&event->lock);
  return error;
}

void
tps_cuda_stream_wait_event (TpsStream *stream_base, TpsEvent *base)
{
  CudaEvent *event = (CudaEvent *) base;
  TpsCudaStream *stream = (TpsCudaStream *) stream_base;
  GError *failure = dup_failure (event);

  if (failure != NULL)
    tps_cuda_stream_fail (stream, failure);
  if (enter_any_stream (stream))
    tps_cuda_stream_check (stream, cudaStreamWaitEvent (stream->handle, event->handle, 0),
                           "waiting for an event");
}

gboolean
tps_cuda_event_query (TpsEvent *base)
{
  CudaEvent *event = (CudaEvent *) base;
  cudaError_t code;

  /* An event of a lost device counts as reached, so that its waiters learn of the failure. */
  if (!tps_cuda_device_enter (device_of (event), NULL))
    return TRUE;
  code = cudaEventQuery (event->handle);
  if (code == cudaErrorNotReady)
    {
      cudaGetLastError (); /* not an error */
      return FALSE;
    }
  tps_cuda_device_check (device_of (event), code, "looking at an event", NULL);
  return TRUE;
}

/* A failure that is stored in the event takes precedence over an error of the wait. */
gboolean
tps_cuda_event_sync (TpsEvent *base, GError **error)
{
  CudaEvent *event = (CudaEvent *) base;
  GError *failure = dup_failure (event);
  gboolean ok = tps_cuda_device_enter (device_of (event), failure == NULL ? error : NULL)
                && tps_cuda_device_check (device_of (event),
                                          tps_cuda_wait_for_event (event->handle),
                                          "waiting for an event", failure == NULL ? error : NULL);

  if (failure != NULL)
    g_propagate_error (error, failure);
  return ok && failure == NULL;
}

static gboolean
check_recorded (CudaEvent *event, const gchar *which, GError **error)
{
  gboolean is_recorded;

  tps_mutex_lock (&event->lock);
  is_recorded = event->is_recorded;
  tps_mutex_unlock (&event->lock);
  if (!is_recorded)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: %s event was not recorded",
                 device_of (event)->name, which);
  return is_recorded;
}

gboolean
tps_cuda_events_elapsed (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error)
{
  CudaEvent *first = (CudaEvent *) start, *last = (CudaEvent *) end;
  gfloat elapsed;
  cudaError_t code;

  if (!check_recorded (first, "start", error) || !check_recorded (last, "end", error)
      || !tps_cuda_device_enter (device_of (first), error))
    return FALSE;
  code = cudaEventElapsedTime (&elapsed, first->handle, last->handle);
  if (code == cudaErrorNotReady)
    {
      cudaGetLastError (); /* not an error */
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s: an event is not reached yet",
                   device_of (first)->name);
      return FALSE;
    }
  if (!tps_cuda_device_check (device_of (first), code, "time between events", error))
    return FALSE;
  *ms = (gdouble) elapsed;
  return TRUE;
}
