// Reads answers of extenders as kube-scheduler does: a line with a kind and a text in, a line with the value that Go's
// decoder makes of it, or the error, out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func target(kind string) any {
	switch kind {
	case "filter":
		return &extenderv1.ExtenderFilterResult{}
	case "scores":
		return &extenderv1.HostPriorityList{}
	case "bind":
		return &extenderv1.ExtenderBindingResult{}
	case "preempt":
		return &extenderv1.ExtenderPreemptionResult{}
	case "bind args":
		return &extenderv1.ExtenderBindingArgs{}
	}
	panic("no such kind: " + kind)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked struct{ Kind, Text string }
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		value, text := target(asked.Kind), ""
		if err := json.NewDecoder(strings.NewReader(asked.Text)).Decode(value); err != nil {
			value, text = nil, err.Error()
		}
		if err := out.Encode(map[string]any{"value": value, "error": text}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
