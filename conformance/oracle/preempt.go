package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// postFilter runs the PostFilter plugins as upstream does after a FitError and describes what they nominate.
// Parity: schedule_one.go schedulingAlgorithm, v1.36.
func (d *decision) postFilter(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *v1.Pod, fitError *framework.FitError, orders int) error {
	if !profile.HasPostFilterPlugins() {
		return nil
	}
	probe := newProbe(profile, orders)
	result, status := profile.RunPostFilterPlugins(ctx, state, pod, fitError.Diagnosis.NodeToStatus)
	fitError.Diagnosis.PostFilterMsg = status.Message()
	d.says(*d.Message, fitError.Error())
	if !status.IsSuccess() || result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" {
		return nil
	}
	if probe == nil {
		return fmt.Errorf("node %q nominated without the DefaultPreemption plugin", result.NominatedNodeName)
	}
	outcomes, err := probe.outcomes(ctx, result.NominatedNodeName)
	if err != nil {
		return err
	}
	if len(outcomes) == 1 {
		d.Preemption = outcomes[0]
	} else {
		d.Preemption = map[string]any{"acceptable": outcomes}
	}
	return nil
}

// probe stands between the preemption evaluator and the DefaultPreemption plugin. It makes the evaluator look at every
// node and writes down, for each, every set of victims that the plugin can choose.
type probe struct {
	*defaultpreemption.DefaultPreemption
	orders int
	wanted int                  // how many candidates the plugin's arguments ask for
	nodes  []string             // candidate nodes in the order in which they were seen
	found  map[string][]*choice // node -> the different choices
}

// newProbe puts a probe into the DefaultPreemption plugin of a profile; nil if the profile has none.
func newProbe(profile framework.Framework, orders int) *probe {
	for _, extension := range profile.EnqueueExtensions() {
		if plugin, ok := extension.(*defaultpreemption.DefaultPreemption); ok {
			p := &probe{DefaultPreemption: plugin, orders: orders, found: map[string][]*choice{}}
			plugin.Evaluator.Interface = p
			plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) error {
				return nil // there is no API server to delete the victims
			}
			return p
		}
	}
	return nil
}

// GetOffsetAndNumCandidates notes how many candidates upstream would stop at and asks for all.
func (p *probe) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	_, wanted := p.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	p.wanted = int(wanted)
	return 0, nodes
}

// SelectVictimsOnNode lets the plugin choose once for each order in which the node's pods can have arrived.
func (p *probe) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo, pdbs []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	node := info.Node().Name
	var victims []*v1.Pod
	var violations int
	var status *fwk.Status
	stale := 0 // orders since the last that brought something new
	for pods := range arrivals(info.GetPods(), pod, p.orders) {
		arrived := info.Snapshot()
		arrived.(*framework.NodeInfo).Pods = pods
		v, n, s := p.DefaultPreemption.SelectVictimsOnNode(ctx, state.Clone(), pod, arrived, pdbs)
		if status == nil {
			victims, violations, status = v, n, s
		}
		if !s.IsSuccess() || len(v) == 0 {
			break // whether the pod fits without all its potential victims does not depend on their order
		}
		stale++
		if p.add(&choice{node: node, victims: &extenderv1.Victims{Pods: v, NumPDBViolations: int64(n)}}) {
			stale = 0
		}
		if stale > p.orders {
			break
		}
	}
	return victims, violations, status
}

// add notes a choice unless the same victims were chosen in another order, and says whether it was new.
func (p *probe) add(c *choice) bool {
	for _, known := range p.found[c.node] {
		if known.same(c) {
			return false
		}
	}
	if len(p.found[c.node]) == 0 {
		p.nodes = append(p.nodes, c.node)
	}
	p.found[c.node] = append(p.found[c.node], c)
	return true
}
