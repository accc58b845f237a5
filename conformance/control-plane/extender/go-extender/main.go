// Command go-extender is a scheduler extender as it is written in Go: the published types of the protocol, a handler per
// verb, and an informer where the scheduler sends names alone. benchmarks/extender.py races it against `kubesched
// extender`, so its rule is that of the plugins which serve there: keep off a pool, prefer large nodes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	extender "k8s.io/kube-scheduler/extender/v1"
)

const (
	poolLabel    = "example.com/pool"
	avoidedPool  = "pool-7"
	importantPod = 500
	reason       = "node(s) may vanish"
	coresMax     = 100
	// A plugin's score is 0 to 100, an extender's 0 to 10.
	pointsPerScore = 10
)

type server struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "address to serve on")
	kubeconfig := flag.String("kubeconfig", "", "the cluster whose nodes are watched")
	klog.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *kubeconfig); err != nil {
		klog.ErrorS(err, "The extender ended")
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 5000, 5000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	serving := &server{client: client, nodes: factory.Core().V1().Nodes().Lister()}
	factory.Start(ctx.Done())
	for kind, isSynced := range factory.WaitForCacheSync(ctx.Done()) {
		if !isSynced {
			return fmt.Errorf("%v: the cache did not fill", kind)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("POST /filter", serve(serving.filter, func(err error) any {
		return extender.ExtenderFilterResult{Error: err.Error()}
	}))
	mux.HandleFunc("POST /prioritize", serve(serving.prioritize, func(error) any {
		return extender.HostPriorityList{}
	}))
	mux.HandleFunc("POST /bind", serve(serving.bind, func(err error) any {
		return extender.ExtenderBindingResult{Error: err.Error()}
	}))
	listening := &http.Server{Addr: listen, Handler: mux}
	go func() {
		<-ctx.Done()
		listening.Close()
	}()
	klog.InfoS("Serving", "address", listen)
	if err := listening.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// serve decodes what a verb is asked, encodes what it answers, and logs a line.
func serve[Asked, Answered any](verb func(context.Context, *Asked) (Answered, error), refuse func(error) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		var asked Asked
		var answer any
		err := json.NewDecoder(r.Body).Decode(&asked)
		if err == nil {
			answer, err = verb(r.Context(), &asked)
		}
		if err != nil {
			answer = refuse(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if failed := json.NewEncoder(w).Encode(answer); failed != nil && err == nil {
			err = failed
		}
		klog.InfoS("Answered", "path", r.URL.Path, "duration", time.Since(start), "err", err)
	}
}

func (s *server) filter(_ context.Context, args *extender.ExtenderArgs) (*extender.ExtenderFilterResult, error) {
	nodes, err := s.nodesOf(args)
	if err != nil {
		return nil, err
	}
	result := &extender.ExtenderFilterResult{FailedNodes: extender.FailedNodesMap{}}
	fitting := make([]*v1.Node, 0, len(nodes))
	for _, node := range nodes {
		if isAvoided(args.Pod, node) {
			result.FailedNodes[node.Name] = reason
		} else {
			fitting = append(fitting, node)
		}
	}
	if args.NodeNames != nil {
		names := make([]string, len(fitting))
		for i, node := range fitting {
			names[i] = node.Name
		}
		result.NodeNames = &names
		return result, nil
	}
	result.Nodes = &v1.NodeList{Items: make([]v1.Node, len(fitting))}
	for i, node := range fitting {
		result.Nodes.Items[i] = *node
	}
	return result, nil
}

func (s *server) prioritize(_ context.Context, args *extender.ExtenderArgs) (extender.HostPriorityList, error) {
	nodes, err := s.nodesOf(args)
	if err != nil {
		return nil, err
	}
	scores := make(extender.HostPriorityList, len(nodes))
	for i, node := range nodes {
		cores := min(node.Status.Allocatable.Cpu().MilliValue()/1000, coresMax)
		scores[i] = extender.HostPriority{Host: node.Name, Score: cores / pointsPerScore}
	}
	return scores, nil
}

func (s *server) bind(ctx context.Context, args *extender.ExtenderBindingArgs) (*extender.ExtenderBindingResult, error) {
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: args.PodNamespace, Name: args.PodName, UID: args.PodUID},
		Target:     v1.ObjectReference{Kind: "Node", Name: args.Node},
	}
	err := s.client.CoreV1().Pods(args.PodNamespace).Bind(ctx, binding, metav1.CreateOptions{})
	return &extender.ExtenderBindingResult{}, err
}

// nodesOf returns the nodes that were sent, or those whose names were.
func (s *server) nodesOf(args *extender.ExtenderArgs) ([]*v1.Node, error) {
	if args.Pod == nil {
		return nil, fmt.Errorf("there is no pod in the request")
	}
	if args.NodeNames == nil {
		if args.Nodes == nil {
			return nil, fmt.Errorf("there are no nodes in the request")
		}
		nodes := make([]*v1.Node, len(args.Nodes.Items))
		for i := range args.Nodes.Items {
			nodes[i] = &args.Nodes.Items[i]
		}
		return nodes, nil
	}
	nodes := make([]*v1.Node, 0, len(*args.NodeNames))
	for _, name := range *args.NodeNames {
		node, err := s.nodes.Get(name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func isAvoided(pod *v1.Pod, node *v1.Node) bool {
	isImportant := pod.Spec.Priority != nil && *pod.Spec.Priority >= importantPod
	return !isImportant && node.Labels[poolLabel] == avoidedPool
}
