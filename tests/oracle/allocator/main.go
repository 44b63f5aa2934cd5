// Command allocator answers allocation problems with Kubernetes' own structured allocator.
//
// It reads one problem a line (the format of tests/data/conformance/README.md) and writes one answer a line: the
// "oracle" field of those files, with the problem's id. It exists for tests: Rootport's own allocator must agree.
//
// With -spend it also answers each problem again and again for that long, and reports medians: warmMicros, where
// everything is kept that kube-scheduler keeps from pod to pod (compiled selectors, the sets of what is allocated, which
// it copies for each pod), and anewMicros, where nothing is. Reading JSON is in neither.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// features mirrors structured.Features with pointers: what a problem does not name is on. Alpha features of Kubernetes
// 1.37 that Rootport does not know (compatibility groups, derived attributes, optional node operations) stay off.
type features struct {
	AdminAccess, ConsumableCapacity, DeviceBindingAndStatus, DeviceTaints              *bool
	FractionalCapacityRange, ListTypeAttributes, PartitionableDevices, PrioritizedList *bool
}

type problem struct {
	ID              string                       `json:"id"`
	Node            *corev1.Node                 `json:"node"`
	Nodes           []*corev1.Node               `json:"nodes"`
	Classes         []*resourceapi.DeviceClass   `json:"classes"`
	Slices          []*resourceapi.ResourceSlice `json:"slices"`
	AllocatedClaims []*resourceapi.ResourceClaim `json:"allocatedClaims"`
	Claims          []*resourceapi.ResourceClaim `json:"claims"`
	Features        features                     `json:"features"`
	Raw             bool                         `json:"raw"`
}

type answer struct {
	ID         string                         `json:"id"`
	Channel    string                         `json:"channel,omitempty"`
	Node       string                         `json:"node,omitempty"`
	Result     []resourceapi.AllocationResult `json:"result"`
	Error      string                         `json:"error,omitempty"`
	ErrorKind  string                         `json:"errorKind,omitempty"`
	NodesTried int                            `json:"nodesTried"`
	Steps      int64                          `json:"steps"`
	Micros     int64                          `json:"micros"`
	WarmMicros float64                        `json:"warmMicros,omitempty"`
	AnewMicros float64                        `json:"anewMicros,omitempty"`
}

func main() {
	timeout := flag.Duration("timeout", 5*time.Second, "give up on a problem after this time (errorKind: timeout)")
	spend := flag.Duration("spend", 0, "time each problem again for so long, warm and anew")
	flag.Parse()
	reader := bufio.NewReaderSize(os.Stdin, 1<<20)
	encoder := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(reader)
	for decoder.More() {
		var p problem
		if err := decoder.Decode(&p); err != nil {
			fmt.Fprintln(os.Stderr, "read a problem:", err)
			os.Exit(2)
		}
		if err := encoder.Encode(solve(&p, *timeout, *spend)); err != nil {
			fmt.Fprintln(os.Stderr, "write an answer:", err)
			os.Exit(1)
		}
	}
}

func solve(p *problem, timeout, spend time.Duration) answer {
	if p.Node != nil {
		p.Nodes = append([]*corev1.Node{p.Node}, p.Nodes...)
	}
	if !p.Raw {
		for _, claim := range p.Claims {
			setDefaults(claim)
		}
	}
	start := time.Now()
	state, cache := p.allocatedState(), p.newCache()
	out := p.attempt(timeout, state, cache)
	out.Micros = time.Since(start).Microseconds()
	if spend > 0 && out.ErrorKind != "timeout" {
		out.WarmMicros = medianMicros(spend, func() { p.attempt(timeout, copied(state), cache) })
		out.AnewMicros = medianMicros(spend, func() { p.attempt(timeout, p.allocatedState(), p.newCache()) })
	}
	return out
}

// medianMicros calls for as long as told, at least three times.
func medianMicros(spend time.Duration, call func()) float64 {
	var took []time.Duration
	for begin := time.Now(); len(took) < 3 || time.Since(begin) < spend; {
		start := time.Now()
		call()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return float64(took[len(took)/2].Nanoseconds()) / 1000
}

func (p *problem) newCache() *cel.Cache {
	on := p.Features.enabled()
	return cel.NewCache(1000, cel.Features{
		EnableConsumableCapacity: on.ConsumableCapacity,
		EnableListTypeAttributes: on.ListTypeAttributes,
	})
}

// attempt does what kube-scheduler does for a pod: make an allocator, and try the nodes until one will do.
func (p *problem) attempt(timeout time.Duration, state structured.AllocatedState, cache *cel.Cache) answer {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	out := answer{ID: p.ID}
	allocator, err := structured.NewAllocator(ctx, p.Features.enabled(), state, classes(p.Classes), p.Slices, cache)
	if err != nil {
		out.Error, out.ErrorKind = err.Error(), "input"
		return out
	}
	// The interface with these two methods is internal upstream.
	out.Channel = reflect.ValueOf(allocator).MethodByName("Channel").Call(nil)[0].String()
	var nodeError error
	for _, node := range p.Nodes {
		out.NodesTried++
		result, err := allocator.Allocate(ctx, node, p.Claims)
		if err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode) {
			out.Error, out.ErrorKind = err.Error(), "fatal"
			if ctx.Err() != nil {
				out.ErrorKind = "timeout"
			}
			break
		}
		if err != nil && nodeError == nil {
			nodeError = err
		}
		if err == nil && len(result) == len(p.Claims) {
			out.Node, out.Result = node.Name, result
			break
		}
	}
	if out.Result == nil && out.Error == "" && nodeError != nil {
		out.Error, out.ErrorKind = nodeError.Error(), "node"
	}
	if stats := reflect.ValueOf(allocator).MethodByName("GetStats"); stats.IsValid() {
		out.Steps = stats.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
	}
	return out
}

// setDefaults does what the API server does to a claim (k8s.io/kubernetes v1.37.2, pkg/apis/resource/v1).
func setDefaults(claim *resourceapi.ResourceClaim) {
	set := func(mode *resourceapi.DeviceAllocationMode, count *int64, tolerations []resourceapi.DeviceToleration) {
		if *mode == "" {
			*mode = resourceapi.DeviceAllocationModeExactCount
		}
		if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
		for i := range tolerations {
			if tolerations[i].Operator == "" {
				tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
			}
		}
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if exactly := request.Exactly; exactly != nil {
			set(&exactly.AllocationMode, &exactly.Count, exactly.Tolerations)
		}
		for j := range request.FirstAvailable {
			alternative := &request.FirstAvailable[j]
			set(&alternative.AllocationMode, &alternative.Count, alternative.Tolerations)
		}
	}
}

// allocatedState gathers what is in use as kube-scheduler does (plugins/dynamicresources/allocateddevices.go).
func (p *problem) allocatedState() structured.AllocatedState {
	consumableCapacity := p.Features.enabled().ConsumableCapacity
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range p.AllocatedClaims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if !consumableCapacity || result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}

// copied is what kube-scheduler gives each pod's allocator of what it keeps (GatherAllocatedState there).
func copied(state structured.AllocatedState) structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         state.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: state.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       state.AggregatedCapacity.Clone(),
	}
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("deviceclass.resource.k8s.io %q not found", name)
}

func (f features) enabled() structured.Features {
	on := func(flag *bool) bool { return flag == nil || *flag }
	return structured.Features{
		AdminAccess:             on(f.AdminAccess),
		ConsumableCapacity:      on(f.ConsumableCapacity),
		DeviceBindingAndStatus:  on(f.DeviceBindingAndStatus),
		DeviceTaints:            on(f.DeviceTaints),
		FractionalCapacityRange: on(f.FractionalCapacityRange),
		ListTypeAttributes:      on(f.ListTypeAttributes),
		PartitionableDevices:    on(f.PartitionableDevices),
		PrioritizedList:         on(f.PrioritizedList),
	}
}
