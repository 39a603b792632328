/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory of the fake devices. Every byte is mapped twice: without access at its public address, and
 * with access at an internal address that operations use.
 *
 * The caller of each function must hold lock(). */

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/device/backend.h"

namespace fake_device {

struct Device;

struct Block
{
  Device *device;
  bool is_host; /* page-locked */
  uint8_t *address;
  uint8_t *inside;
  size_t n_bytes;
  size_t n_mapped;
  int fd;           /* of exported memory, otherwise -1 */
  int n_queued = 0; /* queued operations on the block */

  ~Block ();
};

/* Implements TpsDevice. */
struct Device
{
  TpsDevice base;
  guint fail_alloc;
  gboolean is_lost;
  guint n_allocs;
  size_t n_bytes;
};

/* Returns the lock of the whole fake. */
std::mutex &lock ();

/* Prints the message and aborts the process. */
[[noreturn]] G_GNUC_PRINTF (1, 2) void die (const char *format, ...);

/* Both return NULL and set the error on failure, for example if the device is lost. If
 * `handle` is not NULL, allocate() exports the memory and fills the handle. */
TpsBuffer *allocate (TpsDevice *device, size_t n_bytes, bool is_host, guint8 *handle,
                     GError **error);
TpsBuffer *open_exported (TpsDevice *device, const guint8 *handle, size_t n_bytes, GError **error);

/* Returns the block that contains the address, or nullptr. */
std::shared_ptr<Block> find_block (const void *address);

bool check_lost (TpsDevice *device, GError **error); /* FALSE: the device is lost */

} // namespace fake_device
