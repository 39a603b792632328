/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/fake_device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/base/error.h"

namespace fake_device {

namespace {

/* Unwritten memory reads as NaN. */
constexpr int kPoison = 0xff;
constexpr size_t kPage = 4096;

/* The content of an exported buffer's handle. The exporter keeps the file open. */
struct Handle
{
  int pid;
  int fd;
};

std::map<uintptr_t, std::shared_ptr<Block>> &
blocks ()
{
  static auto *all = new std::map<uintptr_t, std::shared_ptr<Block>>; /* never freed */

  return *all;
}

void
release (gpointer user_data)
{
  std::lock_guard<std::mutex> guard (lock ());
  auto *block = static_cast<Block *> (user_data);

  if (block->n_queued > 0)
    die ("%s: a buffer of %zu bytes is released while an operation on it is queued",
         block->device->base.name, block->n_bytes);
  block->device->n_bytes -= block->n_bytes;
  blocks ().erase (reinterpret_cast<uintptr_t> (block->address));
}

uint8_t *
map (int protection, int fd, size_t n_bytes)
{
  int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void *address = mmap (nullptr, n_bytes, protection, flags, fd, 0);

  return address == MAP_FAILED ? nullptr : static_cast<uint8_t *> (address);
}

/* Takes over `fd`. -1 selects page-locked memory. Returns NULL if the system cannot map the
 * memory. */
TpsBuffer *
add_block (TpsDevice *device, int fd, size_t n_bytes, bool is_exported)
{
  auto block = std::make_shared<Block> ();

  block->device = reinterpret_cast<Device *> (device);
  block->is_host = fd < 0;
  block->n_bytes = n_bytes;
  block->n_mapped = (n_bytes / kPage + 1) * kPage;
  block->inside = map (PROT_READ | PROT_WRITE, fd, block->n_mapped);
  block->address = fd < 0 ? block->inside : map (PROT_NONE, fd, block->n_mapped);
  block->fd = is_exported ? fd : -1;
  if (fd >= 0 && !is_exported)
    close (fd);
  if (block->inside == nullptr || block->address == nullptr)
    return nullptr;
  block->device->n_bytes += n_bytes;
  blocks ()[reinterpret_cast<uintptr_t> (block->address)] = block;
  return tps_buffer_new_foreign (block->address, n_bytes, is_exported || fd >= 0 ? device : nullptr,
                                 release, block.get ());
}

int
make_file (size_t n_bytes)
{
  int fd = memfd_create ("fake_device", MFD_CLOEXEC);

  if (fd < 0 || ftruncate (fd, (off_t) ((n_bytes / kPage + 1) * kPage)) != 0)
    die ("no memory for a buffer: %s", strerror (errno));
  return fd;
}

bool
check_alloc (TpsDevice *device, size_t n_bytes, GError **error)
{
  auto *self = reinterpret_cast<Device *> (device);

  self->n_allocs++;
  if (!check_lost (device, error))
    return false;
  if (self->fail_alloc == 0 || --self->fail_alloc > 0)
    return true;
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "%s: no memory for a buffer of %" G_GSIZE_FORMAT " bytes", device->name, n_bytes);
  return false;
}

int
refuse_handle (const char *why, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "exported memory: %s", why);
  return -1;
}

/* Opens the exporter's file. Returns -1 and sets the error if the handle is unusable. */
int
open_file (const Handle &handle, size_t n_bytes, GError **error)
{
  g_autofree gchar *path = g_strdup_printf ("/proc/%d/fd/%d", handle.pid, handle.fd);
  struct stat status;
  int fd;

  if (handle.pid == getpid ())
    return refuse_handle ("it is this process's own", error);
  fd = open (path, O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return refuse_handle ("there is none", error);
  if (fstat (fd, &status) == 0 && (size_t) status.st_size > n_bytes)
    return fd;
  close (fd);
  return refuse_handle ("it is smaller", error);
}

} // namespace

Block::~Block ()
{
  if (inside != nullptr)
    munmap (inside, n_mapped);
  if (address != nullptr && address != inside)
    munmap (address, n_mapped);
  if (fd >= 0)
    close (fd);
}

std::mutex &
lock ()
{
  static auto *mutex = new std::mutex;

  return *mutex;
}

void
die (const char *format, ...)
{
  va_list args;

  va_start (args, format);
  fputs ("fake device: ", stderr);
  vfprintf (stderr, format, args);
  fputs ("\n", stderr);
  va_end (args);
  abort ();
}

bool
check_lost (TpsDevice *device, GError **error)
{
  if (!reinterpret_cast<Device *> (device)->is_lost)
    return true;
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: lost, as a test told it to be",
               device->name);
  return false;
}

TpsBuffer *
allocate (TpsDevice *device, size_t n_bytes, bool is_host, guint8 *handle, GError **error)
{
  TpsBuffer *buffer;
  int fd;

  if (!check_alloc (device, n_bytes, error))
    return nullptr;
  fd = is_host ? -1 : make_file (n_bytes);
  buffer = add_block (device, fd, n_bytes, handle != nullptr);
  if (buffer == nullptr)
    die ("no memory for a buffer of %zu bytes", n_bytes);
  memset (find_block (tps_buffer_get_data (buffer))->inside, kPoison, n_bytes);
  if (handle != nullptr)
    {
      Handle said = { getpid (), fd };

      memset (handle, 0, TPS_EXPORT_HANDLE_BYTES);
      memcpy (handle, &said, sizeof said);
    }
  return buffer;
}

TpsBuffer *
open_exported (TpsDevice *device, const guint8 *handle, size_t n_bytes, GError **error)
{
  Handle said;
  int fd;

  if (!check_lost (device, error))
    return nullptr;
  memcpy (&said, handle, sizeof said);
  fd = open_file (said, n_bytes, error);
  return fd < 0 ? nullptr : add_block (device, fd, n_bytes, false);
}

std::shared_ptr<Block>
find_block (const void *address)
{
  auto at = reinterpret_cast<uintptr_t> (address);
  auto next = blocks ().upper_bound (at);

  if (next == blocks ().begin ())
    return nullptr;
  const std::shared_ptr<Block> &block = std::prev (next)->second;
  return at - std::prev (next)->first < block->n_mapped ? block : nullptr;
}

} // namespace fake_device
