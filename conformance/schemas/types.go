package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// Output is the whole file.
type Output struct {
	// Kinds maps a kind such as "apps/v1/Deployment" to a name in Types.
	Kinds map[string]string `json:"kinds"`
	Types map[string]Struct `json:"types"`
}

// Struct is a Go struct, its inlined parts already among its fields.
type Struct struct {
	Fields   []Field `json:"f"`
	IsAtomic bool    `json:"a,omitempty"`
}

// Field is one field as JSON shows it.
type Field struct {
	Name string `json:"n"`
	Type any    `json:"t"`
	// Flags: p a pointer, e omitempty, z omitzero, r required.
	Flags    string `json:"x,omitempty"`
	Strategy string `json:"s,omitempty"`
	MergeKey string `json:"k,omitempty"`
	// Via names the inlined Go fields on the path, as in decoding errors.
	Via string `json:"v,omitempty"`
	// Numbers lead to the field in a protobuf message, through inlined structs.
	Numbers []int `json:"b,omitempty"`
	Default any   `json:"d,omitempty"`
}

// List and Map are types of fields; any other type is a string: "@package.Struct", "@package.Struct!" where the field
// is owned whole, or "scalar:GoType".
type List struct {
	Element any      `json:"l"`
	Type    string   `json:"t,omitempty"`
	Keys    []string `json:"k,omitempty"`
	Go      string   `json:"g,omitempty"`
	// Pointers tells whether elements are pointers.
	Pointers bool `json:"p,omitempty"`
}

type Map struct {
	Value    any    `json:"m"`
	IsAtomic bool   `json:"a,omitempty"`
	Go       string `json:"g,omitempty"`
}

var scalars = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():                            "quantity",
	reflect.TypeFor[metav1.Time]():                                  "time",
	reflect.TypeFor[metav1.MicroTime]():                             "micro-time",
	reflect.TypeFor[metav1.Duration]():                              "duration",
	reflect.TypeFor[intstr.IntOrString]():                           "int-or-string",
	reflect.TypeFor[runtime.RawExtension]():                         "any",
	reflect.TypeFor[metav1.FieldsV1]():                              "any",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "any",
	reflect.TypeFor[[]byte]():                                       "bytes",
}

var kinds = map[reflect.Kind]string{
	reflect.String:  "string",
	reflect.Bool:    "bool",
	reflect.Int32:   "int32",
	reflect.Int64:   "int64",
	reflect.Int:     "int64",
	reflect.Float32: "float",
	reflect.Float64: "float",
}

// Kinds of meta/v1 are registered with every group; these two are sent or received by clients.
var metaKinds = map[string]reflect.Type{
	"/v1/DeleteOptions": reflect.TypeFor[metav1.DeleteOptions](),
	"/v1/Status":        reflect.TypeFor[metav1.Status](),
}

var generallyAvailable = regexp.MustCompile(`^v[0-9]+$`)

type walker struct {
	definitions map[string]common.OpenAPIDefinition
	output      Output
}

func allTypes() Output {
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme.Scheme))
	utilruntime.Must(apiregistrationv1.AddToScheme(scheme.Scheme))
	w := &walker{
		definitions: openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) }),
		output:      Output{Kinds: map[string]string{}, Types: map[string]Struct{}},
	}
	known := map[string]reflect.Type{"autoscaling/v1/Scale": reflect.TypeFor[autoscalingv1.Scale]()}
	for name, t := range metaKinds {
		known[name] = t
	}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		isMeta := strings.HasSuffix(t.PkgPath(), "/apis/meta/v1")
		if isMeta || !generallyAvailable.MatchString(gvk.Version) || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		known[gvk.Group+"/"+gvk.Version+"/"+gvk.Kind] = t
	}
	for name, t := range known {
		if embedsTypeMeta(t) {
			w.output.Kinds[name] = w.visit(t)
		}
	}
	return w.output
}

func embedsTypeMeta(t reflect.Type) bool {
	field, ok := t.FieldByName("TypeMeta")
	return ok && field.Anonymous
}

// visit notes a struct, and those it needs, and returns its name.
func (w *walker) visit(t reflect.Type) string {
	name := nameOf(t)
	if _, seen := w.output.Types[name]; seen {
		return name
	}
	w.output.Types[name] = Struct{} // types may contain themselves
	definition := w.definitionOf(t)
	found := Struct{Fields: []Field{}, IsAtomic: definition.Extensions["x-kubernetes-map-type"] == "atomic"}
	w.addFields(&found, t, definition, "", nil)
	w.output.Types[name] = found
	return name
}

// nameOf is short, and still unique: checked by the caller's data, since two packages never end alike in two steps.
func nameOf(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	if len(parts) > 1 {
		parts = parts[len(parts)-2:]
	}
	return strings.Join(parts, "/") + "." + t.Name()
}

func (w *walker) definitionOf(t reflect.Type) spec.Schema {
	named, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string })
	if !ok {
		return spec.Schema{}
	}
	return w.definitions[named.OpenAPIModelName()].Schema
}

func (w *walker) addFields(into *Struct, t reflect.Type, definition spec.Schema, via string, numbers []int) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag, hasTag := field.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if field.Anonymous && name == "" {
			if field.Type.Kind() != reflect.Struct {
				panic("an inlined pointer: " + t.String() + "." + field.Name)
			}
			inner := definition
			if inlined := w.definitionOf(field.Type); len(inlined.Properties) > 0 {
				inner = merged(definition, inlined)
			}
			below := numbered(numbers, field)
			if len(below) == len(numbers) { // TypeMeta is not part of the message
				below = []int{0}
			}
			w.addFields(into, field.Type, inner, join(via, field.Name), below)
			continue
		}
		if !hasTag || name == "" {
			panic("a field without a name: " + t.String() + "." + field.Name)
		}
		made := w.field(field, name, options, definition, via)
		if len(numbers) == 0 || numbers[0] != 0 {
			made.Numbers = numbered(numbers, field)
		}
		into.Fields = append(into.Fields, made)
	}
}

// numbered adds the number that a field has in protobuf, if it has one.
func numbered(numbers []int, field reflect.StructField) []int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return numbers
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		panic("protobuf tag of " + field.Name)
	}
	return append(slices.Clone(numbers), number)
}

// merged adds the properties of an inlined type; the outer definition has most of them already.
func merged(outer, inner spec.Schema) spec.Schema {
	both := outer
	both.Properties = map[string]spec.Schema{}
	for name, property := range inner.Properties {
		both.Properties[name] = property
	}
	for name, property := range outer.Properties {
		both.Properties[name] = property
	}
	return both
}

func join(via, name string) string {
	if via == "" {
		return name
	}
	return via + "." + name
}

func (w *walker) field(field reflect.StructField, name, options string, owner spec.Schema, via string) Field {
	property := owner.Properties[name]
	made := Field{
		Name: name, Strategy: field.Tag.Get("patchStrategy"), MergeKey: field.Tag.Get("patchMergeKey"), Via: via,
	}
	t := field.Type
	if t.Kind() == reflect.Pointer {
		made.Flags += "p"
		t = t.Elem()
	}
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "omitempty":
			made.Flags += "e"
		case "omitzero":
			made.Flags += "z"
		case "", "inline":
		default:
			panic("json option " + option + " of " + field.Name)
		}
	}
	for _, required := range owner.Required {
		if required == name {
			made.Flags += "r"
		}
	}
	made.Type = w.typeOf(t, &property)
	switch property.Default.(type) {
	case string, bool, int, int32, int64, float64:
		made.Default = property.Default
	}
	return made
}

func (w *walker) typeOf(t reflect.Type, property *spec.Schema) any {
	if property == nil {
		property = &spec.Schema{}
	}
	if scalar, ok := scalars[t]; ok {
		return scalar + ":" + t.String()
	}
	switch t.Kind() {
	case reflect.Struct:
		if t.Implements(reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()) {
			panic("a struct with an encoding of its own: " + t.String())
		}
		name := "@" + w.visit(t)
		if property.Extensions["x-kubernetes-map-type"] == "atomic" {
			name += "!"
		}
		return name
	case reflect.Slice:
		return w.list(t, property)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic("a map with other keys: " + t.String())
		}
		var values *spec.Schema
		if property.AdditionalProperties != nil {
			values = property.AdditionalProperties.Schema
		}
		return Map{
			Value: w.typeOf(t.Elem(), values), IsAtomic: property.Extensions["x-kubernetes-map-type"] == "atomic",
			Go: t.String(),
		}
	}
	scalar, ok := kinds[t.Kind()]
	if !ok {
		panic(fmt.Sprintf("no scalar for %s (%s)", t, t.Kind()))
	}
	return scalar + ":" + t.String()
}

// list follows kube-openapi's schemaconv: without a list type the patch strategy decides.
func (w *walker) list(t reflect.Type, property *spec.Schema) List {
	var items *spec.Schema
	if property.Items != nil {
		items = property.Items.Schema
	}
	element := t.Elem()
	made := List{Go: t.String()}
	if element.Kind() == reflect.Pointer {
		made.Pointers = true
		element = element.Elem()
	}
	made.Element = w.typeOf(element, items)
	if kind, ok := property.Extensions["x-kubernetes-list-type"].(string); ok {
		made.Type = kind
		if keys, ok := property.Extensions["x-kubernetes-list-map-keys"].([]interface{}); ok {
			for _, key := range keys {
				made.Keys = append(made.Keys, key.(string))
			}
		}
	} else if strategy, _ := property.Extensions["x-kubernetes-patch-strategy"].(string); strings.HasPrefix(strategy, "merge") {
		made.Type = "set"
		if key, ok := property.Extensions["x-kubernetes-patch-merge-key"].(string); ok {
			made.Type, made.Keys = "map", []string{key}
		}
	}
	if made.Type == "atomic" {
		made.Type = ""
	}
	return made
}
