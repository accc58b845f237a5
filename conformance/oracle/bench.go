package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// benchOptions say how a burst is drained.
type benchOptions struct {
	config      string  // path of a configuration; empty is the default one
	percentages string  // percentageOfNodesToScore, one after the other; 0 is upstream's own sampling
	runs        int     // drains for each percentage
	seconds     float64 // a drain ends after that long
}

// benchResult is one drain.
type benchResult struct {
	Percentage    int32   `json:"percentage"`
	Burst         int     `json:"burst"`
	Decided       int     `json:"decided"`
	Placed        int     `json:"placed"`
	Preempting    int     `json:"preempting"`
	Unschedulable int     `json:"unschedulable"`
	Seconds       float64 `json:"seconds"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	P50Micros     float64 `json:"p50_us"`
	P99Micros     float64 `json:"p99_us"`
	ResidentMB    float64 `json:"resident_mb"`
}

// answerBench reads a cluster, one object a line, and drains its waiting pods in memory; each drain begins with a new
// scheduler over the same cluster. Pods without a node that were promised none are the burst.
func answerBench(in io.Reader, out io.Writer, options benchOptions) error {
	objects, burst, err := readCluster(in)
	if err != nil {
		return err
	}
	var data json.RawMessage
	if options.config != "" {
		if data, err = os.ReadFile(options.config); err != nil {
			return err
		}
	}
	encoder := json.NewEncoder(out)
	for text := range strings.SplitSeq(options.percentages, ",") {
		percentage, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return err
		}
		for range options.runs {
			cfg, err := caseConfig(data)
			if err != nil {
				return err
			}
			result, err := bench(cfg, int32(percentage), objects, burst, options.seconds)
			if err != nil {
				return err
			}
			if err := encoder.Encode(result); err != nil {
				return err
			}
		}
	}
	return nil
}

// bench shows a new scheduler the cluster, untimed, and drains the burst.
func bench(cfg *config.KubeSchedulerConfiguration, percentage int32, objects []runtime.Object, burst []*v1.Pod, seconds float64) (*benchResult, error) {
	cfg.PercentageOfNodesToScore = &percentage
	for i := range cfg.Profiles {
		cfg.Profiles[i].PercentageOfNodesToScore = nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := newSimulation(ctx, cfg, cfg.Parallelism)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		if err := s.factory.add(obj); err != nil {
			return nil, err
		}
	}
	for _, pod := range burst {
		if err := s.factory.store(pod); err != nil {
			return nil, err
		}
	}
	// The first snapshot copies every node, which a running scheduler did long ago; the rest is garbage of loading.
	for _, profile := range s.Profiles {
		if err := s.Cache.UpdateSnapshot(klog.FromContext(ctx), profile.SnapshotSharedLister().(*internalcache.Snapshot)); err != nil {
			return nil, err
		}
	}
	goruntime.GC()
	d := &drain{simulation: s, evicted: evictions(s), result: benchResult{Percentage: percentage, Burst: len(burst)}}
	return d.run(ctx, burst, seconds)
}

// drain decides on pods one after the other.
type drain struct {
	*simulation
	evicted chan eviction
	result  benchResult
}

func (d *drain) run(ctx context.Context, burst []*v1.Pod, seconds float64) (*benchResult, error) {
	took := make([]float64, 0, len(burst))
	cpu := cpuSeconds()
	start := time.Now()
	before := start
	for _, pod := range burst {
		if err := d.decide(ctx, pod); err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		now := time.Now()
		took = append(took, float64(now.Sub(before).Nanoseconds())/1000)
		before = now
		if now.Sub(start).Seconds() > seconds {
			break
		}
	}
	d.result.Decided = len(took)
	d.result.Seconds = before.Sub(start).Seconds()
	d.result.CPUSeconds = cpuSeconds() - cpu
	d.result.ResidentMB = residentMB()
	if slices.Sort(took); len(took) > 0 {
		d.result.P50Micros, d.result.P99Micros = took[len(took)/2], took[len(took)*99/100]
	}
	return &d.result, nil
}

// decide tries a pod; if it has to evict others, they leave at once and it is tried again.
func (d *drain) decide(ctx context.Context, pod *v1.Pod) error {
	nominated, err := d.attempt(ctx, pod)
	if err != nil || nominated == nil {
		return err
	}
	for _, victim := range d.receive() {
		if err := d.factory.remove(victim); err != nil {
			return err
		}
	}
	promised := pod.DeepCopy()
	promised.Status.NominatedNodeName = nominated.NominatedNodeName
	info, err := framework.NewPodInfo(promised)
	if err != nil {
		return err
	}
	d.SchedulingQueue.AddNominatedPod(klog.FromContext(ctx), info, nominated)
	d.result.Preempting++
	nominated, err = d.attempt(ctx, promised)
	if err == nil && nominated != nil {
		err = fmt.Errorf("does not fit where it was promised a place")
	}
	return err
}

// attempt runs one scheduling cycle up to Reserve. Parity: schedule_one.go schedulingCycle, v1.36; opportunistic
// batching, which counts the queue's cycles, is not in play.
func (d *drain) attempt(ctx context.Context, pod *v1.Pod) (*fwk.NominatingInfo, error) {
	profile := d.Profiles[pod.Spec.SchedulerName]
	snapshot := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	logger := klog.FromContext(ctx)
	if err := d.Cache.UpdateSnapshot(logger, snapshot); err != nil {
		return nil, err
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	queued := &framework.QueuedPodInfo{PodInfo: info}
	result, err := d.SchedulePod(ctx, profile, state, queued)
	if fitError, unfit := err.(*framework.FitError); unfit {
		return d.postFilter(ctx, profile, state, pod, fitError), nil
	}
	if err != nil {
		return nil, err
	}
	return nil, d.assume(ctx, profile, state, queued, result)
}

func (d *drain) assume(ctx context.Context, profile framework.Framework, state fwk.CycleState, queued *framework.QueuedPodInfo, result scheduler.ScheduleResult) error {
	assumed := queued.DeepCopy().Pod
	assumed.Spec.NodeName = result.SuggestedHost
	if err := d.Cache.AssumePod(klog.FromContext(ctx), assumed); err != nil {
		return err
	}
	d.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	if status := profile.RunReservePluginsReserve(ctx, state, assumed, result.SuggestedHost); !status.IsSuccess() {
		return status.AsError()
	}
	d.result.Placed++
	return nil
}

// postFilter makes the text of a failure, and says what node the pod is promised, if any.
func (d *drain) postFilter(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *v1.Pod, fitError *framework.FitError) *fwk.NominatingInfo {
	result, status := profile.RunPostFilterPlugins(ctx, state, pod, fitError.Diagnosis.NodeToStatus)
	fitError.Diagnosis.PostFilterMsg = status.Message()
	if text := fitError.Error(); text == "" {
		panic("no text")
	}
	if status.IsSuccess() && result != nil && result.NominatingInfo != nil && result.NominatedNodeName != "" {
		return result.NominatingInfo
	}
	d.result.Unschedulable++
	return nil
}
