/*
 * A stand-in for libnvidia-ml.so.1: the real pynvml binding (and any other NVML client) loads it and sees the machine
 * that a text file describes. It fakes the library, so everything above it is the real thing.
 *
 *     cc -shared -fPIC -o DIR/libnvidia-ml.so.1 nvml_stub.c
 *     LD_LIBRARY_PATH=DIR ROOTPORT_STUB_NVML=machine.txt rootport topo --live
 *
 * The file that the environment variable ROOTPORT_STUB_NVML names is read at each first nvmlInit, never between, so one
 * library serves all machines. One fact a line, `key=value`; blank lines and lines that begin with '#' are skipped; a
 * value runs to the end of its line, byte for byte; the last line of a key wins. A fact that is not there is answered
 * with NVML_ERROR_NOT_SUPPORTED, as NVML does for a part that lacks the feature. N and L count from 0.
 *
 *   gpus=8                                      number of GPUs that nvmlDeviceGetCount_v2 tells
 *   driver=580.159.03                           nvmlSystemGetDriverVersion
 *   cuda=13000                                  nvmlSystemGetCudaDriverVersion (1000 * major + 10 * minor)
 *   trace=FILE                                  append the name of each called function, one a line, to FILE
 *   fail.FUNCTION=NVML_ERROR_...                FUNCTION (its exported name) always fails so; a number works as well
 *   gpuN.fail.FUNCTION=NVML_ERROR_...           the same for one GPU only
 *   gpuN.uuid, gpuN.name, gpuN.pci, gpuN.minor  as NVML writes them (pci: 00000000:3B:00.0)
 *   gpuN.memory=85520809984                     bytes in total (nvmlDeviceGetMemoryInfo and _v2)
 *   gpuN.architecture=9                         NVML_DEVICE_ARCH_*
 *   gpuN.cuda=9 0                               compute capability, major and minor
 *   gpuN.ecc=1 1                                ECC mode, current and pending
 *   gpuN.mig=0 0                                MIG mode, current and pending
 *   gpuN.profileP=19 1 7 16 9984 MIG 1g.10gb    the GPU instance profile NVML_GPU_INSTANCE_PROFILE_* = P: its id,
 *                                               compute slices, instances, multiprocessors, MiB, and name
 *   gpuN.placements.ID=0:1 1:1                  where instances of the profile with that id can stand, start:size
 *   gpuN.linkL=2 00000000:05:00.0               an active NVLink: NVML_NVLINK_DEVICE_TYPE_* of its far end (0 GPU,
 *                                               1 IBM NPU, 2 NVSwitch, 255 unknown, '-' not supported), and its
 *                                               address ('-' not supported)
 *   gpuN.linkL=down                             an inactive NVLink
 *
 * Struct layouts and numbers are nvml.h's (NVML API reference, driver branches 470 to 590), cut to what pynvml calls.
 * Not thread-safe. A call that is not listed here is not exported, so pynvml raises NVMLError_FunctionNotFound.
 */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
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

/* A device handle is the address of its element. */
struct nvmlDevice_st {
    int index;
};
typedef struct nvmlDevice_st *nvmlDevice_t;

static struct nvmlDevice_st devices[MAX_GPUS];
static struct {
    char *key, *value;
} facts[MAX_FACTS];
static int fact_count;
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

static nvmlReturn_t read_description(void) {
    const char *path = getenv("ROOTPORT_STUB_NVML");
    FILE *file = path ? fopen(path, "rb") : NULL;
    char *line = NULL;
    size_t room = 0;
    int number = 0;
    nvmlReturn_t result = NVML_SUCCESS;

    if (!file)
        return bad_description(path, 0, "cannot be read");
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
            facts[fact_count++].value = copy + (equals - line) + 1;
        }
    }
    free(line);
    fclose(file);
    if (result == NVML_SUCCESS && (gpu_count() < 0 || gpu_count() > MAX_GPUS))
        return bad_description(path, 0, "gpus is out of range");
    return result;
}

/* ---- what every exported function does first ---- */

static nvmlReturn_t error_code(const char *name) {
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
        if (strcmp(error_names[i].name, name) == 0)
            return (nvmlReturn_t)error_names[i].code;
    int number = atoi(name);
    return (nvmlReturn_t)(number ? number : NVML_ERROR_UNKNOWN);
}

static nvmlReturn_t enter(const char *function) {
    char key[MAX_KEY];
    const char *path = fact("trace");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", function);
        fclose(file);
    }
    snprintf(key, sizeof key, "fail.%s", function);
    const char *error = fact(key);
    if (error)
        return error_code(error);
    return init_count > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t enter_device(const char *function, nvmlDevice_t device) {
    char name[MAX_KEY];
    nvmlReturn_t result = enter(function);
    if (result != NVML_SUCCESS)
        return result;
    if (device < devices || device >= devices + gpu_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(name, sizeof name, "fail.%s", function);
    const char *error = gpu_fact(device, name);
    return error ? error_code(error) : NVML_SUCCESS;
}

#define ENTER()                                   \
    do {                                          \
        nvmlReturn_t entered = enter(__func__);   \
        if (entered != NVML_SUCCESS)              \
            return entered;                       \
    } while (0)
#define ENTER_DEVICE(device)                                    \
    do {                                                        \
        nvmlReturn_t entered = enter_device(__func__, device);  \
        if (entered != NVML_SUCCESS)                            \
            return entered;                                     \
    } while (0)

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

/* ---- the library and the system ---- */

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    if (init_count == 0) {
        forget();
        nvmlReturn_t result = read_description();
        if (result != NVML_SUCCESS)
            return result;
    }
    init_count++;
    nvmlReturn_t result = enter(__func__);
    if (result != NVML_SUCCESS)
        init_count--;
    return result;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    ENTER();
    init_count--; /* the facts stay, so that a call after the last shutdown is traced too */
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
        if (error_names[i].code == (int)result)
            return error_names[i].name;
    return "an error that the stub has no name for";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    ENTER();
    return give_text(fact("driver"), version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    ENTER();
    return give_number(fact("cuda"), (unsigned int *)version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER();
    *count = (unsigned int)gpu_count();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    ENTER();
    if (index >= (unsigned int)gpu_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    devices[index].index = (int)index;
    nvmlReturn_t result = enter_device(__func__, &devices[index]);
    if (result == NVML_SUCCESS)
        *device = &devices[index];
    return result;
}

/* ---- one GPU ---- */

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ENTER_DEVICE(device);
    return give_pci(gpu_fact(device, "pci"), pci);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    ENTER_DEVICE(device);
    return give_text(gpu_fact(device, "uuid"), uuid, length);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    ENTER_DEVICE(device);
    return give_text(gpu_fact(device, "name"), name, length);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    ENTER_DEVICE(device);
    return give_number(gpu_fact(device, "minor"), minor);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ENTER_DEVICE(device);
    const char *total = gpu_fact(device, "memory");
    if (!total)
        return NVML_ERROR_NOT_SUPPORTED;
    memory->total = memory->free = strtoull(total, NULL, 10);
    memory->used = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    ENTER_DEVICE(device);
    if (memory->version != STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const char *total = gpu_fact(device, "memory");
    if (!total)
        return NVML_ERROR_NOT_SUPPORTED;
    memory->total = memory->free = strtoull(total, NULL, 10);
    memory->used = memory->reserved = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture) {
    ENTER_DEVICE(device);
    return give_number(gpu_fact(device, "architecture"), architecture);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    ENTER_DEVICE(device);
    return give_pair(gpu_fact(device, "cuda"), (unsigned int *)major, (unsigned int *)minor);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    ENTER_DEVICE(device);
    return give_pair(gpu_fact(device, "ecc"), current, pending);
}

/* ---- NVLink ---- */

static const char *active_link(nvmlDevice_t device, unsigned int link) {
    const char *text = gpu_fact_at(device, "link", link);
    return text && strcmp(text, "down") != 0 ? text : NULL;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *is_active) {
    ENTER_DEVICE(device);
    if (link >= MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu_fact_at(device, "link", link))
        return NVML_ERROR_NOT_SUPPORTED;
    *is_active = active_link(device, link) != NULL;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, unsigned int *type) {
    ENTER_DEVICE(device);
    return give_number(active_link(device, link), type); /* '-' is no number: not supported */
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci) {
    ENTER_DEVICE(device);
    const char *text = active_link(device, link);
    const char *address = text ? strchr(text, ' ') : NULL;
    return give_pci(address && strcmp(address, " -") != 0 ? address + 1 : NULL, pci);
}

/* ---- MIG: what a GPU can be cut into ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    ENTER_DEVICE(device);
    return give_pair(gpu_fact(device, "mig"), current, pending);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info) {
    ENTER_DEVICE(device);
    int name_at = 0;
    if (info->version != STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (profile >= PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    const char *text = gpu_fact_at(device, "profile", profile);
    if (!text || sscanf(text, "%u %u %u %u %llu %n", &info->id, &info->sliceCount, &info->instanceCount,
                        &info->multiprocessorCount, &info->memorySizeMB, &name_at) != 5)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_text(text + name_at, info->name, sizeof info->name);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int profile_id,
                                                           nvmlGpuInstancePlacement_t *placements,
                                                           unsigned int *count) {
    ENTER_DEVICE(device);
    const char *text = gpu_fact_at(device, "placements.", profile_id);
    unsigned int found = 0, start, size;
    int length;
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    /* With NULL for placements the call only counts (NVML API reference). */
    for (; sscanf(text, "%u:%u%n", &start, &size, &length) == 2; text += length, found++) {
        if (placements && found >= *count)
            return NVML_ERROR_INSUFFICIENT_SIZE;
        if (placements)
            placements[found].start = start, placements[found].size = size;
    }
    *count = found;
    return NVML_SUCCESS;
}
