package main

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// decision is the answer to a case, as the decision format has it.
type decision struct {
	Profile                string                      `json:"profile"`
	Feasible               []string                    `json:"feasible"`
	Rejected               map[string]rejection        `json:"rejected"`
	PreFilterRejected      *rejection                  `json:"preFilterRejected"`
	Scores                 map[string]map[string]int64 `json:"scores"`
	Best                   []string                    `json:"best"`
	Message                *string                     `json:"message"`
	MessageAfterPostFilter *string                     `json:"messageAfterPostFilter"`
	Preemption             any                         `json:"preemption"`
	Error                  *string                     `json:"error"`
}

type rejection struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

func newDecision(profile string) *decision {
	return &decision{
		Profile:  profile,
		Feasible: []string{},
		Rejected: map[string]rejection{},
		Scores:   map[string]map[string]int64{},
		Best:     []string{},
	}
}

// newRejection describes a status which is not a success.
func newRejection(status *fwk.Status) rejection {
	reasons := append([]string{}, status.Reasons()...)
	slices.Sort(reasons)
	return rejection{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: reasons}
}

// says sets the text of the event before and after PostFilter.
func (d *decision) says(before, after string) {
	d.Message, d.MessageAfterPostFilter = &before, &after
}

// fails describes a cycle which ended with an error.
func (d *decision) fails(text string) {
	d.says(text, text)
	d.Error = &text
}

// fits describes a cycle which found nodes, before they are scored.
func (d *decision) fits(spy *spy, snapshot *internalcache.Snapshot, nominated string) {
	if nominated != "" && spy.firstFiltered == nominated && len(spy.statuses) == 1 && spy.statuses[nominated].IsSuccess() {
		d.Feasible, d.Best = []string{nominated}, []string{nominated}
		return
	}
	plugins := spy.preFilterPlugins
	if nominated != "" && spy.firstFiltered == nominated {
		// The nominated node was tried before the excluded nodes got their status, and who refused it is named there.
		plugins = plugins.Clone().Insert(spy.statuses[nominated].Plugin())
	}
	for _, name := range nodeNames(snapshot) {
		status, filtered := spy.statuses[name]
		switch {
		case !filtered:
			d.Rejected[name] = newRejection(excluded(plugins))
		case status.IsSuccess():
			d.Feasible = append(d.Feasible, name)
		default:
			d.Rejected[name] = newRejection(status)
		}
	}
	if len(d.Feasible) == 1 {
		d.Best = append(d.Best, d.Feasible[0])
	}
}

// excluded is the status of a node that a PreFilter result left out.
// Parity: schedule_one.go findNodesThatFitPod, v1.36.
func excluded(plugins sets.Set[string]) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins)))
}

// scored describes the scores and the nodes with the highest total.
func (d *decision) scored(scores []fwk.NodePluginScores) {
	var highest int64
	for i, node := range scores {
		values := map[string]int64{"total": node.TotalScore}
		for _, plugin := range node.Scores {
			values[plugin.Name] = plugin.Score
		}
		d.Scores[node.Name] = values
		if i == 0 || node.TotalScore > highest {
			d.Best, highest = nil, node.TotalScore
		}
		if node.TotalScore == highest {
			d.Best = append(d.Best, node.Name)
		}
	}
	slices.Sort(d.Best)
}

// fitsNowhere describes a cycle which found no node, before PostFilter ran.
func (d *decision) fitsNowhere(spy *spy, snapshot *internalcache.Snapshot, fitError *framework.FitError) {
	d.says(fitError.Error(), fitError.Error())
	if !spy.preFilterStatus.IsSuccess() {
		rejected := newRejection(spy.preFilterStatus)
		d.PreFilterRejected = &rejected
		return
	}
	for _, name := range nodeNames(snapshot) {
		d.Rejected[name] = newRejection(fitError.Diagnosis.NodeToStatus.Get(name))
	}
}
