// Command oracle asks Kubernetes' own CEL implementation (k8s.io/dynamic-resource-allocation/cel, the code that
// kube-scheduler and the API server run) about device selectors, so that Rootport's tests can compare answers
// without a Go toolchain. See README.md beside it.
//
//	oracle declarations                 prints every function overload (in the order in which they are tried) and macro
//	oracle answer DEVICES < cases       answers one case a line (JSON); DEVICES is a JSON file of devices by name
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type testCase struct {
	ID         string `json:"id"`
	Expression string `json:"expression"`
	Device     string `json:"device"`
	Lists      bool   `json:"lists"`
}

type testDevice struct {
	Driver string             `json:"driver"`
	Device resourceapi.Device `json:"device"`
}

// answer: verdict is compile-error, evaluation-error, true or false. Estimate is absent where the expression does not
// compile; "max" stands for Kubernetes' own "no bound" (2^64-1). Cost is what the evaluation was charged.
type answer struct {
	ID       string `json:"id"`
	Verdict  string `json:"verdict"`
	Error    string `json:"error,omitempty"`
	Estimate string `json:"estimate,omitempty"`
	Cost     uint64 `json:"cost"`
}

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "declarations":
		err = declarations()
	case len(os.Args) == 3 && os.Args[1] == "answer":
		err = answers(os.Args[2])
	default:
		err = fmt.Errorf("usage: oracle declarations | answer DEVICES")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func features(lists bool) dracel.Features {
	return dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: lists}
}

func declarations() error {
	compiled := dracel.GetCompiler(features(true)).CompileCELExpression("true", dracel.Options{})
	if compiled.Error != nil {
		return compiled.Error
	}
	var names, lines []string
	for name, function := range compiled.Environment.Functions() {
		if !function.IsDeclarationDisabled() {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		for _, overload := range compiled.Environment.Functions()[name].OverloadDecls() {
			arguments := make([]string, len(overload.ArgTypes()))
			for i, argument := range overload.ArgTypes() {
				arguments[i] = argument.String()
			}
			style := "function"
			if overload.IsMemberFunction() {
				style = "member"
			}
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t(%s)\t%s", name, overload.ID(), style,
				strings.Join(arguments, ", "), overload.ResultType().String()))
		}
	}
	var macros []string
	for _, macro := range compiled.Environment.Macros() {
		macros = append(macros, "macro\t"+macro.MacroKey())
	}
	sort.Strings(macros)
	lines = append(lines, macros...)
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

func answers(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var devices map[string]testDevice
	if err := json.Unmarshal(content, &devices); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	for input.Scan() {
		var c testCase
		if err := json.Unmarshal(input.Bytes(), &c); err != nil {
			return fmt.Errorf("case %q: %w", input.Text(), err)
		}
		device, known := devices[c.Device]
		if !known {
			return fmt.Errorf("case %s: no device %q", c.ID, c.Device)
		}
		if err := output.Encode(ask(c, device)); err != nil {
			return err
		}
	}
	return input.Err()
}

func ask(c testCase, d testDevice) (result answer) {
	result.ID = c.ID
	defer func() {
		// cel-go panics while it plans a map with keys of bytes. The API server answers that with an error.
		if problem := recover(); problem != nil {
			result.Verdict, result.Error = "compile-error", fmt.Sprint("panic: ", problem)
		}
	}()
	// As the API server checks a new claim, and as the scheduler reads a stored one: the latter has every feature.
	environmentType := environment.NewExpressions
	if c.Lists {
		environmentType = environment.StoredExpressions
	}
	options := dracel.Options{EnvType: &environmentType}
	compiled := dracel.GetCompiler(features(c.Lists)).CompileCELExpression(c.Expression, options)
	if compiled.Error != nil {
		result.Verdict, result.Error = "compile-error", compiled.Error.Error()
		return result
	}
	result.Estimate = "max"
	if compiled.MaxCost != math.MaxUint64 {
		result.Estimate = fmt.Sprint(compiled.MaxCost)
	}
	device := dracel.Device{
		Driver:                   d.Driver,
		AllowMultipleAllocations: d.Device.AllowMultipleAllocations,
		Attributes:               d.Device.Attributes,
		Capacity:                 d.Device.Capacity,
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), device)
	if cost := details.ActualCost(); cost != nil {
		result.Cost = *cost
	}
	if err != nil {
		result.Verdict, result.Error = "evaluation-error", err.Error()
		return result
	}
	result.Verdict = fmt.Sprint(matches)
	return result
}
