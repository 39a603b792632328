/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/top/screen.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define DEFAULT_COLUMNS 80
#define DEFAULT_ROWS 24

#define ESC "\033["
#define ENTER ESC "?1049h" ESC "?25l" ESC "2J" /* alternate screen, cursor hidden, cleared */
#define LEAVE ESC "?25h" ESC "?1049l"
#define HOME ESC "H"
#define END_OF_LINE ESC "K" /* clears the rest of the line */
#define END_OF_PAGE ESC "J" /* clears the rest of the page */

struct TpsScreen
{
  gint in, out;
  struct termios before;
};

static void
write_all (TpsScreen *screen, const gchar *bytes, gsize n_bytes)
{
  while (n_bytes > 0)
    {
      gssize n = write (screen->out, bytes, n_bytes);

      if (n < 0 && errno != EINTR)
        return;
      if (n > 0)
        {
          bytes += n;
          n_bytes -= (gsize) n;
        }
    }
}

TpsScreen *
tps_screen_new (gint in, gint out)
{
  struct termios before, raw;
  TpsScreen *screen;

  if (!isatty (out) || tcgetattr (in, &before) < 0)
    return NULL;
  raw = before;
  /* Keys arrive at once, without echo. Reads never block. Ctrl-Z would leave the terminal in this
   * state, so it is disabled. */
  raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr (in, TCSAFLUSH, &raw) < 0)
    return NULL;
  screen = g_new0 (TpsScreen, 1);
  *screen = (TpsScreen) { .in = in, .out = out, .before = before };
  write_all (screen, ENTER, strlen (ENTER));
  return screen;
}

void
tps_screen_free (TpsScreen *screen)
{
  write_all (screen, LEAVE, strlen (LEAVE));
  tcsetattr (screen->in, TCSAFLUSH, &screen->before);
  g_free (screen);
}

void
tps_screen_get_size (TpsScreen *screen, guint *n_columns, guint *n_rows)
{
  struct winsize size = { 0 };

  *n_columns = DEFAULT_COLUMNS;
  *n_rows = DEFAULT_ROWS;
  if (ioctl (screen->out, TIOCGWINSZ, &size) < 0)
    return;
  if (size.ws_col > 0)
    *n_columns = size.ws_col;
  if (size.ws_row > 0)
    *n_rows = size.ws_row;
}

/* The last line must not end with a newline, which would scroll the page. */
void
tps_screen_show (TpsScreen *screen, gchar *const *lines)
{
  g_autoptr (GString) page = g_string_new (HOME);

  for (guint i = 0; lines[i] != NULL; i++)
    g_string_append_printf (page, "%s%s" END_OF_LINE, i > 0 ? "\r\n" : "", lines[i]);
  g_string_append (page, END_OF_PAGE);
  write_all (screen, page->str, page->len);
}
