package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// linesAtOnce is how many lines are decoded side by side.
const linesAtOnce = 4096

// readCluster decodes a cluster; the pods that wait and were promised no node are the burst, in their order.
func readCluster(in io.Reader) (objects []runtime.Object, burst []*v1.Pod, err error) {
	var lines [][]byte
	flush := func() {
		decoded, failure := decodeLines(lines)
		if failure != nil && err == nil {
			err = failure
		}
		for _, obj := range decoded {
			if pod, ok := obj.(*v1.Pod); ok && pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" {
				burst = append(burst, pod)
			} else {
				objects = append(objects, obj)
			}
		}
		lines = lines[:0]
	}
	readError := eachLine(in, func(line []byte) {
		if lines = append(lines, line); len(lines) == linesAtOnce {
			flush()
		}
	})
	flush()
	if err == nil {
		err = readError
	}
	return objects, burst, err
}

// decodeLines decodes lines on all cores, keeping their order.
func decodeLines(lines [][]byte) ([]runtime.Object, error) {
	decoded := make([]runtime.Object, len(lines))
	errors := make([]error, len(lines))
	const workers = 4
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < len(lines); i += workers {
				decoded[i], errors[i] = decodeObject(lines[i])
			}
		})
	}
	group.Wait()
	for i, err := range errors {
		if err != nil {
			return nil, fmt.Errorf("%.80s: %w", lines[i], err)
		}
	}
	return decoded, nil
}

// remove takes an object out of its informer and tells the handlers of its type.
func (f *instantFactory) remove(obj runtime.Object) error {
	informer := f.informers[reflect.TypeOf(obj)]
	if err := informer.GetIndexer().Delete(obj); err != nil {
		return err
	}
	for _, handler := range informer.handlers {
		handler.OnDelete(obj)
	}
	return nil
}

// eviction is one victim of several.
type eviction struct {
	victim *v1.Pod
	count  int
}

// evictions has the DefaultPreemption plugins hand over their victims instead of deleting them through an API server.
func evictions(s *simulation) chan eviction {
	evicted := make(chan eviction)
	for _, profile := range s.Profiles {
		for _, extension := range profile.EnqueueExtensions() {
			if plugin, ok := extension.(*defaultpreemption.DefaultPreemption); ok {
				plugin.Executor.PreemptPod = func(_ context.Context, c preemption.Candidate, _ preemption.ExecutorPreemptor, victim *v1.Pod, _ string) error {
					evicted <- eviction{victim, len(c.Victims().Pods)}
					return nil
				}
			}
		}
	}
	return evicted
}

// receive waits for all victims of one preemption, which upstream evicts in the background.
func (d *drain) receive() []*v1.Pod {
	first := <-d.evicted
	victims := []*v1.Pod{first.victim}
	for len(victims) < first.count {
		victims = append(victims, (<-d.evicted).victim)
	}
	return victims
}

// cpuSeconds is the processor time this process has used.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// residentMB is the memory this process holds, 0 where the system does not say.
func residentMB() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				return 0
			}
			return kilobytes * 1024 / 1e6
		}
	}
	return 0
}
