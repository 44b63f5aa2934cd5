/* Stands for nvidia-cuda-mps-control, and by another name for nvidia-cuda-mps-server.
 *
 * With -d a daemon: a lock, a pid file and a socket in CUDA_MPS_PIPE_DIRECTORY; else commands from stdin go to it. Beside
 * the program, named after it: a file .starts with a line "<CUDA_VISIBLE_DEVICES> <pipe folder>" for each daemon, and a
 * file .behaviour that a test may write: words of "fail" (does not start), "slow" (listens after 0.3 s), "mute" (never
 * answers), "stubborn" (ignores SIGTERM, as do its servers). Statically linked, so that it runs with any folder for its "/".
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char program[3000], behaviour[200];
static const char *pipe_folder, *log_folder;
static char percentage[32] = "100.0", limit[64] = "";
static pid_t server;

static const char *in(const char *folder, const char *name)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int behaves(const char *word)
{
    return strstr(behaviour, word) != NULL;
}

static void log_line(const char *format, const char *value)
{
    FILE *log = fopen(in(log_folder, "control.log"), "a");
    if (log != NULL) {
        fputs("[2026-01-01 00:00:00.000 Control     1] ", log);
        fprintf(log, format, value);
        fputc('\n', log);
        fclose(log);
    }
}

static struct sockaddr_un address(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const char *path = in(pipe_folder, "control");
    if (strlen(path) >= sizeof name.sun_path) {
        fprintf(stderr, "Cannot find MPS control daemon process\n");
        exit(1);
    }
    strcpy(name.sun_path, path);
    return name;
}

static void start_server(void)
{
    if (server != 0)
        return;
    server = fork();
    if (server == 0) {
        execl(program, "nvidia-cuda-mps-server", (char *)NULL);
        _exit(127);
    }
}

/* Writes the answer; returns 0 where the daemon is to end. */
static int answer(const char *command, char *text, size_t size)
{
    text[0] = '\0';
    if (strncmp(command, "quit", 4) == 0)
        return 0;
    if (strcmp(command, "get_default_active_thread_percentage") == 0)
        snprintf(text, size, "%s\n", percentage);
    else if (strncmp(command, "set_default_active_thread_percentage ", 37) == 0)
        snprintf(percentage, sizeof percentage, "%.1f", atof(command + 37)), snprintf(text, size, "%s\n", percentage);
    else if (strncmp(command, "get_default_device_pinned_mem_limit ", 36) == 0)
        snprintf(text, size, "%s\n", limit);
    else if (strncmp(command, "set_default_device_pinned_mem_limit ", 36) == 0)
        sscanf(command + 36, "%*s %63s", limit);
    else if (strncmp(command, "start_server", 12) == 0)
        start_server();
    else if (strcmp(command, "get_server_list") == 0 && server != 0)
        snprintf(text, size, "%d\n", (int)server);
    else if (strcmp(command, "get_server_list") != 0)
        snprintf(text, size, "Invalid command: %.100s\n", command);
    return 1;
}

static void serve(void)
{
    if (behaves("slow"))
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    unlink(in(pipe_folder, "control"));
    struct sockaddr_un name = address();
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&name, sizeof name) != 0 || listen(listener, 16) != 0) {
        log_line("Failed to bind: %s", strerror(errno));
        exit(1);
    }
    log_line("Starting control daemon using socket %s", name.sun_path);
    for (int going = 1; going;) {
        char command[400], text[400];
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        if (behaves("mute"))
            continue;
        ssize_t length = read(client, command, sizeof command - 1);
        command[length > 0 ? length : 0] = '\0';
        command[strcspn(command, "\n")] = '\0';
        going = length <= 0 || answer(command, text, sizeof text);
        if (length > 0 && write(client, text, strlen(text)) < 0)
            log_line("a client went away: %s", strerror(errno));
        close(client);
    }
    if (server != 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    unlink(in(pipe_folder, "control"));
    unlink(in(pipe_folder, "nvidia-cuda-mps-control.pid"));
}

static int daemonize(void)
{
    if (behaves("fail")) {
        log_line("Failed to start: %s", "the GPU is in use");
        fprintf(stderr, "Cannot start the control daemon\n");
        return 1;
    }
    umask(0);
    int lock = open(in(pipe_folder, "control_lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0) {
        fprintf(stderr, "%s: %s\n", pipe_folder, strerror(errno));
        return 1;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        printf("An instance of this daemon is already running\n");
        return 1;
    }
    if (fork() != 0)
        return 0;
    setsid();
    signal(SIGPIPE, SIG_IGN);
    if (behaves("stubborn"))
        signal(SIGTERM, SIG_IGN);
    int nothing = open("/dev/null", O_RDWR);
    if (nothing < 0)
        nothing = open(in(log_folder, "stdio"), O_RDWR | O_CREAT, 0644);
    for (int stream = 0; stream < 3; stream++)
        dup2(nothing, stream);
    char path[3100];
    snprintf(path, sizeof path, "%s.starts", program);
    FILE *starts = fopen(path, "a");
    const char *devices = getenv("CUDA_VISIBLE_DEVICES");
    if (starts != NULL) {
        fprintf(starts, "%s %s\n", devices != NULL ? devices : "", pipe_folder);
        fclose(starts);
    }
    FILE *pid = fopen(in(pipe_folder, "nvidia-cuda-mps-control.pid"), "w");
    if (pid != NULL) {
        fprintf(pid, "%d\n", (int)getpid());
        fclose(pid);
    }
    serve();
    return 0;
}

static int tell(void)
{
    char command[400], text[400];
    while (fgets(command, sizeof command, stdin) != NULL) {
        struct sockaddr_un name = address();
        int connection = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(connection, (struct sockaddr *)&name, sizeof name) != 0) {
            printf("Cannot find MPS control daemon process\n");
            return 1;
        }
        if (write(connection, command, strlen(command)) < 0)
            return 1;
        for (ssize_t length; (length = read(connection, text, sizeof text)) > 0;)
            fwrite(text, 1, (size_t)length, stdout);
        close(connection);
    }
    return 0;
}

int main(int count, char **arguments)
{
    if (strcmp(arguments[0], "nvidia-cuda-mps-server") == 0)
        for (;;)
            pause();
    const char *own = strchr(arguments[0], '/') ? arguments[0] : "/usr/bin/nvidia-cuda-mps-control";
    snprintf(program, sizeof program, "%s", own);
    pipe_folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    log_folder = getenv("CUDA_MPS_LOG_DIRECTORY");
    pipe_folder = pipe_folder != NULL ? pipe_folder : "/tmp/nvidia-mps";
    log_folder = log_folder != NULL ? log_folder : "/var/log/nvidia-mps";
    char path[3100];
    snprintf(path, sizeof path, "%s.behaviour", program);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        behaviour[fread(behaviour, 1, sizeof behaviour - 1, file)] = '\0';
        fclose(file);
    }
    return count == 2 && strcmp(arguments[1], "-d") == 0 ? daemonize() : tell();
}
