package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// decisionCase is one line of the decision format.
type decisionCase struct {
	ID       string            `json:"id"`
	Family   string            `json:"family"`
	Config   json.RawMessage   `json:"config"`
	Objects  []json.RawMessage `json:"objects"`
	Pod      json.RawMessage   `json:"pod"`
	Decision json.RawMessage   `json:"decision,omitempty"`
}

// decodeObject decodes an API object of any kind, without defaulting it.
func decodeObject(data []byte) (runtime.Object, error) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	return obj, err
}

// decodeObjects decodes the objects of the cluster.
func decodeObjects(objects []json.RawMessage) ([]runtime.Object, error) {
	decoded := make([]runtime.Object, 0, len(objects))
	for i, data := range objects {
		obj, err := decodeObject(data)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		decoded = append(decoded, obj)
	}
	return decoded, nil
}

// decodePod decodes the incoming pod.
func decodePod(data []byte) (*v1.Pod, error) {
	obj, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("pod: a %T", obj)
	}
	return pod, nil
}
