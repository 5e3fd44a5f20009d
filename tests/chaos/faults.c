/* A layer between a program and the disk, loaded with LD_PRELOAD.

   It watches the files below FAULTS_FOLDER and does three things:
   - FAULTS_LOG: every change and every fsync is written to this log, in order; so a test can give the files the state
     a power cut could have left: unsynced writes lost or torn, unsynced renames and unlinks undone.
   - FAULTS_CONTROL: while this file holds "NAME ERRNO", writes, truncations and syncs of files whose path contains NAME
     fail with that error number.
   - FAULTS_KILL: "NAME:N" ends the process with SIGKILL before its Nth write to a file whose path contains NAME. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static char *watched[FDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder, *control, *kill_name;
static size_t folder_len;
static long kill_left;
static int log_fd = -1, started;

static void start(void) {
  if (started) return;
  started = 1;
  folder = getenv("FAULTS_FOLDER");
  folder_len = folder ? strlen(folder) : 0;
  control = getenv("FAULTS_CONTROL");
  if (getenv("FAULTS_LOG")) log_fd = REAL(open)(getenv("FAULTS_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const char *kill_at = getenv("FAULTS_KILL");
  const char *colon = kill_at ? strrchr(kill_at, ':') : NULL;
  if (colon) {
    kill_name = strndup(kill_at, colon - kill_at);
    kill_left = atol(colon + 1);
  }
}

static int inside(const char *path) { return folder && path && !strncmp(path, folder, folder_len); }

/* One entry of the log: what, path, a second path, offset or size, the bytes written. */
static void note(char what, const char *path, const char *other, int64_t at, const void *bytes, int64_t count) {
  if (log_fd < 0) return;
  int64_t head[5] = {what, (int64_t)strlen(path), other ? (int64_t)strlen(other) : 0, at, count};
  struct iovec parts[4] = {{head, sizeof head}, {(void *)path, head[1]}, {(void *)other, head[2]}, {(void *)bytes, count}};
  if (writev(log_fd, parts, 4) < 0) abort();
}

static int64_t size_of(int fd) {
  struct stat found;
  return fstat(fd, &found) ? 0 : found.st_size;
}

/* The error that operations on this path shall have now; 0 for none. */
static int refusal(const char *path) {
  if (!control) return 0;
  int fd = REAL(open)(control, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[256], name[200];
  int code = 0;
  ssize_t got = read(fd, text, sizeof text - 1);
  REAL(close)(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  return sscanf(text, "%199s %d", name, &code) == 2 && strstr(path, name) ? code : 0;
}

static int fails(const char *path) {
  int code = refusal(path);
  if (code) errno = code;
  return code;
}

static void maybe_die(const char *path) {
  if (kill_name && strstr(path, kill_name) && --kill_left == 0) kill(getpid(), SIGKILL);
}

static const char *path_of(int fd) { return fd >= 0 && fd < FDS ? watched[fd] : NULL; }

static int remember(int fd, const char *path, int made) {
  if (fd >= 0 && fd < FDS) {
    free(watched[fd]);
    watched[fd] = inside(path) ? strdup(path) : NULL;
    if (made && watched[fd]) note('C', path, NULL, 0, NULL, 0);
  }
  return fd;
}

static int opening(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
  start();
  if (!inside(path)) return remember(real(path, flags, mode), "", 0);
  if ((flags & (O_CREAT | O_TRUNC)) && access(path, F_OK) && fails(path)) return -1;
  pthread_mutex_lock(&lock);
  int made = (flags & O_CREAT) && access(path, F_OK);
  int fd = remember(real(path, flags, mode), path, made);
  pthread_mutex_unlock(&lock);
  return fd;
}

#define MODE(flags) ({ mode_t mode = 0; if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list a; va_start(a, flags); \
  mode = va_arg(a, mode_t); va_end(a); } mode; })

int open(const char *path, int flags, ...) { return opening(REAL(open), path, flags, MODE(flags)); }
int open64(const char *path, int flags, ...) { return opening(REAL(open64), path, flags, MODE(flags)); }

int openat(int at, const char *path, int flags, ...) {
  mode_t mode = MODE(flags);
  if (path[0] == '/' || at == AT_FDCWD) return opening(REAL(open), path, flags, mode);
  start();
  return remember(REAL(openat)(at, path, flags, mode), "", 0);
}

int openat64(int at, const char *path, int flags, ...) { return openat(at, path, flags, MODE(flags)); }

int close(int fd) {
  if (fd >= 0 && fd < FDS && watched[fd]) {
    free(watched[fd]);
    watched[fd] = NULL;
  }
  return REAL(close)(fd);
}

static ssize_t writing(int fd, const void *bytes, size_t count, off_t at) {
  const char *path = path_of(fd);
  if (fails(path)) return -1;
  pthread_mutex_lock(&lock);
  maybe_die(path);
  ssize_t wrote = REAL(pwrite)(fd, bytes, count, at);
  if (wrote > 0) note('W', path, NULL, at, bytes, wrote);
  pthread_mutex_unlock(&lock);
  return wrote;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
  return path_of(fd) ? writing(fd, bytes, count, at) : REAL(pwrite)(fd, bytes, count, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) { return pwrite(fd, bytes, count, at); }

ssize_t write(int fd, const void *bytes, size_t count) {
  if (!path_of(fd)) return REAL(write)(fd, bytes, count);
  off_t at = fcntl(fd, F_GETFL) & O_APPEND ? size_of(fd) : lseek(fd, 0, SEEK_CUR);
  ssize_t wrote = writing(fd, bytes, count, at);
  if (wrote > 0) lseek(fd, at + wrote, SEEK_SET);
  return wrote;
}

static int truncating(int (*real)(int, off_t), int fd, off_t size) {
  const char *path = path_of(fd);
  if (!path) return real(fd, size);
  if (fails(path)) return -1;
  pthread_mutex_lock(&lock);
  maybe_die(path);
  int done = real(fd, size);
  if (!done) note('T', path, NULL, size, NULL, 0);
  pthread_mutex_unlock(&lock);
  return done;
}

int ftruncate(int fd, off_t size) { return truncating(REAL(ftruncate), fd, size); }
int ftruncate64(int fd, off_t size) { return truncating(REAL(ftruncate64), fd, size); }

static int syncing(int (*real)(int), int fd) {
  const char *path = path_of(fd);
  if (!path) return real(fd);
  if (fails(path)) return -1;
  pthread_mutex_lock(&lock);
  maybe_die(path);
  /* The log is the disk of this test: a real sync would only take time. */
  int done = log_fd >= 0 ? 0 : real(fd);
  if (!done) note('S', path, NULL, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return done;
}

int fsync(int fd) { return syncing(REAL(fsync), fd); }
int fdatasync(int fd) { return syncing(REAL(fdatasync), fd); }

int rename(const char *from, const char *to) {
  start();
  if (!inside(from)) return REAL(rename)(from, to);
  if (fails(from)) return -1;
  pthread_mutex_lock(&lock);
  int done = REAL(rename)(from, to);
  if (!done) note('R', from, to, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return done;
}

int unlink(const char *path) {
  start();
  if (!inside(path)) return REAL(unlink)(path);
  pthread_mutex_lock(&lock);
  int done = REAL(unlink)(path);
  if (!done) note('U', path, NULL, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return done;
}
