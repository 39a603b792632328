/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A line is the queue of a stream. An event holds a reference to the line of its point, and thus
 * outlives the stream. A wait for a point runs the work of the line up to this point, on the
 * waiting thread, with the lock held. */

#include "tests/runtime/fake_device/queue.h"

#include <deque>

#include "runtime/base/error.h"

namespace fake_device {

namespace {

struct Item
{
  std::function<void ()> work;
  std::vector<std::shared_ptr<Block>> blocks;
};

struct Line
{
  TpsDevice *device;
  std::deque<Item> items;
  uint64_t n_queued = 0; /* since the creation of the line */
  uint64_t n_done = 0;
  bool is_bad = false;
};

struct Point
{
  std::shared_ptr<Line> line; /* none: not recorded */
  uint64_t number = 0;        /* reached when this many operations are done */
  std::shared_ptr<gint64> reached_ns;
};

struct Stream
{
  TpsStream base;
  std::shared_ptr<Line> line;
};

struct Event
{
  TpsEvent base;
  Point point;
};

std::shared_ptr<Line> &
line_of (TpsStream *stream)
{
  return reinterpret_cast<Stream *> (stream)->line;
}

Point &
point_of (TpsEvent *event)
{
  return reinterpret_cast<Event *> (event)->point;
}

bool
is_lost (const Line &line)
{
  return reinterpret_cast<Device *> (line.device)->is_lost;
}

void
run_to (Line *line, uint64_t number)
{
  while (line->n_done < number)
    {
      Item item = std::move (line->items.front ());

      line->items.pop_front ();
      line->is_bad = line->is_bad || is_lost (*line);
      if (!line->is_bad)
        item.work ();
      for (const std::shared_ptr<Block> &block : item.blocks)
        block->n_queued--;
      line->n_done++;
    }
  line->is_bad = line->is_bad || is_lost (*line);
}

void
add (Line *line, std::function<void ()> work, std::vector<std::shared_ptr<Block>> blocks)
{
  for (const std::shared_ptr<Block> &block : blocks)
    block->n_queued++;
  line->items.push_back ({ std::move (work), std::move (blocks) });
  line->n_queued++;
}

bool
check_line (const Line &line, GError **error)
{
  if (!line.is_bad)
    return true;
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: lost, as a test told it to be",
               line.device->name);
  return false;
}

bool
is_reached (const Point &point)
{
  return point.line == nullptr || point.line->n_done >= point.number;
}

TpsStream *
stream_new (TpsDevice *device, GError **error)
{
  std::lock_guard<std::mutex> guard (lock ());

  if (!check_lost (device, error))
    return nullptr;
  auto *stream = new Stream { { device }, std::make_shared<Line> () };
  stream->line->device = device;
  return &stream->base;
}

void
stream_free (TpsStream *stream)
{
  std::lock_guard<std::mutex> guard (lock ());

  run_to (line_of (stream).get (), line_of (stream)->n_queued);
  delete reinterpret_cast<Stream *> (stream);
}

gboolean
stream_sync (TpsStream *stream, GError **error)
{
  std::lock_guard<std::mutex> guard (lock ());
  Line *line = line_of (stream).get ();

  run_to (line, line->n_queued);
  return check_line (*line, error);
}

gboolean
stream_check (TpsStream *stream, GError **error)
{
  std::lock_guard<std::mutex> guard (lock ());
  Line *line = line_of (stream).get ();

  line->is_bad = line->is_bad || is_lost (*line);
  return check_line (*line, error);
}

TpsEvent *
event_new (TpsDevice *device, GError **error)
{
  std::lock_guard<std::mutex> guard (lock ());

  return check_lost (device, error) ? &(new Event { { device }, {} })->base : nullptr;
}

void
event_free (TpsEvent *event)
{
  std::lock_guard<std::mutex> guard (lock ());

  delete reinterpret_cast<Event *> (event);
}

void
event_record (TpsEvent *event, TpsStream *stream)
{
  std::lock_guard<std::mutex> guard (lock ());
  auto reached_ns = std::make_shared<gint64> (0);
  const std::shared_ptr<Line> &line = line_of (stream);

  add (line.get (), [reached_ns] { *reached_ns = 1000 * g_get_monotonic_time (); }, {});
  point_of (event) = { line, line->n_queued, reached_ns };
}

void
stream_wait_event (TpsStream *stream, TpsEvent *event)
{
  std::lock_guard<std::mutex> guard (lock ());
  std::shared_ptr<Line> line = line_of (stream);
  std::shared_ptr<Line> other = point_of (event).line;
  uint64_t number = point_of (event).number;

  if (other == nullptr || other == line)
    return;
  Line *waiting = line.get (); /* a plain pointer, because the line owns this work */
  add (waiting,
       [waiting, other, number] {
         run_to (other.get (), number);
         waiting->is_bad = waiting->is_bad || other->is_bad;
       },
       {});
}

/* If the event is pending, runs its work and returns FALSE, so that a caller that polls makes
 * progress. */
gboolean
event_query (TpsEvent *event)
{
  std::lock_guard<std::mutex> guard (lock ());
  const Point &point = point_of (event);

  if (is_reached (point))
    return TRUE;
  run_to (point.line.get (), point.number);
  return FALSE;
}

gboolean
event_sync (TpsEvent *event, GError **error)
{
  std::lock_guard<std::mutex> guard (lock ());
  const Point &point = point_of (event);

  if (point.line == nullptr)
    return TRUE;
  run_to (point.line.get (), point.number);
  return check_line (*point.line, error);
}

gboolean
events_elapsed (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error)
{
  std::lock_guard<std::mutex> guard (lock ());

  if (!check_lost (start->device, error))
    return FALSE;
  for (TpsEvent *event : { start, end })
    if (point_of (event).line == nullptr || *point_of (event).reached_ns == 0)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: %s event was not recorded, or is not reached", start->device->name,
                     event == start ? "start" : "end");
        return FALSE;
      }
  *ms = (double) (*point_of (end).reached_ns - *point_of (start).reached_ns) / 1e6;
  return TRUE;
}

/* Returns a stream of the CPU. The caller must hold the lock. */
TpsStream *
cpu_stream ()
{
  static TpsStream *stream = [] {
    TpsDevice *cpu = tps_device_find ("cpu", nullptr);

    return cpu->ops->stream_new (cpu, nullptr);
  }();

  return stream;
}

} // namespace

gpointer
Call::find (gconstpointer bytes, size_t n_bytes, bool may_be_pageable)
{
  auto *address = static_cast<uint8_t *> (const_cast<gpointer> (bytes));

  if (bytes == nullptr || n_bytes == 0)
    return address;
  std::shared_ptr<Block> block = find_block (bytes);
  if (block == nullptr && !may_be_pageable)
    die ("%s on %s: host memory that is not page-locked", name_, stream_->device->name);
  if (block == nullptr)
    return address;
  if (!block->is_host && &block->device->base != stream_->device)
    die ("%s on %s: memory of %s", name_, stream_->device->name, block->device->base.name);
  size_t offset = static_cast<size_t> (address - block->address);
  if (offset > block->n_bytes || n_bytes > block->n_bytes - offset)
    die ("%s on %s: bytes %zu to %zu of a buffer of %zu", name_, stream_->device->name, offset,
         offset + n_bytes, block->n_bytes);
  blocks_.push_back (block);
  return block->inside + offset;
}

void
Call::enqueue (Work work)
{
  add (
      line_of (stream_).get (),
      [work = std::move (work)] { work (cpu_stream ()->device->ops, cpu_stream ()); },
      std::move (blocks_));
}

void
fill_queue_operations (TpsDeviceOps *ops)
{
  ops->stream_new = stream_new;
  ops->stream_free = stream_free;
  ops->stream_sync = stream_sync;
  ops->stream_check = stream_check;
  ops->event_new = event_new;
  ops->event_free = event_free;
  ops->event_record = event_record;
  ops->stream_wait_event = stream_wait_event;
  ops->event_query = event_query;
  ops->event_sync = event_sync;
  ops->events_elapsed = events_elapsed;
}

} // namespace fake_device
