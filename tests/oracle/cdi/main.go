// The judge of Rootport's CDI specs: the CDI library that container runtimes use.
//
//	go run . DIR < requests.json
//
// It loads the specs of DIR as a runtime does, then injects each of the given lists of device ids into an OCI spec of
// its own. Standard input is a JSON array of arrays of ids; standard output is one JSON object, see report. Device nodes
// without a path of the host's own are looked up as /dev/null, since a test machine has no GPU; everything else is the
// library's own doing.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

type report struct {
	// Errors has what the library says of each file that it refuses.
	Errors map[string][]string `json:"errors"`
	// Devices are the qualified names of all devices.
	Devices []string `json:"devices"`
	// MinimumVersions has the least CDI version of each file, by its base name.
	MinimumVersions map[string]string `json:"minimumVersions"`
	// Injected has the outcome of each list of ids, in order.
	Injected []injection `json:"injected"`
}

type injection struct {
	Error       string   `json:"error"`
	Env         []string `json:"env"`
	DeviceNodes []string `json:"deviceNodes"`
	// Mounts are "source destination", Hooks the arguments of the createContainer hooks.
	Mounts []string   `json:"mounts"`
	Hooks  [][]string `json:"hooks"`
}

func main() {
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, in *os.File, out *os.File) error {
	var requests [][]string
	if err := json.NewDecoder(in).Decode(&requests); err != nil {
		return err
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	result := report{Errors: map[string][]string{}, Devices: cache.ListDevices(), MinimumVersions: map[string]string{}}
	for path, errs := range cache.GetErrors() {
		for _, err := range errs {
			result.Errors[filepath.Base(path)] = append(result.Errors[filepath.Base(path)], err.Error())
		}
	}
	for _, vendor := range cache.ListVendors() {
		for _, spec := range cache.GetVendorSpecs(vendor) {
			version, err := specs.MinimumRequiredVersion(spec.Spec)
			if err != nil {
				return err
			}
			result.MinimumVersions[filepath.Base(spec.GetPath())] = version
		}
	}
	for _, id := range result.Devices {
		for _, node := range cache.GetDevice(id).ContainerEdits.DeviceNodes {
			if node.HostPath == "" {
				node.HostPath = "/dev/null"
			}
		}
	}
	for _, ids := range requests {
		result.Injected = append(result.Injected, inject(cache, ids))
	}
	return json.NewEncoder(out).Encode(result)
}

func inject(cache *cdi.Cache, ids []string) injection {
	container := &oci.Spec{}
	if _, err := cache.InjectDevices(container, ids...); err != nil {
		return injection{Error: err.Error()}
	}
	outcome := injection{}
	for _, mount := range container.Mounts {
		outcome.Mounts = append(outcome.Mounts, mount.Source+" "+mount.Destination)
	}
	if container.Hooks != nil {
		for _, hook := range container.Hooks.CreateContainer {
			outcome.Hooks = append(outcome.Hooks, hook.Args)
		}
	}
	if container.Process != nil {
		outcome.Env = container.Process.Env
	}
	if container.Linux != nil {
		for _, device := range container.Linux.Devices {
			outcome.DeviceNodes = append(outcome.DeviceNodes, device.Path)
		}
	}
	return outcome
}
