package main

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// instantFactory is an informer factory whose informers deliver an object to all handlers at once, in the caller's
// goroutine. Nothing is listed or watched, so nothing has to be waited for.
type instantFactory struct {
	informers.SharedInformerFactory
	client    kubernetes.Interface
	informers map[reflect.Type]*instantInformer
}

func newInstantFactory(client kubernetes.Interface) *instantFactory {
	return &instantFactory{
		SharedInformerFactory: informers.NewSharedInformerFactory(client, 0),
		client:                client,
		informers:             map[reflect.Type]*instantInformer{},
	}
}

// InformerFor returns the one informer of the object's type.
func (f *instantFactory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(obj)
	if f.informers[kind] == nil {
		f.informers[kind] = &instantInformer{SharedIndexInformer: newFunc(f.client, 0)}
	}
	return f.informers[kind]
}

// Apps, Core, Policy, Resource, Scheduling and Storage are the groups the scheduler reads.

func (f *instantFactory) Apps() apps.Interface         { return apps.New(f, "", nil) }
func (f *instantFactory) Core() core.Interface         { return core.New(f, "", nil) }
func (f *instantFactory) Policy() policy.Interface     { return policy.New(f, "", nil) }
func (f *instantFactory) Resource() resource.Interface { return resource.New(f, "", nil) }
func (f *instantFactory) Scheduling() scheduling.Interface {
	return scheduling.New(f, "", nil)
}
func (f *instantFactory) Storage() storage.Interface { return storage.New(f, "", nil) }

// add stores an object and tells the handlers of its type. A type nobody asked an informer for is ignored,
// as a real scheduler would not watch it.
func (f *instantFactory) add(obj runtime.Object) error {
	informer := f.informers[reflect.TypeOf(obj)]
	if informer == nil {
		return nil
	}
	return informer.add(obj)
}

// store makes an object known to the listers only.
func (f *instantFactory) store(obj runtime.Object) error {
	informer := f.informers[reflect.TypeOf(obj)]
	if informer == nil {
		return fmt.Errorf("no informer for %T", obj)
	}
	return informer.GetIndexer().Add(obj)
}

// instantInformer is an informer that never runs: objects are put into it.
type instantInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (i *instantInformer) add(obj runtime.Object) error {
	if err := i.GetIndexer().Add(obj); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnAdd(obj, true)
	}
	return nil
}

func (i *instantInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, obj := range i.GetIndexer().List() {
		handler.OnAdd(obj, true)
	}
	i.handlers = append(i.handlers, handler)
	return synced{}, nil
}

func (i *instantInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *instantInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *instantInformer) HasSynced() bool                     { return true }
func (i *instantInformer) HasSyncedChecker() cache.DoneChecker { return synced{} }

// closed is what a synced informer's waiters receive from.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// synced is the registration of a handler that has seen everything.
type synced struct{}

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "oracle" }
func (synced) Done() <-chan struct{}               { return closed }
