// Command feature_gates prints every feature gate that kube-scheduler knows, as JSON: for each its
// stages by version, and which gates it depends on. It is how config/data/feature_gates.json.gz is made:
//
//	cd conformance/control-plane/v1.36 && go run ./feature_gates | gzip -9n > ../../../src/kubesched/config/data/feature_gates.json.gz
package main

import (
	"encoding/json"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	// Registers the gates of everything that is linked into the program.
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

type stage struct {
	Version    string `json:"version"`
	Stage      string `json:"stage"`
	Default    bool   `json:"default"`
	Lock       bool   `json:"lock,omitempty"`
	MinVersion string `json:"minCompatibilityVersion,omitempty"`
}

type gate struct {
	Stages    []stage               `json:"stages"`
	DependsOn []featuregate.Feature `json:"dependsOn,omitempty"`
}

func main() {
	gates := map[featuregate.Feature]gate{}
	dependencies := utilfeature.DefaultMutableFeatureGate.Dependencies()
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		known := gate{DependsOn: dependencies[name]}
		for _, spec := range specs {
			one := stage{
				Version: spec.Version.String(),
				Stage:   string(spec.PreRelease),
				Default: spec.Default,
				Lock:    spec.LockToDefault,
			}
			if spec.MinCompatibilityVersion != nil {
				one.MinVersion = spec.MinCompatibilityVersion.String()
			}
			known.Stages = append(known.Stages, one)
		}
		gates[name] = known
	}
	encoder := json.NewEncoder(os.Stdout)
	if err := encoder.Encode(gates); err != nil {
		panic(err)
	}
}
