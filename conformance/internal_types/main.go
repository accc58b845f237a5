// Prints the fields of kube-apiserver's internal types as JSON: their Go names in order, the JSON names of the same fields
// in v1, and their types. kube-apiserver prints internal values in some rejections (the diff of a pod's spec).
// go run ./internal_types | gzip -9n > ../src/kubesched/cluster/apiserver/data/internal_types.json.gz
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/storage"
)

type field struct {
	Name, Key, Type string
	OmitEmpty       bool
}

// MarshalJSON is short: name, key, type, whether a zero value is left out.
func (f field) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{f.Name, f.Key, f.Type, f.OmitEmpty})
}

var structs = map[string][]field{}

var leaves = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  "quantity",
	reflect.TypeFor[metav1.Time]():        "time",
	reflect.TypeFor[metav1.MicroTime]():   "time",
	reflect.TypeFor[intstr.IntOrString](): "any",
}

// flat returns the fields of a struct, those of embedded structs in their place.
func flat(t reflect.Type) []reflect.StructField {
	var found []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			found = append(found, flat(f.Type)...)
		} else if f.IsExported() {
			found = append(found, f)
		}
	}
	return found
}

func describe(t, twin reflect.Type) string {
	if name, ok := leaves[t]; ok {
		return name
	}
	elem := func(x reflect.Type) reflect.Type {
		if x != nil && (x.Kind() == reflect.Pointer || x.Kind() == reflect.Slice || x.Kind() == reflect.Map) {
			return x.Elem()
		}
		return x
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + describe(t.Elem(), elem(twin))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "*string"
		}
		return "[]" + describe(t.Elem(), elem(twin))
	case reflect.Map:
		return "{}" + describe(t.Elem(), elem(twin))
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Struct:
		return add(t, twin)
	default:
		return "int"
	}
}

func add(t, twin reflect.Type) string {
	name := t.Name()
	if _, ok := structs[name]; ok {
		return name
	}
	structs[name] = nil
	twins := map[string]reflect.StructField{}
	if twin != nil && twin.Kind() == reflect.Struct {
		for _, f := range flat(twin) {
			twins[f.Name] = f
		}
	}
	var fields []field
	for _, f := range flat(t) {
		one := field{Name: f.Name}
		other, ok := twins[f.Name]
		if tag := f.Tag.Get("json"); tag != "" {
			parts := strings.Split(tag, ",")
			one.Name, one.Key = parts[0], parts[0]
			one.OmitEmpty = strings.Contains(tag, "omitempty")
		} else if ok {
			one.Key = strings.Split(other.Tag.Get("json"), ",")[0]
		} else {
			one.Key = strings.ToLower(f.Name[:1]) + f.Name[1:]
			fmt.Fprintln(os.Stderr, "no twin:", name, f.Name)
		}
		var otherType reflect.Type
		if ok {
			otherType = other.Type
		}
		one.Type = describe(f.Type, otherType)
		fields = append(fields, one)
	}
	structs[name] = fields
	return name
}

func main() {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[core.PodSpec](), reflect.TypeFor[v1.PodSpec]()},
		{reflect.TypeFor[core.PersistentVolumeClaimSpec](), reflect.TypeFor[v1.PersistentVolumeClaimSpec]()},
		{reflect.TypeFor[core.PersistentVolumeSource](), reflect.TypeFor[v1.PersistentVolumeSource]()},
		{reflect.TypeFor[core.VolumeNodeAffinity](), reflect.TypeFor[v1.VolumeNodeAffinity]()},
		{reflect.TypeFor[core.Taint](), reflect.TypeFor[v1.Taint]()},
		{reflect.TypeFor[core.NodeAddress](), reflect.TypeFor[v1.NodeAddress]()},
		{reflect.TypeFor[core.ServicePort](), reflect.TypeFor[v1.ServicePort]()},
		{reflect.TypeFor[core.PodIP](), reflect.TypeFor[v1.PodIP]()},
		{reflect.TypeFor[core.HostIP](), reflect.TypeFor[v1.HostIP]()},
		{reflect.TypeFor[core.ObjectReference](), reflect.TypeFor[v1.ObjectReference]()},
		{reflect.TypeFor[core.EventSource](), reflect.TypeFor[v1.EventSource]()},
		{reflect.TypeFor[core.ScopeSelector](), reflect.TypeFor[v1.ScopeSelector]()},
		{reflect.TypeFor[core.NodeConfigSource](), reflect.TypeFor[v1.NodeConfigSource]()},
		{reflect.TypeFor[core.PodTemplateSpec](), reflect.TypeFor[v1.PodTemplateSpec]()},
		{reflect.TypeFor[storage.CSINodeDriver](), reflect.TypeFor[storagev1.CSINodeDriver]()},
		{reflect.TypeFor[storage.VolumeAttachmentSpec](), reflect.TypeFor[storagev1.VolumeAttachmentSpec]()},
	} {
		add(pair[0], pair[1])
	}
	encoder := json.NewEncoder(os.Stdout)
	if err := encoder.Encode(structs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
