package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// spy is a profile that writes down what its plugins say. The parallelism is 1, so nothing needs a lock.
type spy struct {
	framework.Framework
	preFilterResult  *fwk.PreFilterResult
	preFilterStatus  *fwk.Status
	preFilterPlugins sets.Set[string]
	statuses         map[string]*fwk.Status // node -> what the filters said last
	firstFiltered    string                 // the node filtered first
	scoring          bool                   // whether filtering is over and scoring began
	scores           []fwk.NodePluginScores
}

func (s *spy) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, plugins := s.Framework.RunPreFilterPlugins(ctx, state, pod)
	// Upstream goes on to use the set as its own, and adds to it.
	s.preFilterResult, s.preFilterStatus, s.preFilterPlugins = result, status, plugins.Clone()
	return result, status, plugins
}

func (s *spy) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	status := s.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	name := info.Node().Name
	if s.firstFiltered == "" {
		s.firstFiltered = name
	}
	s.statuses[name] = status
	return status
}

func (s *spy) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s.scoring = true
	return s.Framework.RunPreScorePlugins(ctx, state, pod, nodes)
}

func (s *spy) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := s.Framework.RunScorePlugins(ctx, state, pod, nodes)
	s.scores = scores
	return scores, status
}

// HasFilterPlugins makes upstream call the filters even when there are none, so that every node is seen.
func (s *spy) HasFilterPlugins() bool { return true }

// HasScorePlugins keeps upstream from stopping at the first feasible node when there is nothing to score.
func (s *spy) HasScorePlugins() bool { return true }
