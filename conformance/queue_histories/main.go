// Plays histories of a scheduling queue on kube-scheduler's own: JSON lines of steps in, JSON lines of states out.
// The plugins are those of plugins.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"
	_ "unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	clocktesting "k8s.io/utils/clock/testing"
)

//go:linkname flushBackoff k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoff(p *queue.PriorityQueue, logger klog.Logger)

//go:linkname flushLeftover k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulablePodsLeftover
func flushLeftover(p *queue.PriorityQueue, logger klog.Logger)

type op struct {
	Op       string
	Name     string
	UID      string
	Priority int32
	App      string
	CPU      int64
	Plugins  []string
	Pending  []string
	Event    string
	Number   int
	Most     int32
	Gate     string
	Seconds  float64
}

const (
	csi      = "storage.k8s.io/CSINodeAdd"
	labelled = "UnschedulablePodUpdatePodLabel"
)

var plugins = map[string]map[string]string{
	"OfShape":    {"NodeAdd": "shape", "AssignedPodDelete": "nothing"},
	"OfTemplate": {"NodeAdd": "template", labelled: "template"},
	"OfPod":      {"NodeAdd": "pod", csi: "pod", "AssignedPodDelete": "shape"},
	"OfNothing":  {csi: "nothing", labelled: "nothing"},
	"Varying":    {"NodeAdd": "varying"},
	"Gate":       {"NodeAdd": "pod"},
	"OtherGate":  {csi: "shape"},
}
var registered = map[string]fwk.ClusterEvent{
	"NodeAdd":           {Resource: fwk.Node, ActionType: fwk.Add},
	csi:                 {Resource: fwk.CSINode, ActionType: fwk.Add},
	"AssignedPodDelete": {Resource: fwk.Pod, ActionType: fwk.Delete},
	labelled:            {Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
}

func cpuOf(p *v1.Pod) int { return int(p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()) }

func answer(plugin, event string, pod *v1.Pod, old, new interface{}) bool {
	about := new
	if about == nil {
		about = old
	}
	n := 0
	if event == "AssignedPodDelete" || event == labelled {
		if about.(*v1.Pod).UID == pod.UID {
			return true
		}
	} else {
		n = about.(int)
	}
	reads := plugins[plugin][event]
	if reads == "varying" {
		reads = "pod"
		if n%2 == 1 {
			reads = "shape"
		}
	}
	part := 0
	switch reads {
	case "shape":
		part = cpuOf(pod)
	case "template":
		part = cpuOf(pod)
		for _, c := range pod.Labels["app"] {
			part += int(c)
		}
	case "pod":
		fmt.Sscanf(pod.Name[1:], "%d", &part)
	}
	return (part+n)%2 == 1
}

type gate struct {
	name string
	held map[string]bool
}

func (g *gate) Name() string { return g.name }
func (g *gate) PreEnqueue(_ context.Context, p *v1.Pod) *fwk.Status {
	if g.held[p.Name] {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "held")
	}
	return nil
}

type world struct {
	q        *queue.PriorityQueue
	clock    *clocktesting.FakeClock
	gates    map[string]*gate
	pods     map[string]*v1.Pod
	underway map[string]*framework.QueuedPodInfo
}

func newWorld(ctx context.Context) *world {
	w := &world{gates: map[string]*gate{}, pods: map[string]*v1.Pod{}, underway: map[string]*framework.QueuedPodInfo{}}
	pre := map[string]fwk.PreEnqueuePlugin{}
	for _, n := range []string{"Gate", "OtherGate"} {
		w.gates[n] = &gate{n, map[string]bool{}}
		pre[n] = w.gates[n]
	}
	hints := queue.QueueingHintMap{}
	for plugin, evs := range plugins {
		for label := range evs {
			plugin, label := plugin, label
			ev := registered[label]
			hints[ev] = append(hints[ev], &queue.QueueingHintFunction{PluginName: plugin, QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, o, n interface{}) (fwk.QueueingHint, error) {
				if answer(plugin, label, pod, o, n) {
					return fwk.Queue, nil
				}
				return fwk.QueueSkip, nil
			}})
		}
	}
	w.clock = clocktesting.NewFakeClock(time.Unix(1000, 500000000))
	sort := &queuesort.PrioritySort{}
	w.q = queue.NewTestQueue(ctx, sort.Less, queue.WithClock(w.clock), queue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{"default-scheduler": pre}),
		queue.WithQueueingHintMapPerProfile(queue.QueueingHintMapPerProfile{"default-scheduler": hints}))
	return w
}

func (w *world) where(name string) string {
	for _, p := range w.q.PodsInActiveQ() {
		if p.Name == name {
			return "Active"
		}
	}
	for _, p := range w.q.PodsInBackoffQ() {
		if p.Name == name {
			return "Backoff"
		}
	}
	for _, p := range w.q.UnschedulablePods() {
		if p.Name == name {
			i, _ := w.q.GetPod(name, "default")
			if i.Gated() {
				return "Gated:" + i.GatingPlugin
			}
			return "Unschedulable"
		}
	}
	for _, p := range w.q.InFlightPods() {
		if p.Name == name {
			return "InFlight"
		}
	}
	return "None"
}

func main() {
	metrics.Register()
	ctx := context.Background()
	logger := klog.FromContext(ctx)
	klog.LogToStderr(false)
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(make([]byte, 1<<20), 1<<26)
	for sc.Scan() {
		var ops []op
		if err := json.Unmarshal(sc.Bytes(), &ops); err != nil {
			panic(err)
		}
		w := newWorld(ctx)
		var out []string
		for _, o := range ops {
			popped := ""
			switch o.Op {
			case "add", "update":
				p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: "default", UID: types.UID(o.UID), Labels: map[string]string{"app": o.App}},
					Spec: v1.PodSpec{SchedulerName: "default-scheduler", Priority: &o.Priority, Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(o.CPU, resource.DecimalSI)}}}}}}
				old := w.pods[o.Name]
				w.pods[o.Name] = p
				if o.Op == "add" {
					w.q.Add(ctx, p)
				} else {
					w.q.Update(ctx, old, p)
				}
			case "delete":
				p := w.pods[o.Name]
				delete(w.pods, o.Name)
				w.q.Delete(p)
				if _, ok := w.underway[o.Name]; ok {
					w.q.Done(p.UID)
					delete(w.underway, o.Name)
				}
			case "pop":
				can := len(w.q.PodsInActiveQ()) > 0
				for _, p := range w.q.PodsInBackoffQ() {
					i, _ := w.q.GetPod(p.Name, "default")
					if i.UnschedulablePlugins.Len()+i.PendingPlugins.Len() > 0 {
						can = true
					}
				}
				popped = "-"
				if can {
					i, err := w.q.Pop(logger)
					if err != nil {
						panic(err)
					}
					w.underway[i.Pod.Name] = i
					popped = fmt.Sprintf("%s:%d", i.Pod.Name, i.Attempts)
				}
			case "fail":
				i := w.underway[o.Name]
				delete(w.underway, o.Name)
				i.ClearRejectorPlugins()
				i.UnschedulablePlugins = sets.New(o.Plugins...)
				i.PendingPlugins = sets.New(o.Pending...)
				i.PodInfo, _ = framework.NewPodInfo(w.pods[o.Name])
				if err := w.q.AddUnschedulableIfNotPresent(logger, i, w.q.SchedulingCycle()); err != nil {
					panic(err)
				}
			case "bind":
				w.q.Done(w.underway[o.Name].Pod.UID)
				delete(w.underway, o.Name)
				delete(w.pods, o.Name)
			case "happen":
				w.q.MoveAllToActiveOrBackoffQueue(logger, registered[o.Event], nil, o.Number, nil)
			case "lose":
				most := o.Most
				w.q.MoveAllToActiveOrBackoffQueue(logger, framework.EventAssignedPodDelete, w.pods[o.Name], nil, func(p *v1.Pod) bool { return *p.Spec.Priority <= most })
			case "activate":
				w.q.Activate(logger, map[string]*v1.Pod{o.Name: w.pods[o.Name]})
			case "gate":
				h := w.gates[o.Gate].held
				h[o.Name] = !h[o.Name]
			case "wait":
				w.clock.Step(time.Duration(o.Seconds * float64(time.Second)))
			case "flush":
				flushBackoff(w.q, logger)
			case "flush left over":
				flushLeftover(w.q, logger)
			}
			var names []string
			for n := range w.pods {
				names = append(names, n)
			}
			sort.Strings(names)
			var st []string
			for _, n := range names {
				st = append(st, n+"="+w.where(n))
			}
			out = append(out, popped+"|"+strings.Join(st, " "))
		}
		b, _ := json.Marshal(out)
		fmt.Println(string(b))
	}
}
