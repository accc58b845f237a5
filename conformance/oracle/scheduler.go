package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// simulation is one real scheduler over an API server that is not there.
type simulation struct {
	*scheduler.Scheduler
	factory  *instantFactory
	profiles []config.KubeSchedulerProfile // as completed while they were built
}

// newSimulation builds a scheduler as kube-scheduler's Setup does. Cancelling ctx ends what it started.
func newSimulation(ctx context.Context, cfg *config.KubeSchedulerConfiguration, parallelism int32) (*simulation, error) {
	client := fake.NewSimpleClientset()
	s := &simulation{factory: newInstantFactory(client)}
	recorders := func(string) events.EventRecorderLogger { return silentRecorder{} }
	sched, err := scheduler.New(ctx, client, s.factory, nil, recorders,
		scheduler.WithComponentConfigVersion(cfg.TypeMeta.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(parallelism),
		scheduler.WithBuildFrameworkCapturer(func(profile config.KubeSchedulerProfile) {
			s.profiles = append(s.profiles, profile)
		}),
	)
	if err != nil {
		return nil, err
	}
	s.Scheduler = sched
	return s, nil
}

// silentRecorder drops events.
type silentRecorder struct{}

func (silentRecorder) Eventf(_ runtime.Object, _ runtime.Object, _, _, _, _ string, _ ...interface{}) {
}

func (r silentRecorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
