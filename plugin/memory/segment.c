/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The reasons for the seals:
 *
 *   SHRINK        If a peer could shorten the file, a read beyond its end would raise SIGBUS.
 *   GROW          The file must not become larger than its charge.
 *   FUTURE_WRITE  The reader of replies cannot create a writable mapping. The mapping of the
 *                 server, created before the seal, stays writable.
 *   SEAL          The peer cannot add seals that would affect the mapping of the server. */

#include "plugin/memory/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/descriptor_table.h"
#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"

#define EXPORT_BYTES ((gsize) 2 << 20) /* devices share memory in blocks of this size */
#define HUGE_PAGE_BYTES ((gsize) 2 << 20)
#define NEEDED_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* ---- pages ---------------------------------------------------------------------------------- */

gsize
tps_segment_round_size (TpsSegmentKind kind, gsize n_bytes)
{
  gsize page = kind == TPS_SEGMENT_MEMFD ? (gsize) sysconf (_SC_PAGESIZE) : EXPORT_BYTES;

  return n_bytes > G_MAXSIZE - (page - 1) ? G_MAXSIZE : (n_bytes + page - 1) / page * page;
}

static TpsSegment *
segment_new (TpsSegmentUse use, gsize n_bytes, gpointer data)
{
  TpsSegment *segment = g_new0 (TpsSegment, 1);

  segment->use = use;
  segment->n_bytes = n_bytes;
  segment->data = data;
  return segment;
}

static TpsSegment *
map (TpsSegmentUse use, gsize n_bytes, gint fd, gboolean writable, GError **error)
{
  gint protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  gpointer data = mmap (NULL, n_bytes, protection, MAP_SHARED, fd, 0);

  if (data == MAP_FAILED)
    return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                          "cannot map %" G_GSIZE_FORMAT " bytes of shared memory: %s", n_bytes,
                          g_strerror (errno));
  /* The kernel should use huge pages, if it has them for shared memory, and fill the page tables
   * before the first message needs them. If a hint fails, only time is lost. */
  if (n_bytes >= HUGE_PAGE_BYTES)
    madvise (data, n_bytes, MADV_HUGEPAGE);
  madvise (data, n_bytes, MADV_POPULATE_READ);
  return segment_new (use, n_bytes, data);
}

/* ---- the server's side ---------------------------------------------------------------------- */

static gint
make_file (gsize n_bytes)
{
  gint fd = memfd_create ("thriftps-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  gint code = EMFILE;

  if (fd < 0)
    return -1;
  if (tps_descriptor_table_may_keep (fd, TPS_DESCRIPTOR_OF_PEER))
    code = ftruncate (fd, (off_t) n_bytes) < 0 ? errno : 0;
  if (code == 0)
    return fd;
  close (fd);
  errno = code;
  return -1;
}

static gboolean
allocate_pages (gint fd, gsize n_bytes)
{
  gint rc;

  do
    rc = fallocate (fd, 0, 0, (off_t) n_bytes);
  while (rc < 0 && errno == EINTR);
  return rc == 0;
}

/* Kernels before 5.1 do not have FUTURE_WRITE. On these kernels, a client can write to the segments
 * of its replies. */
static gboolean
seal (gint fd, TpsSegmentUse use)
{
  gint seals = NEEDED_SEALS | F_SEAL_SEAL;

  if (use == TPS_SEGMENT_ANSWERS && fcntl (fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) == 0)
    return TRUE;
  if (use == TPS_SEGMENT_ANSWERS && errno != EINVAL)
    return FALSE;
  return fcntl (fd, F_ADD_SEALS, seals) == 0;
}

gboolean
tps_segment_check_read_only (gint fd, GError **error)
{
  gint seals = fcntl (fd, F_GET_SEALS);

  if (seals >= 0 && (seals & F_SEAL_FUTURE_WRITE) != 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_UNAVAILABLE,
                   "this kernel cannot keep clients from writing to shared memory (5.1 or "
                   "later can)");
}

static void
refuse_file (gsize n_bytes, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "cannot create shared memory of %" G_GSIZE_FORMAT " bytes: %s", n_bytes,
               g_strerror (errno));
}

TpsSegment *
tps_segment_create (TpsSegmentUse use, gsize n_bytes, gint *fd, GError **error)
{
  gsize n_rounded = tps_segment_round_size (TPS_SEGMENT_MEMFD, n_bytes);
  g_autoptr (TpsSegment) segment = NULL;
  gint file = -1;

  /* The error for a size that exceeds the largest file offset. */
  errno = EFBIG;
  if (n_rounded <= G_MAXOFFSET)
    file = make_file (n_rounded);
  if (file < 0)
    {
      refuse_file (n_bytes, error);
      return NULL;
    }
  segment = map (use, n_rounded, file, use == TPS_SEGMENT_ANSWERS, error);
  if (segment != NULL && allocate_pages (file, n_rounded) && seal (file, use))
    {
      *fd = file;
      return g_steal_pointer (&segment);
    }
  if (segment != NULL)
    refuse_file (n_bytes, error);
  close (file);
  return NULL;
}

/* ---- the client's side ---------------------------------------------------------------------- */

static gboolean
check_file (gint fd, gsize n_bytes, GError **error)
{
  struct stat status;
  gint seals = fcntl (fd, F_GET_SEALS);

  if (fstat (fd, &status) < 0 || !S_ISREG (status.st_mode) || (guint64) status.st_size != n_bytes)
    return tps_fail (error, TPS_ERROR_INTERNAL,
                     "the server's shared memory is not a file of %" G_GSIZE_FORMAT " bytes",
                     n_bytes);
  if (seals < 0 || (seals & NEEDED_SEALS) != NEEDED_SEALS)
    return tps_fail (error, TPS_ERROR_INTERNAL,
                     "the server's shared memory is not sealed against growing and shrinking");
  return TRUE;
}

TpsSegment *
tps_segment_open (TpsSegmentUse use, gsize n_bytes, gint fd, GError **error)
{
  if (!check_file (fd, n_bytes, error))
    return NULL;
  return map (use, n_bytes, fd, use == TPS_SEGMENT_REQUESTS, error);
}

/* ---- memory of a device --------------------------------------------------------------------- */

/* Takes ownership of `memory`. */
static TpsSegment *
wrap (TpsSegmentUse use, gsize n_bytes, TpsBuffer *memory)
{
  TpsSegment *segment = segment_new (use, n_bytes, tps_buffer_get_data (memory));

  segment->exported = memory;
  return segment;
}

TpsSegment *
tps_segment_create_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes, guint8 *handle,
                             GError **error)
{
  gsize n_rounded = tps_segment_round_size (TPS_SEGMENT_CUDA_IPC, n_bytes);
  g_autoptr (TpsBuffer) memory = device->ops->alloc_exported (device, n_rounded, handle, error);

  if (memory == NULL
      || !tps_device_memory_clear (device, tps_buffer_get_data (memory), n_rounded, error))
    return NULL;
  return wrap (use, n_rounded, g_steal_pointer (&memory));
}

TpsSegment *
tps_segment_open_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes,
                           const guint8 *handle, GError **error)
{
  TpsBuffer *memory = device->ops->open_exported (device, handle, n_bytes, error);

  return memory != NULL ? wrap (use, n_bytes, memory) : NULL;
}

/* ---- both sides ----------------------------------------------------------------------------- */

TpsSegmentKind
tps_segment_get_kind (const TpsSegment *segment)
{
  return segment->exported != NULL ? TPS_SEGMENT_CUDA_IPC : TPS_SEGMENT_MEMFD;
}

gboolean
tps_segment_check_slice (const TpsSegment *segment, const TpsSharedSlice *slice, GError **error)
{
  if (slice->offset < 0 || slice->length < 0 || (guint64) slice->offset > segment->n_bytes
      || (guint64) slice->length > segment->n_bytes - (guint64) slice->offset)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "has offset %" G_GINT64_FORMAT " and length %" G_GINT64_FORMAT
                     ", segment %" G_GINT64_FORMAT " has %" G_GSIZE_FORMAT " bytes",
                     slice->offset, slice->length, slice->segment, segment->n_bytes);
  if (slice->offset % TPS_SHARING_ALIGNMENT != 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "has offset %" G_GINT64_FORMAT ", expected a multiple of %d", slice->offset,
                     TPS_SHARING_ALIGNMENT);
  return TRUE;
}

TpsBuffer *
tps_segment_show (const TpsSegment *segment, gsize offset, gsize length, GDestroyNotify free_func,
                  gpointer user_data)
{
  guint8 *data = segment->data + offset;

  if (segment->exported != NULL)
    return tps_buffer_new_foreign (data, length, tps_buffer_get_device (segment->exported),
                                   free_func, user_data);
  return tps_buffer_new_shared (data, length, free_func, user_data);
}

void
tps_segment_free (TpsSegment *segment)
{
  if (segment->exported != NULL)
    tps_buffer_unref (segment->exported);
  else
    munmap (segment->data, segment->n_bytes);
  g_free (segment);
}
