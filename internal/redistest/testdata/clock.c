/* Preloaded into a redis-server, it shifts the server's wall clock by the number of microseconds in the file that HOLDFAST_CLOCK names. Redis
 * expires keys by gettimeofday. The system call is made directly: looking up the real function would allocate, and the allocator
 * of redis-server is not ready so early. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *offset;

__attribute__((constructor)) static void map_offset(void) {
  const char *name = getenv("HOLDFAST_CLOCK");
  int file = name ? open(name, O_RDONLY) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) offset = page;
  close(file);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec real;
  (void)zone;
  if (syscall(SYS_clock_gettime, CLOCK_REALTIME, &real) != 0) return -1;
  long long us = real.tv_sec * 1000000LL + real.tv_nsec / 1000 + (offset ? *offset : 0);
  now->tv_sec = us / 1000000;
  now->tv_usec = us % 1000000;
  return 0;
}
