package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// comparisons is how often two choices are compared in each order. Upstream breaks a tie by the order of a map of two
// entries, which prefers the first with 7 in 8: a tie is taken for a difference once in 8^8 comparisons.
const comparisons = 8

// nomination is one possible outcome of preemption.
type nomination struct {
	NominatedNode string   `json:"nominatedNode"`
	Victims       []string `json:"victims"`
}

// key names an outcome; outcomes are sorted by it.
func (n nomination) key() string {
	victims := slices.Sorted(slices.Values(n.Victims))
	return n.NominatedNode + " " + strings.Join(victims, ",")
}

// choice is a set of victims on one node: a candidate of the preemption evaluator.
type choice struct {
	node    string
	victims *extenderv1.Victims
}

func (c *choice) Name() string                 { return c.node }
func (c *choice) Victims() *extenderv1.Victims { return c.victims }

// same says whether both have the same victims on the same node, and look the same to the evaluator.
func (c *choice) same(o *choice) bool {
	return c.node == o.node && c.victims.NumPDBViolations == o.victims.NumPDBViolations &&
		slices.Equal(c.nomination().Victims, o.nomination().Victims)
}

func (c *choice) nomination() nomination {
	n := nomination{NominatedNode: c.node, Victims: []string{}}
	for _, pod := range c.victims.Pods {
		n.Victims = append(n.Victims, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(n.Victims)
	return n
}

// outcomes lists what upstream can nominate, sorted. The node that it did nominate has to be among them.
func (p *probe) outcomes(ctx context.Context, nominated string) ([]nomination, error) {
	var possible []nomination
	sawNominated := false
	for _, node := range p.nodes {
		for _, c := range p.found[node] {
			if !p.canWin(ctx, c) {
				continue
			}
			sawNominated = sawNominated || c.node == nominated
			possible = append(possible, c.nomination())
		}
	}
	if !sawNominated && p.wanted >= len(p.nodes) {
		return nil, fmt.Errorf("nominated %q is not among %v", nominated, possible)
	}
	slices.SortFunc(possible, func(a, b nomination) int { return strings.Compare(a.key(), b.key()) })
	return slices.CompactFunc(possible, func(a, b nomination) bool { return a.key() == b.key() }), nil
}

// canWin says whether a choice wins for some start node, some order of the nodes and some arrival order of the pods.
// The evaluator stops when it has as many candidates as wanted, one of them without a PDB violation; so a choice can win
// if enough other nodes can offer candidates that are not better. Parity: preemption.go DryRunPreemption, v1.36.
func (p *probe) canWin(ctx context.Context, c *choice) bool {
	notBetter := 1
	for _, node := range p.nodes {
		if node == c.node {
			continue
		}
		harmless, clean := p.rivals(ctx, c, node)
		if harmless {
			notBetter++
		}
		if clean && c.victims.NumPDBViolations > 0 {
			return false // a candidate without violations is always found in the end, and wins
		}
	}
	return notBetter >= min(p.wanted, len(p.nodes))
}

// rivals says whether a node can offer something that is not better than c, and whether it offers only choices without
// a PDB violation.
func (p *probe) rivals(ctx context.Context, c *choice, node string) (harmless, clean bool) {
	clean = true
	for _, rival := range p.found[node] {
		if !harmless && !p.better(ctx, rival, c) {
			harmless = true
		}
		if rival.victims.NumPDBViolations > 0 {
			clean = false
		}
	}
	return harmless, clean
}

// better says whether the evaluator always prefers a to b.
func (p *probe) better(ctx context.Context, a, b *choice) bool {
	for range comparisons {
		for _, pair := range [][]preemption.Candidate{{b, a}, {a, b}} {
			if p.Evaluator.SelectCandidate(ctx, pair).Name() == b.node {
				return false
			}
		}
	}
	return true
}
