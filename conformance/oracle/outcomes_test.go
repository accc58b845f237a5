package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// witness passes everything on to the plugin and remembers the victims: upstream's choices stay open.
type witness struct {
	*defaultpreemption.DefaultPreemption
	sync.Mutex
	victims map[string][]*v1.Pod
}

func (w *witness) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo, pdbs []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, status := w.DefaultPreemption.SelectVictimsOnNode(ctx, state, pod, info, pdbs)
	w.Lock()
	defer w.Unlock()
	w.victims[info.Node().Name] = victims
	return victims, violations, status
}

// runOnce runs upstream on shuffled objects and says what it nominates; "" if nothing.
func runOnce(t *testing.T, c *decisionCase, random *rand.Rand) string {
	t.Helper()
	objects, err := decodeObjects(c.Objects)
	if err != nil {
		t.Fatal(err)
	}
	random.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	pod, err := decodePod(c.Pod)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := caseConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := newSimulation(ctx, cfg, cfg.Parallelism)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.show(objects, pod); err != nil {
		t.Fatal(err)
	}
	profile := s.Profiles[pod.Spec.SchedulerName]
	if err := s.Cache.UpdateSnapshot(klog.FromContext(ctx), profile.SnapshotSharedLister().(*internalcache.Snapshot)); err != nil {
		t.Fatal(err)
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	state := framework.NewCycleState()
	_, err = s.SchedulePod(ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})
	fitError, unfit := err.(*framework.FitError)
	if !unfit || !profile.HasPostFilterPlugins() {
		return ""
	}
	probe := newProbe(profile, 1) // for its way to the plugin, and to keep it from deleting pods
	if probe == nil {
		return ""
	}
	w := &witness{DefaultPreemption: probe.DefaultPreemption, victims: map[string][]*v1.Pod{}}
	w.Evaluator.Interface = w
	result, status := profile.RunPostFilterPlugins(ctx, state, pod, fitError.Diagnosis.NodeToStatus)
	if !status.IsSuccess() || result == nil || result.NominatedNodeName == "" {
		return ""
	}
	seen := nomination{NominatedNode: result.NominatedNodeName}
	for _, victim := range w.victims[result.NominatedNodeName] {
		seen.Victims = append(seen.Victims, victim.Namespace+"/"+victim.Name)
	}
	return seen.key()
}

// listed are the outcomes of a decision.
func listed(t *testing.T, d *decision) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	switch preemption := d.Preemption.(type) {
	case nil:
		keys[""] = true
	case nomination:
		keys[preemption.key()] = true
	case map[string]any:
		for _, outcome := range preemption["acceptable"].([]nomination) {
			keys[outcome.key()] = true
		}
	default:
		t.Fatalf("preemption is a %T", d.Preemption)
	}
	return keys
}

// compare runs upstream again and again: what it does has to be listed, and what is listed has to happen.
func compare(t *testing.T, c *decisionCase, runs int, all bool) {
	t.Helper()
	d, err := decide(c, 256)
	if err != nil {
		t.Fatal(err)
	}
	keys := listed(t, d)
	random := rand.New(rand.NewSource(1))
	seen := map[string]bool{}
	for range runs {
		key := runOnce(t, c, random)
		if !keys[key] {
			t.Fatalf("%s: upstream did %q, listed are %v", c.ID, key, keys)
		}
		seen[key] = true
	}
	if all && len(seen) != len(keys) {
		t.Errorf("%s: listed are %v, upstream did only %v in %d runs", c.ID, keys, seen, runs)
	}
}

// cluster makes a case of nodes of 2 CPUs with two pods of 1 CPU each; edit changes pod p of node n.
func cluster(config string, nodes int, edit func(n, p int, spec, status map[string]any)) *decisionCase {
	c := &decisionCase{ID: "test", Config: json.RawMessage(config)}
	for n := range nodes {
		c.Objects = append(c.Objects, json.RawMessage(fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%d"},"status":{"allocatable":{"cpu":"2","memory":"1Gi","pods":"10"}}}`, n)))
		for p := range 2 {
			spec := map[string]any{"nodeName": fmt.Sprintf("n%d", n), "priority": 0, "schedulerName": "default-scheduler",
				"containers": []any{map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"cpu": "1"}}}}}
			status := map[string]any{"phase": "Running", "startTime": "2024-05-02T08:00:00Z"}
			edit(n, p, spec, status)
			name := fmt.Sprintf("p%d-%d", n, p)
			data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": status,
				"metadata": map[string]any{"name": name, "namespace": "default", "uid": name, "labels": map[string]any{"pod": fmt.Sprint(p), "node": fmt.Sprint(n)}}})
			if err != nil {
				panic(err)
			}
			c.Objects = append(c.Objects, data)
		}
	}
	c.Pod = json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"in","namespace":"default","uid":"in"},
		"spec":{"priority":10,"schedulerName":"default-scheduler","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Pending"}}`)
	return c
}

const oneCandidate = `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration","profiles":[{"pluginConfig":[
	{"name":"DefaultPreemption","args":{"minCandidateNodesPercentage":0,"minCandidateNodesAbsolute":1}}]}]}`

func TestOutcomesAreThoseOfUpstream(t *testing.T) {
	alike := func(int, int, map[string]any, map[string]any) {}
	ranked := func(n, p int, spec, _ map[string]any) { spec["priority"] = n - 5*p }
	older := func(_, p int, _, status map[string]any) {
		status["startTime"] = fmt.Sprintf("2024-05-02T0%d:00:00Z", 8-p)
	}
	budget := json.RawMessage(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b","namespace":"default"},
		"spec":{"selector":{"matchLabels":{"node":"0"}}},"status":{"disruptionsAllowed":0}}`)
	for name, test := range map[string]struct {
		config   string
		nodes    int
		edit     func(n, p int, spec, status map[string]any)
		budget   bool
		outcomes int
	}{
		"all pods alike":                       {"null", 3, alike, false, 6},
		"priorities decide":                    {"null", 3, ranked, false, 1},
		"start times decide":                   {"null", 3, older, false, 3},
		"a budget spares one node":             {"null", 3, alike, true, 4},
		"the first candidate is taken":         {oneCandidate, 3, ranked, false, 3},
		"the first without violation is taken": {oneCandidate, 3, ranked, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(test.config, test.nodes, test.edit)
			if test.budget {
				c.Objects = append(c.Objects, budget)
			}
			d, err := decide(c, 256)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(listed(t, d)); got != test.outcomes {
				t.Errorf("%d outcomes, want %d: %v", got, test.outcomes, d.Preemption)
			}
			compare(t, c, 300, true)
		})
	}
}

// TestOutcomesOfCases checks the cases of a file, given by its name in ORACLE_CASES.
func TestOutcomesOfCases(t *testing.T) {
	name := os.Getenv("ORACLE_CASES")
	if name == "" {
		t.Skip("ORACLE_CASES is not set")
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	err = eachLine(bytes.NewReader(data), func(line []byte) {
		var c decisionCase
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		compare(t, &c, 40, false)
	})
	if err != nil {
		t.Fatal(err)
	}
}
