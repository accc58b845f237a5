package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// benchCluster is two nodes of four cores, each taken by a pod of priority 0 that has three of them.
func benchCluster(waiting ...string) string {
	var lines []string
	for i := range 2 {
		lines = append(lines,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%d"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}`, i),
			benchPod(fmt.Sprintf("bound%d", i), "3", 0, fmt.Sprintf(`"nodeName":"n%d",`, i)))
	}
	return strings.Join(append(lines, waiting...), "\n")
}

func benchPod(name, cpu string, priority int, more string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","uid":%q},"spec":{%s"schedulerName":"default-scheduler","priority":%d,"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":%q}}}]}}`,
		name, name, more, priority, cpu)
}

func TestBench(t *testing.T) {
	for _, c := range []struct {
		name                              string
		waiting                           []string
		placed, preempting, unschedulable int
	}{
		{"pods that fit are placed, until nothing is left", []string{benchPod("a", "1", 0, ""), benchPod("b", "1", 0, ""), benchPod("c", "1", 0, "")}, 2, 0, 1},
		{"an important pod evicts and is then placed", []string{benchPod("a", "3", 10, ""), benchPod("b", "3", 10, "")}, 2, 2, 0},
		{"a pod that nothing helps stays", []string{benchPod("a", "8", 10, "")}, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			in := strings.NewReader(benchCluster(c.waiting...))
			if err := answerBench(in, &out, benchOptions{percentages: "100,0", runs: 2, seconds: 60}); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 4 {
				t.Fatalf("%d results, want 4", len(lines))
			}
			for _, line := range lines {
				var r benchResult
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r.Decided != len(c.waiting) || r.Placed != c.placed || r.Preempting != c.preempting || r.Unschedulable != c.unschedulable {
					t.Errorf("got %s", line)
				}
			}
		})
	}
}
