#define _GNU_SOURCE
#include "call.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "output.h"

#ifndef STATE_DIR
#define STATE_DIR "/run/rootport/cni"
#endif
#ifndef PATIENCE_MS /* how long nobody may answer the socket */
#define PATIENCE_MS 20000
#endif
#ifndef ANSWER_MS /* how long one answer may take: longer than the server lets a call take */
#define ANSWER_MS 40000
#endif

enum { UID_LIMIT = 64, PAUSE_MS = 100, ANSWER_LIMIT = 1024 * 1024 };

static const char SOCKET[] = STATE_DIR "/cni.sock";
_Static_assert(sizeof(SOCKET) <= sizeof(((struct sockaddr_un *)0)->sun_path), "STATE_DIR is too long for a socket");

static bool is_uid(Text uid)
{
    for (size_t i = 0; i < uid.length; i++)
        if (hex_digit(uid.start[i]) < 0 && uid.start[i] != '-')
            return false;
    return uid.length > 0 && uid.length <= UID_LIMIT;
}

bool is_ours(Text uid)
{
    char path[sizeof(STATE_DIR "/pods/") + UID_LIMIT];
    struct stat status;
    if (!is_uid(uid))
        return false; /* the state has UIDs alone */
    snprintf(path, sizeof(path), "%s/pods/%.*s", STATE_DIR, (int)uid.length, uid.start);
    return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void pause_ms(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static int connected(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, SOCKET, sizeof(SOCKET));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Whether the socket is ready before the time is over. */
static bool wait_for(int fd, short events, long long deadline)
{
    for (;;) {
        long long left = deadline - now_ms();
        if (left <= 0)
            return false;
        int ready = poll(&(struct pollfd){.fd = fd, .events = events}, 1, (int)left);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

static bool send_all(int fd, const char *text, size_t length, long long deadline)
{
    while (length > 0) {
        if (!wait_for(fd, POLLOUT, deadline))
            return false;
        ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent > 0) {
            text += sent;
            length -= (size_t)sent;
        }
    }
    return shutdown(fd, SHUT_WR) == 0;
}

/* All that comes until the end of the stream; the length, or -1 where the end did not come. */
static ssize_t receive_all(int fd, char *buffer, size_t size, long long deadline)
{
    size_t length = 0;
    while (length < size) {
        if (!wait_for(fd, POLLIN, deadline))
            return -1;
        ssize_t got = recv(fd, buffer + length, size - length, 0);
        if (got == 0)
            return (ssize_t)length;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (got > 0)
            length += (size_t)got;
    }
    return -1;
}

static char *request_of(const Call *call, size_t *length)
{
    const struct {
        const char *key;
        Text value;
    } fields[] = {
        {"command", {call->command, strlen(call->command)}},
        {"cniVersion", {cni_version, strlen(cni_version)}},
        {"containerID", {call->container, strlen(call->container)}},
        {"netns", {call->netns, strlen(call->netns)}},
        {"ifName", {call->interface, strlen(call->interface)}},
        {"podUID", call->uid},
        {"podNamespace", call->namespace},
        {"podName", call->name},
    };
    char *request = NULL;
    FILE *out = open_memstream(&request, length);
    if (out == NULL)
        fail(BAD_IO, "out of memory");
    fputs("{\"version\": 1", out);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        fprintf(out, ", \"%s\": ", fields[i].key);
        put_quoted(out, fields[i].value.start, fields[i].value.length);
    }
    fputs("}", out);
    if (fclose(out) != 0)
        fail(BAD_IO, "out of memory");
    return request;
}

static _Noreturn void fail_for(const Call *call, const char *what)
{
    char message[1024];
    snprintf(message, sizeof(message),
             "pod %.*s/%.*s (uid %.*s): its network interfaces cannot be handled: %s "
             "(look at Rootport's kubelet plugin on this node; the kubelet tries again)",
             (int)(call->namespace.length < 64 ? call->namespace.length : 64), call->namespace.start,
             (int)(call->name.length < 256 ? call->name.length : 256), call->name.start, (int)call->uid.length,
             call->uid.start, what);
    fail(TRY_LATER, message);
}

void hand_over(const Call *call)
{
    static char answer[ANSWER_LIMIT];
    size_t length;
    char *request = request_of(call, &length);
    long long give_up = now_ms() + PATIENCE_MS;
    for (;;) {
        int fd = connected();
        if (fd >= 0) {
            long long deadline = now_ms() + ANSWER_MS;
            ssize_t got = -1;
            if (send_all(fd, request, length, deadline))
                got = receive_all(fd, answer, sizeof(answer), deadline);
            close(fd);
            Member members[] = {{.name = "error"}, {.name = "result"}};
            if (got > 0 && read_members((Text){answer, (size_t)got}, members, 2)) {
                if (is_object(members[0].value)) {
                    fwrite(members[0].value.start, 1, members[0].value.length, stdout);
                    putchar('\n');
                    finish(1);
                }
                if (is_object(members[1].value))
                    break;
            }
            if (now_ms() >= deadline)
                fail_for(call, "the plugin has not answered in time");
        }
        if (now_ms() >= give_up)
            fail_for(call, "nobody answers at " STATE_DIR "/cni.sock");
        pause_ms(PAUSE_MS);
        if (strcmp(call->command, "DEL") == 0 && !is_ours(call->uid))
            break; /* unprepared meanwhile: what the pod had is back */
    }
    free(request);
}
