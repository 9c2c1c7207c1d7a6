#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct process_status {
    char state;
    long threads;
    unsigned long long start;
};

/* Read /proc/PID/stat; the name in it may hold spaces and brackets, so the fields are counted
 * from its last bracket.  See proc(5): state is field 3, num_threads 20, starttime 22.
 * Returns 0 or a negative errno. */
static int read_status(int32_t pid, struct process_status *status)
{
    char path[40];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t length = read(fd, text, sizeof text - 1);
    int failure = length < 0 ? errno : EIO;
    close(fd);
    if (length <= 0)
        return -failure;
    text[length] = '\0';
    const char *fields = strrchr(text, ')');
    if (fields == NULL)
        return -EIO;
    int found = sscanf(fields + 1,
                       " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                       " %ld %*s %llu",
                       &status->state, &status->threads, &status->start);
    return found == 3 ? 0 : -EIO;
}

int process_start(int32_t pid, uint64_t *start)
{
    struct process_status status;
    int failure = read_status(pid, &status);
    if (failure == 0)
        *start = status.start;
    return failure;
}

int process_is_alive(int32_t pid, uint64_t start)
{
    struct process_status status;
    int failure = read_status(pid, &status);
    /* Whoever asks is alive; and a look that fails for a lack of ours (no descriptor, no memory)
     * says nothing about the other. */
    if (failure != 0)
        return pid == (int32_t)getpid() || (failure != -ENOENT && failure != -ESRCH);
    if (status.start != start)
        return 0;
    /* A killed process keeps its pid until its parent asks for it, but its memory is gone.  A
     * main thread that ended before the others is shown as Z too, with the others counted. */
    return !((status.state == 'Z' || status.state == 'X') && status.threads <= 1);
}
