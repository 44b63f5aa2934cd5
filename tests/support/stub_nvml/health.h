/* Of nvml_stub.c: how a GPU is, and the events that tell of its errors. */

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType;
    nvmlReturn_t nvmlReturn;
    union {
        double dVal;
        unsigned int uiVal;
        unsigned long long ullVal;
    } value;
} nvmlFieldValue_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

enum { FIELD_RECOVERY_ACTION = 230, VALUE_TYPE_UNSIGNED_INT = 1, SENSOR_GPU = 0, VOLATILE_ECC = 0, CORRECTED = 0 };
enum { EVENT_DOUBLE_BIT_ECC = 2, EVENT_XID = 8, POLL_MICROSECONDS = 5000 };

struct nvmlEventSet_st {
    long offset; /* what of the file of events was told */
    unsigned long long types[MAX_GPUS];
};
typedef struct nvmlEventSet_st *nvmlEventSet_t;

static nvmlReturn_t give_large(const char *text, unsigned long long *to) {
    return text && sscanf(text, "%llu", to) == 1 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* ---- readings ---- */

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
    ENTER_DEVICE(device);
    for (int i = 0; i < count; i++) {
        values[i].valueType = VALUE_TYPE_UNSIGNED_INT;
        values[i].nvmlReturn = values[i].fieldId == FIELD_RECOVERY_ACTION
                                   ? give_number(gpu_fact(device, "recovery_action"), &values[i].value.uiVal)
                                   : NVML_ERROR_INVALID_ARGUMENT;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                         unsigned long long *count) {
    ENTER_DEVICE(device);
    if (counter != VOLATILE_ECC)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_large(gpu_fact(device, type == CORRECTED ? "ecc_corrected" : "ecc_uncorrected"), count);
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int *is_pending) {
    ENTER_DEVICE(device);
    return give_number(gpu_fact(device, "retired_pending"), is_pending);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                       unsigned int *is_pending, unsigned int *failed) {
    ENTER_DEVICE(device);
    const char *text = gpu_fact(device, "remapped_rows");
    return text && sscanf(text, "%u %u %u %u", corrected, uncorrected, is_pending, failed) == 4
               ? NVML_SUCCESS
               : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    ENTER_DEVICE(device);
    return give_large(gpu_fact(device, "clock_reasons"), reasons);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    ENTER_DEVICE(device);
    return give_large(gpu_fact(device, "clock_reasons"), reasons);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    ENTER_DEVICE(device);
    utilization->memory = 0;
    return give_number(gpu_fact(device, "utilization"), &utilization->gpu);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *degrees) {
    ENTER_DEVICE(device);
    if (sensor != SENSOR_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    return give_number(gpu_fact(device, "temperature"), degrees);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts) {
    ENTER_DEVICE(device);
    return give_number(gpu_fact(device, "power"), milliwatts);
}

/* ---- events ---- */

static FILE *open_events(void) {
    char path[4096], name[4200];
    if (!folder("state", path, sizeof path))
        return NULL;
    snprintf(name, sizeof name, "%s/events", path);
    return fopen(name, "r");
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    ENTER();
    FILE *file = open_events();
    *set = calloc(1, sizeof **set);
    if (!*set)
        abort();
    if (file) {
        fseek(file, 0, SEEK_END);
        (*set)->offset = ftell(file);
        fclose(file);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    ENTER();
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    ENTER_DEVICE(device);
    return give_large(gpu_fact(device, "events"), types);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    ENTER_DEVICE(device);
    unsigned long long supported;
    RETURN_UNLESS_SUCCESS(give_large(gpu_fact(device, "events"), &supported));
    if (types & ~supported)
        return NVML_ERROR_NOT_SUPPORTED;
    set->types[device->index] |= types;
    return NVML_SUCCESS;
}

/* The next event in the file for the GPUs of the set. A line that is being written is left for the next time. */
static int next_event(nvmlEventSet_t set, nvmlEventData_t *data) {
    char line[256], type[16];
    int found = 0, gpu;
    FILE *file = open_events();
    if (!file)
        return 0;
    fseek(file, set->offset, SEEK_SET);
    while (!found && fgets(line, sizeof line, file) && strchr(line, '\n')) {
        set->offset += (long)strlen(line);
        data->gpuInstanceId = data->computeInstanceId = 0xffffffff;
        data->eventData = 0;
        if (sscanf(line, "gpu%d %15s %llu %u %u", &gpu, type, &data->eventData, &data->gpuInstanceId,
                   &data->computeInstanceId) < 2 ||
            gpu >= gpu_count())
            continue;
        data->eventType = strcmp(type, "xid") == 0 ? EVENT_XID : EVENT_DOUBLE_BIT_ECC;
        data->device = gpu < 0 ? NULL : &devices[gpu];
        found = gpu < 0 || (set->types[gpu] & data->eventType);
    }
    fclose(file);
    return found;
}

static nvmlReturn_t look_for_event(nvmlEventSet_t set, nvmlEventData_t *data) {
    ONE_AT_A_TIME();
    read_live();
    if (next_event(set, data))
        return NVML_SUCCESS;
    for (int i = 0; i < gpu_count(); i++)
        if (set->types[i] && is_lost(&devices[i]))
            return NVML_ERROR_GPU_IS_LOST;
    return NVML_ERROR_TIMEOUT;
}

static nvmlReturn_t enter_alone(const char *function) {
    ONE_AT_A_TIME();
    return enter(function);
}

/* Other threads may call meanwhile, as in NVML. */
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int milliseconds) {
    RETURN_UNLESS_SUCCESS(enter_alone(__func__));
    for (long long left = milliseconds * 1000LL;; left -= POLL_MICROSECONDS) {
        nvmlReturn_t result = look_for_event(set, data);
        if (result != NVML_ERROR_TIMEOUT || left <= 0)
            return result;
        usleep(POLL_MICROSECONDS);
    }
}
