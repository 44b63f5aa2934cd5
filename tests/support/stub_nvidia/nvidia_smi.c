/* Stands for nvidia-smi: remembers time slices, lists GPUs.
 *
 * Beside the program, named after it: the folder nvidia-smi.state, where a file named after a GPU's UUID holds the last
 * time slice and one called "calls" every command line; in it, a file "gpus" (a UUID a line) limits which GPUs there are,
 * and a file "hang" makes it wait for ever. Statically linked, so that it runs with any folder for its "/".
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char state[4000];

static const char *in_state(const char *name)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", state, name);
    return path;
}

/* Calls visit for each GPU; returns how many are listed, -1 without a list. */
static int gpus(const char *wanted, int print)
{
    char line[200];
    int found = 0;
    FILE *list = fopen(in_state("gpus"), "r");
    if (list == NULL)
        return wanted != NULL;
    while (fgets(line, sizeof line, list) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (print)
            printf("GPU %d: NVIDIA stub (UUID: %s)\n", found, line);
        found += wanted == NULL || strcmp(wanted, line) == 0;
    }
    fclose(list);
    return found;
}

int main(int count, char **arguments)
{
    snprintf(state, sizeof state, "%s.state", strchr(arguments[0], '/') ? arguments[0] : "/usr/bin/nvidia-smi");
    if (count == 2 && strcmp(arguments[1], "--version") == 0) {
        puts("NVIDIA-SMI version  : 580.95.05\nNVML version        : 580.95\nDRIVER version      : 580.95.05");
        return 0;
    }
    if (count == 1) {
        puts("NVIDIA-SMI 580.95.05    Driver Version: 580.95.05    CUDA Version: 13.0");
        gpus(NULL, 1);
        return 0;
    }
    mkdir(state, 0755);
    FILE *calls = fopen(in_state("calls"), "a");
    if (calls == NULL) {
        fprintf(stderr, "%s: %s\n", state, strerror(errno));
        return 1;
    }
    for (int i = 1; i < count; i++)
        fprintf(calls, "%s%c", arguments[i], i == count - 1 ? '\n' : ' ');
    fclose(calls);
    if (access(in_state("hang"), F_OK) == 0)
        for (;;)
            pause();
    if (count != 6 || strcmp(arguments[1], "compute-policy") != 0 || strcmp(arguments[2], "-i") != 0
        || strcmp(arguments[4], "--set-timeslice") != 0 || strlen(arguments[5]) != 1
        || strchr("0123", arguments[5][0]) == NULL) {
        puts("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.");
        return 2;
    }
    if (strchr(arguments[3], '/') != NULL || !gpus(arguments[3], 0)) {
        puts("No devices were found");
        return 6;
    }
    FILE *slice = fopen(in_state(arguments[3]), "w");
    if (slice == NULL)
        return 1;
    fprintf(slice, "%s\n", arguments[5]);
    fclose(slice);
    printf("Successfully set timeslice to %s for GPU %s\n", arguments[5], arguments[3]);
    return 0;
}
