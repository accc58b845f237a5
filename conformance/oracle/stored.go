package main

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // defaulting functions of each group
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

// answerStored writes a case with its objects as the API server stores them. The objects have to be as a user writes
// them: as in the API server, label keys are merged into the selectors once for each create.
// If asked, it refuses a case with a pod that the API server refuses.
func answerStored(line []byte, validate bool) (any, error) {
	var c decisionCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	objects, err := decodeObjects(c.Objects)
	if err != nil {
		return nil, err
	}
	pod, err := decodePod(c.Pod)
	if err != nil {
		return nil, err
	}
	classes := newPriorityClasses(objects)
	for i, obj := range objects {
		if c.Objects[i], err = store(obj, classes, validate); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	if c.Pod, err = store(pod, classes, validate); err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	return c, nil
}

// store defaults an object and, if it is a pod, does what the API server does when a pod is created.
func store(obj runtime.Object, classes *priorityClasses, validate bool) (json.RawMessage, error) {
	kind := obj.GetObjectKind().GroupVersionKind()
	legacyscheme.Scheme.Default(obj)
	if pod, ok := obj.(*v1.Pod); ok {
		created, err := create(pod, validate)
		if err != nil {
			return nil, err
		}
		classes.admit(created)
		obj = created
	}
	obj.GetObjectKind().SetGroupVersionKind(kind)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	dropNulls(fields)
	return json.Marshal(fields)
}

// dropNulls removes the fields which the types write as null, such as an unset time.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if item == nil {
				delete(v, key)
			}
			dropNulls(item)
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
}

// create runs a pod through admission and the pod strategy. The strategy resets the status, which belongs to a later
// time than the creation: the given one stays, with the fields the strategy sets where it has none.
func create(pod *v1.Pod, validate bool) (*v1.Pod, error) {
	ctx := context.Background()
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return nil, err
	}
	attributes := admission.NewAttributesRecord(internal, nil, core.Kind("Pod").WithVersion("v1"), pod.Namespace, pod.Name,
		core.Resource("pods").WithVersion("v1"), "", admission.Create, nil, false, nil)
	tolerations := defaulttolerationseconds.NewDefaultTolerationSeconds()
	tolerations.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	if err := tolerations.Admit(ctx, attributes, nil); err != nil {
		return nil, err
	}
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	if validate {
		if errs := podregistry.Strategy.Validate(ctx, internal); len(errs) > 0 {
			return nil, fmt.Errorf("invalid: %w", errs.ToAggregate())
		}
	}
	created := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, created, nil); err != nil {
		return nil, err
	}
	status := pod.Status.DeepCopy()
	if status.Phase == "" {
		status.Phase = created.Status.Phase
	}
	if status.QOSClass == "" {
		status.QOSClass = created.Status.QOSClass
	}
	created.Status = *status
	return created, nil
}

// priorityClasses are the classes of a cluster, with the two which every API server has.
type priorityClasses struct {
	byName        map[string]*schedulingv1.PriorityClass
	globalDefault *schedulingv1.PriorityClass
}

func newPriorityClasses(objects []runtime.Object) *priorityClasses {
	classes := &priorityClasses{byName: map[string]*schedulingv1.PriorityClass{
		"system-cluster-critical": systemClass("system-cluster-critical", 2000000000),
		"system-node-critical":    systemClass("system-node-critical", 2000001000),
	}}
	for _, obj := range objects {
		class, ok := obj.(*schedulingv1.PriorityClass)
		if !ok {
			continue
		}
		classes.byName[class.Name] = class
		if class.GlobalDefault && (classes.globalDefault == nil || class.Value < classes.globalDefault.Value) {
			classes.globalDefault = class
		}
	}
	return classes
}

// admit sets the priority of a pod which has none from its class. A pod without a class stays without priority, which
// means 0, unless there is a default class. Parity: plugin/pkg/admission/priority admitPod, v1.36.
func (c *priorityClasses) admit(pod *v1.Pod) {
	class := c.byName[pod.Spec.PriorityClassName]
	if pod.Spec.PriorityClassName == "" {
		class = c.globalDefault
	}
	if class == nil || pod.Spec.Priority != nil {
		return
	}
	value := class.Value
	pod.Spec.Priority = &value
	pod.Spec.PriorityClassName = class.Name
	if pod.Spec.PreemptionPolicy == nil && class.PreemptionPolicy != nil && *class.PreemptionPolicy == v1.PreemptNever {
		pod.Spec.PreemptionPolicy = class.PreemptionPolicy
	}
}

func systemClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}
