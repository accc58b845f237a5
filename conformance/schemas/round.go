package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kjson "sigs.k8s.io/json"
)

type testCase struct {
	Group, Version, Kind string
	Body                 json.RawMessage
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// roundTrips decodes every line as a request's body would be decoded, stores it as etcd has it (protobuf, where the
// server uses that), and writes what a client would get back, or the decoder's error.
func roundTrips() error {
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme.Scheme))
	utilruntime.Must(apiregistrationv1.AddToScheme(scheme.Scheme))
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var one testCase
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		answer, err := roundTrip(one)
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

func roundTrip(one testCase) (map[string]any, error) {
	var object runtime.Object = &metav1.DeleteOptions{}
	if one.Kind != "DeleteOptions" {
		made, err := scheme.Scheme.New(schema.GroupVersionKind{Group: one.Group, Version: one.Version, Kind: one.Kind})
		if err != nil {
			return nil, err
		}
		object = made
	}
	strict, err := kjson.UnmarshalStrict(one.Body, object)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	problems := []string{}
	for _, problem := range strict {
		problems = append(problems, problem.Error())
	}
	stored, err := throughStorage(one.Group, object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", one.Kind, err)
	}
	return map[string]any{"document": stored, "problems": problems}, nil
}

func throughStorage(group string, object runtime.Object) (any, error) {
	asMessage, ok := object.(message)
	if !ok || group == apiextensionsv1.GroupName || group == apiregistrationv1.GroupName {
		return object, nil // these are stored as JSON
	}
	data, err := asMessage.Marshal()
	if err != nil {
		return nil, err
	}
	stored := reflect.New(reflect.TypeOf(object).Elem()).Interface().(message)
	if err := stored.Unmarshal(data); err != nil {
		return nil, err
	}
	stored.(runtime.Object).GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	return stored, nil
}
