/* Of nvml_stub.c: types, the machine's description, and what every exported function does first. */
#define _DEFAULT_SOURCE /* flock, strdup */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_IN_USE = 19,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned int version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount;
    unsigned int decoderCount, encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
    char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
    unsigned int start, size;
} nvmlGpuInstancePlacement_t;

/* nvml.h: NVML_STRUCT_VERSION(data, version) = size | version << 24 */
#define STRUCT_VERSION(type, version) (unsigned int)(sizeof(type) | (version) << 24)

enum { MAX_GPUS = 64, MAX_FACTS = 16384, MAX_KEY = 128, PROFILE_COUNT = 18, MAX_LINKS = 36 };
enum { MAX_GPU_INSTANCES = 16, MAX_COMPUTE_INSTANCES = 8, COMPUTE_PROFILE_COUNT = 9, MAX_MIG_DEVICES = 7 };

/* A handle is the address of its element. One array holds the GPUs, and one their MIG devices. */
struct nvmlDevice_st {
    int index, gpu_instance, compute_instance;
};
typedef struct nvmlDevice_st *nvmlDevice_t;
struct nvmlGpuInstance_st {
    nvmlDevice_t device;
    unsigned int id;
};
typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
struct nvmlComputeInstance_st {
    nvmlGpuInstance_t gpu_instance;
    unsigned int id;
};
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;

static struct nvmlDevice_st devices[MAX_GPUS];
static struct nvmlDevice_st mig_devices[MAX_GPUS][MAX_GPU_INSTANCES][MAX_COMPUTE_INSTANCES];
static struct nvmlGpuInstance_st gpu_instances[MAX_GPUS][MAX_GPU_INSTANCES];
static struct nvmlComputeInstance_st compute_instances[MAX_GPUS][MAX_GPU_INSTANCES][MAX_COMPUTE_INSTANCES];
static struct {
    char *key, *value;
    int calls; /* of a fail fact: how often its function was called */
} facts[MAX_FACTS];
static int fact_count;
static int described_count;   /* of them are the description's, and come first */
static struct stat live_file; /* the one whose facts follow */
static int init_count;

static const struct {
    const char *name;
    int code;
} error_names[] = {
    {"NVML_ERROR_UNINITIALIZED", 1},
    {"NVML_ERROR_INVALID_ARGUMENT", 2},
    {"NVML_ERROR_NOT_SUPPORTED", 3},
    {"NVML_ERROR_NO_PERMISSION", 4},
    {"NVML_ERROR_NOT_FOUND", 6},
    {"NVML_ERROR_INSUFFICIENT_SIZE", 7},
    {"NVML_ERROR_INSUFFICIENT_POWER", 8},
    {"NVML_ERROR_DRIVER_NOT_LOADED", 9},
    {"NVML_ERROR_TIMEOUT", 10},
    {"NVML_ERROR_IRQ_ISSUE", 11},
    {"NVML_ERROR_LIBRARY_NOT_FOUND", 12},
    {"NVML_ERROR_FUNCTION_NOT_FOUND", 13},
    {"NVML_ERROR_CORRUPTED_INFOROM", 14},
    {"NVML_ERROR_GPU_IS_LOST", 15},
    {"NVML_ERROR_RESET_REQUIRED", 16},
    {"NVML_ERROR_OPERATING_SYSTEM", 17},
    {"NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18},
    {"NVML_ERROR_IN_USE", 19},
    {"NVML_ERROR_MEMORY", 20},
    {"NVML_ERROR_INSUFFICIENT_RESOURCES", 23},
    {"NVML_ERROR_NOT_READY", 27},
    {"NVML_ERROR_GPU_NOT_FOUND", 28},
    {"NVML_ERROR_UNKNOWN", 999},
};

/* One call at a time, however the call is left. */
static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
static void leave(int *entered) {
    (void)entered;
    pthread_mutex_unlock(&calls);
}
#define ONE_AT_A_TIME()                                                  \
    __attribute__((cleanup(leave))) int one_at_a_time = 0;               \
    (void)one_at_a_time;                                                 \
    pthread_mutex_lock(&calls)

/* ---- the machine's description ---- */

static const char *fact(const char *key) {
    for (int i = fact_count - 1; i >= 0; i--)
        if (strcmp(facts[i].key, key) == 0)
            return facts[i].value;
    return NULL;
}

static const char *gpu_fact(nvmlDevice_t device, const char *name) {
    char key[MAX_KEY];
    snprintf(key, sizeof key, "gpu%d.%s", device->index, name);
    return fact(key);
}

static const char *gpu_fact_at(nvmlDevice_t device, const char *name, unsigned int number) {
    char numbered[MAX_KEY];
    snprintf(numbered, sizeof numbered, "%s%u", name, number);
    return gpu_fact(device, numbered);
}

static void forget(void) {
    while (fact_count > 0)
        free(facts[--fact_count].key); /* the value lies in the same allocation */
}

static int gpu_count(void) {
    const char *count = fact("gpus");
    return count ? atoi(count) : 0;
}

static nvmlReturn_t bad_description(const char *path, int line, const char *reason) {
    fprintf(stderr, "nvml_stub: %s:%d: %s\n", path ? path : "ROOTPORT_STUB_NVML is not set", line, reason);
    forget();
    return NVML_ERROR_UNKNOWN;
}

/* Adds a file's facts to those that are there. */
static nvmlReturn_t read_facts(const char *path, FILE *file) {
    char *line = NULL;
    size_t room = 0;
    int number = 0;
    nvmlReturn_t result = NVML_SUCCESS;

    while (result == NVML_SUCCESS && getline(&line, &room, file) >= 0) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        char *equals = strchr(line, '=');
        if (!equals || equals - line >= MAX_KEY) {
            result = bad_description(path, number, "expected key=value");
        } else if (fact_count == MAX_FACTS) {
            result = bad_description(path, number, "too many facts");
        } else {
            *equals = '\0';
            size_t length = (size_t)(equals - line) + 1 + strlen(equals + 1) + 1;
            char *copy = malloc(length);
            if (!copy)
                abort();
            memcpy(copy, line, length);
            facts[fact_count].key = copy;
            facts[fact_count].calls = 0;
            facts[fact_count++].value = copy + (equals - line) + 1;
        }
    }
    free(line);
    return result;
}

static nvmlReturn_t read_description(void) {
    const char *path = getenv("ROOTPORT_STUB_NVML");
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file)
        return bad_description(path, 0, "cannot be read");
    nvmlReturn_t result = read_facts(path, file);
    fclose(file);
    if (result == NVML_SUCCESS && (gpu_count() < 0 || gpu_count() > MAX_GPUS))
        return bad_description(path, 0, "gpus is out of range");
    described_count = fact_count;
    memset(&live_file, 0, sizeof live_file);
    return result;
}

/* The path of one of the machine's folders; a relative one is below the description's. */
static const char *folder(const char *key, char *path, size_t room) {
    const char *value = fact(key), *description = getenv("ROOTPORT_STUB_NVML");
    const char *end = description ? strrchr(description, '/') : NULL;
    if (!value)
        return NULL;
    if (value[0] == '/' || !end)
        snprintf(path, room, "%s", value);
    else
        snprintf(path, room, "%.*s/%s", (int)(end - description), description, value);
    return path;
}

/* Takes the live facts in place of those that were read before. Who writes the file puts a new one in its place. */
static void read_live(void) {
    char path[4096], name[4200];
    struct stat found;
    if (!folder("state", path, sizeof path))
        return;
    snprintf(name, sizeof name, "%s/live", path);
    if (stat(name, &found) != 0)
        memset(&found, 0, sizeof found);
    if (found.st_ino == live_file.st_ino && found.st_mtim.tv_sec == live_file.st_mtim.tv_sec &&
        found.st_mtim.tv_nsec == live_file.st_mtim.tv_nsec && found.st_size == live_file.st_size)
        return;
    live_file = found;
    while (fact_count > described_count)
        free(facts[--fact_count].key);
    FILE *file = fopen(name, "rb");
    if (file) {
        read_facts(name, file);
        fclose(file);
    }
}

static int is_lost(nvmlDevice_t device) {
    const char *lost = gpu_fact(device, "lost");
    return lost && atoi(lost);
}

/* ---- what every exported function does first ---- */

static nvmlReturn_t error_code(const char *name) {
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
        if (strcmp(error_names[i].name, name) == 0)
            return (nvmlReturn_t)error_names[i].code;
    int number = atoi(name);
    return (nvmlReturn_t)(number ? number : NVML_ERROR_UNKNOWN);
}

/* What a fail fact says of this call. */
static nvmlReturn_t injected(const char *key) {
    char name[64] = "";
    int from = 1, count = -1;
    for (int i = fact_count - 1; i >= 0; i--) {
        if (strcmp(facts[i].key, key) != 0)
            continue;
        sscanf(facts[i].value, "%63s %d %d", name, &from, &count);
        int call = ++facts[i].calls;
        return call >= from && (count < 0 || call < from + count) ? error_code(name) : NVML_SUCCESS;
    }
    return NVML_SUCCESS;
}

static void die_if_told(const char *function) {
    char key[MAX_KEY];
    snprintf(key, sizeof key, "die.%s", function);
    if (fact(key))
        _exit(99);
}

static nvmlReturn_t enter(const char *function) {
    char key[MAX_KEY];
    read_live();
    const char *path = fact("trace");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", function);
        fclose(file);
    }
    snprintf(key, sizeof key, "fail.%s", function);
    nvmlReturn_t error = injected(key);
    if (error != NVML_SUCCESS)
        return error;
    return init_count > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static int is_mig_device(nvmlDevice_t device) {
    struct nvmlDevice_st *first = &mig_devices[0][0][0];
    return device >= first && device < first + sizeof mig_devices / sizeof *first;
}

static nvmlReturn_t enter_device(const char *function, nvmlDevice_t device) {
    char key[MAX_KEY];
    nvmlReturn_t result = enter(function);
    if (result != NVML_SUCCESS)
        return result;
    if (!is_mig_device(device) && (device < devices || device >= devices + gpu_count()))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (is_lost(device))
        return NVML_ERROR_GPU_IS_LOST;
    snprintf(key, sizeof key, "gpu%d.fail.%s", device->index, function);
    return injected(key);
}

#define RETURN_UNLESS_SUCCESS(result)             \
    do {                                          \
        nvmlReturn_t got = (result);              \
        if (got != NVML_SUCCESS)                  \
            return got;                           \
    } while (0)
#define ENTER()                                   \
    ONE_AT_A_TIME();                              \
    RETURN_UNLESS_SUCCESS(enter(__func__))
#define ENTER_DEVICE(device)                      \
    ONE_AT_A_TIME();                              \
    RETURN_UNLESS_SUCCESS(enter_device(__func__, device))

/* ---- answers ---- */

static nvmlReturn_t give_text(const char *text, char *to, unsigned int length) {
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, text);
    return NVML_SUCCESS;
}

static nvmlReturn_t give_number(const char *text, unsigned int *to) {
    return text && sscanf(text, "%u", to) == 1 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t give_pair(const char *text, unsigned int *first, unsigned int *second) {
    return text && sscanf(text, "%u %u", first, second) == 2 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t give_pci(const char *text, nvmlPciInfo_t *pci) {
    unsigned int domain, bus, device;
    memset(pci, 0, sizeof *pci);
    nvmlReturn_t result = give_text(text, pci->busId, sizeof pci->busId);
    if (result == NVML_SUCCESS && sscanf(text, "%x:%x:%x", &domain, &bus, &device) == 3) {
        pci->domain = domain, pci->bus = bus, pci->device = device;
        snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff,
                 device & 0xff);
    }
    return result;
}
