package main

import (
	"iter"
	"math/rand"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// mostOrders bounds how many times the limit random orders are made.
const mostOrders = 40

// arrivals makes orders of a node's pods that differ in how equally important potential victims follow each other: all of
// them if they are not more than limit, otherwise random ones. The given order is the first.
func arrivals(pods []fwk.PodInfo, preemptor *v1.Pod, limit int) iter.Seq[[]fwk.PodInfo] {
	ties := tiedPods(pods, preemptor)
	if countOrders(ties, limit) > limit {
		return randomOrders(slices.Clone(pods), ties, mostOrders*limit)
	}
	orders := [][]fwk.PodInfo{slices.Clone(pods)}
	for _, positions := range ties {
		orders = permuteEach(orders, positions)
	}
	return slices.Values(orders)
}

// randomOrders shuffles the pods within their ties, in the same way in every run.
func randomOrders(pods []fwk.PodInfo, ties [][]int, count int) iter.Seq[[]fwk.PodInfo] {
	random := rand.New(rand.NewSource(int64(len(pods))))
	return func(yield func([]fwk.PodInfo) bool) {
		for range count {
			if !yield(slices.Clone(pods)) {
				return
			}
			for _, positions := range ties {
				random.Shuffle(len(positions), func(i, j int) {
					a, b := positions[i], positions[j]
					pods[a], pods[b] = pods[b], pods[a]
				})
			}
		}
	}
}

// tiedPods groups the positions of potential victims that have the same priority and the same start time.
func tiedPods(pods []fwk.PodInfo, preemptor *v1.Pod) [][]int {
	type rank struct {
		priority int32
		started  int64
	}
	groups := map[rank][]int{}
	var ranks []rank
	for i, info := range pods {
		pod := info.GetPod()
		r := rank{priority: corev1helpers.PodPriority(pod), started: -1}
		if r.priority >= corev1helpers.PodPriority(preemptor) {
			continue
		}
		if pod.Status.StartTime != nil {
			r.started = pod.Status.StartTime.UnixNano()
		}
		if groups[r] == nil {
			ranks = append(ranks, r)
		}
		groups[r] = append(groups[r], i)
	}
	var ties [][]int
	for _, r := range ranks {
		if len(groups[r]) > 1 {
			ties = append(ties, groups[r])
		}
	}
	return ties
}

// countOrders is the number of orders of all groups, or something above limit.
func countOrders(ties [][]int, limit int) int {
	count := 1
	for _, positions := range ties {
		for n := 2; n <= len(positions); n++ {
			if count *= n; count > limit {
				return count
			}
		}
	}
	return count
}

// permuteEach extends the orders by all permutations of the given positions.
func permuteEach(orders [][]fwk.PodInfo, positions []int) [][]fwk.PodInfo {
	var all [][]fwk.PodInfo
	for _, order := range orders {
		order = slices.Clone(order)
		var permute func(k int)
		permute = func(k int) {
			if k == len(positions) {
				all = append(all, slices.Clone(order))
				return
			}
			for i := k; i < len(positions); i++ {
				a, b := positions[k], positions[i]
				order[a], order[b] = order[b], order[a]
				permute(k + 1)
				order[a], order[b] = order[b], order[a]
			}
		}
		permute(0)
	}
	return all
}
