/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A switch that delays and loses packets, for kernels without netem. Its ports are tap devices in
 * the network namespace of the process:
 *
 *   relay --delay-us=20000 --loss=0.01 tap1 tap2 tap3
 *
 * The switch creates the devices, prints "ready", and runs until it is killed. It sends a packet
 * through the port at which it last received a packet from the destination; if there is none,
 * through all other ports. It drops packets with the probability --loss (drawn from --seed), and if
 * too many packets wait. The delay is the same for all packets, so their order does not change. */

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <glib.h>

#include "runtime/base/sync.h"

#define MAX_FRAME 2048    /* bytes; the MTU of tap devices is 1500 */
#define MAX_WAITING 65536 /* frames */
#define MAX_PORTS 64
#define BATCH 64 /* the maximum number of frames read from one port before the next port */
#define MAC_BYTES 6

/* A waiting frame. */
typedef struct
{
  gint64 due_ns;
  guint from;
  guint n_bytes;
  guint8 bytes[MAX_FRAME];
} Frame;

/* The switch. The waiting frames are ring[first], … in the order of their times. */
typedef struct
{
  guint n_ports;
  struct pollfd ports[MAX_PORTS];
  GHashTable *places; /* from the MAC address to the port of its last packet */
  gint64 delay_ns;
  gdouble loss;
  GRand *dice;
  Frame *ring; /* [MAX_WAITING] */
  guint first, n_waiting;
} Relay;

static gboolean
open_port (Relay *relay, const gchar *name)
{
  struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
  gint fd = open ("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

  g_strlcpy (request.ifr_name, name, sizeof request.ifr_name);
  if (fd < 0 || ioctl (fd, TUNSETIFF, &request) < 0)
    {
      fprintf (stderr, "relay: %s: %s\n", name, g_strerror (errno));
      return FALSE;
    }
  relay->ports[relay->n_ports++] = (struct pollfd) { .fd = fd, .events = POLLIN };
  return TRUE;
}

/* Returns the key of a MAC address. */
static gpointer
get_key (const guint8 *mac)
{
  guint64 key = 0;

  memcpy (&key, mac, MAC_BYTES);
  return GSIZE_TO_POINTER (key);
}

/* Reads a packet from the port and appends it to the ring. Returns FALSE if no packet was read. */
static gboolean
receive (Relay *relay, guint port)
{
  Frame *frame = &relay->ring[(relay->first + relay->n_waiting) % MAX_WAITING];
  gssize n_bytes = read (relay->ports[port].fd, frame->bytes, sizeof frame->bytes);

  if (n_bytes < 2 * MAC_BYTES)
    return FALSE;
  g_hash_table_insert (relay->places, get_key (frame->bytes + MAC_BYTES), GUINT_TO_POINTER (port));
  frame->due_ns = tps_clock_now_ns () + relay->delay_ns;
  frame->from = port;
  frame->n_bytes = (guint) n_bytes;
  if (relay->n_waiting + 1 < MAX_WAITING
      && (relay->loss == 0 || g_rand_double (relay->dice) >= relay->loss))
    relay->n_waiting++;
  return TRUE;
}

/* Sends a frame. If the queue of the port is full, the packet is lost, as on every switch. */
static void
send_to (const Relay *relay, guint port, const Frame *frame)
{
  gssize n_sent = write (relay->ports[port].fd, frame->bytes, frame->n_bytes);

  (void) n_sent;
}

static void
forward (const Relay *relay, const Frame *frame)
{
  gpointer port;

  if (g_hash_table_lookup_extended (relay->places, get_key (frame->bytes), NULL, &port))
    {
      send_to (relay, GPOINTER_TO_UINT (port), frame);
      return;
    }
  for (guint i = 0; i < relay->n_ports; i++)
    if (i != frame->from)
      send_to (relay, i, frame);
}

static void
forward_due (Relay *relay)
{
  while (relay->n_waiting > 0 && relay->ring[relay->first].due_ns <= tps_clock_now_ns ())
    {
      forward (relay, &relay->ring[relay->first]);
      relay->first = (relay->first + 1) % MAX_WAITING;
      relay->n_waiting--;
    }
}

/* Waits for the next packet, or until the next frame in the ring must be sent. */
static void
wait_for_work (Relay *relay)
{
  struct timespec left = { 0 };
  gint64 left_ns;

  if (relay->n_waiting == 0)
    {
      ppoll (relay->ports, relay->n_ports, NULL, NULL);
      return;
    }
  left_ns = MAX (relay->ring[relay->first].due_ns - tps_clock_now_ns (), 0);
  left.tv_sec = left_ns / 1000000000;
  left.tv_nsec = left_ns % 1000000000;
  ppoll (relay->ports, relay->n_ports, &left, NULL);
}

static void
run (Relay *relay)
{
  for (;;)
    {
      wait_for_work (relay);
      for (guint port = 0; port < relay->n_ports; port++)
        for (guint i = 0; i < BATCH && receive (relay, port); i++)
          continue;
      forward_due (relay);
    }
}

gint
main (gint argc, gchar **argv)
{
  gint64 delay_us = 0;
  gint seed = 0;
  Relay relay = { 0 };
  const GOptionEntry entries[] = {
    { "delay-us", 0, 0, G_OPTION_ARG_INT64, &delay_us, "delay of every packet (0)", "US" },
    { "loss", 0, 0, G_OPTION_ARG_DOUBLE, &relay.loss, "probability of a loss (0)", "P" },
    { "seed", 0, 0, G_OPTION_ARG_INT, &seed, "of the losses (0)", "N" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("TAP... - a slow, lossy switch");
  g_autoptr (GError) error = NULL;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc < 2 || argc > MAX_PORTS
      || delay_us < 0 || relay.loss < 0 || relay.loss >= 1)
    {
      fprintf (stderr, "relay: %s\n", error != NULL ? error->message : "see --help");
      return 2;
    }
  for (gint i = 1; i < argc; i++)
    if (!open_port (&relay, argv[i]))
      return 1;
  relay.delay_ns = delay_us * 1000;
  relay.dice = g_rand_new_with_seed ((guint32) seed);
  relay.places = g_hash_table_new (NULL, NULL);
  relay.ring = g_new (Frame, MAX_WAITING);
  printf ("ready\n");
  fflush (stdout);
  run (&relay);
}
