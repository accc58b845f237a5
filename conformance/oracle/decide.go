package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// answerDecide says what the scheduler decides for the pod of one case.
func answerDecide(line []byte, orders int) (any, error) {
	var c decisionCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	decision, err := decide(&c, orders)
	if err != nil {
		return nil, err
	}
	return map[string]any{"id": c.ID, "decision": decision}, nil
}

// decide builds the scheduler of a case, shows it the cluster and runs one scheduling cycle.
func decide(c *decisionCase, orders int) (*decision, error) {
	objects, err := decodeObjects(c.Objects)
	if err != nil {
		return nil, err
	}
	pod, err := decodePod(c.Pod)
	if err != nil {
		return nil, err
	}
	cfg, err := caseConfig(c.Config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// One thread: the answer does not depend on it, except for the choice among several errors.
	s, err := newSimulation(ctx, cfg, 1)
	if err != nil {
		return nil, err
	}
	if err := s.show(objects, pod); err != nil {
		return nil, err
	}
	return s.cycle(ctx, pod, orders)
}

// show puts the cluster into the informers, whose handlers fill the scheduler's cache and queue. The incoming pod
// counts as popped from the queue: only the listers know it.
func (s *simulation) show(objects []runtime.Object, pod *v1.Pod) error {
	var pods []*v1.Pod
	for _, obj := range objects {
		if p, ok := obj.(*v1.Pod); ok {
			pods = append(pods, p)
			continue
		}
		if err := s.factory.add(obj); err != nil {
			return err
		}
	}
	for _, p := range pods {
		// Parity: scheduler.go newPodInformer, v1.36: terminal pods are not even listed.
		if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if err := s.factory.add(p); err != nil {
			return err
		}
	}
	return s.factory.store(pod)
}

// cycle runs the scheduling algorithm of upstream for the pod and describes what happened.
func (s *simulation) cycle(ctx context.Context, pod *v1.Pod, orders int) (*decision, error) {
	profile := s.Profiles[pod.Spec.SchedulerName]
	if profile == nil {
		return nil, fmt.Errorf("no profile for scheduler name %q", pod.Spec.SchedulerName)
	}
	snapshot, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("snapshot is a %T", profile.SnapshotSharedLister())
	}
	if err := s.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return nil, err
	}
	podInfo, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	spy := &spy{Framework: profile, statuses: map[string]*fwk.Status{}}
	d := newDecision(pod.Spec.SchedulerName)
	_, err = s.SchedulePod(ctx, spy, state, &framework.QueuedPodInfo{PodInfo: podInfo})
	fitError, unfit := err.(*framework.FitError)
	switch {
	case err == nil:
		d.fits(spy, snapshot, pod.Status.NominatedNodeName)
		d.scored(spy.scores)
	case err == scheduler.ErrNoNodesAvailable:
		d.says(err.Error(), err.Error())
	case unfit:
		d.fitsNowhere(spy, snapshot, fitError)
		err = d.postFilter(ctx, profile, state, pod, fitError, orders)
		return d, err
	default:
		if spy.scoring {
			d.fits(spy, snapshot, "")
		}
		d.fails(err.Error())
	}
	return d, nil
}

// nodeNames lists the nodes of the snapshot, sorted.
func nodeNames(snapshot *internalcache.Snapshot) []string {
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		panic(err)
	}
	names := make([]string, 0, len(infos))
	for _, info := range infos {
		names = append(names, info.Node().Name)
	}
	slices.Sort(names)
	return names
}
