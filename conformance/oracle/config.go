package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// buildRuns is how often loading a faulty file is repeated, to see whether its error depends on the order of a map.
// Of two entries of a map the second comes first in one of eight runs, so this misses it in one of six hundred cases.
const buildRuns = 48

type configCase struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type configAnswer struct {
	ID       string         `json:"id"`
	Expected configExpected `json:"expected"`
}

type configExpected struct {
	Stage      string                    `json:"stage"`
	Error      *string                   `json:"error"`
	Acceptable []string                  `json:"acceptable,omitempty"`
	Effective  json.RawMessage           `json:"effective"`
	Profiles   map[string]map[string]any `json:"profiles"`
}

// answerConfig says what kube-scheduler makes of one configuration file.
func answerConfig(line []byte) (any, error) {
	var c configCase
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	expected, err := loadStages([]byte(c.Text))
	if err != nil {
		return nil, err
	}
	if expected.Error != nil {
		if err := addAcceptable([]byte(c.Text), &expected); err != nil {
			return nil, err
		}
	}
	return configAnswer{ID: c.ID, Expected: expected}, nil
}

// addAcceptable loads the file again and again and lists the texts if there are several.
func addAcceptable(text []byte, expected *configExpected) error {
	texts := []string{*expected.Error}
	for range buildRuns {
		again, err := loadStages(text)
		if err != nil {
			return err
		}
		if again.Error == nil || again.Stage != expected.Stage {
			return fmt.Errorf("stage %q, then %q", expected.Stage, again.Stage)
		}
		if !slices.Contains(texts, *again.Error) {
			texts = append(texts, *again.Error)
		}
	}
	if len(texts) > 1 {
		slices.Sort(texts)
		expected.Acceptable = texts
	}
	return nil
}

// loadStages runs the stages of loading until one fails.
func loadStages(text []byte) (configExpected, error) {
	cfg, err := decodeConfig(text)
	if err != nil {
		return failedStage("decode", err), nil
	}
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return failedStage("validate", err), nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := newSimulation(ctx, cfg, cfg.Parallelism)
	if err != nil {
		return failedStage("build", err), nil
	}
	cfg.Profiles = s.profiles
	effective, err := encodeConfig(cfg)
	if err != nil {
		return configExpected{}, err
	}
	profiles := map[string]map[string]any{}
	for name, profile := range s.Profiles {
		profiles[name] = extensionPoints(profile)
	}
	return configExpected{Stage: "ok", Effective: effective, Profiles: profiles}, nil
}

// schemeName is what upstream's own build calls its scheme: the file and line that make it. A build from published
// modules, whose paths carry versions, cannot tell them and names a file of apimachinery.
const schemeName = "pkg/scheduler/apis/config/scheme/scheme.go:29"

func failedStage(stage string, err error) configExpected {
	text := strings.ReplaceAll(err.Error(), strconv.Quote(scheme.Scheme.Name()), strconv.Quote(schemeName))
	return configExpected{Stage: stage, Error: &text}
}

// decodeConfig decodes, defaults and converts a file. Parity: options/configfile.go loadConfig, v1.36.
func decodeConfig(data []byte) (*config.KubeSchedulerConfiguration, error) {
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk)
	}
	cfg.TypeMeta.APIVersion = gvk.GroupVersion().String()
	return cfg, nil
}

// caseConfig loads the configuration of a decision case; null is the default configuration.
func caseConfig(data json.RawMessage) (*config.KubeSchedulerConfiguration, error) {
	if len(data) == 0 || string(data) == "null" {
		return latest.Default()
	}
	cfg, err := decodeConfig(data)
	if err != nil {
		return nil, err
	}
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// encodeConfig encodes a configuration as v1. Parity: options/configfile.go encodeConfig, v1.36.
func encodeConfig(cfg *config.KubeSchedulerConfiguration) (json.RawMessage, error) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, fmt.Errorf("no serializer for %s", runtime.ContentTypeJSON)
	}
	buffer := &bytes.Buffer{}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion)
	if err := encoder.Encode(cfg, buffer); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}

// extensionPoints lists the plugins of a profile in the order in which they run.
func extensionPoints(profile framework.Framework) map[string]any {
	built := profile.ListPlugins()
	points := map[string]any{}
	for name, set := range map[string]config.PluginSet{
		"preEnqueue": built.PreEnqueue, "queueSort": built.QueueSort, "preFilter": built.PreFilter,
		"filter": built.Filter, "postFilter": built.PostFilter, "preScore": built.PreScore,
		"score": built.Score, "reserve": built.Reserve, "permit": built.Permit,
		"preBind": built.PreBind, "bind": built.Bind, "postBind": built.PostBind,
		"placementGenerate": built.PlacementGenerate, "placementScore": built.PlacementScore,
	} {
		names := []string{}
		for _, plugin := range set.Enabled {
			names = append(names, plugin.Name)
		}
		points[name] = names
	}
	points["scoreWeights"] = weights(built.Score)
	if placement := weights(built.PlacementScore); len(placement) > 0 {
		points["placementScoreWeights"] = placement
	}
	return points
}

func weights(set config.PluginSet) map[string]int32 {
	byName := map[string]int32{}
	for _, plugin := range set.Enabled {
		byName[plugin.Name] = plugin.Weight
	}
	return byName
}
